"""Asks an environment's terms at every step: what it is rewarded, whether it is over. Keeps what they remember.

Terms come from the user, shared by every copy of the environment in a process; each tally has copies of its own.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rookery.errors import CheckpointError, ConfigError
from rookery.sims.memory_map import Ram

AnyTerm = Callable[[Ram, Ram], Any]
_MEMORY = ("reset", "save", "load")


class Tally:
    """Some terms, in order."""

    def __init__(self, key: str, terms: Sequence[AnyTerm]) -> None:
        if callable(terms):
            raise ConfigError(f"{key} must be a list of terms, not one")
        for term in terms:
            if not callable(term):
                raise ConfigError(
                    f"{key}: {term!r} is no term; allowed: functions of (before, after), see sims.rewards"
                )
        try:
            self._terms = [copy.deepcopy(term) for term in terms]
        except Exception as error:
            raise ConfigError(f"{key}: a term cannot be copied for this slot: {error}") from error
        self.names = [_name(term, number) for number, term in enumerate(self._terms)]
        self._with_memory = {name: term for name, term in zip(self.names, self._terms, strict=True) if _remembers(term)}
        self._refuse_twins(key)

    def _refuse_twins(self, key: str) -> None:
        twins = [name for name, count in Counter(self.names).items() if count > 1]
        if twins:
            raise ConfigError(f"{key}: two terms are called {twins[0]!r}; give one another name: term.named('...')")

    @property
    def fields(self) -> set[str]:
        """Names of the fields that the terms say they read."""
        return {name for term in self._terms for name in getattr(term, "fields", ())}

    def values(self, before: Ram, after: Ram) -> list[Any]:
        """What every term says of this step."""
        return [term(before, after) for term in self._terms]

    def any(self, before: Ram, after: Ram) -> bool:
        """Whether one of the terms is not zero. All are asked, for they may remember."""
        return any(self.values(before, after))

    def reset(self) -> None:
        """An episode begins."""
        for term in self._with_memory.values():
            term.reset()  # type: ignore[attr-defined]

    def save(self) -> dict[str, Any]:
        """What the terms remember, by name."""
        return {name: term.save() for name, term in self._with_memory.items()}  # type: ignore[attr-defined]

    def load(self, saved: Mapping[str, Any]) -> None:
        """Remember this."""
        if set(saved) != set(self._with_memory):
            raise CheckpointError(f"the snapshot has terms {_list(saved)}, this environment {_list(self._with_memory)}")
        for name, term in self._with_memory.items():
            if saved[name] is not None:
                term.load(saved[name])  # type: ignore[attr-defined]


def _remembers(term: AnyTerm) -> bool:
    offered = [name for name in _MEMORY if callable(getattr(term, name, None))]
    if offered and len(offered) < len(_MEMORY):
        raise ConfigError(f"term {term!r} has {offered[0]}() but not all of reset(), save() and load()")
    return bool(offered)


def _name(term: AnyTerm, number: int) -> str:
    name = getattr(term, "name", None) or getattr(term, "__name__", type(term).__name__)
    return f"term_{number}" if name == "<lambda>" else str(name)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
