"""``ninelives runs``: lists, shows and compares what trainers have left behind."""

import re

import pytest

from ninelives.cli.runs import differing
from ninelives.train.saving.checkpoint import weights_sha256
from ninelives.train.saving.run_dir import RunDir

TABLE = (
    "step,seconds,steps_per_s,ep_rew_mean,faults\n100,1,100,,0\n200,2,100,10.5,0\n300,1,100,9.5,2\n400,2,100,8.0,3\n"
)


@pytest.fixture
def run_of(here):
    """Makes a run's directory without training."""

    def make(name, **config):
        with RunDir.open(here / "runs" / name) as run:
            run.write_config({"env": "CartPole-v1", "timesteps": 1000, "n_envs": 4, "seed": 0, **config})
            run.progress.write_text(TABLE)
        return here / "runs" / name

    return make


def test_a_directory_of_runs_is_listed(ninelives, run_of):
    run_of("one")
    run_of("two", env="Acrobot-v1")
    done = ninelives("runs")
    assert done.code == 0
    rows = [re.split(r" *│ *", line)[1:-1] for line in done.out.splitlines() if line.startswith("│")]
    assert [row[:3] for row in rows] == [["one", "CartPole-v1", "400"], ["two", "Acrobot-v1", "400"]]
    assert rows[0][3:7] == ["8.00", "10.50", "100.00", "3"]
    assert ninelives("runs", "runs").out == done.out


def test_the_directory_of_a_pool_is_left_to_the_doctor(ninelives, here):
    (here / "runs" / "mine").mkdir(parents=True)
    (here / "runs" / "mine" / "events.jsonl").touch()
    assert "1 pool kept events there: `ninelives doctor runs/mine` explains them" in ninelives("runs").out
    assert "`ninelives doctor runs/mine` explains them" in ninelives("runs", "show", "runs/mine").err


def test_where_there_is_no_run_it_is_said(ninelives):
    assert ninelives("runs").out == "no runs in runs; `ninelives train ENV` creates one\n"


def test_a_running_run_is_marked(ninelives, run_of):
    path = run_of("one")
    with RunDir.open(path, resume=True):
        assert "state: running" in ninelives("runs", "show", str(path)).out
    assert "state: not running" in ninelives("runs", "show", str(path)).out


def test_a_run_is_shown_with_exactly_one_line_about_its_weights(ninelives, one):
    done = ninelives("runs", "show", "one")
    lines = [line for line in done.out.splitlines() if re.fullmatch(r"weights sha256: [0-9a-f]{64}", line)]
    assert len(lines) == 1
    assert lines[0].endswith(weights_sha256(next((one / "checkpoints").iterdir())))
    facts = dict(line.split(": ", 1) for line in done.out.splitlines() if ": " in line)
    assert (facts["env"], facts["steps"], facts["n_envs"]) == ("CartPole-v1", "128 of 128", "4")
    assert facts["checkpoint"].endswith("step-000000000128.ckpt")
    assert "torch" in facts["started"]


def test_a_run_without_a_checkpoint_and_one_with_a_damaged_one_say_so(ninelives, run_of):
    path = run_of("one")
    assert "weights sha256: none: there is no checkpoint yet" in ninelives("runs", "show", str(path)).out
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "step-000000000128.ckpt").write_bytes(b"half")
    shown = ninelives("runs", "show", str(path))
    assert shown.code == 0
    assert "weights sha256: none: " in shown.out


def test_runs_are_compared_by_results_and_by_the_settings_that_differ(ninelives, run_of):
    one, two = run_of("one", seed=1), run_of("two", seed=2)
    out = ninelives("runs", "compare", str(one), str(two)).out
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
        (("show", "nothing"), "nothing contains no run"),
        (("compare",), "ninelives runs compare needs run directories"),
        (("a", "b"), "takes one directory"),
    ],
)
def test_what_cannot_be_meant_is_refused(ninelives, args, words):
    done = ninelives("runs", *args)
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("garbage", [b"\xa5\xff\x00binary", b"step,seconds\n" + b"1" * 200_000 + b",2\n"])
def test_a_table_that_is_garbage_is_named_and_the_other_runs_are_listed(ninelives, run_of, garbage):
    bad = run_of("bad")
    run_of("good")
    (bad / "progress.csv").write_bytes(garbage)
    listed = ninelives("runs")
    assert listed.code == 0
    assert "good" in listed.out
    assert "runs/bad/progress.csv is not the table of a run" in listed.err
    shown = ninelives("runs", "show", "runs/bad")
    assert shown.code == 2
    assert re.search(r"ninelives: runs/bad/progress\.csv is not the table .* move it elsewhere", shown.err)


def test_numbers_that_are_none_do_not_hide_a_run(ninelives, run_of):
    (run_of("odd") / "progress.csv").write_text("step,seconds,ep_rew_mean,faults\ninf,nan,nan,inf\n\0,,,\n")
    assert "odd" in ninelives("runs").out


def test_a_hostile_config_does_not_hide_a_run(ninelives, run_of):
    (run_of("deep") / "config.yaml").write_text("env: " + "[" * 5000)
    assert "deep" in ninelives("runs").out


def test_a_resumed_run_refuses_a_table_that_is_garbage(ninelives, one):
    (one / "progress.csv").write_bytes(b"\xa5\xff\x00binary")
    (one / "log_offsets.json").unlink()
    done = ninelives("train", "--run-dir", "one", "--resume", "--timesteps", "256")
    assert done.code == 2
    assert "one/progress.csv is not the table of a run" in done.err
