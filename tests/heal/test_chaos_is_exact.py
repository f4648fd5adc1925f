"""Killed at random moments in random ways, every game gives the rows of the undisturbed run.

``NINELIVES_FULL=1`` kills more often. The whole cross of games, workers and start methods takes hours::

    NINELIVES_FULL_CHAOS=1 python -m pytest tests/heal/test_chaos_is_exact.py -k undisturbed -o faulthandler_timeout=0

Otherwise each game, each number of workers and each start method has its turn in a shorter run.
"""

from __future__ import annotations

import os
from itertools import product

import pytest
from mortal_games import GAMES

from ninelives.testing import Chaos

IS_FULL = os.environ.get("NINELIVES_FULL") == "1"
IS_CROSSED = bool(os.environ.get("NINELIVES_FULL_CHAOS"))
LONG = {"kills": 200, "hangs": 20, "segfaults": 20, "steps": 20_000}
MEDIUM = {"kills": 24, "hangs": 3, "segfaults": 5, "steps": 3000}
SHORTEST = {"kills": 8, "hangs": 1, "segfaults": 2, "steps": 1200}
SHORT = MEDIUM if IS_FULL else {"kills": 12, "hangs": 1, "segfaults": 2, "steps": 1500}

CROSS = list(product(GAMES, (1, 2, 4), ("fork", "forkserver", "spawn")))
CHOSEN = [
    ("cartpole", 1, "fork"),
    ("cartpole", 4, "forkserver"),
    ("pong", 2, "forkserver"),
    ("pong-replayed", 4, "fork"),
    ("lander", 2, "spawn"),
    ("stack", 2, "forkserver"),
]


def check(env, plan, **settings):
    """Run chaos; every planned fault must have been delivered and seen, every row be there and be equal."""
    report = Chaos(env, num_envs=8, seed=3, **plan, **settings).run()
    assert report.first_difference is None
    assert not report.cut_rows, report.first_not_healed
    assert report.delivered == report.wanted
    assert report.compared_rows >= report.steps >= plan["steps"]
    return report


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "workers", "method"), CROSS if IS_CROSSED else CHOSEN)
def test_every_row_is_the_undisturbed_runs(name, workers, method):
    game = GAMES[name]
    plan = LONG if IS_CROSSED else SHORTEST if game.is_slow else SHORT
    report = check(game.env, plan, workers=workers, start_method=method, **game.settings)
    assert report.faults["SIGKILL"] >= plan["kills"]
    assert report.faults["SIGSEGV"] == plan["segfaults"]
    assert report.faults["hung"] >= plan["hangs"]
    assert report.recovery_s.count >= plan["kills"]
    assert report.replayed_steps > 0


@pytest.mark.parametrize("autoreset", ["same_step", "disabled"])
def test_every_way_of_autoreset_is_healed(autoreset):
    check("CartPole-v1", SHORT, start_method="fork", autoreset=autoreset)


def test_gymnasiums_stream_of_seeds_is_healed():
    check("CartPole-v1", SHORT, start_method="fork", seed_episodes=False)


@pytest.mark.parametrize("name", ["cartpole", "stack"])
def test_first_ready_batches_are_healed_stream_by_stream(name):
    check(GAMES[name].env, SHORT, start_method="fork", workers=4, batch_size=2)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_spares_that_step_in_are_killed_too(batch_size):
    plan = {**SHORT, "kills": 60 if IS_FULL else 24}
    check("CartPole-v1", plan, start_method="fork", workers=4, batch_size=batch_size, spares=1)
