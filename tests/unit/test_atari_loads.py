"""Atari games that are reset with seeds again and again read their ROM once, and show the same episodes."""

import functools
from types import SimpleNamespace

import ale_py
import gymnasium
import numpy as np
import pytest

from ninelives.sims.atari import SUPPORT, CachedLoads
from ninelives.worker.support import support_for

gymnasium.register_envs(ale_py)

MAKES = {
    "sticky": lambda: gymnasium.make("ALE/Pong-v5"),
    "never_sticky": lambda: gymnasium.make("ALE/Breakout-v5", repeat_action_probability=0.0),
    "random_skip": lambda: gymnasium.make("ALE/Pong-v5", frameskip=(2, 5)),
    "ram": lambda: gymnasium.make("ALE/SpaceInvaders-v5", obs_type="ram"),
    "another_mode": lambda: gymnasium.make("ALE/Breakout-v5", mode=4, difficulty=1),
}
SEEDS = (5, 2**31 - 1, 5)
TWO = SEEDS[:2]


class Reader:
    """Stands in front of an emulator and counts how often it reads a ROM.

    ``spoils`` every state that is restored; ``writes`` its clones in another format.
    """

    def __init__(self, ale, spoils=False, writes=None):
        self._ale, self._spoils, self._writes, self.loads, self.restored = ale, spoils, writes, 0, 0

    def __getattr__(self, name):
        return getattr(self._ale, name)

    def loadROM(self, *rom):
        self.loads += 1
        self._ale.loadROM(*rom)

    def cloneState(self, include_rng):
        clone = self._ale.cloneState(include_rng=include_rng)
        if self._writes is None:
            return clone
        return SimpleNamespace(serialize=lambda: self._writes(clone.serialize()))

    def restoreState(self, state):
        self.restored += 1
        self._ale.restoreState(state)
        if self._spoils:
            self._ale.setRAM(0, (int(self._ale.getRAM()[0]) + 1) % 256)


@pytest.fixture(autouse=True)
def _nothing_is_verified(monkeypatch):
    monkeypatch.setattr(CachedLoads, "verified", {})


def episodes(env, seeds=SEEDS):
    """Everything seen in a few short episodes that are left in their middle."""
    draw, seen = np.random.default_rng(1), []
    for seed in seeds:
        obs, info = env.reset(seed=seed)
        seen.append((obs.tobytes(), str(info)))
        for _ in range(60):
            obs, *rest = env.step(int(draw.integers(env.action_space.n)))
            seen.append((obs.tobytes(), str(rest)))
    return seen


@functools.cache
def expected(name, seeds=SEEDS):
    """What the game shows when it reads its ROM every time."""
    return episodes(MAKES[name](), seeds)


def prepared(make, **how):
    env = make()
    reader = env.unwrapped.ale = Reader(env.unwrapped.ale, **how)
    SUPPORT.prepare(env.unwrapped)
    return env, reader


@pytest.mark.parametrize("name", MAKES)
def test_every_seed_gives_the_same_episode_as_without_support(name):
    env, reader = prepared(MAKES[name])
    assert episodes(env) == expected(name)
    assert reader.loads == 2, "each time to compare, or once because nothing is known of the mode's first load"


def test_what_is_verified_once_is_not_verified_again_for_every_slot():
    first, _ = prepared(MAKES["sticky"])
    second, reader = prepared(MAKES["sticky"])
    assert episodes(first, TWO) == episodes(second, TWO)
    assert not reader.loads


def test_an_emulator_that_does_not_restore_exactly_reads_its_rom_every_time():
    env, reader = prepared(MAKES["sticky"], spoils=True)
    assert episodes(env, TWO) == expected("sticky", TWO)
    assert reader.loads == 2 + len(TWO)


@pytest.mark.parametrize("writes", [
    lambda clone: clone[24:],
    lambda clone: clone[:24] + bytes(4) + clone[28:],
    lambda clone: clone.replace(b" ", b","),
])  # fmt: skip
def test_a_state_in_an_unknown_format_is_never_given_to_the_emulator(writes):
    env, reader = prepared(MAKES["sticky"], writes=writes)
    assert episodes(env, TWO) == expected("sticky", TWO)
    assert (reader.loads, reader.restored) == (len(TWO), 0)


@pytest.mark.parametrize(("setter", "key", "value"), [
    ("setFloat", "repeat_action_probability", 0.6),
    ("setInt", "max_num_frames_per_episode", 200),
    ("setBool", "color_averaging", True),
])  # fmt: skip
def test_other_settings_take_effect_with_the_next_load(setter, key, value):
    (env, reader), plain = prepared(MAKES["sticky"]), MAKES["sticky"]()
    assert episodes(env, TWO) == expected("sticky", TWO)
    before = reader.loads
    for each in (env, plain):
        getattr(each.unwrapped.ale, setter)(key, value)
    assert episodes(env, TWO) == episodes(plain, TWO) != expected("sticky", TWO)
    assert reader.loads == before + len(TWO), "nothing was verified with these settings"


def test_seeds_that_may_mean_any_are_left_to_the_emulator():
    env, reader = prepared(MAKES["sticky"])
    episodes(env, TWO)
    before, ale = reader.loads, env.unwrapped.ale
    for loads, seed in enumerate((0, -1), start=1):
        ale.setInt("random_seed", seed)
        env.unwrapped.load_game()
        assert reader.loads == before + loads


def test_games_that_the_emulator_does_not_restore_exactly_are_left_alone():
    env = gymnasium.make("ALE/Qbert-v5")
    SUPPORT.prepare(env.unwrapped)
    assert not isinstance(env.unwrapped.ale, CachedLoads)


def test_environments_of_other_packages_get_no_support_from_it():
    assert support_for(gymnasium.make("CartPole-v1").unwrapped) is None
    assert support_for(gymnasium.make("ALE/Pong-v5").unwrapped) is SUPPORT
