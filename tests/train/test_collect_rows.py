"""The rows of a rollout: true transitions, and marked where they are not."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lessons import Count, Locked, Odd

from ninelives import EnvSpec, Pool
from ninelives.testing import Fragile, When
from ninelives.train.collect import Collector
from ninelives.train.config.classes import NetConfig
from ninelives.train.partial_collect import FirstReadyCollector, SplitCollector
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import ObsNormaliser
from ninelives.train.rollout import Rollout

SLOTS, STEPS = 4, 10


def collected(env, *, kind=Collector, rollouts=1, normalise=False, net=None, workers=1, **settings):
    """Rollouts, the policy that acted, and the collector."""
    with Pool(env, SLOTS, workers=workers, **settings) as pool:
        policy = Policy(pool.observation_space, pool.action_space, net or NetConfig(), torch.Generator().manual_seed(0))
        normaliser = ObsNormaliser.for_space(pool.observation_space, None) if normalise else None
        collector = kind(pool, policy, torch.Generator().manual_seed(1), normaliser)
        collector.begin(pool.reset(seed=0))
        masks = collector.carry.masks is not None
        out = []
        for version in range(rollouts):
            rollout = Rollout.allocate(policy, pool.observation_space, STEPS, SLOTS, masks=masks, bptt=5)
            collector.collect(policy, rollout, version)
            out.append(rollout)
    return out, policy, collector


@functools.cache
def counted(autoreset):
    """Two rollouts of episodes of three steps that are truncated, and the policy."""
    rollouts, policy, _ = collected(EnvSpec(Count, {"length": 3}), rollouts=2, autoreset=autoreset)
    return rollouts, policy


def ends(rollout):
    return sorted((ended.row, ended.slot, ended.total, ended.length) for ended in rollout.episodes)


def value(policy, *numbers):
    with torch.inference_mode():
        return policy.values(torch.tensor([numbers], dtype=torch.float32)).item()


def test_rows_are_the_environments_own():
    (rollout,), _, _ = collected(EnvSpec(Count, {"length": 3, "truncates": False}))
    steps = rollout.obs[0][:, 0, 1].tolist()
    assert steps == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert rollout.rewards[:, 0].tolist() == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert rollout.terminated[:, 0].tolist() == [False, False, True, False] * 2 + [False, False]


def test_reset_rows_of_next_step_autoreset_are_not_learned_from_even_across_rollouts():
    (first, second), _ = counted("next_step")
    learned = np.concatenate((first.learned, second.learned))[:, 0]
    assert learned.tolist() == ([True, True, True, False] * 5)


def test_same_step_autoreset_has_no_reset_rows():
    (rollout, _), _ = counted("same_step")
    assert rollout.learned.all()
    assert rollout.obs[0][:, 0, 1].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_a_truncated_episode_bootstraps_from_its_true_last_observation(autoreset):
    (rollout, _), policy = counted(autoreset)
    rows, slots = np.nonzero(rollout.truncated)
    assert len(rows) == SLOTS * (3 if autoreset == "same_step" else 2)
    for row, slot in zip(rows, slots, strict=True):
        episode = rollout.obs[0][row, slot, 0].item()
        assert rollout.final_values[row, slot] == pytest.approx(value(policy, episode, 3), abs=1e-5)


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_a_recurrent_network_values_the_true_last_observation_with_its_state(autoreset):
    net = NetConfig(recurrent="gru", recurrent_size=8)
    (rollout,), policy, _ = collected(EnvSpec(Count, {"length": 3}), autoreset=autoreset, net=net)
    state = policy.first_state(1)
    with torch.inference_mode():
        for step in range(4):
            obs = torch.tensor([[1.0, step]])
            features, state = policy.features((obs,), state, torch.tensor([step == 0]))
    assert rollout.truncated[2].all()
    np.testing.assert_allclose(rollout.final_values[2], policy.values(features.clone()).item(), atol=1e-5)


def test_values_and_probabilities_are_those_of_the_policy_that_acted():
    (rollout,), policy, _ = collected("CartPole-v1")
    with torch.inference_mode():
        flat = rollout.obs[0].flatten(0, 1)
        values = policy.values(flat).view(STEPS + 1, SLOTS).numpy()
        log_probs, _ = policy.head.log_prob_and_entropy(policy.actor(flat[: STEPS * SLOTS]), rollout.actions.flatten())
    np.testing.assert_allclose(rollout.values, values, atol=1e-5)
    np.testing.assert_allclose(rollout.log_probs.flatten(), log_probs, atol=1e-5)


def test_rows_lost_to_a_fault_are_masked_and_reset_the_recurrent_state():
    env = Fragile("abort", When("step", at=4, slots=(0,)))
    net = NetConfig(recurrent="gru", recurrent_size=4)
    (rollout,), _, _ = collected(env, on_fault="cut", net=net, workers=2)
    lost = ~rollout.valid
    assert lost[3, 0]
    assert not lost[:, 2:].any()
    assert not rollout.learned[lost].any()
    assert (rollout.starts[1:][lost]).all()
    assert rollout.learned[:, 2:].all()


@pytest.mark.parametrize(
    ("kind", "net"),
    [(SplitCollector, NetConfig(recurrent="lstm", recurrent_size=4)), (FirstReadyCollector, NetConfig())],
    ids=["split, lstm", "first ready"],
)
def test_partial_collectors_give_the_same_rows(kind, net):
    whole, _, _ = collected("CartPole-v1", rollouts=2, net=net)
    parts, _, _ = collected("CartPole-v1", rollouts=2, net=net, kind=kind, workers=2, batch_size=1)
    for one, two in zip(whole, parts, strict=True):
        assert torch.equal(one.actions, two.actions)
        assert torch.equal(one.obs[0], two.obs[0])
        np.testing.assert_array_equal(one.learned, two.learned)
        np.testing.assert_allclose(one.values, two.values, atol=1e-5)
        if one.states is not None:
            torch.testing.assert_close(one.states, two.states)
        assert ends(one) == ends(two)


def test_masks_are_obeyed_in_every_row():
    (rollout,), _, _ = collected(Locked)
    assert rollout.valid.all()
    assert rollout.masks[:-1].sum(-1).eq(1)[torch.from_numpy(rollout.learned)].all()


@pytest.mark.parametrize(
    ("autoreset", "observation", "action"),
    [
        ("same_step", spaces.Box(0, 255, (12, 12, 2), np.uint8), spaces.MultiDiscrete([3, 2])),
        ("same_step", spaces.Dict(a=spaces.Discrete(4), b=spaces.Box(-1, 1, (2,), np.float64)), spaces.MultiBinary(3)),
        ("same_step", spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])]), spaces.Box(-1, 1, (2,))),
        ("next_step", spaces.Discrete(5), spaces.Discrete(3, start=7)),
    ],
    ids=str,
)
def test_every_kind_of_space_can_be_collected(autoreset, observation, action):
    env = EnvSpec(Odd, {"observation_space": observation, "action_space": action})
    (rollout,), _, _ = collected(env, autoreset=autoreset, normalise=True)
    assert rollout.valid.all()
    assert np.isfinite(rollout.values).all()
    assert torch.isfinite(rollout.log_probs).all()


def test_episodes_are_reported_with_the_row_they_ended_in():
    (rollout, _), _ = counted("next_step")
    assert {(ended.row, ended.total, ended.length) for ended in rollout.episodes} == {(2, 6.0, 3), (6, 6.0, 3)}
    assert sorted(ended.slot for ended in rollout.episodes) == sorted([*range(SLOTS)] * 2)
