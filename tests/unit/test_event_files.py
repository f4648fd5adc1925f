"""The event file has a bound, whole lines, and one message if it cannot be written."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from ninelives import events
from ninelives.cli.diagnosis.event_file import read_events
from ninelives.cli.doctor import run_report
from ninelives.pool.eventlog import IDLE_SAMPLE_NS, SAMPLE_NS, EventLog
from ninelives.pool.metrics import PoolMetrics
from ninelives.testing.fakes import RecordingSink
from ninelives.view.jsonl import JsonlSink
from ninelives.view.words import seconds_in_words

STARTED = events.PoolStarted(
    env="CartPole-v1",
    num_envs=2,
    workers=1,
    groups=1,
    batch_size=2,
    start_method="fork",
    native=True,
    on_fault="heal",
    seconds=0.1,
    workers_because="asked for",
)


def recycled(number):
    return events.WorkerRecycled(reason=f"{number:06d}", worker=0)


def fill(path, lines, largest):
    sink = JsonlSink(path / "events.jsonl", largest)
    sink.emit(STARTED)
    for number in range(lines):
        sink.emit(recycled(number))
    sink.close()


# ---- rotation --------------------------------------------------------------------------------------------------------


def test_the_files_of_a_long_run_stay_within_their_bound(tmp_path):
    fill(tmp_path, 2000, largest=10_000)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["events.jsonl", "events.jsonl.1"]
    assert all(path.stat().st_size <= 10_000 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir()), "private to the user"


def test_the_doctor_reads_both_files_and_how_the_run_began(tmp_path):
    fill(tmp_path, 2000, largest=10_000)
    file = read_events(tmp_path)
    assert (file.unreadable, file.cut_short) == (0, False)
    assert file.events[0] == STARTED
    kept = [int(event.reason) for event in file.events if isinstance(event, events.WorkerRecycled)]
    assert kept == list(range(kept[0], 2000))
    assert len(kept) > 60


def test_the_doctor_says_from_when_on_the_events_of_a_long_run_are_kept(tmp_path, capsys):
    sink, seconds = JsonlSink(tmp_path / "events.jsonl", 10_000), iter(range(100, 2000))
    sink.emit(events.WorkerSpawned(at_s=99.0, worker=0, started=1, total=1))
    sink.emit(replace(STARTED, at_s=100.0))
    while not (tmp_path / "events.jsonl.1").exists():
        sink.emit(replace(recycled(second := next(seconds)), at_s=float(second)))
    run_report(tmp_path)
    assert "older events" not in capsys.readouterr().out
    for second in seconds:
        sink.emit(replace(recycled(second), at_s=float(second)))
    sink.close()
    first = next(event for event in read_events(tmp_path).events if isinstance(event, events.WorkerRecycled))
    run_report(tmp_path)
    since = seconds_in_words(int(first.reason) - 100)
    assert f"the event files begin {since} after the start: older events were replaced" in capsys.readouterr().out


def test_a_run_that_was_killed_during_a_rotation_can_still_be_read(tmp_path):
    fill(tmp_path, 200, largest=10_000)
    (tmp_path / "events.jsonl").unlink()
    assert read_events(tmp_path).events[0] == STARTED


def test_a_line_longer_than_the_file_is_still_written(tmp_path):
    sink = JsonlSink(tmp_path / "events.jsonl", 100)
    for _ in range(3):
        sink.emit(STARTED)
    sink.close()
    assert len(read_events(tmp_path).events) >= 1


# ---- a full disk -----------------------------------------------------------------------------------------------------

FILLS_THE_DISK = """
import resource, sys
from pathlib import Path
from ninelives import events
from ninelives.pool.eventlog import EventLog
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
log = EventLog([])
log.keep_in(Path(sys.argv[1]))
for number in range(200):
    log.emit(events.WorkerRecycled(reason=f"{number:06d}", worker=0))
log.close()
"""


def test_a_file_that_cannot_grow_costs_one_message_and_ends_with_a_whole_line(tmp_path):
    """The limit of the process stands for a full disk: both accept a part of the last line."""
    done = subprocess.run(
        [sys.executable, "-c", FILLS_THE_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.count("\n") == 1
    assert f"cannot be written to {tmp_path}/events.jsonl: File too large. The run goes on" in done.stderr
    text = (tmp_path / "events.jsonl").read_text()
    assert 4500 < len(text) <= 5000
    assert text.endswith("}\n")
    assert [int(json.loads(line)["reason"]) for line in text.splitlines()] == list(range(text.count("\n")))


def test_a_full_device_costs_one_message(tmp_path, capsys):
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    log = EventLog([])
    log.keep_in(tmp_path)
    for number in range(5):
        log.emit(recycled(number))
    log.close()
    assert capsys.readouterr().err.count("No space left on device") == 1


# ---- long texts ------------------------------------------------------------------------------------------------------


def test_a_long_text_keeps_its_beginning_and_its_end():
    text = "begin" + "x" * 10_000_000 + "end"
    event = events.FaultSeen(kind="raised", phase="step", summary="broke", traceback=text, stderr_tail="short")
    assert len(event.traceback) <= events.LONGEST_TEXT
    assert event.traceback.startswith("begin")
    assert event.traceback.endswith("end")
    assert "9,983,688 characters left out" in event.traceback
    assert event.stderr_tail == "short"


@pytest.mark.parametrize("action", [list(range(1_000_000)), {"a": "x" * 1_000_000}, "x" * 1_000_000])
def test_a_long_action_does_not_make_a_long_line(action):
    event = events.FaultSeen(kind="raised", phase="step", summary="broke", last_action=action)
    assert len(event.to_json()) < 2 * events.LONGEST_TEXT


# ---- metrics of idle pools -------------------------------------------------------------------------------------------


class Steps:
    """A pool that has done so many steps."""

    def __init__(self):
        self.steps = 0

    def __call__(self):
        return PoolMetrics(1.0, self.steps, 0.0, 0, ())


def samples_of(log, sink, steps, seconds, start, per_second=0):
    before = len(sink.events)
    for second in range(seconds):
        steps.steps += per_second
        log.sample((start + second) * 10**9, steps)
    return len(sink.events) - before


def test_an_idle_pool_is_sampled_less_often_until_it_steps_again():
    sink, steps = RecordingSink(), Steps()
    log = EventLog([sink])
    assert samples_of(log, sink, steps, 100, 0, per_second=5) == 100 / (SAMPLE_NS / 10**9)
    idle = samples_of(log, sink, steps, 86_400, 100)
    assert idle < 86_400 / (IDLE_SAMPLE_NS / 10**9) + 10
    samples_of(log, sink, steps, 300, 86_500, per_second=5)
    assert samples_of(log, sink, steps, 100, 86_800, per_second=5) == 10
