"""``ninelives runs``: lists, shows and compares what trainers have left behind."""

import re

import pytest
from same_process import commands

from ninelives.cli.runs import differing
from ninelives.train.saving.run_dir import RunDir

TABLE = (
    "step,seconds,steps_per_s,ep_rew_mean,faults\n100,1,100,,0\n200,2,100,10.5,0\n300,1,100,9.5,2\n400,2,100,8.0,3\n"
)


@pytest.fixture
def command(here, monkeypatch, capsys):
    return commands(here, monkeypatch, capsys)


@pytest.fixture
def run_of(here):
    """Makes a run's directory without training."""

    def make(name, **config):
        with RunDir.open(here / "runs" / name) as run:
            run.write_config({"env": "CartPole-v1", "timesteps": 1000, "n_envs": 4, "seed": 0, **config})
            run.progress.write_text(TABLE)
        return here / "runs" / name

    return make


def test_a_directory_of_runs_is_listed(command, run_of):
    run_of("one")
    run_of("two", env="Acrobot-v1")
    done = command("runs")
    assert done.code == 0
    rows = [re.split(r" *│ *", line)[1:-1] for line in done.out.splitlines() if line.startswith("│")]
    assert [row[:3] for row in rows] == [["one", "CartPole-v1", "400"], ["two", "Acrobot-v1", "400"]]
    assert rows[0][3:7] == ["8.00", "10.50", "100.00", "3"]
    assert command("runs", "runs").out == done.out


def test_where_there_is_no_run_it_is_said(command):
    assert command("runs").out == "no runs in runs; `ninelives train ENV` makes one\n"


def test_a_run_that_a_trainer_is_at_work_in_is_marked(command, run_of):
    path = run_of("one")
    with RunDir.open(path, resume=True):
        assert "a trainer is at work there" in command("runs", "show", str(path)).out
    assert "nobody is at work there" in command("runs", "show", str(path)).out


def test_a_run_is_shown_with_exactly_one_line_about_its_weights(command, here):
    trained = command("train", "CartPole-v1", "--timesteps", "128", "--ppo.n-steps", "32", "--n-envs", "4",
                      "--overlap", "off", "--run-dir", "runs/one")  # fmt: skip
    assert trained.code == 0, trained.err
    done = command("runs", "show", "runs/one")
    lines = [line for line in done.out.splitlines() if re.fullmatch(r"weights sha256: [0-9a-f]{64}", line)]
    assert len(lines) == 1
    assert lines[0] in trained.out
    facts = dict(line.split(": ", 1) for line in done.out.splitlines() if ": " in line)
    assert (facts["env"], facts["steps"], facts["n_envs"]) == ("CartPole-v1", "128 of 128", "4")
    assert facts["checkpoint"].endswith("step-000000000128.ckpt")
    assert "torch" in facts["started"]


def test_a_run_without_a_checkpoint_and_one_with_a_damaged_one_say_so(command, run_of):
    path = run_of("one")
    assert "weights sha256: none: there is no checkpoint yet" in command("runs", "show", str(path)).out
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "step-000000000128.ckpt").write_bytes(b"half")
    shown = command("runs", "show", str(path))
    assert shown.code == 0
    assert "weights sha256: none: " in shown.out


def test_runs_are_compared_by_results_and_by_the_settings_that_differ(command, run_of):
    one, two = run_of("one", seed=1), run_of("two", seed=2)
    out = command("runs", "compare", str(one), str(two)).out
    assert re.search(r"│ seed +│ +1 │ +2 │", out)
    assert re.search(r"│ best +│ +10.50 │ +10.50 │", out)
    assert "timesteps" not in out


def test_settings_that_differ_are_found_in_sections_too():
    assert differing([{"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 4, "d": 3}}]) == ["b.c"]
    assert differing([{"a": 1}, {}]) == ["a"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("show",), "ninelives runs show needs a run directory"),
        (("show", "nothing"), "nothing holds no run"),
        (("compare",), "ninelives runs compare needs run directories"),
        (("a", "b"), "takes one directory"),
    ],
)
def test_what_cannot_be_meant_is_refused(command, args, words):
    done = command("runs", *args)
    assert done.code == 2
    assert words in done.err
