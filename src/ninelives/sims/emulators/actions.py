"""Actions as names: which buttons are held for which action of the agent. Knows pads, not emulators or games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium

from ninelives.errors import ConfigError, UsageError
from ninelives.sims.emulators.emulator import BUTTONS, pad_of

NOOP = "noop"
"""The name of holding nothing."""

DIRECTIONS = (NOOP, "a", "b", "up", "down", "left", "right")
"""What most games on a pad need."""


def pad_named(name: str, buttons: Sequence[str] = BUTTONS, key: str = "actions") -> int:
    """The pad of ``"right+a"`` or ``"noop"``, for the setting called ``key``.

    Raises:
        ConfigError: a button this machine does not have, or one named twice.
    """
    if name == NOOP:
        return 0
    held = [part.strip() for part in name.split("+")]
    for button in held:
        if button not in buttons:
            allowed = ", ".join(map(repr, (NOOP, *buttons)))
            raise ConfigError(f"{key}: {name!r} names {button!r}; allowed: {allowed}, joined by '+'")
    if len(set(held)) < len(held):
        raise ConfigError(f"{key}: {name!r} names a button twice; allowed: each button once, joined by '+'")
    return pad_of(*held)


class Chosen:
    """One of several named combinations of buttons."""

    def __init__(self, names: Sequence[str], buttons: Sequence[str]) -> None:
        if not isinstance(names, tuple | list) or not names or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"actions={names!r} must be a list of names like ('noop', 'right+a'), or 'buttons'")
        self.names = tuple(names)
        self.space = gymnasium.spaces.Discrete(len(self.names))
        self._pads = [pad_named(name, buttons) for name in self.names]

    def pad(self, action: Any) -> int:
        """What is held for the action with this number."""
        try:
            if 0 <= action < len(self._pads):
                pad: int = self._pads[action]
                return pad
        except (TypeError, ValueError):
            pass  # no whole number
        raise UsageError(f"action {action!r} is not one of the {len(self._pads)} actions: {', '.join(self.names)}")


class Buttons:
    """Every button on its own, held or not."""

    def __init__(self, buttons: Sequence[str]) -> None:
        self.names = tuple(buttons)
        self.space = gymnasium.spaces.MultiBinary(len(self.names))
        self._bits = [pad_of(name) for name in self.names]

    def pad(self, action: Any) -> int:
        """What is held where the action has a one."""
        try:
            return sum(bit for bit, held in zip(self._bits, action, strict=True) if held)
        except (TypeError, ValueError):
            raise UsageError(
                f"action {action!r} must have one number for each button: {', '.join(self.names)}"
            ) from None


Actions = Chosen | Buttons


def actions_of(actions: Sequence[str] | Literal["buttons"], buttons: Sequence[str]) -> Actions:
    """Actions by name, for a machine with these buttons; ``"buttons"``: each button on its own.

    Raises:
        ConfigError: no actions, or one that names an unknown button.
    """
    return Buttons(buttons) if isinstance(actions, str) and actions == "buttons" else Chosen(actions, buttons)
