"""A worker dies after one of its slots has failed: the failure counts once, for its own step, or not at all."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from streams import Streams, of_kind, pool_of, undisturbed

from ninelives.errors import NinelivesWarning
from ninelives.events import FaultSeen, HealFailed, WorkerReady
from ninelives.pool.recovery.healing import OUTSIDE_LIMIT
from ninelives.testing import CountingEnv, RecordingSink
from ninelives.testing.counting import STEP
from ninelives.testing.faults import BREAKS

STEPS, LIVE_STEP, LATER_STEP = 20, 8, 14
LIMIT_S = 30.0


class Planned(CountingEnv):
    """Breaks as a directory plans it: the first file of the slot names a step and a fault, and is removed then."""

    def __init__(self, plan):
        super().__init__()
        self._plan = Path(plan)

    def step(self, action):
        if left := sorted(self._plan.glob(f"{self.slot}-*")):
            _, _, step, fault = left[0].name.split("-")
            if int(step) == self._row[STEP]:
                left[0].unlink()
                return BREAKS[fault](None)
        return super().step(action)


def planned(tmp_path, faults):
    for number, (slot, step, fault) in enumerate(faults):
        (tmp_path / f"{slot}-{number}-{step}-{fault}").touch()
    return partial(Planned, str(tmp_path))


PLANS = {
    "exception": [(0, LIVE_STEP, "raise_error"), (1, LIVE_STEP, "segfault")],
    "replay": [
        (0, LIVE_STEP, "raise_error"), (1, LIVE_STEP, "raise_error"), (0, 3, "raise_error"), (1, 3, "segfault")
    ],
}  # fmt: skip
"""Slot 0 fails, in play or in a replay; slot 1 of the same worker crashes it before slot 0 has answered."""

SEEN = {"exception": ["SIGSEGV", "raised"], "replay": ["raised", "raised", "SIGSEGV", "raised"]}


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("plan", PLANS)
def test_a_failure_that_was_never_answered_is_forgotten_with_its_worker(tmp_path, monkeypatch, plan, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    calm = undisturbed(CountingEnv, STEPS)
    with pool_of(planned(tmp_path, [*PLANS[plan], (2, LATER_STEP, "raise_error")])) as pool:
        streams = Streams(pool)
        streams.step(STEPS)
        assert [fault.signal or fault.kind for fault in of_kind(pool, FaultSeen)] == SEEN[plan]
        assert not of_kind(pool, HealFailed)
    assert not list(tmp_path.iterdir()), "every planned fault has come"
    assert streams.agree_with(calm)


class Waiting(CountingEnv):
    """Slot 0 raises once; slot 1 says that it has stepped after that; slot 2 waits for a word in the same step.

    For each file ``death-*`` slot 1 kills its worker in a replay.
    """

    def __init__(self, place):
        super().__init__()
        self._place = Path(place)

    def step(self, action):
        if self._row[STEP] == LIVE_STEP:
            if self.slot == 0 and not (self._place / "raised").exists():
                (self._place / "raised").touch()
                raise RuntimeError("once")
            if self.slot == 1:
                (self._place / "stepped").touch()
            while self.slot == 2 and not (self._place / "go").exists():
                time.sleep(0.001)
        elif self.slot == 1 and (self._place / "stepped").exists() and (left := list(self._place.glob("death-*"))):
            left[0].unlink()
            BREAKS["kill_self"](None)
        return super().step(action)


def wait_until(holds):
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def is_asleep(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def streams_of_killed(place, generation):
    """The streams of a pool whose first worker is killed after it has answered, while its batch waits for the second.

    The second one answers when the first one is back, in this generation. Also returns all events.
    """
    sink = RecordingSink()
    with pool_of(partial(Waiting, str(place)), sinks=[sink]) as pool:
        first = pool.worker_pids[0]

        def kill_then_go():
            wait_until((place / "stepped").exists)
            wait_until(partial(is_asleep, first))  # it has answered and waits for the next request
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: any(ready.generation == generation for ready in sink.of(WorkerReady)))
            (place / "go").touch()

        killer = threading.Thread(target=kill_then_go)
        killer.start()
        streams = Streams(pool)
        streams.step(STEPS)
        killer.join()
    return streams, sink


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_worker_killed_after_its_answer_comes_back_to_before_the_failed_step(tmp_path, monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    streams, sink = streams_of_killed(tmp_path, generation=2)
    assert [fault.signal or fault.kind for fault in sink.of(FaultSeen)] == ["SIGKILL", "raised"]
    assert not sink.of(HealFailed)
    assert streams.agree_with(undisturbed(CountingEnv, STEPS))


def test_a_failed_step_is_masked_if_its_worker_is_killed_too_often(tmp_path):
    for number in range(OUTSIDE_LIMIT):
        (tmp_path / f"death-{number}").touch()
    with pytest.warns(NinelivesWarning, match="slot [01] lost its episode"):
        streams, sink = streams_of_killed(tmp_path, generation=2 + OUTSIDE_LIMIT)
    assert {(*failed.slots, failed.reason) for failed in sink.of(HealFailed)} == {(0, "gave_up"), (1, "gave_up")}
    assert [fault.kind for fault in sink.of(FaultSeen)].count("raised") == 1, "a lost episode is not stepped again"
    # The failed step of slot 0 is masked, the same step of slot 1 was answered well. They begin anew together.
    assert streams.masked(0) == [LIVE_STEP + 1, LIVE_STEP + 2, LIVE_STEP + 3]
    assert streams.masked(1) == [LIVE_STEP + 2, LIVE_STEP + 3]
    assert streams.agree_with(undisturbed(CountingEnv, STEPS), [2, 3])
