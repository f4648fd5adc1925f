"""Without ``fresh_env_every_episode``: a slot is never healed into another future, and the user hears why."""

from __future__ import annotations

from functools import partial

import pytest
from mortal_games import Moody, Reminiscent
from streams import SLOTS, Streams, kill_worker, of_kind, pool_of, undisturbed

import ninelives
from ninelives.events import HealFailed, SlotHealed
from ninelives.testing import Chaos, CountingEnv

TOLD = "a used environment differs from a new one"


@pytest.mark.filterwarnings(f"ignore:{TOLD}")
def test_a_bipedal_walker_is_cut_and_never_goes_on_wrongly():
    """With this seed, healing went on with other rows after the second kill."""
    plan = {"kills": 10, "hangs": 0, "segfaults": 2, "steps": 2500}
    report = Chaos("BipedalWalker-v3", num_envs=4, workers=2, seed=4, **plan).run()
    assert report.first_difference is None
    assert set(report.not_healed) == {"reset"}


@pytest.mark.parametrize("seed_episodes", [True, False])
def test_what_an_interrupted_episode_has_not_shown_yet_is_found_in_earlier_ones(seed_episodes):
    """Killed at the third row of an episode; rows differ from the fifth on."""
    calm = undisturbed(Reminiscent, 200, seed_episodes=seed_episodes)
    with pool_of(Reminiscent, seed_episodes=seed_episodes) as pool:
        streams = Streams(pool)
        streams.step(20)
        while streams.rows[0][-1][0][1] != 2:
            streams.step()
        kill_worker(pool, 0)
        with pytest.warns(ninelives.NinelivesWarning, match=f"{TOLD}.*fresh_env_every_episode=True"):
            streams.step(3)
        failed = of_kind(pool, HealFailed)
        assert {(event.slots, event.reason) for event in failed} == {((0,), "reset"), ((1,), "reset")}
        assert "fresh_env_every_episode=True" in failed[0].detail
    assert streams.agree_with(calm, (2, 3))
    assert all(streams.masked(slot) for slot in (0, 1))


@pytest.mark.filterwarnings(f"ignore:{TOLD}")
def test_the_first_episode_of_an_environment_heals_all_the_same():
    with pool_of(Reminiscent) as pool:
        streams = Streams(pool)
        for _ in range(2):
            streams.step(24)
            kill_worker(pool, 0)
            streams.step(4)
        assert not of_kind(pool, SlotHealed)
        kill_worker(pool, 0)  # its episodes began after the cut, with new environments
        streams.step(2)
        assert {event.slots for event in of_kind(pool, SlotHealed)} == {(0,), (1,)}


def test_chance_is_not_taken_for_a_reset_that_leaves_something():
    with pool_of(partial(EndingMoody, 1)) as pool:
        streams = Streams(pool)
        for number in range(4):
            streams.step(25)
            kill_worker(pool, number % 2)
        streams.step(3)
        assert {event.reason for event in of_kind(pool, HealFailed)} == {"diverged"}


class EndingMoody(Moody):
    """Moody, in episodes of ten steps."""

    def step(self, action):
        obs, reward, *_ = super().step(action)
        return obs, reward, self._steps == 10, False, {}


def test_a_complete_reset_is_believed_after_the_first_healings(tmp_path):
    """Environments are built for the comparison at first, and later only one per slot that is healed."""
    made = tmp_path / "made"
    with pool_of(CountsItself(made), workers=1) as pool:
        streams = Streams(pool)
        costs = []
        for _ in range(4):
            streams.step(25)
            before = made.stat().st_size
            kill_worker(pool, 0)
            streams.step(1)
            costs.append(made.stat().st_size - before)
        assert len(of_kind(pool, SlotHealed)) == 4 * SLOTS
    assert costs[0] > SLOTS
    assert costs[-1] == SLOTS


class CountsItself:
    """A factory of environments with short episodes; the file grows by a byte for each."""

    def __init__(self, path):
        self._path = path

    def __call__(self):
        with open(self._path, "a") as file:
            file.write("x")
        return CountingEnv(episode_steps=8)
