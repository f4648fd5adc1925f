"""Two pools with the same seeds and actions, stepped side by side, and the first row in which they differ.

The first pool may be disturbed at will, the second must not be. No row is kept longer than the slower pool needs.
"""

from __future__ import annotations

import copy
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ninelives.spec.arrays import leaves, tree_of
from ninelives.testing.row_diff import Row, first_mismatch, rows_of

if TYPE_CHECKING:
    from ninelives.pool.pool import Pool

ROWS_AFTER = 2
"""Rows that every slot must produce after the last fault, so that its recovery is compared too."""

REPORT_EVERY_S = 0.1
"""Time between two reports of progress."""


@dataclass(frozen=True)
class Difference:
    """A valid row that differs from the reference. ``step`` counts the slot's rows; 0 is the first reset."""

    step: int
    slot: int
    what: str
    expected: Any
    got: Any
    after_fault: bool

    def __str__(self) -> str:
        return f"slot {self.slot}, step {self.step}, {self.what}: expected {self.expected!r}, got {self.got!r}"


class PairedPool:
    """One of the two pools, fed with each slot's own stream of random actions."""

    def __init__(self, pool: Pool, seed: int, is_disabled: bool) -> None:
        self.pool, self._is_disabled = pool, is_disabled
        self._node = tree_of(pool.observation_space)
        self._spaces = [copy.deepcopy(pool.action_space) for _ in range(pool.num_envs)]
        for slot, space in enumerate(self._spaces):
            space.seed(int(np.random.SeedSequence([seed, slot]).generate_state(1)[0]))
        self.in_flight: set[int] = set()
        self._by_mail = any(leaf.dtype is None for leaf in leaves(tree_of(pool.action_space)))

    def begin(self, seed: int) -> list[Row]:
        """Reset every slot and return the first rows."""
        return rows_of(self.pool.reset(seed=seed), self._node)

    def send(self, slots: Iterable[int]) -> None:
        """Send each of these slots its next action."""
        chosen = list(slots)
        self.in_flight.update(chosen)
        self.pool.send(self._batch([self._spaces[slot].sample() for slot in chosen]), chosen)

    def receive(self) -> list[Row]:
        """The next rows that are ready; with autoreset disabled, finished slots are reset here."""
        rows = rows_of(self.pool.recv(), self._node)
        self.in_flight.difference_update(row.slot for row in rows)
        over = [row.slot for row in rows if row.is_last] if self._is_disabled else []
        return [*rows, *rows_of(self.pool.reset(slots=over), self._node)] if over else rows

    def _batch(self, actions: list[Any]) -> Any:
        from gymnasium.vector.utils import concatenate, create_empty_array

        if self._by_mail:
            return actions
        space = self.pool.action_space
        room: Any = create_empty_array(space, len(actions))
        return concatenate(space, actions, room)


class Disturbance(Protocol):
    """What breaks workers of the first pool while both step."""

    @property
    def is_done(self) -> bool:
        """Whether no further fault will be injected."""

    def reach(self, batch: int) -> None:
        """Record that batch number ``batch`` was sent."""

    def saw(self, slots: Iterable[int]) -> None:
        """Record that each of these slots has produced a row."""


class PairedRun:
    """Steps both pools together and compares every pair of rows."""

    def __init__(
        self, disturbed: PairedPool, reference: PairedPool, disturbance: Disturbance, comparison: Comparison
    ) -> None:
        self._disturbed, self._reference = disturbed, reference
        self._disturbance, self.comparison = disturbance, comparison
        self._reference_rows: dict[int, deque[Row]] = {slot: deque() for slot in range(disturbed.pool.num_envs)}
        self._rows_since = Counter(dict.fromkeys(self._reference_rows, 0))
        self.steps = 0

    def run(self, steps: int, seed: int, report: Callable[[], None]) -> None:
        """Run until the steps are done and every fault was injected and recovered from, or nothing can be compared."""
        self._disturbance.reach(0)
        self._keep(self._reference.begin(seed))
        slots = self._compare(self._disturbed.begin(seed))
        batch, reported = 0, time.monotonic()
        while (self.steps < steps or not self._is_settled) and self.comparison.goes_on:
            self._disturbed.send(slots)
            self._reference.send(slots)
            self._disturbance.reach(batch)
            all_delivered = self._disturbance.is_done
            slots = self._compare(self._disturbed.receive())
            self._disturbance.saw(slots)
            self._rows_since.update(slots if all_delivered else ())
            self.steps, batch = self.steps + len(slots), batch + 1
            if time.monotonic() - reported >= REPORT_EVERY_S:
                reported = time.monotonic()
                report()
        report()

    @property
    def _is_settled(self) -> bool:
        return self._disturbance.is_done and min(self._rows_since.values()) >= ROWS_AFTER

    def _compare(self, rows: list[Row]) -> list[int]:
        """Compare these rows with the reference; returns their slots, each once."""
        slots = list(dict.fromkeys(row.slot for row in rows))
        while not self._reference.in_flight.isdisjoint(slots):
            self._keep(self._reference.receive())
        for row in rows:
            waiting = self._reference_rows[row.slot]
            self.comparison.see(waiting.popleft() if waiting else None, row)
        for slot in self.comparison.parted.intersection(slots):
            self._reference_rows[slot].clear()  # this slot is not compared any more
        return slots

    def _keep(self, rows: list[Row]) -> None:
        for row in rows:
            self._reference_rows[row.slot].append(row)


class Comparison:
    """Compares pairs of rows, slot by slot, until a slot's first difference or cut row; the slot has parted then."""

    def __init__(self, slots: int, ignored: tuple[str, ...], broken: set[int]) -> None:
        self._slots, self._ignored, self._broken = slots, ignored, broken
        self._rows: Counter[int] = Counter()
        self.parted: set[int] = set()
        self.compared_rows = self.cut_rows = 0
        self.first_difference: Difference | None = None

    @property
    def goes_on(self) -> bool:
        """Whether any slot is still compared."""
        return len(self.parted) < self._slots

    def see(self, expected: Row | None, got: Row) -> None:
        """Compare the next row of a slot."""
        slot, step = got.slot, self._rows[got.slot]
        self._rows[slot] += 1
        self.cut_rows += not got.is_valid
        if not got.is_valid:
            self.parted.add(slot)
        if slot in self.parted:
            return
        assert expected is not None, f"slot {slot}: the reference has no row {step}"
        self.compared_rows += 1
        mismatch = first_mismatch(expected, got, self._ignored)
        if mismatch is not None:
            self.parted.add(slot)
            found = Difference(step, slot, mismatch.what, mismatch.expected, mismatch.got, slot in self._broken)
            self.first_difference = self.first_difference or found
