"""Reports of faults contain the facts."""

import signal
from pathlib import Path

import pytest

from ninelives.pool.workers import postmortem
from ninelives.pool.workers.postmortem import Scene
from ninelives.spec.phase import Phase
from ninelives.supervise.exits import Ending

TRACEBACK = 'Traceback (most recent call last):\n  File "nest.py", line 3, in step\nValueError: no eggs\n'
WORDS = {"summary": "ValueError: no eggs", "phase": "step", "traceback": TRACEBACK}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "worker-2.log"
    path.write_text("of an older generation\nloading the ROM\nlast line\n")
    return path


@pytest.fixture
def scene(log):
    return scene_at(log)


def scene_at(log, phase=Phase.STEP, stays=True):
    start = log.read_text().index("loading") if log.exists() else 0
    return Scene(
        worker=2, generation=5, pid=4711, slots=(4, 5), culprit=5, phase=phase, seed=77, last_action=3, log=log,
        log_from=start, log_stays=stays,
    )  # fmt: skip


def test_a_crash_tells_signal_phase_slot_seed_action_and_the_logs_end(scene, log):
    fault = postmortem.crashed(scene, Ending.of(signal.SIGSEGV), rss_bytes=1, limit_bytes=100)
    assert (fault.kind, fault.signal, fault.exit_code) == ("crashed", "SIGSEGV", None)
    text = fault.describe()
    for fact in ("slot 5", "worker 2", "generation 5", "pid 4711", "killed by SIGSEGV during step", "seed: 77",
                 "last action: 3", "slots 4-5", "last line", str(log), "memory it does not own"):  # fmt: skip
        assert fact in text
    assert "older generation" not in text


def test_an_exit_tells_its_code(scene):
    fault = postmortem.crashed(scene, Ending.of(7 << 8), 0, 0)
    assert (fault.signal, fault.exit_code) == (None, 7)
    assert "exited by itself with code 7 during step" in fault.describe()


def test_a_hang_tells_how_long_and_which_setting_allows_more(scene):
    fault = postmortem.hung(scene, late_s=0.25, limit_s=30.0)
    assert fault.kind == "hung"
    assert "hung in step for 30.2 s (limit 30 s)" in fault.summary
    assert "step_timeout_s" in fault.advice


def test_a_worker_that_does_not_wake_up_is_not_said_to_hang_in_idle(log):
    fault = postmortem.hung(scene_at(log, Phase.IDLE), late_s=1.0, limit_s=2.0)
    assert "did not answer a request for 3.0 s" in fault.summary
    assert "step_timeout_s" in fault.advice
    assert "idle" not in fault.summary + fault.advice


def test_an_exception_tells_what_and_where_with_its_traceback(scene):
    fault = postmortem.raised("raised", scene, WORDS)
    assert fault.summary == "raised ValueError: no eggs in step"
    assert fault.traceback == TRACEBACK
    assert 'File "nest.py", line 3' in fault.describe()


def test_bad_data_tells_what_is_wrong_and_how_to_accept_it(scene):
    fault = postmortem.raised("bad_data", scene, {**WORDS, "summary": "BadValueError: left: holds NaN"})
    assert "returned bad data: BadValueError: left: holds NaN" in fault.summary
    assert "check='shape'" in fault.advice


def test_the_phase_is_the_one_the_worker_named_since_its_progress_moved_on(log):
    fault = postmortem.raised("raised", scene_at(log, Phase.IDLE), {**WORDS, "phase": "reset"})
    assert fault.phase == "reset"
    assert fault.last_action is None, "an action is told of steps only"


def test_a_worker_that_never_started_tells_how_often_it_was_tried(log):
    scene = scene_at(log, Phase.CONSTRUCT)
    cause = postmortem.crashed(scene, Ending.of(signal.SIGABRT), 0, 0)
    once, thrice = (postmortem.never_started(scene, None, cause, attempts) for attempts in (1, 3))
    assert "never started: killed by SIGABRT during construct" in thrice.summary
    assert (once.tried, thrice.tried) == ("1 start", "3 starts")
    assert (thrice.kind, thrice.signal) == ("start", "SIGABRT")
    assert thrice.advice == cause.advice


def test_the_last_words_of_a_failed_start_are_told_once(log):
    with log.open("a") as more:
        more.write(TRACEBACK)
    words = {"summary": "ImportError: no module", "phase": "import", "traceback": TRACEBACK}
    fault = postmortem.never_started(scene_at(log), words, cause=None, attempts=2)
    assert "never started: ImportError: no module during import" in fault.summary
    assert fault.describe().count("no eggs") == 1
    assert "loading the ROM" in fault.stderr_tail


def test_a_log_that_is_gone_after_a_failed_start_is_not_named(log):
    words = {"summary": "ImportError: no module", "phase": "import", "traceback": TRACEBACK}
    assert postmortem.never_started(scene_at(log, stays=False), words, None, 1).log_path is None
    assert postmortem.never_started(scene_at(log, stays=True), words, None, 1).log_path == str(log)


def test_the_loss_of_the_keeper_is_no_fault_of_the_environment(scene):
    fault = postmortem.lost_with_keeper(scene)
    assert "keeper" in fault.summary
    assert "dmesg" in fault.advice


# ---- the end of a log ------------------------------------------------------------------------------------------------


def test_a_missing_log_is_an_empty_tail():
    assert postmortem.log_tail(Path("no-such-log")) == ""


def test_a_long_log_is_told_by_its_end(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(200_000)))
    tail = postmortem.log_tail(log)
    assert tail.endswith("line 199999")
    assert len(tail) <= postmortem.STACK_BYTES


def test_a_long_stack_is_told_by_its_beginning_where_the_innermost_frame_is(tmp_path):
    log = tmp_path / "log"
    frames = "".join(f'  File "deep.py", line {n} in call\n' for n in range(1000))
    log.write_text("noise\n" * 10_000 + "what led to it\nFatal Python error: Segmentation fault\n" + frames)
    tail = postmortem.log_tail(log)
    assert "what led to it" in tail
    assert "line 0 in call" in tail
    assert "line 999 in call" not in tail


def test_a_log_that_was_emptied_meanwhile_is_read_from_its_start(tmp_path):
    log = tmp_path / "log"
    log.write_text("after the cut\n")
    assert postmortem.log_tail(log, start=1 << 20) == "after the cut"


def test_bytes_that_are_no_text_do_not_spoil_the_report(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"\xff\xfe emulator says \x80\n")
    assert "emulator says" in postmortem.log_tail(log)
