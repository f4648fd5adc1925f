"""The update against its formula, and the rows that must not affect it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ninelives.errors import NinelivesError
from ninelives.train.config.classes import NetConfig, PpoConfig, TrainConfig
from ninelives.train.learner import Learner
from ninelives.train.policy.nets import Policy
from ninelives.train.ppo import Minibatch, Targets, clip_grad_norm, clipped_loss, importance_ratios, minibatches
from ninelives.train.rollout import Rollout

OBS, ACTIONS = spaces.Box(-9, 9, (3,), np.float32), spaces.Discrete(4)
STEPS, SLOTS = 8, 4


def policy_of(net=None, seed=0):
    return Policy(OBS, ACTIONS, net or NetConfig(), torch.Generator().manual_seed(seed))


def filled(policy, bptt=None, seed=0):
    """A rollout with random contents, of which some rows are not learned from."""
    rollout = Rollout.allocate(policy, OBS, STEPS, SLOTS, masks=False, bptt=bptt)
    generator, chance = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    rollout.obs[0].normal_(generator=generator)
    rollout.actions.random_(0, 4, generator=generator)
    rollout.log_probs.uniform_(-2, -1, generator=generator)
    rollout.rewards[...] = chance.normal(size=(STEPS, SLOTS))
    rollout.values[...] = chance.normal(size=(STEPS + 1, SLOTS))
    rollout.learned[...] = rollout.valid[...] = chance.random((STEPS, SLOTS)) < 0.8
    rollout.terminated[...] = chance.random((STEPS, SLOTS)) < 0.1
    rollout.starts[...] = chance.random((STEPS + 1, SLOTS)) < 0.1
    return rollout


def targets_of(rollout, seed=5):
    numbers = np.random.default_rng(seed).normal(size=(2, STEPS, SLOTS)).astype(np.float32)
    return Targets(*numbers)


def learner_of(net=None, **ppo):
    config = TrainConfig(env="CartPole-v1", net=net or NetConfig(), ppo=PpoConfig(**ppo))
    return Learner(config, OBS, ACTIONS, SLOTS)


def test_the_loss_is_the_formula_of_the_paper():
    policy, rows = policy_of(), 16
    generator = torch.Generator().manual_seed(3)
    obs, actions = torch.randn(rows, 3, generator=generator), torch.randint(4, (rows,), generator=generator)
    old, values, advantages, returns = torch.randn(4, rows, generator=generator).unbind(0)
    batch = Minibatch((obs,), actions, None, old - 1.4, values, advantages, returns)
    config = PpoConfig(clip=0.2, clip_value=0.3, entropy=0.03, value=0.7, normalise_advantage=False)
    loss, parts = clipped_loss(policy, batch, config)

    law = torch.distributions.Categorical(logits=policy.actor(obs))
    new_values, policy_terms, value_terms = policy.critic(obs)[:, 0], [], []
    for i in range(rows):
        ratio = (law.log_prob(actions)[i] - (old[i] - 1.4)).exp()
        policy_terms.append(-min(ratio * advantages[i], ratio.clamp(0.8, 1.2) * advantages[i]))
        near = values[i] + (new_values[i] - values[i]).clamp(-0.3, 0.3)
        value_terms.append(0.5 * max((new_values[i] - returns[i]) ** 2, (near - returns[i]) ** 2))
    policy_loss, value_loss = sum(policy_terms) / rows, sum(value_terms) / rows
    torch.testing.assert_close(parts[1:4], torch.stack((policy_loss, value_loss, law.entropy().mean())))
    torch.testing.assert_close(loss, policy_loss + 0.7 * value_loss - 0.03 * law.entropy().mean())


@pytest.mark.parametrize("net", [NetConfig(), NetConfig(recurrent="gru", recurrent_size=5)], ids=["plain", "gru"])
def test_rows_that_are_not_learned_from_have_no_effect(net):
    after = []
    for poison in (0.0, float("nan")):
        learner = learner_of(net, epochs=2, minibatches=2)
        rollout = filled(learner.policy)
        lost = ~rollout.learned
        rollout.rewards[lost] += poison
        rollout.log_probs[torch.from_numpy(lost)] += poison
        rollout.values[:-1][lost & np.roll(lost, 1, 0)] += poison  # otherwise the true row before bootstraps from it
        if net.recurrent == "none":  # a recurrent network processes them too, and is reset at the next start
            rollout.obs[0][:-1][torch.from_numpy(lost)] += poison
        losses = learner.learn(rollout, 0.0)
        assert np.isfinite(losses["loss"])
        after.append(learner.weights.values.detach().clone())
    assert torch.equal(*after)


@pytest.mark.parametrize("bptt", [None, 2])
@pytest.mark.parametrize("kind", ["none", "lstm"])
def test_each_learned_row_is_used_once_per_epoch_with_its_own_data(kind, bptt):
    policy = policy_of(NetConfig(recurrent=kind, recurrent_size=5))
    rollout = filled(policy, bptt)
    rollout.log_probs[...] = torch.arange(STEPS * SLOTS).view(STEPS, SLOTS)
    numbers = targets_of(rollout)
    seen = []
    for rows in minibatches(rollout, numbers, 3, torch.Generator().manual_seed(0)):
        for index, action, advantage in zip(rows.log_probs.long(), rows.actions, rows.advantages, strict=True):
            step, slot = divmod(int(index), SLOTS)
            assert action == rollout.actions[step, slot]
            assert advantage == numbers.advantages[step, slot]
            seen.append(int(index))
        if rows.sequences is None:
            assert torch.equal(rows.obs[0], rollout.obs[0][:-1].flatten(0, 1)[rows.log_probs.long()])
    assert sorted(seen) == np.flatnonzero(rollout.learned).tolist()


def test_sequences_have_the_same_features_as_when_they_were_collected():
    policy = policy_of(NetConfig(recurrent="lstm", recurrent_size=5))
    rollout = filled(policy)
    rollout.states.normal_()
    whole = policy.sequences((rollout.obs[0][:-1],), rollout.states[0], torch.from_numpy(rollout.starts[:-1]))
    rollout.log_probs[...] = torch.arange(STEPS * SLOTS).view(STEPS, SLOTS)
    for rows in minibatches(rollout, targets_of(rollout), 2, torch.Generator().manual_seed(0)):
        part = policy.sequences(rows.obs, rows.sequences.state, rows.sequences.starts)[rows.sequences.rows]
        torch.testing.assert_close(part, whole[rows.log_probs.long()])


def test_an_epoch_above_target_kl_is_the_last():
    free, held = learner_of(epochs=6, learning_rate=0.05), learner_of(epochs=6, learning_rate=0.05, target_kl=1e-4)
    rollout = filled(free.policy)
    assert free.learn(rollout, 0.0)["epochs"] == 6
    assert held.learn(rollout, 0.0)["epochs"] == 1


@pytest.mark.parametrize(("schedule", "rate"), [("linear", 0.25), ("constant", 1.0)])
def test_the_learning_rate_follows_its_schedule(schedule, rate):
    learner = learner_of(learning_rate=1e-3, schedule=schedule)
    assert learner.learn(filled(learner.policy), 0.75)["learning_rate"] == pytest.approx(rate * 1e-3)


def test_gradients_are_scaled_down_only_if_they_are_longer():
    for longest, expected in ((1.0, 1.0), (9.0, 5.0), (0.0, 5.0)):
        gradients = torch.tensor([3.0, 4.0])
        assert clip_grad_norm(gradients, longest).item() == pytest.approx(5.0)
        assert gradients.norm().item() == pytest.approx(expected, rel=1e-4)


def test_a_loss_that_is_not_finite_ends_the_run_with_advice():
    learner = learner_of()
    rollout = filled(learner.policy)
    rollout.log_probs.fill_(float("nan"))
    with pytest.raises(NinelivesError, match=r"update 1 diverged.*lower ppo.learning_rate"):
        learner.learn(rollout, 0.0)


@pytest.mark.parametrize("target_kl", [None, 0.1])
def test_a_rollout_without_a_true_row_changes_nothing(target_kl):
    learner = learner_of(target_kl=target_kl)
    rollout = filled(learner.policy)
    rollout.learned[...] = False
    before = learner.weights.values.detach().clone()
    learner.learn(rollout, 0.0)
    assert torch.equal(learner.weights.values, before)


@pytest.mark.parametrize("kind", ["none", "gru"])
def test_ratios_are_one_for_the_policy_that_acted(kind):
    policy = policy_of(NetConfig(recurrent=kind, recurrent_size=5))
    rollout = filled(policy)
    with torch.inference_mode():
        obs = rollout.obs[0][:-1]
        if kind == "none":
            features = obs.flatten(0, 1)
        else:
            features = policy.sequences((obs,), rollout.states[0], torch.from_numpy(rollout.starts[:-1]))
        rollout.log_probs.copy_(
            policy.head.log_prob(policy.actor(features), rollout.actions.flatten()).view(STEPS, SLOTS)
        )
    np.testing.assert_allclose(importance_ratios(policy, rollout), 1.0, rtol=1e-5)


def test_a_learner_continues_from_its_state_bit_for_bit():
    whole, first, second = (learner_of(learning_rate=1e-2) for _ in range(3))
    rollouts = [filled(whole.policy, seed=seed) for seed in range(2)]
    for rollout in rollouts:
        whole.learn(rollout, 0.1)
    first.learn(rollouts[0], 0.1)
    second.policy.load_state_dict(first.weights_dict())
    second.load_state_dict(first.state_dict())
    second.learn(rollouts[1], 0.1)
    assert torch.equal(second.weights.values, whole.weights.values)
    assert second.version == 2


def test_a_rollout_can_be_saved_and_loaded():
    policy = policy_of(NetConfig(recurrent="gru", recurrent_size=5))
    rollout, other = filled(policy), Rollout.allocate(policy, OBS, STEPS, SLOTS, masks=False, bptt=None)
    rollout.states.normal_()
    other.load_state_dict(rollout.state_dict())
    for field in dataclasses.fields(Rollout):
        if field.name not in ("params", "features", "seconds", "episodes", "finals"):
            one, two = getattr(rollout, field.name), getattr(other, field.name)
            for a, b in zip(one, two, strict=True) if isinstance(one, tuple) else [(one, two)]:
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=field.name)
