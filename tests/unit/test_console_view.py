"""What a person sees of a pool: counted from events, drawn on a terminal, told in lines elsewhere."""

import io
import sys

import pytest
from rich.console import Console
from watched_views import Time, about, in_lines, ready, workers_up

from ninelives.events import (
    FaultSeen,
    KeeperLost,
    PhaseEntered,
    PoolClosed,
    PoolStarted,
    RestartScheduled,
    SlotQuarantined,
    StackDumped,
    WorkerExited,
    WorkerSpawned,
)
from ninelives.view.console import TELL_EVERY_S, ConsoleView, picture, status_line
from ninelives.view.live_output import NEWS_A_SECOND
from ninelives.view.pool_model import Board


def up(board, workers=2):
    workers_up(board, workers)
    board.note(
        PoolStarted(env="game:make", num_envs=2 * workers, workers=workers, groups=workers, batch_size=2 * workers,
                    start_method="fork", native=True, on_fault="cut", seconds=0.3, workers_because="asked")
    )  # fmt: skip
    return board


def fault(worker=0, culprit=0):
    return FaultSeen(**about(worker), kind="crashed", phase="step", summary="killed by SIGSEGV", culprit=culprit)


def counts(board):
    return {state: count for state, count in board.slots_by_state().items() if count}


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def lines(clock):
    return in_lines(ConsoleView, clock)


def test_slots_are_starting_until_their_worker_is_ready():
    board = Board()
    board.note(WorkerSpawned(**about(0), started=1, total=2))
    assert counts(board) == {"starting": 2}
    board.note(ready(0))
    assert counts(board) == {"running": 2}


def test_a_crash_shows_its_slots_as_restarting_until_the_next_generation_is_ready():
    board = up(Board())
    board.note(WorkerExited(**about(1), cause="killed by SIGSEGV", expected=False))
    assert counts(board) == {"running": 2, "restarting": 2}
    board.note(WorkerSpawned(**about(1, generation=2), started=2, total=2))
    assert counts(board) == {"running": 2, "restarting": 2}
    board.note(ready(1, generation=2))
    assert counts(board) == {"running": 4}


def test_a_missed_deadline_shows_as_hung_until_the_process_is_gone():
    board = up(Board())
    board.note(StackDumped(**about(0), phase="step", late_s=0.1, stack=""))
    assert counts(board) == {"hung": 2, "running": 2}
    board.note(WorkerExited(**about(0), cause="killed", expected=False))
    assert counts(board) == {"restarting": 2, "running": 2}


def test_a_quarantined_slot_is_counted_as_that_alone():
    board = up(Board())
    board.note(SlotQuarantined(slots=(1,), worker=0, restarts=11, window_s=300))
    assert counts(board) == {"running": 3, "quarantined": 1}


def test_a_lost_keeper_takes_everybody_down():
    board = up(Board())
    board.note(KeeperLost(cause="gone"))
    assert counts(board) == {"restarting": 4}


def test_faults_and_restarts_are_counted():
    board = up(Board())
    board.note(fault())
    board.note(RestartScheduled(**about(0), delay_s=0.0, restarts=1))
    assert (board.faults, board.restarts) == (1, 1)


def test_speed_is_that_of_the_last_seconds_only():
    board = Board()
    for second in range(20):
        board.progress(float(second), 100 * second, None, (), None)
    for second in range(20, 27):
        board.progress(float(second), 1900, None, (), None)
    assert board.steps_per_s == 0.0


def test_time_left_comes_from_speed_and_total_unless_it_is_told():
    board = Board()
    assert board.seconds_left is None
    board.progress(0.0, 0, 1000, (), None)
    board.progress(1.0, 100, 1000, (), None)
    assert board.seconds_left == pytest.approx(9.0)
    board.progress(2.0, 200, 1000, (), 42.0)
    assert board.seconds_left == 42.0


def test_memory_of_a_worker_is_counted_once_however_many_slots_it_has():
    board = Board()
    slots = [{"worker": 0, "rss_bytes": 30_000_000}] * 2 + [{"worker": 1, "rss_bytes": 10_000_000}]
    board.progress(0.0, 1, None, slots, None)
    assert board.memory_bytes == 40_000_000


