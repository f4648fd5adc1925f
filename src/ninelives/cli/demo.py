"""``ninelives demo``: trains for two minutes, kills one of its own workers half way, and shows what was learned."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ninelives.cli.reporting.demo_report import Teller
from ninelives.errors import ConfigError, WorkerStartError
from ninelives.train.config.classes import NormaliseConfig, PpoConfig, TrainConfig

if TYPE_CHECKING:
    from ninelives.cli.reporting.demo_report import Tale

FOREVER = 10**9
"""Steps: the demonstration ends by time."""

ERRAND = TrainConfig(
    env="ninelives/Errand-ram-v0",
    env_kwargs={"goal": "meadow"},
    n_envs=16,
    timesteps=FOREVER,
    ppo=PpoConfig(n_steps=64, learning_rate=1e-3, schedule="constant", gamma=0.97),
    normalise=NormaliseConfig(obs=True),
)
"""Our own GBA game, as its memory shows it: pictures would need more than two minutes on a small machine."""

CARTPOLE = TrainConfig(
    env="CartPole-v1",
    n_envs=16,
    timesteps=FOREVER,
    ppo=PpoConfig(n_steps=64, learning_rate=1e-3, schedule="constant", gamma=0.98, gae_lambda=0.8, entropy=0.0),
)
"""Where no emulator core is installed."""


@dataclass(frozen=True)
class Demo:
    """Train for two minutes, kill one of the workers half way, and show that the run went on and what was learned.

    Plays Rook's Errand, a GBA game of our own; without an emulator core, CartPole.

    For example:
    $ ninelives demo
    $ ninelives demo --seconds 10 --env CartPole-v1
    """

    seconds: float = 120.0
    """How long to train."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ENV", help_behavior_hint="")] = None
    """Another environment: a Gymnasium id like CartPole-v1, or module:factory."""

    visualize: bool = False
    """Show all slots while they play."""

    def run(self) -> int:
        """Train, print the tale, and judge it."""
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds:g} must be greater than zero")
        if importlib.util.find_spec("torch") is None:
            raise ConfigError("the demo trains, and training needs torch: pip install 'ninelives[train]'")
        tale, run_dir = train(replace(self.chosen(), run_dir=new_run_dir(), visualize=self.visualize), self.seconds)
        for line in tale.lines():
            print(line)
        print(f"curve: {draw(tale, run_dir)}")
        return 0 if tale.went_on else 1

    def chosen(self) -> TrainConfig:
        """What is trained on: as asked for, or our own game where it can be played."""
        if self.env is not None:
            known = {config.env: config for config in (ERRAND, CARTPOLE)}
            return known.get(self.env) or replace(CARTPOLE, env=self.env)
        why_not = reason_not_to_play(ERRAND)
        if why_not is None:
            return ERRAND
        print(f"{ERRAND.env} cannot be played here, so the demo trains on {CARTPOLE.env}: {why_not}", file=sys.stderr)
        return CARTPOLE


def reason_not_to_play(config: TrainConfig) -> str | None:
    """Why the environment does not start here, in one line; None if it does."""
    from ninelives.pool.pool import Pool

    try:
        with Pool(config.env_spec, 1, workers=1):
            return None
    except WorkerStartError as error:
        told = error.fault.traceback.strip().splitlines() or [error.fault.summary]
        return told[-1]


def train(config: TrainConfig, seconds: float) -> tuple[Tale, Path]:
    """Train until the time is over, with the display, the logs and the murder."""
    from ninelives.cli.reporting.display import Display
    from ninelives.cli.reporting.run_logs import Reports
    from ninelives.train.run import train as run
    from ninelives.view.progress import ProgressView

    teller = Teller(seconds)
    with ProgressView() as view, Reports() as reports:
        result = run(config, [reports, Display(view, visualize=config.visualize, seconds=seconds), teller])
    if result.stopped and not teller.is_over:
        raise KeyboardInterrupt
    assert result.run_dir is not None
    return teller.tale, result.run_dir


def draw(tale: Tale, run_dir: Path) -> Path:
    """The curve as a picture in the run's directory."""
    from ninelives.view.plot import curve_image, png

    path = run_dir / "curve.png"
    marks = [] if tale.killed_pid is None else [(float(tale.killed_at), "worker killed")]
    path.write_bytes(
        png(curve_image(tale.episodes, tale.curve, "ninelives demo: return of episodes and their mean", marks))
    )
    return path


def new_run_dir() -> Path:
    """A directory that is not there yet."""
    return Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
