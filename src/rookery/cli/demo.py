"""``rookery demo``: steps 16 environments, kills one of its own workers half way, and shows that the run went on."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.errors import ConfigError
from rookery.view.console import ConsoleView


@dataclass(frozen=True)
class Demo:
    """Step 16 CartPole environments, kill one of the workers half way, and show that the run went on.

    For example:
    $ rookery demo
    $ rookery demo --seconds 3
    """

    seconds: float = 8.0
    """How long to step."""

    def run(self) -> int:
        """Run, print the tale, and judge it."""
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds:g} must be greater than zero")
        from rookery.cli.tale import open_pool, play

        with ConsoleView() as view, open_pool(view) as pool:
            tale = play(pool, self.seconds, view.update)
        for line in tale.lines():
            print(line)
        return 0 if tale.went_on else 1