def test_everybody_who_is_on_the_way_up_is_listed_with_phase_and_time():
    board = Board()
    board.note(WorkerSpawned(**about(2), started=1, total=8))
    board.note(PhaseEntered(**about(2, at_s=1001.0), phase="construct"))
    assert board.starting(1001.4) == ["worker 3/8: construct 0.4 s"]
    board.note(ready(2))
    assert board.starting(1002.0) == []


def test_without_a_terminal_a_start_is_told_in_lines(lines):
    lines.emit(WorkerSpawned(**about(2), started=1, total=8))
    lines.emit(PhaseEntered(**about(2, at_s=1000.1), phase="construct"))
    lines.emit(ready(2, at_s=1000.5))
    lines.emit(ready(2, generation=2, at_s=1009.0))
    assert lines.written() == [
        "worker 3/8: construct 0.4 s, ready after 0.25 s",
        "worker 2: back after 0.25 s",
    ]


def test_lines_about_progress_come_at_a_reader_s_pace(lines, clock):
    up(lines.board)
    for _ in range(1000):
        lines.update(16, 1600)
        clock.now += TELL_EVERY_S / 100
    assert 9 <= len(lines.written()) <= 11


def test_a_status_line_holds_everything(clock):
    board = up(Board())
    board.progress(0.0, 0, 2000, (), None)
    board.progress(1.0, 1000, 2000, [{"worker": 0, "rss_bytes": 33_000_000}], None)
    board.note(fault())
    assert status_line(board) == (
        "slots: 4 running | 1,000 of 2,000 steps, 1,000/s | 1 fault, 0 restarts | 33 MB | 0:01 left"
    )


def test_a_flood_of_faults_becomes_a_few_lines_and_a_number(lines, clock):
    for _ in range(100):
        lines.emit(fault())
    clock.now += 1.0
    lines.emit(fault())
    written = lines.written()
    assert len(written) == NEWS_A_SECOND + 2
    assert written[0] == "slot 0 (worker 0): killed by SIGSEGV"
    assert written[NEWS_A_SECOND] == f"... and {100 - NEWS_A_SECOND} more events"


def test_closing_tells_the_last_state(lines):
    up(lines.board)
    lines.update(160)
    lines.emit(PoolClosed(seconds=0.1, killed=0, steps=160, faults=0))
    with lines:
        pass
    assert lines.written() == ["slots: 4 running | 160 steps, 0/s | 0 faults, 0 restarts"]


def drawn(renderable):
    stream = io.StringIO()
    Console(file=stream, width=100, color_system=None).print(renderable)
    return stream.getvalue()


def test_the_picture_shows_states_numbers_starts_and_news():
    board = up(Board())
    board.note(WorkerExited(**about(1, at_s=1001.0), cause="killed", expected=False))
    board.progress(0.0, 0, 2000, (), None)
    board.progress(1.0, 500, 2000, (), None)
    text = drawn(picture(board, 1001.5, ["slot 2 (worker 1): killed by SIGSEGV"]))
    for part in ("■■■■", "2 running", "2 restarting", "0 hung", "500 steps/s", "0:03 left"):
        assert part in text
    assert "worker 1: waits 0.5 s" in text
    assert "slot 2 (worker 1): killed by SIGSEGV" in text


def test_text_from_environments_is_never_read_as_markup():
    assert "[bold]oops[/nonsense]" in drawn(picture(up(Board()), 1000.0, ["[bold]oops[/nonsense]"]))


def test_on_a_terminal_it_redraws_in_place_and_not_too_often(clock):
    stream = io.StringIO()
    view = ConsoleView(stream, live=True, clock=clock)
    up(view.board)
    for _ in range(100):
        view.update(16)
    assert stream.getvalue().count("4 running") == 1
    clock.now += 1.0
    view.update(32)
    view.close()
    assert stream.getvalue().count("4 running") == 3
    assert "\x1b[1A" in stream.getvalue()  # one line up: drawn over the last picture


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch, clock):
    monkeypatch.setitem(sys.modules, "rich", None)
    stream = io.StringIO()
    view = ConsoleView(stream, live=True, clock=clock)
    view.emit(fault())
    view.close()
    assert stream.getvalue() == "slot 0 (worker 0): killed by SIGSEGV\n"
