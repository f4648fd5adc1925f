"""Asks an environment's terms at every step: what it is rewarded, whether it is over. Keeps what they remember.

Terms come from the user, shared by every copy of the environment in a process; each tally has copies of its own.
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
    """Some terms, in order."""

    def __init__(self, key: str, terms: Sequence[AnyTerm]) -> None:
        _check(key, terms)
        self._key = key
        try:
            self._terms = [copy.deepcopy(term) for term in terms]
        except Exception as error:
            raise ConfigError(f"{key}: a term cannot be copied for this slot: {error}") from error
        self.names = [name_of(term, f"term_{number}") for number, term in enumerate(self._terms)]
        self._with_memory = {name: term for name, term in zip(self.names, self._terms, strict=True) if remembers(term)}
        self._refuse_twins(key)

    def _refuse_twins(self, key: str) -> None:
        twins = [name for name, count in Counter(self.names).items() if count > 1]
        if twins:
            raise ConfigError(
                f"{key}: two terms are called {twins[0]!r}; give one another name: term.named('...'), or of a function "
                "total(function, name='...') of ninelives.sims.emulators.rewards"
            )

    @property
    def fields(self) -> set[str]:
        """Names of the fields that the terms say they read."""
        return {name for term in self._terms for name in getattr(term, "fields", ())}

    def check(self, ram: Ram) -> None:
        """Refuse terms of fields that they cannot be of, by a first look at memory."""
        for term in self._terms:
            if isinstance(term, Term):
                try:
                    term.check(ram)
                except ConfigError as error:
                    raise ConfigError(f"{self._key}: {error}") from None

    def values(self, before: Ram, after: Ram) -> list[Any]:
        """What every term says of this step."""
        # A comprehension is a call of its own, in every step, and often there are no terms.
        return [term(before, after) for term in self._terms] if self._terms else []

    def any(self, before: Ram, after: Ram) -> bool:
        """Whether one of the terms is not zero. All are asked, for they may remember."""
        return any(self.values(before, after))

    def reset(self) -> None:
        """An episode begins."""
        for term in self._with_memory.values():
            term.reset()  # type: ignore[attr-defined]

    def save(self) -> dict[str, Any]:
        """What the terms remember, by name: it stays as it is while they go on."""
        return {name: _own(term.save()) for name, term in self._with_memory.items()}  # type: ignore[attr-defined]

    def load(self, saved: Mapping[str, Any]) -> None:
        """Remember this."""
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
            raise ConfigError(f"{key}: {term!r} is no term; allowed: functions of (before, after), see sims.rewards")


def _own(saved: Any) -> Any:
    """The same in lists, dicts and arrays of its own. Looks at types first: most of it never changes."""
    if type(saved) in _FIXED:
        return saved
    if isinstance(saved, dict):
        return {key: value if type(value) in _FIXED else _own(value) for key, value in saved.items()}
    if isinstance(saved, list | tuple):
        return [value if type(value) in _FIXED else _own(value) for value in saved]
    return saved.copy() if isinstance(saved, np.ndarray) else saved


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
