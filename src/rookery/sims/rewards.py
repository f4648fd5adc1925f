"""Rewards and ends as small terms of what memory held before and after a step. Terms add up and nest.

A term is a function ``(before, after) -> number``; any function of yours will do. Those here have a name, may be scaled
(``0.1 * gained("score")``), negated, added and clipped, and the ones with a memory of their own give it to snapshots.
As an end a term counts if it is not zero.
"""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.sims.memory_map import Ram

Value = float | bool


class Term(abc.ABC):
    """A named function of two moments.

    A subclass with a memory of its own has ``reset``, called as an episode begins, and ``save`` and ``load``: what is
    saved is made of numbers, texts, bytes, lists, dicts and arrays; tuples come back as lists.
    """

    def __init__(self, name: str, fields: Sequence[str] = ()) -> None:
        self.name = name
        self.fields = tuple(fields)

    @abc.abstractmethod
    def __call__(self, before: Ram, after: Ram) -> Value:
        """The term's value for one step."""

    def reset(self) -> None:  # noqa: B027 (most terms remember nothing)
        """An episode begins."""

    def save(self) -> Any:
        """What is remembered; None for nothing."""
        return None

    def load(self, saved: Any) -> None:  # noqa: B027 (the same)
        """Remember what was saved."""

    def named(self, name: str) -> Term:
        """The same term by another name."""
        return _Made(name, (self,), lambda values: values[0])

    def clipped(self, low: float, high: float) -> Term:
        """Not below ``low`` and not above ``high``."""
        return _Made(self.name, (self,), lambda values: min(max(values[0], low), high))

    def __mul__(self, factor: float) -> Term:
        return _Made(self.name, (self,), lambda values: values[0] * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Term:
        return self * -1.0

    def __add__(self, other: Term) -> Term:
        return total(self, other)


class _Made(Term):
    """A term made of others, all of which are asked at every step."""

    def __init__(self, name: str, parts: Sequence[Term], join: Callable[[list[Any]], Value]) -> None:
        super().__init__(name, [field for part in parts for field in part.fields])
        self._parts, self._join = tuple(parts), join

    def __call__(self, before: Ram, after: Ram) -> Value:
        return self._join([part(before, after) for part in self._parts])

    def reset(self) -> None:
        for part in self._parts:
            part.reset()

    def save(self) -> Any:
        saved = [part.save() for part in self._parts]
        return saved if any(one is not None for one in saved) else None

    def load(self, saved: Any) -> None:
        for part, one in zip(self._parts, saved, strict=True):
            if one is not None:
                part.load(one)


class _Function(Term):
    """A function without memory."""

    def __init__(self, name: str, function: Callable[[Ram, Ram], Value], fields: Sequence[str] = ()) -> None:
        super().__init__(name, fields)
        self._function = function

    def __call__(self, before: Ram, after: Ram) -> Value:
        return self._function(before, after)


# ---- of one field ---------------------------------------------------------------------------------------------------


def delta(field: str, wrap: int | None = None) -> Term:
    """How much the field has grown; ``wrap``: it begins again at zero there, as a byte does at 256."""
    if wrap is None:
        return _Function(f"delta_{field}", lambda before, after: after[field] - before[field], [field])
    half = wrap // 2
    turn = lambda before, after: (after[field] - before[field] + half) % wrap - half  # noqa: E731
    return _Function(f"delta_{field}", turn, [field])


def gained(field: str) -> Term:
    """How much the field has grown, zero if it has shrunk."""
    return _Function(f"gained_{field}", lambda before, after: max(after[field] - before[field], 0), [field])


def lost(field: str) -> Term:
    """How much the field has shrunk, zero if it has grown."""
    return _Function(f"lost_{field}", lambda before, after: max(before[field] - after[field], 0), [field])


def changed(field: str) -> Term:
    """One if the field is not what it was; also for arrays."""
    return _Function(f"changed_{field}", lambda before, after: not np.array_equal(before[field], after[field]), [field])


def reached(field: str, value: float) -> Term:
    """One in the step that takes the field from below ``value`` to it or beyond."""
    return _Function(f"reached_{field}", lambda before, after: before[field] < value <= after[field], [field])


def equals(field: str, *values: int) -> Term:
    """One as long as the field has one of these values."""
    return _Function(f"equals_{field}", lambda before, after: after[field] in values, [field])


def flag(field: str, bit: int | None = None) -> Term:
    """One in the step that sets the field, or one bit of it, which was zero before."""
    mask = -1 if bit is None else 1 << bit
    name = f"flag_{field}" if bit is None else f"flag_{field}_{bit}"
    return _Function(name, lambda before, after: bool(after[field] & mask) and not before[field] & mask, [field])


# ---- of all or none -------------------------------------------------------------------------------------------------


def per_step(amount: float = 1.0) -> Term:
    """The same every step."""
    return _Function("per_step", lambda before, after: amount)


def scaled(term: Term, factor: float) -> Term:
    """``factor * term``."""
    return term * factor


def clipped(term: Term, low: float, high: float) -> Term:
    """``term.clipped(low, high)``."""
    return term.clipped(low, high)


def weighted(terms: Mapping[str, Term], weights: Mapping[str, float], others: Mapping[str, float] | None) -> list[Term]:
    """Every term times its weight, by its name; ``others`` replace some weights, and 0 leaves a term out.

    Raises:
        ConfigError: a weight for something that is no term.
    """
    chosen = {**weights, **(others or {})}
    if unknown := sorted(set(chosen) - set(weights)):
        raise ConfigError(f"weights: there is no {unknown[0]!r}; allowed: {', '.join(weights)}")
    return [(weight * terms[name]).named(name) for name, weight in chosen.items() if weight]


def total(*terms: Term, name: str | None = None) -> Term:
    """Several terms as one."""
    return _Made(name or "+".join(term.name for term in terms), terms, sum)


# ---- with a memory of their own -------------------------------------------------------------------------------------


class explored(Term):
    """One for every combination of the fields that this episode has not seen yet. Where it begins is seen."""

    def __init__(self, *fields: str, name: str | None = None) -> None:
        if not fields:
            raise ConfigError("explored() needs the names of the fields that make a place, like 'map', 'x', 'y'")
        super().__init__(name or f"explored_{'_'.join(fields)}", fields)
        self._seen: set[tuple[int, ...]] = set()
        self._order = array("q")

    def __call__(self, before: Ram, after: Ram) -> Value:
        """One if this place is new."""
        if not self._seen:
            self._note(before)
        return self._note(after)

    def _note(self, ram: Ram) -> bool:
        place = tuple([ram[field] for field in self.fields])
        if place in self._seen:
            return False
        self._seen.add(place)
        self._order.extend(place)
        return True

    def reset(self) -> None:
        """Nothing is seen."""
        self._seen, self._order = set(), array("q")

    def save(self) -> bytes:
        """The places, in the order they were seen."""
        return self._order.tobytes()

    def load(self, saved: bytes) -> None:
        """These places are seen."""
        self._order = array("q", saved)
        width = len(self.fields)
        self._seen = {tuple(self._order[i : i + width]) for i in range(0, len(self._order), width)}


class progress(Term):
    """How far the field is beyond its best of this episode: going back and forth earns nothing."""

    def __init__(self, field: str) -> None:
        super().__init__(f"progress_{field}", [field])
        self._best: float | None = None

    def __call__(self, before: Ram, after: Ram) -> Value:
        """The new part of the way."""
        (field,) = self.fields
        best = before[field] if self._best is None else self._best
        self._best = max(best, after[field])
        return self._best - best

    def reset(self) -> None:
        """There is no best."""
        self._best = None

    def save(self) -> list[float | None]:
        """The best so far."""
        return [self._best]

    def load(self, saved: list[float | None]) -> None:
        """This was the best so far."""
        (self._best,) = saved


class stagnation(Term):
    """One from the step on at which the field has not beaten its best for ``steps`` steps, until it does."""

    def __init__(self, field: str, steps: int) -> None:
        if type(steps) is not int or steps < 1:
            raise ConfigError(f"stagnation: steps={steps!r} must be a whole number above zero")
        super().__init__(f"stagnation_{field}", [field])
        self._steps = steps
        self._best: float | None = None
        self._waited = 0

    def __call__(self, before: Ram, after: Ram) -> Value:
        """Whether it has waited long enough."""
        (field,) = self.fields
        best = before[field] if self._best is None else self._best
        self._waited = 0 if after[field] > best else self._waited + 1
        self._best = max(best, after[field])
        return self._waited >= self._steps

    def reset(self) -> None:
        """There is no best, and no time has passed."""
        self._best, self._waited = None, 0

    def save(self) -> list[float | None]:
        """The best so far and the steps since."""
        return [self._best, self._waited]

    def load(self, saved: list[Any]) -> None:
        """These were the best and the steps since."""
        self._best, self._waited = saved
