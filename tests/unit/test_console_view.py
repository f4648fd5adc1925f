"""What a person sees of a pool: counted from events, drawn on a terminal, printed as lines elsewhere."""

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
from ninelives.view.console import STATUS_EVERY_S, ConsoleView
from ninelives.view.live_output import EVENTS_PER_SECOND
from ninelives.view.pool_model import PoolModel
from ninelives.view.pool_panel import panel, status_line


def up(model, workers=2):
    workers_up(model, workers)
    model.note(
        PoolStarted(env="game:make", num_envs=2 * workers, workers=workers, groups=workers, batch_size=2 * workers,
                    start_method="fork", native=True, on_fault="cut", seconds=0.3, workers_because="asked")
    )  # fmt: skip
    return model


def fault(worker=0, culprit=0):
    return FaultSeen(**about(worker), kind="crashed", phase="step", summary="killed by SIGSEGV", culprit=culprit)


def counts(model):
    return {state: count for state, count in model.slots_by_state().items() if count}


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def lines(clock):
    return in_lines(ConsoleView, clock)


def test_slots_are_starting_until_their_worker_is_ready():
    model = PoolModel()
    model.note(WorkerSpawned(**about(0), started=1, total=2))
    assert counts(model) == {"starting": 2}
    model.note(ready(0))
    assert counts(model) == {"running": 2}


def test_a_crash_shows_its_slots_as_restarting_until_the_next_generation_is_ready():
    model = up(PoolModel())
    model.note(WorkerExited(**about(1), cause="killed by SIGSEGV", expected=False))
    assert counts(model) == {"running": 2, "restarting": 2}
    model.note(WorkerSpawned(**about(1, generation=2), started=2, total=2))
    assert counts(model) == {"running": 2, "restarting": 2}
    model.note(ready(1, generation=2))
    assert counts(model) == {"running": 4}


def test_a_missed_deadline_shows_as_hung_until_the_process_is_gone():
    model = up(PoolModel())
    model.note(StackDumped(**about(0), phase="step", late_s=0.1, stack=""))
    assert counts(model) == {"hung": 2, "running": 2}
    model.note(WorkerExited(**about(0), cause="killed", expected=False))
    assert counts(model) == {"restarting": 2, "running": 2}


def test_a_quarantined_slot_is_counted_as_that_alone():
    model = up(PoolModel())
    model.note(SlotQuarantined(slots=(1,), worker=0, restarts=11, window_s=300))
    assert counts(model) == {"running": 3, "quarantined": 1}


def test_a_lost_keeper_takes_all_workers_down():
    model = up(PoolModel())
    model.note(KeeperLost(cause="gone"))
    assert counts(model) == {"restarting": 4}


def test_faults_and_restarts_are_counted():
    model = up(PoolModel())
    model.note(fault())
    model.note(RestartScheduled(**about(0), delay_s=0.0, restarts=1))
    assert (model.faults, model.restarts) == (1, 1)


def test_speed_is_that_of_the_last_seconds_only():
    model = PoolModel()
    for second in range(20):
        model.progress(float(second), 100 * second, None, (), None)
    for second in range(20, 27):
        model.progress(float(second), 1900, None, (), None)
    assert model.steps_per_s == 0.0


def test_time_left_comes_from_speed_and_total_unless_it_is_given():
    model = PoolModel()
    assert model.seconds_left is None
    model.progress(0.0, 0, 1000, (), None)
    model.progress(1.0, 100, 1000, (), None)
    assert model.seconds_left == pytest.approx(9.0)
    model.progress(2.0, 200, 1000, (), 42.0)
    assert model.seconds_left == 42.0


def test_memory_of_a_worker_is_counted_once_however_many_slots_it_has():
    model = PoolModel()
    slots = [{"worker": 0, "rss_bytes": 30_000_000}] * 2 + [{"worker": 1, "rss_bytes": 10_000_000}]
    model.progress(0.0, 1, None, slots, None)
    assert model.memory_bytes == 40_000_000


def test_every_worker_that_is_starting_is_listed_with_phase_and_time():
    model = PoolModel()
    model.note(WorkerSpawned(**about(2), started=1, total=8))
    model.note(PhaseEntered(**about(2, at_s=1001.0), phase="construct"))
    assert model.starting(1001.4) == ["worker 3/8: construct 0.4 s"]
    model.note(ready(2))
    assert model.starting(1002.0) == []


def test_without_a_terminal_a_start_is_printed_as_lines(lines):
    lines.emit(WorkerSpawned(**about(2), started=1, total=8))
    lines.emit(PhaseEntered(**about(2, at_s=1000.1), phase="construct"))
    lines.emit(ready(2, at_s=1000.5, total=8))
    lines.emit(ready(2, generation=2, at_s=1009.0))
    assert lines.written() == [
        "worker 3/8: construct 0.4 s, ready after 0.25 s",
        "worker 2: back after 0.25 s",
    ]


def test_lines_about_progress_come_at_a_reader_s_pace(lines, clock):
    up(lines.model)
    for _ in range(1000):
        lines.update(16, 1600)
        clock.now += STATUS_EVERY_S / 100
    assert 9 <= len(lines.written()) <= 11


def test_a_status_line_holds_everything(clock):
    model = up(PoolModel())
    model.progress(0.0, 0, 2000, (), None)
    model.progress(1.0, 1000, 2000, [{"worker": 0, "rss_bytes": 33_000_000}], None)
    model.note(fault())
    assert status_line(model) == (
        "slots: 4 running | 1,000 of 2,000 steps, 1,000/s | 1 fault, 0 restarts | 33 MB | 0:01 left"
    )


def test_a_flood_of_faults_becomes_a_few_lines_and_a_number(lines, clock):
    for _ in range(100):
        lines.emit(fault())
    clock.now += 1.0
    lines.emit(fault())
    written = lines.written()
    assert len(written) == EVENTS_PER_SECOND + 2
    assert written[0] == "slot 0 (worker 0): killed by SIGSEGV"
    assert written[EVENTS_PER_SECOND] == f"... and {100 - EVENTS_PER_SECOND} more events"


def test_closing_prints_the_last_state(lines):
    up(lines.model)
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
    model = up(PoolModel())
    model.note(WorkerExited(**about(1, at_s=1001.0), cause="killed", expected=False))
    model.progress(0.0, 0, 2000, (), None)
    model.progress(1.0, 500, 2000, (), None)
    text = drawn(panel(model, 1001.5, ["slot 2 (worker 1): killed by SIGSEGV"]))
    for part in ("■■■■", "2 running", "2 restarting", "0 hung", "500 steps/s", "0:03 left"):
        assert part in text
    assert "worker 1: waiting 0.5 s" in text
    assert "slot 2 (worker 1): killed by SIGSEGV" in text


def test_text_from_environments_is_never_read_as_markup():
    assert "[bold]oops[/nonsense]" in drawn(panel(up(PoolModel()), 1000.0, ["[bold]oops[/nonsense]"]))


def test_on_a_terminal_it_redraws_in_place_and_not_too_often(clock):
    stream = io.StringIO()
    view = ConsoleView(stream, live=True, clock=clock)
    up(view.model)
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
