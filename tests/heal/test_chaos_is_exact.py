"""Murdered at random moments in random ways, every game gives the rows of the undisturbed run.

The whole cross of games, workers and start methods takes hours::

    NINELIVES_FULL_CHAOS=1 python -m pytest tests/heal/test_chaos_is_exact.py -k undisturbed -o faulthandler_timeout=0

Without it each game, each number of workers and each start method has its turn in a shorter run.
"""

from __future__ import annotations

import os
from itertools import product

import pytest
from mortal_games import GAMES

from ninelives.events import WorkerRecycled
from ninelives.testing import Chaos, RecordingSink

IS_FULL = bool(os.environ.get("NINELIVES_FULL_CHAOS"))
FULL = {"kills": 200, "hangs": 20, "segfaults": 20, "steps": 20_000}
SHORT = {"kills": 24, "hangs": 3, "segfaults": 5, "steps": 3000}
SHORTER = {"kills": 8, "hangs": 1, "segfaults": 2, "steps": 1200}

CROSS = list(product(GAMES, (1, 2, 4), ("fork", "forkserver", "spawn")))
CHOSEN = [
    ("cartpole", 1, "fork"),
    ("cartpole", 4, "forkserver"),
    ("pong", 2, "forkserver"),
    ("pong-replayed", 4, "fork"),
    ("lander", 2, "spawn"),
    ("stack", 2, "forkserver"),
]


def check(env, murders, **settings):
    """Run chaos; every murder must have been delivered and seen, every row be there and be equal."""
    report = Chaos(env, num_envs=8, seed=3, **murders, **settings).run()
    assert report.first_difference is None
    assert not report.cut_rows, report.first_not_healed
    assert report.delivered == report.wanted
    assert report.compared_rows >= report.steps >= murders["steps"]
    return report


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "workers", "method"), CROSS if IS_FULL else CHOSEN)
def test_every_row_is_the_undisturbed_runs(name, workers, method):
    game = GAMES[name]
    murders = FULL if IS_FULL else SHORTER if game.is_slow else SHORT
    report = check(game.env, murders, workers=workers, start_method=method, **game.settings)
    assert report.faults["SIGKILL"] >= murders["kills"]
    assert report.faults["SIGSEGV"] == murders["segfaults"]
    assert report.faults["hung"] >= murders["hangs"]
    assert report.recovery_s.count >= murders["kills"]
    assert report.replayed_steps > 0


@pytest.mark.parametrize("autoreset", ["same_step", "disabled"])
def test_every_way_of_autoreset_is_healed(autoreset):
    check("CartPole-v1", SHORT, start_method="fork", autoreset=autoreset)


def test_gymnasiums_stream_of_seeds_is_healed():
    check("CartPole-v1", SHORT, start_method="fork", seed_episodes=False)


@pytest.mark.parametrize("name", ["cartpole", "stack"])
def test_first_ready_batches_are_healed_stream_by_stream(name):
    check(GAMES[name].env, SHORT, start_method="fork", workers=4, batch_size=2)


def test_workers_replaced_in_mid_episode_are_not_noticed():
    sink = RecordingSink()
    nobody = {"kills": 0, "hangs": 0, "segfaults": 0, "steps": 25_000}
    report = check("CartPole-v1", nobody, start_method="fork", max_steps=100, sinks=[sink])
    assert {event.worker for event in sink.of(WorkerRecycled)} == {0, 1}
    assert not report.faults


@pytest.mark.parametrize("batch_size", [None, 2])
def test_spares_that_step_in_are_murdered_too(batch_size):
    check("CartPole-v1", {**SHORT, "kills": 60}, start_method="fork", workers=4, batch_size=batch_size, spares=1)
