"""``ninelives doctor``: on runs that really broke, and on this machine."""

import subprocess
import sys

import pytest

BREAKING_RUN = """
import numpy as np, ninelives
with ninelives.Pool("game:Game", 4, workers=2, run_dir="run", step_timeout_s=0.3, on_fault="cut") as pool:
    pool.reset(seed=0)
    for step in range(60):
        actions = np.zeros(4, int)
        if step in (10, 20, 30):
            actions[step // 10] = step // 10
        pool.step(actions)
"""
GOOD_RUN = """
import numpy as np, ninelives
with ninelives.Pool("game:Calm", 2, workers=1, run_dir="run") as pool:
    pool.reset(seed=0)
    for _ in range(10):
        pool.step(np.zeros(2, int))
"""
FAILING_START = """
import ninelives
try:
    ninelives.Pool("game:Unbuildable", 2, workers=1, run_dir="run", start_attempts=1)
except ninelives.WorkerStartError:
    pass
"""


@pytest.fixture
def run(here):
    def play(program):
        done = subprocess.run([sys.executable, "-c", program], cwd=here, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return here / "run"

    return play


def test_a_breaking_run_is_told_slot_by_slot_with_line_and_cure(ninelives, run, here):
    run(BREAKING_RUN)
    done = ninelives("doctor", "run")
    assert done.code == 1
    assert done.err == ""
    source = (here / "game.py").read_text().splitlines()
    guilty = source.index("        time.sleep(1000)") + 1
    for part in (
        "game:Game: 4 slots, 2 workers",
        "slot 1 hung in step, once",
        f"game.py:{guilty} in wait_for_ever",
        "raise step_timeout_s above 0.3 s",
        "slot 2 raised ValueError: no such tile",
        "slot 3 was killed by SIGSEGV during step, once",
        "back after",
        "3 problems found",
    ):
        assert part in done.out


def test_a_good_run_is_good(ninelives, run):
    run(GOOD_RUN)
    done = ninelives("doctor", "run")
    assert (done.code, done.err) == (0, "")
    assert "game:Calm: 2 slots, 1 worker" in done.out
    assert "nothing was lost" in done.out


def test_a_run_that_was_cut_off_in_the_middle_of_a_line_is_still_read(ninelives, run):
    record = run(GOOD_RUN) / "events.jsonl"
    record.write_bytes(record.read_bytes()[:-20])
    done = ninelives("doctor", "run")
    assert done.code == 0
    assert "last line is cut short" in done.out
    assert "the run has no end" in done.out


def test_a_pool_that_never_came_up_is_told_with_its_own_line(ninelives, run):
    run(FAILING_START)
    done = ninelives("doctor", "run")
    assert done.code == 1
    assert "the pool never came up" in done.out
    assert "KeyError: 'rom'" in done.out
    assert "game.py" in done.out


def test_a_directory_without_a_run_and_a_foreign_file_are_refused_in_words(ninelives, here):
    (here / "empty").mkdir()
    done = ninelives("doctor", "empty")
    assert (done.code, done.out) == (2, "")
    assert "run_dir='empty'" in done.err
    (here / "events.jsonl").write_text("this is not JSON\n")
    done = ninelives("doctor", ".")
    assert done.code == 2
    assert "none of its 1 lines is an event" in done.err
    assert "Traceback" not in done.err


def test_a_machine_that_runs_these_tests_is_ready(ninelives):
    done = ninelives("doctor")
    assert done.code == 0, done.out
    for method in ("forkserver", "fork", "spawn"):
        assert f"start: {method}" in done.out
    assert done.out.count("two workers up in") == 3
    assert "this machine is ready" in done.out


def test_a_run_of_the_trainer_is_found_in_its_own_directory(ninelives, run, here):
    run(GOOD_RUN)
    (here / "training").mkdir()
    (here / "run").rename(here / "training" / "pool")
    done = ninelives("doctor", "training")
    assert done.code == 0
    assert "game:Calm: 2 slots" in done.out


def test_a_directory_that_is_not_there_is_called_that(ninelives):
    done = ninelives("doctor", "nowhere")
    assert done.code == 2
    assert "RUN_DIR='nowhere': there is no such directory" in done.err
