"""Named actions: which buttons are held for which action. Knows pads, not emulators or games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium

from ninelives.errors import ConfigError, UsageError
from ninelives.sims.emulators.machine import BUTTONS, pad_of

NOOP = "noop"
"""The action that holds no button."""

DIRECTIONS = (NOOP, "a", "b", "up", "down", "left", "right")
"""Default actions, sufficient for most games."""


def pad_named(name: str, buttons: Sequence[str] = BUTTONS, key: str = "actions") -> int:
    """The bit mask of ``"right+a"`` or ``"noop"``; ``key`` is the setting named in errors.

    Raises:
        ConfigError: a button that this system does not have, or one named twice.
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


class NamedActions:
    """One of several named combinations of buttons."""

    def __init__(self, names: Sequence[str], buttons: Sequence[str]) -> None:
        if not isinstance(names, tuple | list) or not names or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"actions={names!r} must be a list of names like ('noop', 'right+a'), or 'buttons'")
        self.names = tuple(names)
        self.space = gymnasium.spaces.Discrete(len(self.names))
        self._pads = [pad_named(name, buttons) for name in self.names]

    def pad(self, action: Any) -> int:
        """The buttons held for an action, as a bit mask."""
        try:
            if 0 <= action < len(self._pads):
                pad: int = self._pads[action]
                return pad
        except (TypeError, ValueError):
            pass  # not an integer
        raise UsageError(f"action {action!r} is not one of the {len(self._pads)} actions: {', '.join(self.names)}")


class Buttons:
    """Every button separately, held or not."""

    def __init__(self, buttons: Sequence[str]) -> None:
        self.names = tuple(buttons)
        self.space = gymnasium.spaces.MultiBinary(len(self.names))
        self._bits = [pad_of(name) for name in self.names]

    def pad(self, action: Any) -> int:
        """The buttons whose entry in the action is not zero, as a bit mask."""
        try:
            return sum(bit for bit, held in zip(self._bits, action, strict=True) if held)
        except (TypeError, ValueError):
            raise UsageError(
                f"action {action!r} must have one number for each button: {', '.join(self.names)}"
            ) from None


Actions = NamedActions | Buttons


def actions_of(actions: Sequence[str] | Literal["buttons"], buttons: Sequence[str]) -> Actions:
    """The actions with these names, for a pad with these buttons; ``"buttons"``: each button separately.

    Raises:
        ConfigError: there are no actions, or one names an unknown button.
    """
    return Buttons(buttons) if isinstance(actions, str) and actions == "buttons" else NamedActions(actions, buttons)
