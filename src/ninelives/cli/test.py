"""``ninelives test RUN``: evaluates a saved policy, greedy and stochastic, with a confidence interval."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ninelives.cli.target import env_spec
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec

if TYPE_CHECKING:
    from ninelives.train.evaluate import Score
    from ninelives.train.saving.checkpoint import Checkpoint


@dataclass(frozen=True)
class TestCommand:
    """Evaluate a saved policy, greedy and stochastic; success rates come with a 95 % confidence interval.

    For example:
    $ ninelives test runs/mine
    $ ninelives test runs/mine --which best --episodes 20 --play greedy --video mine.gif
    """

    what: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN_OR_CHECKPOINT")]
    """Run directory, or a checkpoint file."""

    which: Literal["newest", "best"] = "newest"
    """Which checkpoint of the run."""

    play: Literal["both", "greedy", "stochastic"] = "both"
    """Take the most likely action (greedy), sample it (stochastic), or evaluate both."""

    episodes: int = 100
    """Complete episodes to count, for each kind of policy."""

    n_envs: int = 8
    """Number of environments."""

    success: Annotated[float | None, tyro.conf.arg(metavar="RETURN", help_behavior_hint="")] = None
    """An episode with at least this return is a success; by default info["success"] decides, if there is one."""

    seed: int = 1_000_000
    """Seed of the episodes; different from the seed of training, so that the policy meets new episodes."""

    env: Annotated[str | None, tyro.conf.arg(metavar="ENV", help_behavior_hint="")] = None
    """Evaluate on another environment than the one of training."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the environment; they override those of the run."""

    video: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Record slot 0 as a .gif or .mp4 file; needs imageio."""

    def run(self) -> int:
        """Evaluate and print."""
        check_extras(self.video)
        from ninelives.train.saving.checkpoint import load

        path = checkpoint_of(self.what, self.which)
        checkpoint = load(path)
        print(f"checkpoint: {path} (step {checkpoint.step:,})")
        for greedy in {"both": (True, False), "greedy": (True,), "stochastic": (False,)}[self.play]:
            score = self._score(checkpoint, greedy)
            for line in lines_of(score):
                print(line)
        return 0

    def _score(self, checkpoint: Checkpoint, greedy: bool) -> Score:
        from ninelives.cli.reporting.video import VideoRecorder
        from ninelives.train.evaluate import evaluate
        from ninelives.train.policy.acting import ActingPolicy

        video = VideoRecorder(self.video) if self.video is not None and greedy == (self.play != "stochastic") else None
        with checkpoint.understood():
            policy, trained = ActingPolicy.of_state(checkpoint.state), _trained_on(checkpoint.config)
        score = evaluate(
            policy,
            self.spec(trained),
            episodes=self.episodes,
            n_envs=self.n_envs,
            greedy=greedy,
            seed=self.seed,
            success=self.success,
            on_batch=video,
        )
        if video is not None:
            print(video.write())
        return score

    def spec(self, trained: EnvSpec) -> EnvSpec:
        """The environment of the run, with the overrides from the command line."""
        from ninelives.cli.reporting.video import is_gymnasium_id

        asked = env_spec(self.env or str(trained.env), self.env_kwargs)
        kwargs = {**(trained.kwargs if self.env is None else {}), **asked.kwargs}
        if self.video is not None and is_gymnasium_id(asked):
            kwargs.setdefault("render_mode", "rgb_array")
        return EnvSpec(asked.env, kwargs, trained.modules)


def _trained_on(config: dict[str, Any]) -> EnvSpec:
    from ninelives.train.config.classes import TrainConfig
    from ninelives.train.config.layers import from_tree, resolve

    return resolve(TrainConfig, from_tree(TrainConfig, config, "checkpoint")).env_spec


def check_extras(video: Path | None) -> None:
    """Check early that everything needed is installed.

    Raises:
        ConfigError: something is missing; the message says what to install.
    """
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("evaluating a policy needs torch: pip install 'ninelives[train]'")
    if video is None:
        return
    if video.suffix not in (".gif", ".mp4"):
        raise ConfigError(f"--video {video}: must end in .gif or .mp4")
    if importlib.util.find_spec("imageio") is None:
        raise ConfigError(f"--video {video} needs imageio: pip install 'ninelives[video]'")
    if video.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ConfigError(
            f"--video {video} needs imageio-ffmpeg: pip install 'ninelives[video]', or choose a .gif file"
        )
    if video.exists():
        raise ConfigError(f"--video {video} exists already; choose another name")


def checkpoint_of(what: Path, which: str) -> Path:
    """The checkpoint file: the file itself, or the newest or best one of a run.

    Raises:
        ConfigError: there is none.
    """
    if what.is_file():
        return what
    from ninelives.train.saving.checkpoint import Checkpoints

    checkpoints = Checkpoints(what / "checkpoints")
    found = checkpoints.best() if which == "best" else checkpoints.newest()
    if found is None:
        raise ConfigError(f"{what} is neither a checkpoint nor a run with a {which} checkpoint in {what}/checkpoints")
    return found


def lines_of(score: Score) -> Iterator[str]:
    """A score as lines of text."""
    way = "greedy" if score.greedy else "stochastic"
    low, high = score.quantile(0.05), score.quantile(0.95)
    yield (
        f"{way}: return {score.mean:,.2f} +- {score.std:,.2f}, median {score.median:,.2f}, 90 % within {low:,.2f} to "
        f"{high:,.2f}, length {score.mean_length:,.1f}, {len(score.episodes)} episodes"
    )
    if score.success_rate is not None:
        yield f"{way}: success {score.success_rate}"
    if score.cut:
        yield f"{way}: {score.cut} episodes were lost to faults and repeated"
