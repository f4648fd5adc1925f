"""Brings one slot back by replay, and tells the parent in the control segment what became of it.

Knows nothing of requests and rows: the slot decides when, and what to do if it did not work.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

from ninelives.spec.phase import Phase
from ninelives.spec.restore import Beginning, Outcome, Restore
from ninelives.transport.control import Control
from ninelives.worker import calls
from ninelives.worker.progress import Stamp
from ninelives.worker.replay import DiffersError, Replay


def bring_back(slot: int, control: Control, replay: Replay, order: Restore, beginning: Beginning) -> Outcome:
    """Replay; the slot's counters of the running episode are as they were then."""
    try:
        arrived = replay.run(order, beginning)
    except DiffersError as error:
        control.restored_steps[slot] = error.step
        return Outcome.DIFFERS
    except Exception:
        traceback.print_exc()
        return Outcome.FAILED
    control.running_return[slot], control.running_length[slot] = arrived.total, arrived.length
    control.saved_at[slot], control.ended[slot] = beginning.length, arrived.over
    return Outcome.RESTORED


def watched(slot: int, control: Control, stamp: Stamp, timeout_s: float) -> Callable[[int], None]:
    """After each replayed step: show how far we are, count the step's deadline anew, mind the whole's."""
    end = time.monotonic() + timeout_s

    def progress(step: int) -> None:
        control.restored_steps[slot] = step
        stamp.enter(Phase.RESTORE, slot)
        if time.monotonic() > end:
            raise TimeoutError(f"the replay took more than restore_timeout_s={timeout_s:g}")

    return progress


def repeat_calls(env: Any, order: Restore) -> None:
    """The environment is new and has no episode: only what was called and set counts."""
    for _, request in order.calls:
        calls.answer(env, request)
