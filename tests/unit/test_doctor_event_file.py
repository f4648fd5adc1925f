"""Reading a run's event file back, whatever state it is in."""

import pytest

from ninelives.cli.diagnosis.event_file import event_of, read_events
from ninelives.errors import ConfigError
from ninelives.events import FaultSeen, HealFailed, MetricsSampled, PoolClosed, SlotHealed, WorkerReady

READY = WorkerReady(worker=0, slots=(0, 1), generation=1, pid=7, rss_bytes=1000, seconds=0.1, ready=1, total=1)
FAULT = FaultSeen(worker=0, slots=(0, 1), kind="hung", phase="step", summary="hung", last_action={"move": [1, 2]})
SAMPLE = MetricsSampled(steps_per_s=3, per_slot=({"slot": 0, "steps": 5},))
HEALED = SlotHealed(slots=(0,), seconds=0.02, replayed=7, from_step=0)
CANNOT = HealFailed(slots=(1,), reason="cannot", step=7, action=None, detail="its actions are objects")
CLOSED = PoolClosed(seconds=0.1, killed=0, steps=10, faults=1)


def write(path, *events, end=""):
    (path / "events.jsonl").write_text("".join(event.to_json() + "\n" for event in events) + end)
    return path


def test_every_event_comes_back_as_it_was_written(tmp_path):
    file = read_events(write(tmp_path, READY, FAULT, HEALED, CANNOT, SAMPLE, CLOSED))
    assert file.events == (READY, FAULT, HEALED, CANNOT, SAMPLE, CLOSED)
    assert (file.unreadable, file.cut_short) == (0, False)


def test_the_file_itself_may_be_given(tmp_path):
    assert read_events(write(tmp_path, READY) / "events.jsonl").events == (READY,)


def test_a_last_line_cut_short_by_a_kill_loses_only_itself(tmp_path):
    file = read_events(write(tmp_path, READY, FAULT, end=CLOSED.to_json()[:30]))
    assert file.events == (READY, FAULT)
    assert file.cut_short
    assert file.unreadable == 0


def test_lines_that_are_no_events_are_counted_and_passed_over(tmp_path):
    file = read_events(write(tmp_path, READY, end="nonsense\n[1, 2]\n\xff\n" + CLOSED.to_json() + "\n"))
    assert file.events == (READY, CLOSED)
    assert (file.unreadable, file.cut_short) == (3, False)


def test_fields_and_events_of_a_newer_version_are_passed_over():
    assert (
        event_of(b'{"event": "PoolClosed", "seconds": 1, "killed": 0, "steps": 1, "faults": 0, "mood": 3}') is not None
    )
    assert event_of(b'{"event": "MoonRose", "seconds": 1}') is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": "PoolClosed", "seconds": 1}',
        b'{"event": "PoolClosed", "seconds": "1", "killed": 0, "steps": 1, "faults": 0}',
        b'{"event": "WorkerReady", "slots": ["a"], "seconds": 1, "ready": 1, "total": 1}',
        b'{"event": "MetricsSampled", "steps_per_s": 1, "per_slot": [7]}',
        b'{"event": ["PoolClosed"]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_only_looks_like_an_event_is_none(line):
    assert event_of(line) is None


def test_a_directory_without_an_event_file_is_refused_with_the_way_to_get_one(tmp_path):
    with pytest.raises(ConfigError, match=r"contains no events\.jsonl.*run_dir="):
        read_events(tmp_path)
    with pytest.raises(ConfigError, match="no such directory"):
        read_events(tmp_path / "nowhere")


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b"\x7fELF\x00\xff\n{}\n")
    with pytest.raises(ConfigError, match="none of its 2 lines is an event"):
        read_events(tmp_path)


def test_an_empty_event_file_is_refused(tmp_path):
    (tmp_path / "events.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        read_events(tmp_path)
