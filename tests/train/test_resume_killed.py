"""SIGKILL of the trainer at any moment, even while it writes a checkpoint: resumed, it ends with the same weights."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import pytest
import trainee

from ninelives.testing import leftovers
from ninelives.train import train
from ninelives.train.saving import checkpoint
from ninelives.train.saving.checkpoint import Checkpoints

FULL = os.environ.get("NINELIVES_FULL") == "1"
GONE_S = 5.0
ROLLOUT = 16 * 4
CONFIG = {
    "env": "CartPole-v1",
    "timesteps": ROLLOUT * (200 if FULL else 30),
    "n_envs": 4,
    "seed": 5,
    "device": "cpu",
    "threads": 1,
    "overlap": "off",
    "checkpoint_every": ROLLOUT,
    "ppo": {"n_steps": 16, "epochs": 2, "minibatches": 2},
    "normalise": {"obs": True, "reward": True},
    "pool": {"workers": 2},
}


class Trainers:
    """Starts trainers, one after the other, in one run directory."""

    def __init__(self, place):
        self._place = place
        self._before = {process.pid for process in leftovers.descendants()}

    def start(self, *more):
        command = [sys.executable, trainee.__file__, str(self._place / "run"), json.dumps(CONFIG), *more]
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(self._place.parent / "torchinductor")}  # torch's own, not ours
        environ = {**os.environ, **caches, "TMPDIR": str(self._place)}
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def reap(self):
        """Workers of a killed trainer end by themselves, and this process inherits them."""
        assert not leftovers.await_none(self._orphans, within_s=GONE_S)

    def _orphans(self):
        found = [process for process in leftovers.descendants() if process.pid not in self._before]
        for process in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        return found


@pytest.fixture
def trainers(tmp_path):
    return Trainers(tmp_path)


def kill(program, moment_s, updates):
    """Kill a trainer ``moment_s`` seconds after its ``updates``-th update; returns what it printed."""
    with program:
        lines = [line for _ in range(updates + 1) if (line := program.stdout.readline())] if updates else []
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(moment_s)
        program.kill()
        rest, _ = program.communicate()
    return [*lines, *rest.splitlines()]


def moments():
    """(seconds, updates): kills during the start, where there is no output to wait for, and between updates."""
    if not FULL:
        return [(1.0, 0), (0.02, 7)]
    rng = random.Random(11)
    updates = [rng.choice([0, rng.randrange(1, 5), rng.randrange(5, 12)]) for _ in range(20)]
    return [(3.0 * rng.random() if number == 0 else 0.05 * rng.random(), number) for number in updates]


@pytest.mark.timeout(1800)
def test_a_killed_trainer_ends_with_the_same_weights(trainers, tmp_path):
    weights = train(trainee.config_of(CONFIG)).weights_sha256
    folder = tmp_path / "run" / "checkpoints"
    for moment_s, updates in moments():
        printed = kill(trainers.start("--resume"), moment_s, updates)
        trainers.reap()
        assert os.listdir(tmp_path) in ([], ["run"]), "a killed trainer left something behind"
        assert not any(line.startswith("end") for line in printed), "the run ended before it was killed"
    for call in ("fsync", "replace") if FULL else ("replace",):
        program = trainers.start("--resume", "--die-in", call, "5")
        _, err = program.communicate(timeout=100)
        assert program.returncode == -signal.SIGKILL, err[-3000:]
        trainers.reap()
        assert list(folder.glob(".*.tmp")), "it was not killed while it wrote a checkpoint"
        assert all(checkpoint.load(path) for path in Checkpoints(folder).all())
    last = trainers.start("--resume")
    out, err = last.communicate(timeout=200)
    assert last.returncode == 0, err[-3000:]
    assert out.split()[-1] == weights
    assert checkpoint.weights_sha256(Checkpoints(folder).newest()) == weights
    assert not list(folder.glob(".*.tmp"))
