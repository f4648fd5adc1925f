"""PPO, from a rollout to new weights, top to bottom.

::

    targets                    advantages and value targets of every row          (advantage.py)
    for each epoch             rows (or sequences, with a memory) are shuffled
      for each minibatch       judge the actions again, clipped loss, one step of Adam
      KL too large?            then that was the last epoch

Only rows that are true transitions are looked at. Nothing is clamped, scaled or dropped that the configuration does not
name. Must never touch an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ninelives.train.advantage import Targets
from ninelives.train.config.classes import PpoConfig
from ninelives.train.policy.nets import Policy
from ninelives.train.rollout import Rollout
from ninelives.train.weights import FlatWeights

CPU = torch.device("cpu")

STATISTICS = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")

Loss = Callable[[Policy, "Rows", PpoConfig], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Rows:
    """One minibatch: rows that are learned from, and what is known of them."""

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
    """With a memory a minibatch is whole sequences, time first: ``obs`` are theirs, and ``rows`` picks the learned."""

    state: Tensor
    starts: Tensor
    rows: Tensor


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
    """Learn from a rollout; returns means of the losses over all minibatches."""
    seen: list[Tensor] = []
    epochs = 0
    for _ in range(config.epochs):
        first = len(seen)
        for rows in minibatches(rollout, targets, config.minibatches, generator, policy.device):
            weights.gradients.zero_()
            loss, statistics = loss_of(policy, rows, config)
            torch.autograd.backward(loss)
            norm = shorten(weights.gradients, config.max_grad_norm)
            adam.step()
            seen.append(torch.cat((statistics, norm.view(1))))
        epochs += 1
        if config.target_kl is not None and mean_kl(seen[first:]) > config.target_kl:
            break
    means = torch.stack(seen).mean(0).tolist() if seen else [float("nan")] * len(STATISTICS)
    return {**dict(zip(STATISTICS, means, strict=True)), "epochs": float(epochs)}


def mean_kl(seen: list[Tensor]) -> float:
    """Over the minibatches of an epoch; zero if there were none."""
    return float(torch.stack(seen)[:, STATISTICS.index("approx_kl")].mean()) if seen else 0.0


def clipped_loss(policy: Policy, rows: Rows, config: PpoConfig) -> tuple[Tensor, Tensor]:
    """The loss of PPO, and its parts in the order of ``STATISTICS``."""
    params, values = forward(policy, rows)
    log_probs, entropies = policy.head.judge(params, rows.actions)
    change = log_probs - rows.log_probs
    ratio = change.exp()

    advantages = rows.advantages
    if config.normalise_advantage and len(advantages) > 1:
        deviation, mean = torch.std_mean(advantages)
        advantages = (advantages - mean) / (deviation + 1e-8)
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    policy_loss = -torch.minimum(advantages * ratio, advantages * clipped).mean()

    misses = (values - rows.returns).square()
    if config.clip_value is not None:
        near = rows.values + (values - rows.values).clamp(-config.clip_value, config.clip_value)
        misses = torch.maximum(misses, (near - rows.returns).square())
    value_loss = 0.5 * misses.mean()

    entropy = entropies.mean()
    loss = policy_loss + config.value * value_loss - config.entropy * entropy
    with torch.no_grad():
        approx_kl = (ratio - 1 - change).mean()  # never negative, and less noisy than the mean of -change
        clip_fraction = (clipped != ratio).float().mean()
        return loss, torch.stack((loss, policy_loss, value_loss, entropy, approx_kl, clip_fraction))


def forward(policy: Policy, rows: Rows) -> tuple[Tensor, Tensor]:
    """The head's numbers and the values of a minibatch."""
    if rows.sequences is None:
        features: Tensor = policy.encoder(rows.obs)
    else:
        features = policy.sequences(rows.obs, rows.sequences.state, rows.sequences.starts)[rows.sequences.rows]
    params: Tensor = policy.actor(features)
    if rows.masks is not None:
        params = policy.head.masked(params, rows.masks)
    return params, policy.values(features)


def compiled_loss() -> Loss:
    """The same loss through torch.compile; sizes may vary, because rows that never were are left out."""
    compiled: Loss = torch.compile(clipped_loss, dynamic=True)
    return compiled


