"""SIGKILL of the trainer at any moment, also while it writes a checkpoint: resumed, it ends with the same weights."""

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
KILLS = 20 if FULL else 3
GONE_S = 5.0
ROLLOUT = 16 * 4
CONFIG = {
    "env": "CartPole-v1",
    "timesteps": ROLLOUT * (200 if FULL else 40),
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


@pytest.fixture(scope="module")
def whole():
    """The weights of the run that nobody disturbs."""
    return train(trainee.config_of(CONFIG)).weights_sha256


class Trainers:
    """Starts trainers, one after the other, in one run directory."""

    def __init__(self, place):
        self._place = place
        self._before = {process.pid for process in leftovers.descendants()}

    def start(self, *more):
        command = [sys.executable, trainee.__file__, str(self._place / "run"), json.dumps(CONFIG), *more]
        environ = {**os.environ, "TMPDIR": str(self._place)}
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def reap(self):
        """Workers of a killed trainer end by themselves and fall to this process."""
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


def killed(program, moment_s, updates):
    """Kill a trainer so many seconds after its ``updates``-th update; returns what it had said."""
    with program:
        said = [line for _ in range(updates + 1) if (line := program.stdout.readline())] if updates else []
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(moment_s)
        program.kill()
        rest, _ = program.communicate()
    return [*said, *rest.splitlines()]


def ended(program):
    out, err = program.communicate(timeout=200)
    assert program.returncode == 0, err[-3000:]
    return out.split()[-1]


@pytest.mark.timeout(1800)
def test_killed_at_random_moments_it_ends_with_the_same_weights(whole, trainers, tmp_path):
    rng = random.Random(11)
    for _ in range(KILLS):
        # A third of the kills fall into the start, where there is nothing to wait for; the others between updates.
        updates = rng.choice([0, rng.randrange(1, 5), rng.randrange(5, 12)])
        moment_s = 3.0 * rng.random() if updates == 0 else 0.05 * rng.random()
        said = killed(trainers.start("--resume"), moment_s, updates)
        trainers.reap()
        assert not any(line.startswith("end") for line in said), "the run was over before it was killed"
        assert os.listdir(tmp_path) in ([], ["run"]), "something is left of a killed trainer"
    assert ended(trainers.start("--resume")) == whole
    newest = Checkpoints(tmp_path / "run" / "checkpoints").newest()
    assert checkpoint.weights_sha256(newest) == whole


def test_killed_while_it_writes_a_checkpoint(whole, trainers, tmp_path):
    folder = tmp_path / "run" / "checkpoints"
    for call in ("fsync", "replace"):
        program = trainers.start("--resume", "--die-in", call, "5")
        _, err = program.communicate(timeout=100)
        assert program.returncode == -signal.SIGKILL, err[-3000:]
        trainers.reap()
        assert list(folder.glob(".*.tmp")), "it was not killed while it wrote"
        assert all(checkpoint.load(path) for path in Checkpoints(folder).all())
    assert ended(trainers.start("--resume")) == whole
    assert not list(folder.glob(".*.tmp"))
