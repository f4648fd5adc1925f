"""One finding of ``ninelives doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a finding is; a problem makes the exit code 1."""

    PROBLEM = 0
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True)
class Finding:
    """What happened, the facts behind it, and what to change."""

    severity: Severity
    title: str
    details: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
