"""``ninelives demo``: trains for two minutes, kills one of its workers halfway, and shows what was learned."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ninelives.cli.reporting.demo_report import DemoCallback
from ninelives.cli.reporting.fault_count import FaultCount
from ninelives.errors import ConfigError, WorkerStartError
from ninelives.train.config.classes import NormaliseConfig, PpoConfig, TrainConfig

if TYPE_CHECKING:
    from ninelives.cli.reporting.demo_report import DemoReport
    from ninelives.train.callbacks import Callback

FOREVER = 10**9
"""Number of steps that is never reached: the demo ends by time."""

ERRAND = TrainConfig(
    env="ninelives/Errand-ram-v0",
    env_kwargs={"goal": "meadow"},
    n_envs=16,
    timesteps=FOREVER,
    ppo=PpoConfig(n_steps=64, learning_rate=1e-3, schedule="constant", gamma=0.97),
    normalise=NormaliseConfig(obs=True),
)
"""Our own GBA game with RAM observations: images would need more than two minutes on a small machine."""

CARTPOLE = TrainConfig(
    env="CartPole-v1",
    n_envs=16,
    timesteps=FOREVER,
    ppo=PpoConfig(n_steps=64, learning_rate=1e-3, schedule="constant", gamma=0.98, gae_lambda=0.8, entropy=0.0),
)
"""Used where no emulator core is installed."""


@dataclass(frozen=True)
class DemoCommand:
    """Train for two minutes, kill a worker halfway, and show that training continued and what was learned.

    Trains on Rook's Errand, a GBA game of our own; without an emulator core, on CartPole.

    For example:
    $ ninelives demo
    $ ninelives demo --seconds 10 --env CartPole-v1
    """

    seconds: float = 120.0
    """Training time in seconds."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ENV", help_behavior_hint="")] = None
    """Train on another environment: a Gymnasium id such as CartPole-v1, or module:factory."""

    visualize: bool = False
    """Show the pictures of all environments."""

    def run(self) -> int:
        """Train and print the report; exit code 1 if the run did not recover."""
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds:g} must be greater than zero")
        missing = [name for name in ("torch", "matplotlib") if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigError(f"the demo needs {' and '.join(missing)}: pip install 'ninelives[train]'")
        config, faults = replace(self.chosen(), run_dir=new_run_dir(), visualize=self.visualize), FaultCount()
        with faults.named_in_errors():
            report, run_dir = train(config, self.seconds, faults)
        for line in report.lines():
            print(line)
        print(f"curve: {draw(report, run_dir)}")
        for line in faults.lines():
            print(line)
        return 0 if report.recovered else 1

    def chosen(self) -> TrainConfig:
        """The run to train: the environment asked for, or our own game where an emulator is installed."""
        if self.env is not None:
            known = {config.env: config for config in (ERRAND, CARTPOLE)}
            return known.get(self.env) or replace(CARTPOLE, env=self.env)
        reason = reason_not_to_start(ERRAND)
        if reason is None:
            return ERRAND
        print(f"{ERRAND.env} does not start here, so the demo trains on {CARTPOLE.env}: {reason}", file=sys.stderr)
        return CARTPOLE


def reason_not_to_start(config: TrainConfig) -> str | None:
    """Why the environment does not start here, in one line; None if it starts."""
    from ninelives.pool.pool import Pool

    try:
        with Pool(config.env_spec, 1, workers=1):
            return None
    except WorkerStartError as error:
        lines = error.fault.traceback.strip().splitlines() or [error.fault.summary]
        return lines[-1]


def train(config: TrainConfig, seconds: float, *more: Callback) -> tuple[DemoReport, Path]:
    """Train until the time is over, with display and logs, and kill a worker halfway."""
    from ninelives.cli.reporting.display import Display
    from ninelives.cli.reporting.run_logs import RunLogger
    from ninelives.train.run import train as run_training
    from ninelives.view.progress import ProgressView

    callback = DemoCallback(seconds)
    with ProgressView() as view, RunLogger() as reports:
        display = Display(view, visualize=config.visualize, seconds=seconds)
        result = run_training(config, [reports, display, callback, *more])
    if result.stopped and not callback.is_over:
        raise KeyboardInterrupt
    assert result.run_dir is not None
    return callback.report, result.run_dir


def draw(report: DemoReport, run_dir: Path) -> Path:
    """Write the curve as a PNG into the run directory."""
    from ninelives.view.plot import write_curve

    path = run_dir / "curve.png"
    marks = [] if report.killed_pid is None else [(float(report.killed_at), "worker killed")]
    write_curve(path, report.episodes, report.curve, "ninelives demo: return of episodes and their mean", marks)
    return path


def new_run_dir() -> Path:
    """A new run directory, named after the time."""
    return Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
