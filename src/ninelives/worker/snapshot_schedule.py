"""When a slot's snapshots are taken: often enough to keep replays short, seldom enough to cost next to nothing."""

from __future__ import annotations

import math
import time
from typing import Any

from ninelives.spec.phase import Attention
from ninelives.transport.control import Control
from ninelives.transport.mailbox import STATE, Mailbox
from ninelives.worker.snapshots import Snapshotter

SHARE = 0.01
"""Snapshots may cost at most this share of the time spent in steps."""

GROWTH = 4
"""How much longer one interval may be than the one before: a single slow save, like the first, proves little."""


def interval(every: int, save_ns: float, step_ns: float, before: int) -> int:
    """Steps between two snapshots: ``every``, or more where saving is slow and steps are fast."""
    return min(max(every, math.ceil(save_ns / (SHARE * max(step_ns, 1.0)))), GROWTH * before)


class SnapshotSchedule:
    """Takes snapshots of one environment and adapts their interval to their cost."""

    def __init__(self, env: Any, every: int) -> None:
        self.snapshotter = Snapshotter.of(env)
        self._every = self._interval = every
        self._save_ns = 0.0

    @property
    def first_interval(self) -> int:
        """How many steps until the first snapshot of a slot; zero: never."""
        return self._every if self.snapshotter is not None else 0

    def save(self) -> bytes | None:
        """A snapshot, or None where the environment offers none."""
        return None if self.snapshotter is None else self.snapshotter.save()

    def publish(self, slot: int, control: Control, mail: Mailbox) -> int:
        """Take the snapshot that is due, put it into the slot's mailbox, and set the next one; returns attention."""
        began = time.thread_time_ns()  # not wall time: on busy cores that counts other processes too
        state = self.save()
        if state is not None:
            control.state_length[slot] = control.running_length[slot]
            control.state_total[slot] = control.running_return[slot]
            control.state_bytes[slot] = mail.put_bytes(slot, STATE, state)
        self.add_cost(time.thread_time_ns() - began)
        control.saved_at[slot] = control.running_length[slot]
        control.save_every[slot] = self.next_interval(int(control.steps[slot]), int(control.step_ns[slot]))
        return Attention.NONE if state is None else Attention.STATE

    def add_cost(self, save_ns: int) -> None:
        """Processor time that a snapshot took until it was published."""
        # The first save imports and warms up: a mean that forgets lets the interval become short again.
        self._save_ns = save_ns if not self._save_ns else 0.7 * self._save_ns + 0.3 * save_ns

    def next_interval(self, steps: int, step_ns: int) -> int:
        """How many steps until the next snapshot, from what saving and stepping have cost so far."""
        self._interval = interval(self._every, self._save_ns, step_ns / max(steps, 1), self._interval)
        return self._interval
