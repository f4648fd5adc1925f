"""PPO from a rollout to new weights, in one file, top to bottom.

::

    advantages_and_returns     GAE or V-trace for every row
    update
      for each epoch           shuffle the rows (whole sequences for a recurrent network)
        for each minibatch     evaluate the actions again, clipped loss, one Adam step
        KL above target_kl?    stop after this epoch

Arrays are (time, slots). Only rows with ``learned`` set, the true transitions, contribute. Nothing is clamped, scaled
or dropped that the configuration does not name. Must never touch an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ninelives.train.config.classes import PpoConfig
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.weights import FlatWeights
from ninelives.train.rollout import Rollout

Floats = npt.NDArray[np.floating]
Flags = npt.NDArray[np.bool_]

CPU = torch.device("cpu")

STATISTICS = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")

Loss = Callable[[Policy, "Minibatch", PpoConfig], tuple[Tensor, Tensor]]


# ---- targets ---------------------------------------------------------------------------------------------------------


class Targets(NamedTuple):
    """What the actor (advantages) and the critic (returns) learn from."""

    advantages: npt.NDArray[np.float32]
    returns: npt.NDArray[np.float32]


def advantages_and_returns(
    rewards: Floats,
    values: Floats,
    final_values: Floats,
    terminated: Flags,
    truncated: Flags,
    learned: Flags,
    gamma: float,
    gae_lambda: float,
    ratios: Floats | None = None,
) -> Targets:
    """Generalised advantage estimation, or V-trace with lambda if ``ratios`` are given.

    ====================================  =================================  =======================================
    the row ...                           bootstraps from the value          and adds the advantages after it
    ====================================  =================================  =======================================
    is an ordinary step                   of the next observation            yes
    terminated                            zero                               no
    truncated                             of the true last observation       no
    comes before a row not learned from   of the next observation            no: what happened there is unknown
    is the last of the rollout            of the next observation            no
    is not learned from                   (advantage 0, no target)
    ====================================  =================================  =======================================

    Args:
        rewards: of each step.
        values: of each observation; one row more than ``rewards``, for the observation after the last step.
        final_values: of true last observations; read where a row is truncated.
        terminated: the environment ended the episode.
        truncated: the episode was cut off.
        learned: the row is a true transition.
        gamma: discount.
        gae_lambda: how far ahead advantages look.
        ratios: pi(a|s) / mu(a|s), the newest policy over the one that acted (V-trace); None: all 1, which is GAE.
    """
    v = values[:-1].astype(np.float64)
    v_next = np.where(terminated, 0.0, np.where(truncated, final_values, values[1:]))
    delta = np.where(learned, rewards + gamma * v_next - v, 0.0)
    discount = np.zeros(delta.shape)
    discount[:-1] = gamma * gae_lambda * (learned[:-1] & learned[1:] & ~(terminated | truncated)[:-1])
    if ratios is None:
        advantages = discounted_sum(delta, discount)
        return Targets(advantages.astype(np.float32), (advantages + v).astype(np.float32))
    rho = np.minimum(ratios, 1.0)
    corrections = discounted_sum(rho * delta, rho * discount)  # v_s - V(x_s) in the paper
    ahead = np.zeros_like(corrections)
    ahead[:-1] = discount[:-1] * corrections[1:]
    return Targets((delta + ahead).astype(np.float32), (corrections + v).astype(np.float32))


def discounted_sum(delta: npt.NDArray[np.float64], discount: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``total[t] = delta[t] + discount[t] * total[t + 1]``, computed from the last row backwards."""
    total = delta.copy()
    for t in range(len(total) - 1, 0, -1):
        total[t - 1] += discount[t - 1] * total[t]
    return total


def importance_ratios(policy: Policy, rollout: Rollout) -> npt.NDArray[np.float64]:
    """pi(a|s) / mu(a|s) of each row: the policy as it is now over the one that acted; for V-trace."""
    device = policy.device
    with torch.inference_mode():
        obs = tuple(leaf[:-1].to(device) for leaf in rollout.obs)
        if rollout.states is None:
            features: Tensor = policy.encoder(tuple(leaf.flatten(0, 1) for leaf in obs))
        else:
            starts = torch.from_numpy(rollout.starts[:-1]).to(device)
            features = policy.sequences(obs, rollout.states[0].to(device), starts)
        params: Tensor = policy.actor(features).view(rollout.params.shape)
        if rollout.masks is not None:
            params = policy.head.masked(params, rollout.masks[:-1].to(device))
        log_ratio = policy.head.log_prob(params, rollout.actions.to(device)).cpu() - rollout.log_probs
        return log_ratio.double().exp().numpy()


