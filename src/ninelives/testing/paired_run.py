"""Two pools with the same seeds and actions, stepped side by side, and the first row in which they differ.

One may be disturbed as one likes, the other must not be. No row is kept longer than the slower of the two needs.
"""

from __future__ import annotations

import copy
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ninelives.spec.arrays import leaves, tree_of
from ninelives.testing.kill_plan import Murderer
from ninelives.testing.row_diff import Row, first_unlike, rows_of

if TYPE_CHECKING:
    from ninelives.pool.pool import Pool

ROWS_AFTER = 2
"""Rows that every slot must show after the last murder, so that its recovery is compared too."""

TELL_EVERY_S = 0.1
"""Time between two words about the progress."""


@dataclass(frozen=True)
class Difference:
    """A valid row that is not what the twin's is. ``step`` counts the slot's rows; 0 is the first reset's."""

    step: int
    slot: int
    what: str
    expected: Any
    got: Any
    after_fault: bool

    def __str__(self) -> str:
        return f"slot {self.slot}, step {self.step}, {self.what}: expected {self.expected!r}, got {self.got!r}"


class Side:
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
        """The first rows of all slots."""
        return rows_of(self.pool.reset(seed=seed), self._node)

    def send(self, slots: Iterable[int]) -> None:
        """Give each of these slots its next action."""
        chosen = list(slots)
        self.in_flight.update(chosen)
        self.pool.send(self._batch([self._spaces[slot].sample() for slot in chosen]), chosen)

    def take(self) -> list[Row]:
        """The next rows that are ready; a finished slot that is not reset by itself is reset here."""
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


class Course:
    """Steps both sides in step with each other and has every pair of rows compared."""

    def __init__(self, victim: Side, twin: Side, murderer: Murderer, comparison: Comparison) -> None:
        self._victim, self._twin, self._murderer, self.comparison = victim, twin, murderer, comparison
        self._twins_rows: dict[int, deque[Row]] = {slot: deque() for slot in range(victim.pool.num_envs)}
        self._rows_since = Counter(dict.fromkeys(self._twins_rows, 0))
        self.steps = 0

    def run(self, steps: int, seed: int, tell: Callable[[], None]) -> None:
        """Until the steps are made, every murder is delivered and recovered from, or nothing is left to compare."""
        self._murderer.reach(0)
        self._keep(self._twin.begin(seed))
        slots = self._compare(self._victim.begin(seed))
        batch, told = 0, time.monotonic()
        while (self.steps < steps or not self._is_settled) and self.comparison.goes_on:
            self._victim.send(slots)
            self._twin.send(slots)
            self._murderer.reach(batch)
            all_delivered = self._murderer.is_done
            slots = self._compare(self._victim.take())
            self._murderer.saw(slots)
            self._rows_since.update(slots if all_delivered else ())
            self.steps, batch = self.steps + len(slots), batch + 1
            if time.monotonic() - told >= TELL_EVERY_S:
                told = time.monotonic()
                tell()
        tell()

    @property
    def _is_settled(self) -> bool:
        return self._murderer.is_done and min(self._rows_since.values()) >= ROWS_AFTER

    def _compare(self, rows: list[Row]) -> list[int]:
        """Compare these rows with the twin's; returns whose they are, each slot once."""
        slots = list(dict.fromkeys(row.slot for row in rows))
        while not self._twin.in_flight.isdisjoint(slots):
            self._keep(self._twin.take())
        for row in rows:
            waiting = self._twins_rows[row.slot]
            self.comparison.see(waiting.popleft() if waiting else None, row)
        for slot in self.comparison.parted.intersection(slots):
            self._twins_rows[slot].clear()  # it goes its own way: nothing of it is compared any more
        return slots

    def _keep(self, rows: list[Row]) -> None:
        for row in rows:
            self._twins_rows[row.slot].append(row)


class Comparison:
    """Judges pairs of rows, slot by slot, until a slot's first difference or cut row: from there on the two part."""

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
        """Judge one more row of a slot."""
        slot, step = got.slot, self._rows[got.slot]
        self._rows[slot] += 1
        self.cut_rows += not got.is_valid
        if not got.is_valid:
            self.parted.add(slot)
        if slot in self.parted:
            return
        assert expected is not None, f"slot {slot}: the twin has no row {step}"
        self.compared_rows += 1
        unlike = first_unlike(expected, got, self._ignored)
        if unlike is not None:
            self.parted.add(slot)
            told = Difference(step, slot, unlike.what, unlike.expected, unlike.got, slot in self._broken)
            self.first_difference = self.first_difference or told