def ratios(policy: Policy, rollout: Rollout) -> npt.NDArray[np.float64]:
    """How much likelier the policy takes each action now than the one that took it, (time, slots); for V-trace."""
    there = policy.device
    with torch.inference_mode():
        obs = tuple(leaf[:-1].to(there) for leaf in rollout.obs)
        if rollout.states is None:
            features: Tensor = policy.encoder(tuple(leaf.flatten(0, 1) for leaf in obs))
        else:
            starts = torch.from_numpy(rollout.starts[:-1]).to(there)
            features = policy.sequences(obs, rollout.states[0].to(there), starts)
        params: Tensor = policy.actor(features).view(rollout.params.shape)
        if rollout.masks is not None:
            params = policy.head.masked(params, rollout.masks[:-1].to(there))
        change = policy.head.log_prob(params, rollout.actions.to(there)).cpu() - rollout.log_probs
        return change.double().exp().numpy()


def shorten(gradients: Tensor, longest: float) -> Tensor:
    """Shorten the gradient to ``longest`` in place, if that is not 0; returns how long it was."""
    norm: Tensor = torch.linalg.vector_norm(gradients)
    if longest:
        gradients.mul_((longest / (norm + 1e-6)).clamp(max=1.0))
    return norm


def minibatches(
    rollout: Rollout, targets: Targets, parts: int, generator: torch.Generator, there: torch.device = CPU
) -> Iterator[Rows]:
    """All rows that are learned from, in random order and equal parts, on the device ``there``."""
    if rollout.states is not None:
        yield from _sequence_minibatches(rollout, targets, parts, generator, there)
        return
    learned = torch.from_numpy(rollout.learned).flatten()
    order = torch.randperm(len(learned), generator=generator)
    if not rollout.learned.all():
        order = order[learned[order]]
    obs = tuple(leaf[:-1].flatten(0, 1).to(there) for leaf in rollout.obs)
    masks = None if rollout.masks is None else rollout.masks[:-1].flatten(0, 1).to(there)
    actions, numbers = rollout.actions.flatten(0, 1).to(there), _numbers(rollout, targets).to(there)
    for chosen in order.to(there).tensor_split(parts):
        if len(chosen):
            picked = tuple(leaf.index_select(0, chosen) for leaf in obs)
            allowed = None if masks is None else masks.index_select(0, chosen)
            log_probs, values, advantages, returns = numbers.index_select(1, chosen).unbind(0)
            yield Rows(picked, actions.index_select(0, chosen), allowed, log_probs, values, advantages, returns)


def _sequence_minibatches(
    rollout: Rollout, targets: Targets, parts: int, generator: torch.Generator, there: torch.device
) -> Iterator[Rows]:
    """Whole sequences in random order; their rows come time first."""
    assert rollout.states is not None
    length, slots = rollout.sequence, rollout.slots
    pieces = rollout.steps // length

    def cut(rows: Tensor) -> Tensor:
        return rows.reshape(pieces, length, slots, *rows.shape[2:]).to(there)

    obs = [cut(leaf[:-1]) for leaf in rollout.obs]
    actions, numbers = cut(rollout.actions), cut(_numbers(rollout, targets).t().view(rollout.steps, slots, -1))
    masks = None if rollout.masks is None else cut(rollout.masks[:-1])
    starts, learned = cut(torch.from_numpy(rollout.starts[:-1])), cut(torch.from_numpy(rollout.learned))
    states = rollout.states.to(there)
    for chosen in torch.randperm(pieces * slots, generator=generator).to(there).tensor_split(parts):
        piece, slot = chosen // slots, chosen % slots
        rows = torch.nonzero(learned[piece, :, slot].t().flatten()).squeeze(1)
        if not len(rows):
            continue

        def pick(of: Tensor, piece: Tensor = piece, slot: Tensor = slot, rows: Tensor = rows) -> Tensor:
            return of[piece, :, slot].transpose(0, 1).flatten(0, 1)[rows]

        log_probs, values, advantages, returns = pick(numbers).unbind(1)
        yield Rows(
            tuple(leaf[piece, :, slot].transpose(0, 1) for leaf in obs),
            pick(actions),
            None if masks is None else pick(masks),
            log_probs,
            values,
            advantages,
            returns,
            Sequences(states[piece, slot], starts[piece, :, slot].t(), rows),
        )


def _numbers(rollout: Rollout, targets: Targets) -> Tensor:
    """Log-probabilities, values, advantages and returns side by side: one look-up instead of four."""
    return torch.stack(
        (
            rollout.log_probs.flatten(),
            torch.from_numpy(rollout.values[:-1]).flatten(),
            torch.from_numpy(targets.advantages).flatten(),
            torch.from_numpy(targets.returns).flatten(),
        )
    )
