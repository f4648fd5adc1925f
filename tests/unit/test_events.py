import dataclasses
import json
import time

import numpy as np
import pytest

from ninelives import events
from ninelives.clock import SystemClock
from ninelives.events import Event
from ninelives.pool.eventlog import RECENT, EventLog, has_run
from ninelives.testing.fakes import RecordingSink

KINDS = sorted(
    (kind for kind in Event.__subclasses__() if kind.__module__ == events.__name__), key=lambda k: k.__name__
)
SAMPLES = {
    "str": 'two\nlines, "quoted" and \u00fcml\u00e4ut',
    "int": 3,
    "float": 0.25,
    "bool": True,
    "Any": [1, 2.5],
    "tuple[int, ...]": (1, 2),
    "tuple[dict[str, Any], ...]": ({"slot": 0, "steps": 5},),
}


def filled(kind):
    """A record with something in every field."""
    wanted = {field.name: SAMPLES[field.type.removesuffix(" | None")] for field in dataclasses.fields(kind)}
    return kind(**wanted), wanted


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_one_line_that_gives_all_its_facts_back(kind):
    event, facts = filled(kind)
    line = event.to_json()
    assert "\n" not in line
    assert json.loads(line) == json.loads(json.dumps({"event": kind.__name__, **facts}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_events_are_frozen(kind):
    event, _ = filled(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.worker = 9


def test_what_is_not_known_is_left_out():
    facts = json.loads(events.WorkerRecycled(reason="old", worker=1).to_json())
    assert set(facts) == {"event", "at_s", "wall_s", "worker", "slots", "reason"}


@pytest.mark.parametrize("action", [np.int64(3), np.array([1, 2]), object(), {"a": np.float32(1)}])
def test_an_action_of_any_type_does_not_spoil_the_line(action):
    line = events.FaultSeen(kind="raised", phase="step", summary="broke", last_action=action).to_json()
    assert json.loads(line)["summary"] == "broke"


def test_events_know_when_they_happened_on_both_clocks():
    before = time.monotonic(), time.time()
    event = events.WorkerRecycled(reason="old")
    assert before[0] <= event.at_s <= time.monotonic()
    assert before[1] <= event.wall_s <= time.time()


def test_the_system_clock_is_the_monotonic_one_that_processes_share():
    before = time.monotonic_ns()
    now = SystemClock().now_ns()
    assert before <= now <= time.monotonic_ns()


# ---- who hears of them -----------------------------------------------------------------------------------------------


class Deaf:
    def emit(self, event):
        raise OSError("the disk is full")


def test_one_listeners_failure_is_not_the_others(capsys):
    sink = RecordingSink()
    log = EventLog([Deaf(), sink])
    event = events.WorkerRecycled(reason="old")
    log.emit(event)
    assert sink.events == [event]
    assert log.recent == (event,)
    assert "the disk is full" in capsys.readouterr().err


def test_only_the_latest_events_stay_in_memory():
    log = EventLog([])
    for number in range(RECENT + 5):
        log.emit(events.WorkerSpawned(started=number, total=1))
    assert [log.recent[0].started, log.recent[-1].started] == [5, RECENT + 4]


def test_a_run_directory_holds_every_event_also_those_before_it_was_known(tmp_path):
    log = EventLog([])
    log.emit(events.WorkerRecycled(reason="before"))
    assert not has_run(tmp_path)
    log.keep_in(tmp_path)
    log.emit(events.WorkerRecycled(reason="after"))
    log.close()
    assert has_run(tmp_path)
    (file,) = tmp_path.iterdir()
    assert [json.loads(line)["reason"] for line in file.read_text().splitlines()] == ["before", "after"]
    assert file.stat().st_mode & 0o077 == 0, "private to the user"
