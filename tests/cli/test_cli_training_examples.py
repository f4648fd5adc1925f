"""Every example in the help of the verbs about training runs, in its order, as a reader would run it (only shorter)."""

import re
import shlex

import pytest

from missing import skip_missing
from ninelives.cli.benchmark import BenchmarkCommand
from ninelives.cli.demo import ERRAND, DemoCommand, reason_not_to_start
from ninelives.cli.runs import RunsCommand
from ninelives.cli.test import TestCommand as Evaluation
from ninelives.cli.train import TrainCommand

SHORTER = {
    "train": ("--timesteps", "64", "--set", "ppo.n_steps=4", "--set", "overlap=off"),
    "test": ("--episodes", "2", "--n-envs", "2"),
    "benchmark": ("--seconds", "0.3", "--num-envs", "2"),
    "demo": ("--seconds", "1"),
    "runs": (),
}
"""Added after the example, where the last value of a flag counts. They only make it shorter."""


def examples(verb):
    return re.findall(r"^ *\$ ninelives (.+)$", verb.__doc__, re.MULTILINE)


@pytest.fixture
def world(here, ninelives):
    """The file and the run that the examples mention."""
    (here / "run.yaml").write_text("env: CartPole-v1\nn_envs: 2\n")
    (here / "mygame.py").write_text("import gymnasium\n\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    done = ninelives("train", "--config", "run.yaml", "--run-dir", "runs/yours", *SHORTER["train"])
    assert done.code == 0, done.err
    return ninelives


def run(ninelives, line):
    words = shlex.split(line)
    if any(word.startswith("ninelives/") for word in words) and (reason := reason_not_to_start(ERRAND)):
        skip_missing(reason)
    return ninelives(*words, *SHORTER[words[0]])


def test_the_examples_of_train_test_and_runs_run_one_after_the_other(world, here):
    for line in [*examples(TrainCommand), *examples(Evaluation), *examples(RunsCommand)]:
        done = run(world, line)
        assert done.code == 0, f"{line}\n{done.err}"
    assert (here / "mine.gif").exists()


@pytest.mark.parametrize("line", [line for line in examples(BenchmarkCommand) if "--train" in line])
def test_the_examples_of_measuring_training_run(world, line):
    done = run(world, line)
    assert done.code == 0, done.err


@pytest.mark.usefixtures("_fonts_are_open")
@pytest.mark.parametrize("line", [line for line in examples(DemoCommand) if "CartPole-v1" not in line])
def test_the_examples_of_the_demo_run(ninelives, line):
    """The example with CartPole is tested in test_cli_demo.py."""
    done = run(ninelives, line)
    assert done.code == 0, done.err
    assert "training continued" in done.out
