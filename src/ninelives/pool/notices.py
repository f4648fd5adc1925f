"""Warns the user of what only events and masked rows would tell.

That is lost episodes, each quarantine, and an environment whose reset is not complete.

Notices are collected while faults are dealt with and given when all is settled, because a warning may be an error
(``python -W error``): the pool can go on after it. Decides nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import ninelives
from ninelives.errors import Fault, NinelivesWarning

PACKAGE = str(Path(ninelives.__file__).parent)


class Notices:
    """What the user of one pool is still to be told; ``run_dir``: where its events are kept, None if nowhere."""

    def __init__(self, run_dir: Path | None) -> None:
        if run_dir is None:
            self._next = "To see why, pass run_dir=... and run `ninelives doctor RUN_DIR`"
        else:
            self._next = f"`ninelives doctor {run_dir}` says why"
        self._texts: list[str] = []
        self._has_lost = self._has_told_of_reset = False

    def lost(self, slot: int, fault: Fault) -> None:
        """A slot lost its episode by a fault. Only the first one gives a warning: there may be thousands."""
        if self._has_lost:
            return
        self._has_lost = True
        tried = f" (tried: {fault.tried})" if fault.tried else ""
        self._texts.append(
            f"slot {slot} lost its episode: {_first_line(fault.summary)}{tried}. The row is masked (valid=False) and a "
            f"new episode begins; further losses give no warning. {self._next}"
        )

    def used_differs(self) -> None:
        """The pool has found that a used environment differs from a new one."""
        if self._has_told_of_reset:
            return
        self._has_told_of_reset = True
        self._texts.append(
            "a used environment differs from a new one: reset() leaves something of earlier episodes, so slots that "
            "have played more than one cannot be healed exactly. Faults cut their episodes from now on (valid=False); "
            "use fresh_env_every_episode=True. `ninelives check ENV` shows the difference"
        )

    def quarantined(self, slot: int, fault: Fault | None) -> None:
        """A slot broke too often and has no environment any more."""
        last = "" if fault is None else f"; the last fault: {_first_line(fault.summary)}"
        self._texts.append(
            f"slot {slot} is quarantined: it broke too often{last}. All its rows are masked (valid=False) from now on; "
            f"fix the environment, or raise max_restarts_per_slot. {self._next}"
        )

    def begin_anew(self, lost: Mapping[int, str]) -> None:
        """Slots of a resumed pool are not where they were; ``lost`` says why."""
        for why in dict.fromkeys(lost.values()):
            slots = [str(slot) for slot in lost if lost[slot] == why]
            begin = "slots {} begin new episodes" if len(slots) > 1 else "slot {} begins a new episode"
            self._texts.append(
                f"{begin.format(', '.join(slots))} in the resumed run: {why}. The rows before are masked (valid=False)"
            )

    def give(self) -> None:
        """Warn, at the line of the user's program that called the pool."""
        texts, self._texts = self._texts, []
        for text in texts:
            warnings.warn(text, NinelivesWarning, stacklevel=_levels_up())


def _first_line(text: str) -> str:
    return text.splitlines()[0].rstrip(".") if text else "no reason is known"


def _levels_up() -> int:
    """The stack level, for the caller of this function, of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
