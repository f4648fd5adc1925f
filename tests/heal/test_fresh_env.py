"""``fresh_env_every_episode``: environments whose ``reset`` leaves something of the episode before."""

from __future__ import annotations

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from mortal_games import Reminiscent
from streams import SLOTS, Streams, kill_worker, of_kind, pool_of, undisturbed

import ninelives
from ninelives.events import FaultSeen, HealFailed
from ninelives.spec.seeds import episode_seed
from ninelives.testing import Chaos

BEFORE, FRESH = 0, {"fresh_env_every_episode": True}


@pytest.fixture(params=["native", "pure"])
def _code(request, monkeypatch):
    if request.param == "pure":
        monkeypatch.setenv("NINELIVES_NATIVE", "0")


@pytest.mark.usefixtures("_code")
@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_no_episode_shows_anything_of_the_one_before(autoreset):
    used, fresh = (undisturbed(Reminiscent, 40, autoreset=autoreset, **more) for more in ({}, FRESH))
    seen = [{row[0][BEFORE] for row in streams.rows[0]} for streams in (used, fresh)]
    assert max(seen[0]) >= 3
    assert seen[1] == {0}


def test_each_episode_is_that_of_a_new_environment():
    seed, steps = 5, 400
    with ninelives.Pool("BipedalWalker-v3", 1, start_method="fork", **FRESH) as pool:
        found = [pool.reset(seed=seed).obs[0]]
        actions = np.random.default_rng(0).uniform(-1, 1, (steps, 1, 4)).astype(np.float32)
        found += [pool.step(action).obs[0] for action in actions]
    episodes, is_over, expected = 0, True, []
    for action in [None, *actions]:
        if is_over:
            env = gymnasium.make("BipedalWalker-v3")
            expected.append(env.reset(seed=seed if not episodes else episode_seed(seed, 0, episodes))[0])
            episodes, is_over = episodes + 1, False
        else:
            obs, _, terminated, truncated, _ = env.step(action[0])
            is_over = terminated or truncated
            expected.append(obs)
    assert episodes >= 3
    assert np.array_equal(found, expected)


def test_a_bipedal_walker_heals_exactly():
    """Without it, some episodes of a used walker go another way than those of a new one."""
    plan = {"kills": 12, "hangs": 0, "segfaults": 2, "steps": 4000}
    report = Chaos("BipedalWalker-v3", num_envs=4, workers=2, seed=3, **plan, **FRESH).run()
    assert report.is_exact, report.first_difference or report.first_not_healed
    assert report.delivered == report.wanted


@pytest.mark.usefixtures("_code")
@pytest.mark.parametrize("seed_episodes", [True, False])
def test_kills_at_every_place_of_an_episode_change_no_row(seed_episodes):
    settings = {"seed_episodes": seed_episodes, **FRESH}
    calm = undisturbed(Reminiscent, 120, **settings)
    with pool_of(Reminiscent, **settings) as pool:
        streams = Streams(pool)
        for number in range(12):
            streams.step(9)
            kill_worker(pool, number % 2)
        streams.step(5)
        assert len(of_kind(pool, FaultSeen)) == 12
        assert not of_kind(pool, HealFailed)
    assert streams.agree_with(calm)
    assert [streams.masked(slot) for slot in range(SLOTS)] == [[]] * SLOTS


def test_the_random_numbers_of_a_gymnasium_view_are_the_same_with_and_without():
    rows = []
    for more in ({}, FRESH):
        with closing(ninelives.VectorEnv("CartPole-v1", 2, start_method="fork", **more)) as envs:
            envs.reset(seed=3)
            rows.append([envs.step(np.array([1, 0]))[0].tolist() for _ in range(60)])
    assert rows[0] == rows[1]


def test_what_was_set_stays_set_in_every_new_environment_also_after_a_kill():
    with pool_of(Reminiscent, num_envs=2, **FRESH) as pool:
        pool.reset(seed=1)
        pool.request(ninelives.spec.call.CallRequest("set", "bonus", (7,)))
        rewards = [pool.step(np.zeros(2, np.int64)).reward.tolist() for _ in range(25)]
        kill_worker(pool, 0)
        rewards += [pool.step(np.zeros(2, np.int64)).reward.tolist() for _ in range(25)]
    assert all({row[slot] for row in rewards} == {0.0, 7.0} for slot in range(2)), "0 in the rows of resets"
    assert sum(row[0] == 0.0 for row in rewards) <= 8


def test_an_environment_that_cannot_be_built_again_is_a_fault_of_its_slot(tmp_path):
    """Built for its second episode it raises, once."""
    with pool_of(FailsOnce(str(tmp_path / "once")), num_envs=2, workers=1, **FRESH) as pool:
        streams = Streams(pool)
        streams.step(30)
        (fault,) = of_kind(pool, FaultSeen)
        assert (fault.kind, fault.phase) == ("raised", "construct")
        assert "no second time" in fault.summary
    assert streams.rows[0][-1][-1]
    assert streams.rows[1][-1][-1]


class FailsOnce:
    """A factory whose third environment cannot be built; the file counts them."""

    def __init__(self, path):
        self._path = path

    def __call__(self):
        with open(self._path, "a+") as file:
            file.write("x")
            file.flush()
            if file.tell() == 3:
                raise RuntimeError("no second time")
        return Reminiscent()
