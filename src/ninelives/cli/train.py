"""``ninelives train ENV``: trains PPO on many copies of an environment, with a live display and logs."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives.cli.exit_codes import INTERRUPTED, SUCCESS
from ninelives.cli.flags import flags_of
from ninelives.cli.target import env_spec
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec
from ninelives.train.config.classes import TrainConfig

if TYPE_CHECKING:
    from ninelives.train.callbacks import Callback
    from ninelives.train.config.layers import Setting
    from ninelives.train.records import Result
    from ninelives.view.progress import ProgressView

Given: Any = flags_of(TrainConfig, without=("env",))


@dataclass(frozen=True)
class TrainCommand:
    """Train PPO on many copies of an environment; copies that crash are healed and nothing is lost.

    Flags override --set, --set overrides the --config file, the file overrides the defaults. The file has the structure
    of the flags: --ppo.learning-rate 3e-4 is ppo: {learning_rate: 3e-4}. Without --run-dir, the run is written to a new
    directory runs/ENV-DATE-TIME.

    For example:
    $ ninelives train CartPole-v1 --timesteps 100_000
    $ ninelives train ninelives/Errand-v0 --n-envs auto --visualize
    $ ninelives train --config run.yaml --set ppo.epochs=8 --run-dir runs/mine
    $ ninelives train --run-dir runs/mine --resume
    """

    env: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ENV]", help_behavior_hint="")] = None
    """A Gymnasium id such as CartPole-v1, or module:factory; may be in the --config file instead."""

    given: Annotated[Given, tyro.conf.arg(name="")] = field(default_factory=dict)

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """YAML file with the structure of the flags."""

    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Any setting by its name in the file, such as ppo.learning_rate=3e-4."""

    def run(self) -> int:
        """Train and print the result."""
        if importlib.util.find_spec("torch") is None:
            raise ConfigError("training needs torch: pip install 'ninelives[train]'")
        from ninelives.cli.reporting.fault_count import FaultCount
        from ninelives.cli.reporting.leak_watch import LeakWatch
        from ninelives.cli.reporting.run_logs import check_extras
        from ninelives.view.progress import ProgressView

        config = with_run_dir(with_model_file(self.settings()))
        check_extras(config)
        view, faults = ProgressView(), FaultCount()
        leaks = LeakWatch(view.say)
        with faults.named_in_errors():
            result = train(config, view, faults, leaks)
        for line in (*summary(result), *leaks.lines, *faults.lines()):
            print(line)
        return INTERRUPTED if result.stopped else SUCCESS

    def settings(self) -> TrainConfig:
        """The configuration from flags, file and defaults.

        Raises:
            ConfigError: unknown names, wrong types or impossible combinations, with file and line.
        """
        from ninelives.train.config.layers import Setting, from_file, from_flags, from_pairs, resolve

        given = dict(self.given)
        if "env_kwargs" in given:
            given["env_kwargs"] = dict(env_spec("any:env", given["env_kwargs"]).kwargs)
        flags = from_flags(TrainConfig, given)
        env = [] if self.env is None else [Setting("env", self.env, "ENV")]
        before = _of_resumed_run(Path(given["run_dir"])) if _resumes(given) and "run_dir" in given else []
        file = [] if self.config is None else from_file(TrainConfig, self.config)
        return resolve(TrainConfig, before, file, from_pairs(self.set), flags, env)


def _resumes(given: dict[str, Any]) -> bool:
    return bool(given.get("resume") or given.get("resume_previous"))


def _of_resumed_run(run_dir: Path) -> list[Setting]:
    """A resumed run has its settings already; the trainer compares those that are given again."""
    from ninelives.train.config.layers import from_file
    from ninelives.train.saving.run_dir import was_begun

    if not was_begun(run_dir):
        raise ConfigError(f"--resume: {run_dir} contains no run; leave --resume out to start one there")
    path = run_dir / "config.yaml"
    saved = from_file(TrainConfig, path) if path.exists() else []
    return saved or _of_checkpoint(run_dir)


def _of_checkpoint(run_dir: Path) -> list[Setting]:
    """The settings in the newest checkpoint, because a full disk or a power cut can leave an empty ``config.yaml``."""
    from ninelives.train.config.layers import from_tree
    from ninelives.train.saving.checkpoint import Checkpoints
    from ninelives.train.saving.run_dir import THIS_START_ONLY

    found = Checkpoints(run_dir / "checkpoints").newest_config()
    if found is None:
        return []
    path, tree = found
    return from_tree(TrainConfig, {**tree, **THIS_START_ONLY}, str(path))


def with_run_dir(config: TrainConfig) -> TrainConfig:
    """The configuration with a run directory: the given one, or a new one."""
    if config.run_dir is not None:
        return config
    label = EnvSpec.of(config.env).label.replace("/", "-").replace(":", "-")
    return replace(config, run_dir=Path("runs") / f"{label}-{time.strftime('%Y%m%d-%H%M%S')}")


def with_model_file(config: TrainConfig) -> TrainConfig:
    """Resolve ``--model``: a run stands for its newest checkpoint.

    Raises:
        ConfigError: it has none.
    """
    from ninelives.cli.test import checkpoint_of

    return config if config.model is None else replace(config, model=checkpoint_of(config.model, "newest"))


def train(config: TrainConfig, view: ProgressView, *more: Callback) -> Result:
    """Train with logs, live display and ``more`` callbacks."""
    from ninelives.cli.reporting.display import Display
    from ninelives.cli.reporting.run_logs import RunLogger
    from ninelives.train.run import train as run_training

    with view, RunLogger() as reports:
        return run_training(config, [reports, Display(view, visualize=config.visualize), *more])


def summary(result: Result) -> list[str]:
    """The result of the run as lines of text."""
    from ninelives.view.words import plural, seconds_in_words

    mean = "no episode ended" if result.mean_return is None else f"mean return {result.mean_return:,.2f}"
    ended = "stopped" if result.stopped else "done"
    lines = [
        f"{ended}: {result.step:,} steps, {plural(result.episodes, 'episode')}, {mean}, "
        f"{seconds_in_words(result.seconds)} at {result.steps_per_s:,.0f} steps/s",
        f"weights sha256: {result.weights_sha256}",
    ]
    if result.run_dir is not None:
        next_ = (
            f"continue: ninelives train --run-dir {result.run_dir} --resume"
            if result.stopped
            else "evaluate: ninelives test"
        )
        lines.append(f"run: {result.run_dir}   ({next_ if result.stopped else f'{next_} {result.run_dir}'})")
    return lines
