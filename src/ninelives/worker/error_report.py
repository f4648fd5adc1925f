"""Exceptions and warnings of a worker as texts for the parent: the objects themselves stay in the worker."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium

from ninelives.errors import NinelivesError, NinelivesWarning
from ninelives.spec.equal_spaces import DifferentSpacesError
from ninelives.spec.phase import Phase

EXPLAINED = (
    NinelivesError,
    DifferentSpacesError,
    gymnasium.error.UnregisteredEnv,
    gymnasium.error.DependencyNotInstalled,
)
"""Exceptions whose message says what to do; their traceback does not help a user."""


def error_report(error: BaseException | None, phase: Phase) -> dict[str, str]:
    """Summary, traceback and phase; for an explained exception also its message alone, as ``refusal``.

    ``kind`` is there if the pool treats it unlike other failures at a start.
    """
    report = {
        "summary": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error)),
        "phase": phase.name.lower(),
    }
    if isinstance(error, DifferentSpacesError):
        report["kind"] = "spaces"
    return report | {"refusal": str(error)} if isinstance(error, EXPLAINED) else report


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the texts of this package's warnings for the parent, because a worker's log is rarely read.

    All warnings are also shown as usual. Filters that are set inside stay set: an environment that silences warnings
    means to silence them for good.
    """
    texts: list[str] = []
    show = warnings.showwarning

    def collect(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NinelivesWarning):
            texts.append(str(message))
        show(message, category, *where, **more)

    warnings.simplefilter("always", NinelivesWarning)
    warnings.showwarning = collect
    try:
        yield texts
    finally:
        if warnings.showwarning is collect:
            warnings.showwarning = show
