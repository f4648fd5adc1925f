"""``ninelives check`` and ``ninelives chaos`` come to the same result about an environment, in the same words."""

from __future__ import annotations

import random

import pytest

from ninelives.cli.chaos import conclusion
from ninelives.cli.check import NOT_DETERMINISTIC, USED_DIFFERS, judge
from ninelives.testing import Chaos, CountingEnv, check_env

HEALS = "safe"
EPISODE = 12


class Chance(CountingEnv):
    """Draws from a generator that is never seeded."""

    def __init__(self):
        super().__init__(EPISODE)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + random.random(), *rest


class OfEachCopy(CountingEnv):
    """Every copy has a number of its own and shows it late in an episode."""

    def __init__(self):
        super().__init__(EPISODE)
        self._number = random.SystemRandom().random()

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + self._number * (obs[3] >= EPISODE - 3), *rest


class Remembers(CountingEnv):
    """Its reset leaves the number of earlier episodes, which shows late in each."""

    def __init__(self):
        super().__init__(EPISODE)
        self._before = -1

    def reset(self, *, seed=None, options=None):
        self._before += 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + self._before * (obs[3] >= EPISODE - 3), *rest


TABLE = [
    ("CartPole-v1", HEALS),
    ("FrozenLake-v1", HEALS),
    ("Blackjack-v1", HEALS),
    (CountingEnv, HEALS),
    (Chance, NOT_DETERMINISTIC),
    (OfEachCopy, NOT_DETERMINISTIC),
    (Remembers, USED_DIFFERS),
    ("BipedalWalker-v3", USED_DIFFERS),
]


@pytest.mark.filterwarnings("ignore:a used environment differs")
@pytest.mark.parametrize(("env", "word"), TABLE, ids=[str(getattr(env, "__name__", env)) for env, _ in TABLE])
def test_both_say_the_same(env, word):
    report = check_env(env, steps=100, start_methods=("fork",))
    found = [verdict.found for verdict in judge(report) if verdict.name in ("deterministic", "reset")]
    assert len(found) == 1
    assert found[0].startswith("the same seed and actions" if word == HEALS else word)
    chaos = Chaos(env, num_envs=4, workers=2, kills=7, hangs=0, segfaults=1, steps=1200, seed=3, start_method="fork")
    assert conclusion(chaos.run())[0].startswith(word)
