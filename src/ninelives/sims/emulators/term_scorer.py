"""Evaluates an environment's reward and end terms at every step, and saves and loads their memory.

The user's terms are shared by all environments of a process, so every scorer works on its own copies.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ninelives.errors import CheckpointError, ConfigError
from ninelives.sims.emulators.memory_map import Ram
from ninelives.sims.emulators.rewards import AnyTerm, Term, name_of, remembers

_FIXED = frozenset((bytes, str, bool, int, float, type(None)))


class TermScorer:
    """A list of terms, in order."""

    def __init__(self, key: str, terms: Sequence[AnyTerm]) -> None:
        _check(key, terms)
        self._key = key
        try:
            self._terms = [copy.deepcopy(term) for term in terms]
        except Exception as error:
            raise ConfigError(f"{key}: a term cannot be copied for this slot: {error}") from error
        self.names = [name_of(term, f"term_{number}") for number, term in enumerate(self._terms)]
        self._with_memory = {name: term for name, term in zip(self.names, self._terms, strict=True) if remembers(term)}
        self._check_unique(key)

    def _check_unique(self, key: str) -> None:
        duplicates = [name for name, count in Counter(self.names).items() if count > 1]
        if duplicates:
            raise ConfigError(
                f"{key}: two terms are called {duplicates[0]!r}; rename one: term.named('...'), or for a function "
                "total(function, name='...') of ninelives.sims.emulators.rewards"
            )

    @property
    def fields(self) -> set[str]:
        """Names of the fields that the terms declare to read."""
        return {name for term in self._terms for name in getattr(term, "fields", ())}

    def check(self, ram: Ram) -> None:
        """Reject terms that cannot use their fields, by the values in memory."""
        for term in self._terms:
            if isinstance(term, Term):
                try:
                    term.check(ram)
                except ConfigError as error:
                    raise ConfigError(f"{self._key}: {error}") from None

    def values(self, before: Ram, after: Ram) -> list[Any]:
        """The value of every term for this step."""
        # A comprehension is a function call in every step, and often there are no terms.
        return [term(before, after) for term in self._terms] if self._terms else []

    def any(self, before: Ram, after: Ram) -> bool:
        """Whether any term is not zero. All of them are evaluated, because they may have memory."""
        return any(self.values(before, after))

    def reset(self) -> None:
        """Start an episode."""
        for term in self._with_memory.values():
            term.reset()  # type: ignore[attr-defined]

    def save(self) -> dict[str, Any]:
        """The terms' memory by name, as copies that do not change later."""
        return {name: _own(term.save()) for name, term in self._with_memory.items()}  # type: ignore[attr-defined]

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the terms' memory."""
        if set(saved) != set(self._with_memory):
            raise CheckpointError(f"the snapshot has terms {_list(saved)}, this environment {_list(self._with_memory)}")
        for name, term in self._with_memory.items():
            term.reset()  # type: ignore[attr-defined]
            if saved[name] is not None:
                term.load(saved[name])  # type: ignore[attr-defined]


def _check(key: str, terms: Sequence[AnyTerm]) -> None:
    if callable(terms):
        raise ConfigError(f"{key} must be a list of terms, not one")
    if not isinstance(terms, tuple | list):
        raise ConfigError(f"{key}={terms!r} must be a list of terms; () for none")
    for term in terms:
        if not callable(term):
            raise ConfigError(f"{key}: {term!r} is not a term; allowed: functions of (before, after), see sims.rewards")


def _own(saved: Any) -> Any:
    """A deep copy. Checks types first: most values are immutable."""
    if type(saved) in _FIXED:
        return saved
    if isinstance(saved, dict):
        return {key: value if type(value) in _FIXED else _own(value) for key, value in saved.items()}
    if isinstance(saved, list | tuple):
        return [value if type(value) in _FIXED else _own(value) for value in saved]
    return saved.copy() if isinstance(saved, np.ndarray) else saved


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