def explained_variance(values: Floats, returns: Floats) -> float:
    """Share of the returns' variance that the values predict: 1 is perfect, below 0 is worse than a constant."""
    variance = float(np.var(returns))
    return float("nan") if variance == 0.0 else 1.0 - float(np.var(returns - values)) / variance


# ---- update ----------------------------------------------------------------------------------------------------------


def update(
    policy: Policy,
    weights: FlatWeights,
    adam: torch.optim.Optimizer,
    rollout: Rollout,
    targets: Targets,
    config: PpoConfig,
    generator: torch.Generator,
    loss_of: Loss,
) -> dict[str, float]:
    """Learn from one rollout; returns the mean of each statistic over all minibatches."""
    history: list[Tensor] = []
    epochs = 0
    for _ in range(config.epochs):
        first = len(history)
        for minibatch in minibatches(rollout, targets, config.minibatches, generator, policy.device):
            weights.gradients.zero_()
            loss, statistics = loss_of(policy, minibatch, config)
            torch.autograd.backward(loss)
            grad_norm = clip_grad_norm(weights.gradients, config.max_grad_norm)
            adam.step()
            history.append(torch.cat((statistics, grad_norm.view(1))))
        epochs += 1
        if config.target_kl is not None and mean_kl(history[first:]) > config.target_kl:
            break
    means = torch.stack(history).mean(0).tolist() if history else [float("nan")] * len(STATISTICS)
    return {**dict(zip(STATISTICS, means, strict=True)), "epochs": float(epochs)}


def clipped_loss(policy: Policy, minibatch: Minibatch, config: PpoConfig) -> tuple[Tensor, Tensor]:
    """The loss of PPO, and its parts in the order of ``STATISTICS``."""
    params, values = forward(policy, minibatch)
    log_probs, entropies = policy.head.log_prob_and_entropy(params, minibatch.actions)
    log_ratio = log_probs - minibatch.log_probs
    ratio = log_ratio.exp()

    advantages = minibatch.advantages
    if config.normalise_advantage and len(advantages) > 1:
        deviation, mean = torch.std_mean(advantages)
        advantages = (advantages - mean) / (deviation + 1e-8)
    clipped_ratio = ratio.clamp(1 - config.clip, 1 + config.clip)
    policy_loss = -torch.minimum(advantages * ratio, advantages * clipped_ratio).mean()

    squared_error = (values - minibatch.returns).square()
    if config.clip_value is not None:
        change = (values - minibatch.values).clamp(-config.clip_value, config.clip_value)
        squared_error = torch.maximum(squared_error, (minibatch.values + change - minibatch.returns).square())
    value_loss = 0.5 * squared_error.mean()

    entropy = entropies.mean()
    loss = policy_loss + config.value * value_loss - config.entropy * entropy
    with torch.no_grad():
        approx_kl = (ratio - 1 - log_ratio).mean()  # never negative, and less noisy than the mean of -log_ratio
        clip_fraction = (clipped_ratio != ratio).float().mean()
        return loss, torch.stack((loss, policy_loss, value_loss, entropy, approx_kl, clip_fraction))


def compiled_loss() -> Loss:
    """The same loss through torch.compile; with dynamic sizes, because rows that are not learned from are left out."""
    compiled: Loss = torch.compile(clipped_loss, dynamic=True)
    return compiled


