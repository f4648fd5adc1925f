"""Every example in the help of the verbs about training runs, in its order, as a reader would run it (only shorter)."""

import re
import shlex

import pytest
from same_process import commands

from missing import skip_missing
from ninelives.cli.benchmark import Benchmark
from ninelives.cli.demo import ERRAND, Demo, reason_not_to_play
from ninelives.cli.runs import Runs
from ninelives.cli.test import Test as Playing
from ninelives.cli.train import Train

SHORTER = {
    "train": ("--timesteps", "64", "--set", "ppo.n_steps=4", "--set", "overlap=off"),
    "test": ("--episodes", "2", "--n-envs", "2"),
    "benchmark": ("--seconds", "1", "--num-envs", "2"),
    "demo": ("--seconds", "1"),
    "runs": (),
}
"""Said after the example: the last word counts. The time is all they change."""


def examples(verb):
    return re.findall(r"^ *\$ ninelives (.+)$", verb.__doc__, re.MULTILINE)


@pytest.fixture
def command(here, monkeypatch, capsys):
    return commands(here, monkeypatch, capsys)


@pytest.fixture
def world(here, command):
    """What the examples speak of: a file, a run of yours."""
    (here / "run.yaml").write_text("env: CartPole-v1\nn_envs: 2\n")
    (here / "mygame.py").write_text("import gymnasium\n\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    done = command("train", "--config", "run.yaml", "--run-dir", "runs/yours", *SHORTER["train"])
    assert done.code == 0, done.err
    return command


def run(command, line):
    words = shlex.split(line)
    if any(word.startswith("ninelives/") for word in words) and (reason := reason_not_to_play(ERRAND)):
        skip_missing(reason)
    return command(*words, *SHORTER[words[0]])


def test_the_examples_of_train_test_and_runs_run_one_after_the_other(world, here):
    for line in [*examples(Train), *examples(Playing), *examples(Runs)]:
        done = run(world, line)
        assert done.code == 0, f"{line}\n{done.err}"
    assert (here / "mine.gif").exists()


@pytest.mark.parametrize("line", [line for line in examples(Benchmark) if "--train" in line])
def test_the_examples_of_measuring_training_run(world, line):
    done = run(world, line)
    assert done.code == 0, done.err


@pytest.mark.parametrize("line", examples(Demo))
def test_the_examples_of_the_demo_run(world, line):
    done = run(world, line)
    assert done.code == 0, done.err
    assert "the run went on" in done.out
