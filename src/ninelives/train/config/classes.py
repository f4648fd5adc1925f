"""Every setting of a training run: its default, its meaning, and which values are refused before a process starts.

One frozen dataclass per section; a YAML file and the flags have the same structure. The text below each field is its
``--help``. Must never import torch: the command line reads these classes to print its help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ninelives.errors import ConfigError
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.env import EnvSpec
from ninelives.spec.options import PoolOptions
from ninelives.spec.plan import MOST_ENVS
from ninelives.train.config.validate import above, at_least, between, one_of, whole


@dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """PPO: rollouts and updates."""

    learning_rate: float = 2.5e-4
    """Initial learning rate of Adam."""

    schedule: Literal["linear", "constant"] = "linear"
    """Learning rate over the run: linear decay to zero, or constant."""

    n_steps: int = 128
    """Steps of each environment in one rollout."""

    epochs: int = 4
    """Passes over each rollout."""

    minibatches: int = 4
    """Minibatches per pass, with one gradient step each. A recurrent network's minibatches are whole sequences."""

    gamma: float = 0.99
    """Discount factor."""

    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation (GAE)."""

    clip: float = 0.2
    """Clip range of the probability ratio."""

    clip_value: float | None = None
    """Clip range of the change of the value; None: not clipped."""

    normalise_advantage: bool = True
    """Normalise the advantages of each minibatch to mean 0 and standard deviation 1."""

    entropy: float = 0.01
    """Weight of the entropy bonus."""

    value: float = 0.5
    """Weight of the value loss, which is half the mean squared error. SB3 has no half: its vf_coef=0.5 is 1.0 here."""

    max_grad_norm: float = 0.5
    """Largest norm of the gradient; longer ones are scaled down. 0: no limit."""

    target_kl: float | None = None
    """End an update after an epoch whose mean KL divergence exceeds this; None: never."""

    adam_eps: float = 1e-5
    """Epsilon of Adam."""

    vtrace: bool = False
    """V-trace: correct advantages and value targets for a policy that acted with older weights, as overlap causes."""

    clip_actions: bool = True
    """Clip the actions of a bounded Box to its bounds for the environment; the learner uses the unclipped ones."""

    def __post_init__(self) -> None:
        above("learning_rate", self.learning_rate, 0)
        one_of("schedule", self.schedule, ("linear", "constant"))
        for name in ("n_steps", "epochs", "minibatches"):
            whole(name, getattr(self, name), 1)
        between("gamma", self.gamma, 0, 1)
        between("gae_lambda", self.gae_lambda, 0, 1)
        above("clip", self.clip, 0)
        for name in ("clip_value", "target_kl"):
            if getattr(self, name) is not None:
                above(name, getattr(self, name), 0)
        for name in ("entropy", "value", "max_grad_norm"):
            at_least(name, getattr(self, name), 0)
        above("adam_eps", self.adam_eps, 0)


@dataclass(frozen=True, kw_only=True)
class NetConfig:
    """The policy network."""

    image: Literal["auto", "nature", "impala", "small", "flat"] = "auto"
    """Encoder of image observations; auto: nature from 36 x 36 pixels, otherwise small (3 x 3 kernels)."""

    image_features: int = 512
    """Features that an image encoder outputs."""

    hidden: tuple[int, ...] | None = None
    """Hidden layers of actor and critic, each with its own; None: 64 64 for vectors, none after an image encoder."""

    activation: Literal["tanh", "relu"] = "tanh"
    """Activation function of the hidden layers."""

    recurrent: Literal["none", "gru", "lstm"] = "none"
    """Recurrent layer between encoder and heads."""

    recurrent_size: int = 128
    """Units of the recurrent layer."""

    bptt: int | None = None
    """Steps of backpropagation through time, a divisor of ppo.n_steps; None: the whole rollout."""

    log_std: float = 0.0
    """Initial logarithm of the standard deviation of Box actions."""

    compile: bool = False
    """Compile the loss with torch.compile; pays off after minutes, and needs a C++ compiler."""

    def __post_init__(self) -> None:
        one_of("image", self.image, ("auto", "nature", "impala", "small", "flat"))
        one_of("activation", self.activation, ("tanh", "relu"))
        one_of("recurrent", self.recurrent, ("none", "gru", "lstm"))
        for name in ("image_features", "recurrent_size"):
            whole(name, getattr(self, name), 1)
        for size in self.hidden or ():
            whole("hidden", size, 1)
        if self.bptt is not None:
            whole("bptt", self.bptt, 1)


@dataclass(frozen=True, kw_only=True)
class NormaliseConfig:
    """Normalisation of observations and rewards. The statistics are part of every checkpoint."""

    obs: bool = False
    """Normalise observations other than images to mean 0 and standard deviation 1, with running statistics."""

    reward: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""

    clip_obs: float | None = 10.0
    """Clip normalised observations to this absolute value; None: not clipped."""

    clip_reward: float | None = None
    """Clip rewards, normalised or not, to this absolute value; None: not clipped. Atari papers use 1.0."""

    def __post_init__(self) -> None:
        for name in ("clip_obs", "clip_reward"):
            if getattr(self, name) is not None:
                above(name, getattr(self, name), 0)


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """The pool of environments; see ninelives.PoolOptions."""

    workers: int | None = None
    """Worker processes; None: chosen after measuring one environment."""

    autoreset: Literal["next_step", "same_step"] = "next_step"
    """When an ended episode is reset: next_step uses one more row per episode, same_step none. Both learn correctly."""

    ready: int | None = None
    """Act as soon as this many environments have answered; None: wait for all. Runs are then not reproducible."""

    split: Literal[1, 2] = 1
    """2: one half of the environments steps while the policy acts for the other half."""

    on_fault: Literal["heal", "cut", "raise"] = "heal"
    """After a fault: restore the environment bit for bit, or cut and mask its episode, or end the run."""

    start_method: Literal["forkserver", "fork", "spawn"] = "forkserver"
    """How workers are started."""

    spares: int = 0
    """Spare workers, built in advance to replace dead ones."""

    fresh_env_every_episode: bool = False
    """Build a new environment for every episode, for those whose reset leaves something of the episode before."""

    snapshot_every: int | None = 20
    """Least number of steps between two snapshots of an environment that supports them."""

    check: Literal["shape", "nan", "bounds"] = "nan"
    """Checks of each observation; each includes the ones before it."""

    construct_timeout_s: float = 60.0
    """Longest time to construct an environment."""

    reset_timeout_s: float = 60.0
    """Longest time of a reset."""

    step_timeout_s: float = 30.0
    """Longest time of a step, after which its worker counts as hung."""

    max_restarts_per_slot: int = 10
    """Faults of one environment within the window before it is quarantined."""

    max_restarts: int = 100
    """Faults of all environments within the window before the run ends."""

    restart_window_s: float = 300.0
    """Length of the window in which faults are counted."""

    max_steps: int | None = None
    """Replace a worker after this many steps, for environments that leak memory."""

    max_rss_bytes: int | None = None
    """Replace a worker whose memory exceeds this."""

    def __post_init__(self) -> None:
        one_of("autoreset", self.autoreset, ("next_step", "same_step"))
        one_of("split", self.split, (1, 2))
        for name in ("workers", "ready"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if self.ready is not None and self.split != 1:
            raise ConfigError(
                "ready and split=2 exclude each other: a batch is either the first ready environments, or a half"
            )
        PoolOptions.of(self.settings())

    def settings(self) -> dict[str, Any]:
        """These settings as keyword arguments of ``ninelives.Pool``."""
        own = ("workers", "ready", "split", "autoreset")
        plain = {name: value for name, value in vars(self).items() if name not in own}
        return {**plain, "autoreset": Autoreset.parse(self.autoreset)}


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """Logs of a run, written to its directory."""

    tensorboard: bool = True
    """TensorBoard scalars, if tensorboard is installed."""

    monitor: bool = True
    """One CSV file per environment with its episodes, in the format of Stable-Baselines3's Monitor."""

    wandb: str | None = None
    """Project to log to in Weights & Biases; needs wandb."""

    window: int = 100
    """Number of last episodes that the mean return covers."""

    def __post_init__(self) -> None:
        whole("window", self.window, 1)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run."""

    env: str | EnvSpec | Callable[..., Any]
    """A Gymnasium id like CartPole-v1, or module:factory; in Python also a callable or an EnvSpec."""

    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment."""

    timesteps: int = 1_000_000
    """Steps of all environments together; the run ends with the rollout that reaches this number."""

    n_envs: int | Literal["auto"] = 8
    """Environments; auto: chosen from cores, memory and the measured cost of a step."""

    frame_skip: int | None = None
    """Passed to the environment as frame_skip."""

    state: Path | None = None
    """Start state, such as an emulator's save state; passed to the environment as state."""

    rom: Path | None = None
    """Your own ROM, for games that need one; passed to the environment as rom."""

    model: Path | None = None
    """Checkpoint whose weights and normalisers a new run starts with."""

    seed: int = 0
    """Seed of everything: weights, actions, shuffling, and each episode of each environment."""

    device: str = "auto"
    """cpu, cuda, or another torch device; auto: CUDA if available."""

    threads: int | Literal["auto"] = "auto"
    """Torch threads of the learner; auto: one for small networks, otherwise all cores, less one with overlap=on."""

    overlap: Literal["auto", "on", "off"] = "auto"
    """Collect the next rollout while learning from the current one; auto: decided by a measurement at the start."""

    run_dir: Path | None = None
    """Directory of the run: checkpoints, logs, settings. In Python, None saves nothing."""

    resume: bool = False
    """Continue from the newest checkpoint in run_dir."""

    resume_previous: bool = False
    """Continue from the newest intact checkpoint, if later ones are damaged."""

    force: bool = False
    """Delete and replace the run that run_dir holds."""

    checkpoint_every: int = 10_000
    """Steps between checkpoints, each written after the next update."""

    keep_last: int = 3
    """Number of newest checkpoints to keep."""

    keep_best: bool = True
    """Keep the checkpoint with the best mean return too."""

    visualize: bool = False
    """Show all environments in the terminal while they are trained."""

    ppo: PpoConfig = field(default_factory=PpoConfig)
    net: NetConfig = field(default_factory=NetConfig)
    normalise: NormaliseConfig = field(default_factory=NormaliseConfig)
    pool: PoolConfig = field(default_factory=PoolConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        EnvSpec.of(self.env)
        for name in ("timesteps", "checkpoint_every", "keep_last"):
            whole(name, getattr(self, name), 1)
        whole("seed", self.seed, 0)
        one_of("overlap", self.overlap, ("auto", "on", "off"))
        for name, most in (("n_envs", MOST_ENVS), ("threads", None)):
            if getattr(self, name) != "auto":
                whole(name, getattr(self, name), 1, or_else="'auto'", most=most)
        if self.frame_skip is not None:
            whole("frame_skip", self.frame_skip, 1)
        self._check_together()

    def _check_together(self) -> None:
        if (self.resume or self.resume_previous) and self.force:
            raise ConfigError("resume and force exclude each other: resume continues the run, force replaces it")
        if (self.resume or self.resume_previous) and self.run_dir is None:
            raise ConfigError("resume needs run_dir, the directory of the run to continue")
        if (self.resume or self.resume_previous) and self.model is not None:
            raise ConfigError(
                "resume and model exclude each other: a resumed run takes its weights from its own checkpoint"
            )
        bptt, n_steps = self.net.bptt, self.ppo.n_steps
        if bptt is not None and n_steps % bptt:
            raise ConfigError(f"net.bptt={bptt} must divide ppo.n_steps={n_steps}")
        if self.n_envs != "auto":
            self._check_counts(self.n_envs)

    def _check_counts(self, n_envs: int) -> None:
        workers, ready = self.pool.workers, self.pool.ready
        if workers is not None and workers > n_envs:
            raise ConfigError(f"pool.workers={workers} must not be greater than n_envs={n_envs}")
        if ready is not None and ready > n_envs:
            raise ConfigError(f"pool.ready={ready} must not be greater than n_envs={n_envs}")
        if self.pool.split == 2 and n_envs % 2:
            raise ConfigError(f"pool.split=2 needs an even n_envs, not {n_envs}")
        if self.net.recurrent != "none":
            units, what = n_envs * (self.ppo.n_steps // (self.net.bptt or self.ppo.n_steps)), "sequences"
        else:
            units, what = n_envs * self.ppo.n_steps, "rows"
        if self.ppo.minibatches > units:
            raise ConfigError(
                f"ppo.minibatches={self.ppo.minibatches} must not be greater than the {units} {what} of a rollout"
            )

    @property
    def env_spec(self) -> EnvSpec:
        """The environment with all its keyword arguments."""
        named = EnvSpec.of(self.env)
        passed: dict[str, Any] = {
            "frame_skip": self.frame_skip,
            "state": None if self.state is None else str(self.state),
            "rom": None if self.rom is None else str(self.rom),
        }
        given = {key: value for key, value in passed.items() if value is not None}
        if self.visualize and "render_mode" not in self.env_kwargs and re.search(r"-v\d+$", str(named.env)):
            given["render_mode"] = "rgb_array"
        twice = sorted(given.keys() & self.env_kwargs.keys())
        if twice:
            raise ConfigError(f"{twice[0]} is given twice: as a setting of the run and in env_kwargs")
        return replace(named, kwargs={**named.kwargs, **self.env_kwargs, **given})
