"""A call into environments from outside the step: a method, an attribute, a frame, a question about wrappers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERBS = ("call", "get", "set", "render", "is_wrapped", "stand")


@dataclass(frozen=True)
class CallRequest:
    """What to do: ``call`` a method (or read an attribute), ``get`` or ``set`` one, ``render``, or ``is_wrapped``.

    ``stand`` does nothing but what was ordered before; ``save``, which the slot itself answers, takes a snapshot.
    """

    verb: str
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CallResult:
    """The value, or the exception's texts; an error in a call is the caller's and does not cut the episode.

    ``is_read``: nothing was called or set, so nothing can have changed.
    """

    value: Any = None
    error: str = ""
    traceback: str = ""
    refusal: str = ""
    is_read: bool = False
