"""``ninelives benchmark --train``: steps/s end to end for each number of environments, and the one to take."""

import re

from ninelives.cli.bench.train_bench import TrainBenchRunner, TrainMeasurement, best_of
from ninelives.train.config.classes import TrainConfig


def test_training_is_measured_and_the_line_to_paste_is_a_command(ninelives, here):
    (here / "run.yaml").write_text("env: any:env\nppo: {n_steps: 16}\noverlap: off\n")
    done = ninelives(
        "benchmark", "CartPole-v1", "--train", "--num-envs", "4", "--seconds", "0.3", "--config", "run.yaml"
    )
    assert done.code == 0, done.err
    assert re.search(r"│ +4 │ +\d │ +off │ +[\d,]+ │ +\d+% │ +\d+% │", done.out)
    assert done.out.splitlines()[-1] == "ninelives train CartPole-v1 --n-envs 4 --overlap off"


def test_a_file_about_training_needs_training(ninelives):
    done = ninelives("benchmark", "CartPole-v1", "--config", "run.yaml")
    assert done.code == 2
    assert "add --train" in done.err


def test_what_there_is_no_time_for_is_not_measured():
    runner = TrainBenchRunner(
        TrainConfig(env="CartPole-v1"), deadline_s=0.0, measured=[TrainMeasurement(2, 1, "off", 1, 0, 0)]
    )
    runner.measure_all([8, 16])
    assert runner.skipped == [8, 16]


def test_of_equally_fast_numbers_the_smallest_is_taken():
    several = [TrainMeasurement(n, 2, "off", speed, 0.1, 0.5) for n, speed in ((8, 980.0), (16, 1000.0), (32, 700.0))]
    assert best_of(several).n_envs == 8
    assert best_of(several[1:]).n_envs == 16