def forward(policy: Policy, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
    """Parameters of the action distribution and values, one row each per row of the minibatch."""
    sequences = minibatch.sequences
    if sequences is None:
        features: Tensor = policy.encoder(minibatch.obs)
    else:
        features = policy.sequences(minibatch.obs, sequences.state, sequences.starts)[sequences.rows]
    params: Tensor = policy.actor(features)
    if minibatch.masks is not None:
        params = policy.head.masked(params, minibatch.masks)
    return params, policy.values(features)


def clip_grad_norm(gradients: Tensor, max_norm: float) -> Tensor:
    """Scale the gradients down in place to a norm of ``max_norm``, unless that is 0; returns the norm before."""
    norm: Tensor = torch.linalg.vector_norm(gradients)
    if max_norm:
        gradients.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def mean_kl(history: list[Tensor]) -> float:
    """Mean KL divergence of one epoch's minibatches; 0 if there were none."""
    return float(torch.stack(history)[:, STATISTICS.index("approx_kl")].mean()) if history else 0.0


# ---- minibatches -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Minibatch:
    """Rows that are learned from together."""

    obs: tuple[Tensor, ...]
    actions: Tensor
    masks: Tensor | None
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    sequences: Sequences | None = None


@dataclass(frozen=True)
class Sequences:
    """For recurrent networks, ``obs`` are whole sequences, time first, and ``rows`` selects those to learn from."""

    state: Tensor
    starts: Tensor
    rows: Tensor


def minibatches(
    rollout: Rollout, targets: Targets, parts: int, generator: torch.Generator, device: torch.device = CPU
) -> Iterator[Minibatch]:
    """All rows that are learned from, in random order and in equal parts."""
    if rollout.states is not None:
        yield from _sequence_minibatches(rollout, targets, parts, generator, device)
        return
    learned = torch.from_numpy(rollout.learned).flatten()
    order = torch.randperm(len(learned), generator=generator)
    if not rollout.learned.all():
        order = order[learned[order]]
    obs = tuple(leaf[:-1].flatten(0, 1).to(device) for leaf in rollout.obs)
    masks = None if rollout.masks is None else rollout.masks[:-1].flatten(0, 1).to(device)
    actions, scalars = rollout.actions.flatten(0, 1).to(device), _scalars(rollout, targets).to(device)
    for chosen in order.to(device).tensor_split(parts):
        if len(chosen):
            log_probs, values, advantages, returns = scalars.index_select(1, chosen).unbind(0)
            yield Minibatch(
                tuple(leaf.index_select(0, chosen) for leaf in obs),
                actions.index_select(0, chosen),
                None if masks is None else masks.index_select(0, chosen),
                log_probs,
                values,
                advantages,
                returns,
            )


def _sequence_minibatches(
    rollout: Rollout, targets: Targets, parts: int, generator: torch.Generator, device: torch.device
) -> Iterator[Minibatch]:
    """Whole sequences in random order, with their rows time first."""
    assert rollout.states is not None
    length, slots = rollout.sequence, rollout.slots
    pieces = rollout.steps // length

    def cut(rows: Tensor) -> Tensor:
        return rows.reshape(pieces, length, slots, *rows.shape[2:]).to(device)

    obs = [cut(leaf[:-1]) for leaf in rollout.obs]
    actions, scalars = cut(rollout.actions), cut(_scalars(rollout, targets).t().view(rollout.steps, slots, -1))
    masks = None if rollout.masks is None else cut(rollout.masks[:-1])
    starts, learned = cut(torch.from_numpy(rollout.starts[:-1])), cut(torch.from_numpy(rollout.learned))
    states = rollout.states.to(device)
    for chosen in torch.randperm(pieces * slots, generator=generator).to(device).tensor_split(parts):
        piece, slot = chosen // slots, chosen % slots
        rows = torch.nonzero(learned[piece, :, slot].t().flatten()).squeeze(1)
        if not len(rows):
            continue

        def pick(of: Tensor, piece: Tensor = piece, slot: Tensor = slot, rows: Tensor = rows) -> Tensor:
            return of[piece, :, slot].transpose(0, 1).flatten(0, 1)[rows]

        log_probs, values, advantages, returns = pick(scalars).unbind(1)
        yield Minibatch(
            tuple(leaf[piece, :, slot].transpose(0, 1) for leaf in obs),
            pick(actions),
            None if masks is None else pick(masks),
            log_probs,
            values,
            advantages,
            returns,
            Sequences(states[piece, slot], starts[piece, :, slot].t(), rows),
        )


def _scalars(rollout: Rollout, targets: Targets) -> Tensor:
    """Log-probabilities, values, advantages and returns stacked, so that a minibatch needs one lookup, not four."""
    return torch.stack(
        (
            rollout.log_probs.flatten(),
            torch.from_numpy(rollout.values[:-1]).flatten(),
            torch.from_numpy(targets.advantages).flatten(),
            torch.from_numpy(targets.returns).flatten(),
        )
    )
