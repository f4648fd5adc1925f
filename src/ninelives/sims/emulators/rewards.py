"""Rewards and ends as terms: functions of the memory before and after a step. Terms can be added and nested.

A term is a function ``(before, after) -> number``; any function of yours can be one, also as part of a sum. The terms
here have a name, can be scaled (``0.1 * gained("score")``), negated, added, subtracted and clipped, and those with a
memory are part of snapshots. As an end, a term counts if it is not zero.
"""

from __future__ import annotations

import abc
import math
import numbers
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ninelives.errors import ConfigError
from ninelives.sims.emulators.memory_map import Ram

Value = float | bool
AnyTerm = Callable[[Ram, Ram], Any]

_MEMORY = ("reset", "save", "load")
_MOST_BITS = 64


class Term(abc.ABC):
    """A named function of the memory before and after a step.

    A subclass with a memory defines ``reset``, called when an episode starts, and ``save`` and ``load``: the saved
    value consists of numbers, strings, bytes, lists, dicts and arrays; tuples come back as lists.
    """

    def __init__(self, name: str, fields: Sequence[str] = ()) -> None:
        self.name = name
        self.fields = tuple(fields)

    @abc.abstractmethod
    def __call__(self, before: Ram, after: Ram) -> Value:
        """The term's value for one step."""

    def reset(self) -> None:  # noqa: B027 (most terms have no memory)
        """Start an episode."""

    def save(self) -> Any:
        """The term's memory; None if it has none."""
        return None

    def load(self, saved: Any) -> None:  # noqa: B027 (the same)
        """Restore the term's memory."""

    def check(self, ram: Ram) -> None:  # noqa: B027 (the same)
        """Reject fields that the term cannot use, by their current values.

        Raises:
            ConfigError: with the names of the term and the field.
        """

    def named(self, name: str) -> Term:
        """The same term with another name."""
        return _Combined(name, (self,), lambda values: values[0])

    def clipped(self, low: float, high: float) -> Term:
        """The same term, limited to ``low`` and ``high``."""
        return _Combined(self.name, (self,), lambda values: min(max(values[0], low), high))

    def __mul__(self, factor: float) -> Term:
        _check_number(f"{self.name} * ", factor)
        return _Combined(self.name, (self,), lambda values: values[0] * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Term:
        _check_number(f"{self.name} / ", divisor)
        if not divisor:
            raise ConfigError(f"{self.name} / {divisor!r}: a term cannot be divided by zero")
        return _Combined(self.name, (self,), lambda values: values[0] / divisor)

    def __neg__(self) -> Term:
        return self * -1.0

    def __add__(self, other: AnyTerm) -> Term:
        return total(self, other)

    def __radd__(self, other: AnyTerm | Literal[0]) -> Term:
        return self if isinstance(other, int) and not other else total(other, self)

    def __sub__(self, other: AnyTerm) -> Term:
        taken = term_of(other)
        return total(self, -taken, name=f"{self.name}-{taken.name}")


class _Combined(Term):
    """A term made of others, all of which are evaluated at every step."""

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

    def check(self, ram: Ram) -> None:
        for part in self._parts:
            part.check(ram)


class _Function(Term):
    """A term without memory."""

    def __init__(self, name: str, function: Callable[[Ram, Ram], Value], fields: Sequence[str] = ()) -> None:
        super().__init__(name, fields)
        self._function = function

    def __call__(self, before: Ram, after: Ram) -> Value:
        return self._function(before, after)


class _OfNumber(_Function):
    """A term of one field that is a single number."""

    def check(self, ram: Ram) -> None:
        _check_fields(self, ram)


class _Remembering(_Function):
    """A user's function that has a memory."""

    def __init__(self, function: Any) -> None:
        super().__init__(name_of(function, "lambda"), function, getattr(function, "fields", ()))
        self.reset, self.save, self.load = function.reset, function.save, function.load  # type: ignore[method-assign]


def term_of(function: AnyTerm) -> Term:
    """Convert any function ``(before, after)`` to a term.

    Raises:
        ConfigError: it is not a function, or has only some of ``reset``, ``save`` and ``load``.
    """
    if isinstance(function, Term):
        return function
    if not callable(function):
        raise ConfigError(f"{function!r} is not a term; allowed: functions of (before, after), see sims.rewards")
    return _Remembering(function) if remembers(function) else _Function(name_of(function, "lambda"), function)


def name_of(term: AnyTerm, unnamed: str) -> str:
    """The name of a term or function; ``unnamed`` for a lambda."""
    name = getattr(term, "name", None) or getattr(term, "__name__", type(term).__name__)
    return unnamed if name == "<lambda>" else str(name)


def remembers(term: AnyTerm) -> bool:
    """Whether a term has a memory.

    Raises:
        ConfigError: it has only some of ``reset``, ``save`` and ``load``.
    """
    offered = [name for name in _MEMORY if callable(getattr(term, name, None))]
    if offered and len(offered) < len(_MEMORY):
        raise ConfigError(f"term {term!r} has {offered[0]}() but not all of reset(), save() and load()")
    return bool(offered)


def _check_number(before: str, value: Any) -> None:
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        shown = f"the term {value.name}" if isinstance(value, Term) else repr(value)
        raise ConfigError(f"{before}{shown} must be a number")


def _check_fields(term: Term, ram: Ram, *, whole: bool = False) -> None:
    for field in term.fields:
        if shape := np.shape(ram[field]):
            raise ConfigError(f"{term.name}: {field!r} is an array of shape {shape}; allowed: a field of one number")
        if whole and isinstance(ram[field], float | np.floating):
            raise ConfigError(f"{term.name}: {field!r} is {ram[field]!r}; allowed: a field of whole numbers")


# ---- of one field ---------------------------------------------------------------------------------------------------


def delta(field: str, wrap: int | None = None) -> Term:
    """The change of the field; ``wrap``: the value at which it wraps to zero, such as 256 for a byte."""
    if wrap is None:
        return _OfNumber(f"delta_{field}", lambda before, after: after[field] - before[field], [field])
    if type(wrap) is not int or wrap < 2:
        raise ConfigError(f"delta: wrap={wrap!r} must be a whole number above one, or None")
    half = wrap // 2
    turn = lambda before, after: (after[field] - before[field] + half) % wrap - half  # noqa: E731
    return _OfNumber(f"delta_{field}", turn, [field])


def gained(field: str) -> Term:
    """The increase of the field; zero if it decreased."""
    return _OfNumber(f"gained_{field}", lambda before, after: max(after[field] - before[field], 0), [field])


def lost(field: str) -> Term:
    """The decrease of the field; zero if it increased."""
    return _OfNumber(f"lost_{field}", lambda before, after: max(before[field] - after[field], 0), [field])


def changed(field: str) -> Term:
    """One if the field has changed; also for arrays."""
    return _Function(f"changed_{field}", lambda before, after: not np.array_equal(before[field], after[field]), [field])


def reached(field: str, value: float) -> Term:
    """One in the step in which the field goes from below ``value`` to ``value`` or above."""
    return _OfNumber(f"reached_{field}", lambda before, after: before[field] < value <= after[field], [field])


def equals(field: str, *values: int) -> Term:
    """One while the field has one of these values."""
    return _OfNumber(f"equals_{field}", lambda before, after: after[field] in values, [field])


def flag(field: str, bit: int | None = None) -> Term:
    """One in the step in which the field, or one bit of it, changes from zero."""
    if bit is not None and (type(bit) is not int or not 0 <= bit < _MOST_BITS):
        raise ConfigError(f"flag: bit={bit!r} must be a whole number from 0 to {_MOST_BITS - 1}, or None")
    mask = -1 if bit is None else 1 << bit
    name = f"flag_{field}" if bit is None else f"flag_{field}_{bit}"
    return _OfNumber(name, lambda before, after: bool(after[field] & mask) and not before[field] & mask, [field])


# ---- of no field, or of other terms ---------------------------------------------------------------------------------


def per_step(amount: float = 1.0) -> Term:
    """The same amount in every step."""
    return _Function("per_step", lambda before, after: amount)


def scaled(term: Term, factor: float) -> Term:
    """``factor * term``."""
    return term * factor


def clipped(term: Term, low: float, high: float) -> Term:
    """``term.clipped(low, high)``."""
    return term.clipped(low, high)


def weighted(terms: Mapping[str, Term], weights: Mapping[str, float], others: Mapping[str, float] | None) -> list[Term]:
    """Every term times its weight, by name; ``others`` replaces some weights, and 0 omits a term.

    Raises:
        ConfigError: a weight for an unknown term, or one that is not a number.
    """
    if others is not None and not isinstance(others, Mapping):
        raise ConfigError(f"weights={others!r} must map names to numbers; allowed: {', '.join(weights)}")
    chosen = {**weights, **(others or {})}
    if unknown := sorted(set(chosen) - set(weights)):
        raise ConfigError(f"weights: there is no {unknown[0]!r}; allowed: {', '.join(weights)}")
    for name, weight in chosen.items():
        _check_number(f"weights: {name}=", weight)
    return [(weight * terms[name]).named(name) for name, weight in chosen.items() if weight]


def total(*terms: AnyTerm, name: str | None = None) -> Term:
    """The sum of several terms, or one function with another name."""
    if not terms:
        raise ConfigError("total() needs at least one term")
    parts = [term_of(term) for term in terms]
    return _Combined(name or "+".join(part.name for part in parts), parts, sum)


# ---- with a memory --------------------------------------------------------------------------------------------------


class explored(Term):
    """One for every combination of the fields that is new in this episode. The first position counts as seen."""

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

    def check(self, ram: Ram) -> None:
        """The fields must be integers."""
        _check_fields(self, ram, whole=True)

    def _note(self, ram: Ram) -> bool:
        place = tuple([ram[field] for field in self.fields])
        if place in self._seen:
            return False
        self._seen.add(place)
        self._order.extend(place)
        return True

    def reset(self) -> None:
        """Forget all places."""
        self._seen, self._order = set(), array("q")

    def save(self) -> bytes:
        """The places, in the order they were seen."""
        return self._order.tobytes()

    def load(self, saved: bytes) -> None:
        """Restore the places."""
        self._order = array("q", saved)
        width = len(self.fields)
        self._seen = {tuple(self._order[i : i + width]) for i in range(0, len(self._order), width)}


class progress(Term):
    """The increase of the field beyond its best value of this episode: going back and forth earns nothing."""

    def __init__(self, field: str) -> None:
        super().__init__(f"progress_{field}", [field])
        self._best: float | None = None

    def __call__(self, before: Ram, after: Ram) -> Value:
        """The increase of the best value."""
        (field,) = self.fields
        best = before[field] if self._best is None else self._best
        self._best = max(best, after[field])
        return self._best - best

    def check(self, ram: Ram) -> None:
        """The best of numbers only."""
        _check_fields(self, ram)

    def reset(self) -> None:
        """Forget the best value."""
        self._best = None

    def save(self) -> list[float | None]:
        """The best value."""
        return [self._best]

    def load(self, saved: list[float | None]) -> None:
        """Restore the best value."""
        (self._best,) = saved


class stagnation(Term):
    """One once the field has not exceeded its best value for ``steps`` steps, until it does."""

    def __init__(self, field: str, steps: int) -> None:
        if type(steps) is not int or steps < 1:
            raise ConfigError(f"stagnation: steps={steps!r} must be a whole number above zero")
        super().__init__(f"stagnation_{field}", [field])
        self._steps = steps
        self._best: float | None = None
        self._waited = 0

    def __call__(self, before: Ram, after: Ram) -> Value:
        """Whether the field has stagnated for long enough."""
        (field,) = self.fields
        best = before[field] if self._best is None else self._best
        self._waited = 0 if after[field] > best else self._waited + 1
        self._best = max(best, after[field])
        return self._waited >= self._steps

    def check(self, ram: Ram) -> None:
        """The best of numbers only."""
        _check_fields(self, ram)

    def reset(self) -> None:
        """Forget the best value and the steps since."""
        self._best, self._waited = None, 0

    def save(self) -> list[float | None]:
        """The best value and the steps since."""
        return [self._best, self._waited]

    def load(self, saved: list[Any]) -> None:
        """Restore the best value and the steps since."""
        self._best, self._waited = saved
