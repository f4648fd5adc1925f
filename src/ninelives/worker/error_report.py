"""What a worker says of exceptions and warnings, for its parent: plain texts, for the objects stay in the worker."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium

from ninelives.errors import NinelivesError, NinelivesWarning
from ninelives.spec.phase import Phase

FOR_PEOPLE = (NinelivesError, gymnasium.error.UnregisteredEnv, gymnasium.error.DependencyNotInstalled)
"""Exceptions whose message tells a user what to do; where they were raised does not matter to him."""


def last_words(error: BaseException | None, phase: Phase) -> dict[str, str]:
    """A summary, the traceback, the phase; and as ``refusal`` the message alone, where that says it all."""
    words = {
        "summary": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error)),
        "phase": phase.name.lower(),
    }
    return words | {"refusal": str(error)} if isinstance(error, FOR_PEOPLE) else words


@contextmanager
def heard() -> Iterator[list[str]]:
    """Warnings of this package meanwhile: nobody reads a worker's log. All others go there as they always do.

    Filters stay as they are set inside: an environment that silences warnings means to silence them for good.
    """
    texts: list[str] = []
    show = warnings.showwarning

    def hear(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NinelivesWarning):
            texts.append(str(message))
        show(message, category, *where, **more)

    warnings.simplefilter("always", NinelivesWarning)
    warnings.showwarning = hear
    try:
        yield texts
    finally:
        if warnings.showwarning is hear:
            warnings.showwarning = show
