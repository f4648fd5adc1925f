"""``ninelives doctor``: on runs that really broke, and on this machine."""

import shutil

import numpy as np
import pytest

from ninelives import Pool, WorkerStartError


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The directory of a run without faults, made once."""
    run_dir = tmp_path_factory.mktemp("good") / "run"
    with Pool("CartPole-v1", 2, workers=1, run_dir=run_dir) as pool:
        pool.reset(seed=0)
        for _ in range(10):
            pool.step(np.zeros(2, int))
    return run_dir


@pytest.fixture
def good_run(recorded, here):
    return shutil.copytree(recorded, here / "run")


def test_a_breaking_run_is_explained_slot_by_slot_with_line_and_remedy(ninelives, here):
    with Pool("game:Game", 4, workers=2, run_dir="run", step_timeout_s=0.3, on_fault="cut") as pool:
        pool.reset(seed=0)
        for step in range(40):
            actions = np.zeros(4, int)
            if step in (10, 20, 30):
                actions[step // 10] = step // 10
            pool.step(actions)
    done = ninelives("doctor", "run")
    assert done.code == 1
    assert done.err == ""
    source = (here / "game.py").read_text().splitlines()
    blamed = source.index("        time.sleep(1000)") + 1
    for part in (
        "game:Game: 4 slots, 2 workers",
        "slot 1 hung in step, once",
        f"game.py:{blamed} in wait_forever",
        "raise step_timeout_s above 0.3 s",
        "slot 2 raised ValueError: no such tile",
        "slot 3 was killed by SIGSEGV during step, once",
        "back after",
        "3 problems found",
    ):
        assert part in done.out


@pytest.mark.usefixtures("good_run")
def test_a_good_run_is_good(ninelives):
    done = ninelives("doctor", "run")
    assert (done.code, done.err) == (0, "")
    assert "CartPole-v1: 2 slots, 1 worker" in done.out
    assert "nothing was lost" in done.out


def test_a_run_that_was_cut_off_in_the_middle_of_a_line_is_still_read(ninelives, good_run):
    events = good_run / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-20])
    done = ninelives("doctor", "run")
    assert done.code == 0
    assert "the last line of the event file is incomplete" in done.out
    assert "the run has no recorded end" in done.out


def test_a_pool_that_never_started_is_reported_with_the_line_that_raised(ninelives):
    with pytest.raises(WorkerStartError):
        Pool("game:Unbuildable", 2, workers=1, run_dir="run", start_attempts=1)
    done = ninelives("doctor", "run")
    assert done.code == 1
    assert "the pool never started" in done.out
    assert "KeyError: 'rom'" in done.out
    assert "game.py" in done.out


def test_a_directory_without_a_run_and_a_foreign_file_are_refused(ninelives, here):
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


def test_a_run_of_the_trainer_is_found_in_its_own_directory(ninelives, good_run, here):
    (here / "training").mkdir()
    good_run.rename(here / "training" / "pool")
    done = ninelives("doctor", "training")
    assert done.code == 0
    assert "CartPole-v1: 2 slots" in done.out


def test_a_directory_that_is_not_there_is_called_that(ninelives):
    done = ninelives("doctor", "nowhere")
    assert done.code == 2
    assert "RUN_DIR='nowhere': no such directory" in done.err
