"""Faults that really happen in emulators, in games that otherwise run normally: which, when, in which slot, how often.

``Natural("cynes_state_byte", When("step", at=5, slots=(2,)))`` is a picklable factory that a pool takes as an
environment. The game is one of the included ones, on the emulator that has the fault; it is deterministic and can be
saved like any other. With ``when=None`` it never fails: the run to compare with. The faults are in ``native_misuse``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from ninelives import sims
from ninelives.errors import EmulatorError, UsageError
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.libretro.cores import found_cores
from ninelives.spec.context import SlotContext, current_slot
from ninelives.testing import native_misuse
from ninelives.testing.zoo import When

DATA = Path(sims.__file__).parent / "games" / "data"
ERRAND, LANTERN = DATA / "errand.gba", DATA / "lantern.nes"
FRAME_SKIP = 4
BOOT = (("noop", 30), ("start", 4), ("noop", 30))
"""Past the title, in both games."""

CELLS = {ERRAND: 0x03005000, LANTERN: 0x0000}
"""Address of the 64 bytes of memory that are observed in addition to the screen: the clock, the player, ..."""

OLD_MGBA = "mgba of stable-retro"


@dataclass(frozen=True)
class NaturalFault:
    """One fault and the emulator that has it.

    Attributes:
        rom: the game.
        core: the emulator, as ``open_emulator`` takes it.
        seen: the signal that ends the process, or ``hang``.
        trigger: takes the machine and causes the fault; None: the fault happens during construction.
    """

    rom: Path
    core: str
    seen: str
    trigger: Callable[[Any], None] | None


FAULTS: Mapping[str, NaturalFault] = {
    "cynes_state_byte": NaturalFault(LANTERN, "cynes", "SIGSEGV", native_misuse.cynes_state_byte),
    "fceumm_state_length": NaturalFault(LANTERN, "fceumm", "hang", native_misuse.fceumm_state_length),
    "old_mgba_state_byte": NaturalFault(ERRAND, OLD_MGBA, "hang", native_misuse.old_mgba_state_byte),
    "run_after_unload": NaturalFault(ERRAND, "mgba", "SIGSEGV", native_misuse.run_after_unload),
    "stale_memory_view": NaturalFault(ERRAND, "mgba", "SIGSEGV", native_misuse.stale_memory_view),
    "dropped_picture": NaturalFault(ERRAND, "bindings:mgba", "SIGSEGV", native_misuse.dropped_picture),
    "rewritten_save_file": NaturalFault(ERRAND, "bindings:mgba", "SIGBUS", native_misuse.rewritten_save_file),
    "unread_log": NaturalFault(ERRAND, "bindings:mgba", "hang", native_misuse.unread_log),
    "endless_constructor": NaturalFault(LANTERN, "nes_py", "hang", None),
}
"""Each is described in ``docs/natural_faults.md``."""


@dataclass(frozen=True)
class Natural:
    """A factory of games that fail: ``fault`` is a name in ``FAULTS``.

    ``endless_constructor`` fails in phase ``construct``, all others in ``step`` or ``reset``.
    """

    fault: str
    when: When | None = field(default_factory=When)

    def __post_init__(self) -> None:
        if self.fault not in FAULTS:
            raise ValueError(f"fault={self.fault!r} is not known; allowed: {', '.join(FAULTS)}")
        allowed = ("step", "reset") if FAULTS[self.fault].trigger else ("construct",)
        if self.when is not None and self.when.phase not in allowed:
            raise ValueError(f"phase={self.when.phase!r}: {self.fault} happens in {' or '.join(allowed)}")

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Build an environment, or fail."""
        if FAULTS[self.fault].trigger:
            return NaturalEnv(self)
        return native_misuse.game_with_start_screen(LANTERN, is_endless=has_come(self.when, "construct", 1, _place()))


class NaturalEnv(EmulatorEnv):
    """One of the included games, until it fails."""

    def __init__(self, plan: Natural) -> None:
        self._fault, self._when, self._place = FAULTS[plan.fault], plan.when, _place()
        self._counts = {"reset": 0, "step": 0}
        super().__init__(
            self._fault.rom,
            core=core_of(self._fault),
            frame_skip=FRAME_SKIP,
            memory={"cells": {"address": CELLS[self._fault.rom], "count": 64}},
            observe=("cells",),
            boot=BOOT,
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, or fail."""
        self._fail_if_due("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step, or fail."""
        self._fail_if_due("step")
        return super().step(action)

    def _fail_if_due(self, phase: str) -> None:
        self._counts[phase] += 1
        if self._fault.trigger and has_come(self._when, phase, self._counts[phase], self._place):
            self._fault.trigger(self.machine)


def core_of(fault: NaturalFault) -> str:
    """The name or file of the fault's emulator; EmulatorError if it is not installed."""
    if fault.core != OLD_MGBA:
        return fault.core
    old = [core.path for core in found_cores() if core.name == "mgba" and core.source == "stable-retro"]
    if not old:
        raise EmulatorError("the mGBA core of stable-retro is not installed: pip install 'ninelives[cores]'")
    return str(old[0])


def missing(fault: str) -> str | None:
    """Why a fault cannot be reproduced on this machine; None if it can."""
    try:
        Natural(fault, None)().close()
    except EmulatorError as error:
        return str(error)
    return None


def has_come(when: When | None, phase: str, count: int, place: SlotContext | None) -> bool:
    """Whether to fail now."""
    return when is not None and when.has_come(phase, count, place)


def _place() -> SlotContext | None:
    try:
        return current_slot()
    except UsageError:
        return None
