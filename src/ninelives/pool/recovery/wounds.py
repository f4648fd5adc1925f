"""Whether a slot that broke is healed once more, or its episode is cut. Pure.

A slot that breaks twice at the same step, by its own doing, holds a poison: the same action would kill it for ever. A
slot that was only there when its worker was killed from outside is given more chances. A worker that dies before it
has come as far as the episode says nothing about it: how often it may start again is the restart budget's to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ninelives.errors import Fault

OWN_LIMIT = 2
"""The second time the same step breaks the environment is the last: one replay, then cut."""

OUTSIDE_LIMIT = 6
"""Kills from outside that may hit one and the same step."""

OUTSIDE_SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
"""Nobody sends these to himself; the kernel's own SIGKILL, when memory is short, comes from outside too."""

EPISODE_PHASES = ("step", "reset", "restore")
"""Phases in which an episode is played, so that it can be to blame."""


@dataclass
class Wound:
    """What one slot suffered at one place of one episode."""

    place: tuple[int, int]
    since_ns: int
    fault: Fault | None
    own: int = 0
    outside: int = 0
    skip_snapshots: int = 0
    tried: str = ""


@dataclass
class Wounds:
    """The wounds of all slots that are being healed, and the last ones of those that were."""

    _by_slot: dict[int, Wound] = field(default_factory=dict)

    def suffer(self, slot: int, place: tuple[int, int], fault: Fault | None, now_ns: int) -> Wound:
        """The slot lost its environment at this place, by a fault or (None) on purpose."""
        wound = self._by_slot.get(slot)
        if wound is None or wound.place != place:
            wound = self._by_slot[slot] = Wound(place, now_ns, fault)
        if fault is not None:
            wound.fault = fault
            if is_own(fault, slot):
                wound.own += 1
            elif fault.phase in EPISODE_PHASES:
                wound.outside += 1
        return wound

    def of(self, slot: int) -> Wound | None:
        """The slot's last wound."""
        return self._by_slot.get(slot)

    def forget(self, slot: int) -> None:
        """The slot's episode is over or cut."""
        self._by_slot.pop(slot, None)


def is_own(fault: Fault, slot: int) -> bool:
    """Whether the environment of this slot did it."""
    return fault.culprit == slot and fault.phase in EPISODE_PHASES and fault.signal not in OUTSIDE_SIGNALS


def verdict(wound: Wound) -> str:
    """Empty: heal. Otherwise why not: ``poison``, or ``gave_up``."""
    if wound.own >= OWN_LIMIT:
        return "poison"
    return "gave_up" if wound.outside >= OUTSIDE_LIMIT else ""
