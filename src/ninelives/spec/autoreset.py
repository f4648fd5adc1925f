"""The three autoreset rules of Gymnasium 1.x, in the one place that knows them.

===========  ==========================================================================================
NEXT_STEP    the row that ends an episode carries its last observation; the next step ignores its action and
             returns the reset observation with reward 0
SAME_STEP    the row that ends an episode already carries the next episode's first observation; the true last
             one is in ``infos["final_obs"]`` with ``infos["final_info"]``
DISABLED     nothing is reset; stepping a finished slot is a usage error
===========  ==========================================================================================
"""

from __future__ import annotations

from enum import IntEnum

from ninelives.errors import ConfigError


class Autoreset(IntEnum):
    """Which rule a pool follows. The numbers are what the native loop sees."""

    NEXT_STEP = 0
    SAME_STEP = 1
    DISABLED = 2

    @classmethod
    def parse(cls, value: object) -> Autoreset:
        """Accept our names, and Gymnasium's ``AutoresetMode`` with its values such as ``"NextStep"``."""
        if isinstance(value, cls):
            return value
        wanted = str(getattr(value, "value", value)).replace("_", "").replace("-", "").lower()
        for mode in cls:
            if mode.name.replace("_", "").lower() == wanted:
                return mode
        allowed = ", ".join(repr(m.name.lower()) for m in cls)
        raise ConfigError(f"autoreset={value!r} is not known; allowed: {allowed}, or gymnasium.vector.AutoresetMode")

    @property
    def gymnasium_value(self) -> str:
        """The value of the same mode in ``gymnasium.vector.AutoresetMode``."""
        return {0: "NextStep", 1: "SameStep", 2: "Disabled"}[int(self)]
