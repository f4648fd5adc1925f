"""Every setting of a training run, with its default, the reason for it, and what is refused before a process starts.

One frozen dataclass per section; a YAML file and the flags have the same shape. Must never import torch: the command
line reads these classes to print its help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ninelives.errors import ConfigError
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.env import EnvSpec
from ninelives.spec.options import PoolOptions
from ninelives.train.config.validate import above, at_least, between, one_of, whole


@dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """PPO: how much is collected, and how it is learned from."""

    learning_rate: float = 2.5e-4
    """Of Adam, at the start."""

    schedule: Literal["linear", "constant"] = "linear"
    """Of the learning rate: down to zero over the run, or as it is."""

    n_steps: int = 128
    """Steps of every slot in one rollout."""

    epochs: int = 4
    """How often each rollout is gone through."""

    minibatches: int = 4
    """Parts of a rollout; one gradient step each. With a recurrent network a part is a set of whole sequences."""

    gamma: float = 0.99
    """Discount."""

    gae_lambda: float = 0.95
    """Of generalised advantage estimation."""

    clip: float = 0.2
    """How far the probability ratio may move before its gradient is cut."""

    clip_value: float | None = None
    """How far the value may move from the old one before its gradient is cut; None: as far as it wants."""

    normalise_advantage: bool = True
    """Advantages of each minibatch get mean 0 and deviation 1."""

    entropy: float = 0.01
    """Weight of the entropy bonus."""

    value: float = 0.5
    """Weight of the value loss, which is half the mean square; SB3 has no half: its ``vf_coef`` 0.5 is 1.0 here."""

    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this; 0: never."""

    target_kl: float | None = None
    """An epoch whose mean KL divergence exceeds this is the update's last."""

    adam_eps: float = 1e-5
    """Epsilon of Adam."""

    vtrace: bool = False
    """Correct advantages and value targets for the age of the acting policy; for ``overlap``."""

    clip_actions: bool = True
    """Actions of a bounded Box are cut to its bounds on their way to the environment; what is learned is not cut."""

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
    """The network."""

    image: Literal["auto", "nature", "impala", "small", "flat"] = "auto"
    """Encoder of image observations; auto: ``nature`` from 36 pixels a side on, else ``small`` (3 x 3 kernels)."""

    image_features: int = 512
    """Outputs of an image encoder."""

    hidden: tuple[int, ...] | None = None
    """Hidden layers of actor and critic, each its own; None: 64, 64 without an image, none behind an image encoder."""

    activation: Literal["tanh", "relu"] = "tanh"
    """Of the hidden layers."""

    recurrent: Literal["none", "gru", "lstm"] = "none"
    """Memory between encoder and heads."""

    recurrent_size: int = 128
    """Units of the memory."""

    bptt: int | None = None
    """Rows through which gradients flow back in time, a divisor of ``ppo.n_steps``; None: the whole rollout."""

    log_std: float = 0.0
    """Logarithm of the deviation of Box actions at the start."""

    compile: bool = False
    """Compile the loss with torch.compile: pays after minutes, and needs a C++ compiler."""

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
    """Transforms of what the network and the learner see. Their statistics are part of every checkpoint."""

    obs: bool = False
    """Numbers of the observation (not images) get mean 0 and deviation 1 over the run."""

    reward: bool = False
    """Rewards are divided by the deviation of the discounted return over the run."""

    clip_obs: float | None = 10.0
    """Normalised observations are cut to this; None: not."""

    clip_reward: float | None = None
    """Rewards, normalised or not, are cut to this; None: not. 1.0 is what Atari papers do."""

    def __post_init__(self) -> None:
        for name in ("clip_obs", "clip_reward"):
            if getattr(self, name) is not None:
                above(name, getattr(self, name), 0)


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """The pool below; more in ``ninelives.PoolOptions``."""

    workers: int | None = None
    """Worker processes; None: one environment is measured and the number chosen."""

    autoreset: Literal["next_step", "same_step"] = "next_step"
    """``next_step`` spends a row per episode and needs no letter, ``same_step`` spends none; both are learned right."""

    ready: int | None = None
    """First-ready collection: act as soon as so many slots have answered; None: wait for all. Not bit-reproducible."""

    split: Literal[1, 2] = 1
    """2: half of the slots step while the other half is thought about."""

    on_fault: Literal["heal", "cut", "raise"] = "heal"
    """A broken slot is brought back bit for bit, or its episode is cut and masked, or the run ends."""

    start_method: Literal["forkserver", "fork", "spawn"] = "forkserver"
    """How workers are started."""

    spares: int = 0
    """Built environments that wait to take a dead worker's place."""

    snapshot_every: int | None = 20
    """Least steps between two snapshots of environments that offer them."""

    check: Literal["shape", "nan", "bounds"] = "nan"
    """What every observation is checked for."""

    construct_timeout_s: float = 60.0
    """How long building an environment may take."""

    reset_timeout_s: float = 60.0
    """How long a reset may take."""

    step_timeout_s: float = 30.0
    """How long a step may take before its worker counts as hung."""

    max_restarts_per_slot: int = 10
    """Faults of one slot within the window before it is quarantined."""

    max_restarts: int = 100
    """Faults of all slots within the window before the run ends."""

    restart_window_s: float = 300.0
    """Length of that window."""

    max_steps: int | None = None
    """A worker is replaced after so many steps: for environments that leak."""

    max_rss_bytes: int | None = None
    """A worker of that size is replaced."""

    def __post_init__(self) -> None:
        one_of("autoreset", self.autoreset, ("next_step", "same_step"))
        one_of("split", self.split, (1, 2))
        for name in ("workers", "ready"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if self.ready is not None and self.split != 1:
            raise ConfigError(
                "ready and split=2 exclude each other: batches are either the first ready or fixed halves"
            )
        PoolOptions.of(self.settings())

    def settings(self) -> dict[str, Any]:
        """As keywords of ``ninelives.Pool``."""
        own = ("workers", "ready", "split", "autoreset")
        plain = {name: value for name, value in vars(self).items() if name not in own}
        return {**plain, "autoreset": Autoreset.parse(self.autoreset)}


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """What is written about a run, beside checkpoints. All of it goes into the run directory."""

    tensorboard: bool = True
    """TensorBoard scalars, where tensorboard is installed."""

    monitor: bool = True
    """A CSV file per slot with every episode, as Stable-Baselines3 writes it."""

    wandb: str | None = None
    """Project of Weights & Biases; needs wandb."""

    window: int = 100
    """Episodes over which mean returns are taken."""

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
    """Steps of all slots together; the run ends with the rollout that reaches them."""

    n_envs: int | Literal["auto"] = 8
    """Slots; auto: chosen from cores, memory and the measured step."""

    frame_skip: int | None = None
    """Handed to the environment as ``frame_skip``."""

    state: Path | None = None
    """A start state (an emulator's save state), handed to the environment as ``state``."""

    rom: Path | None = None
    """Your own ROM of a game that needs one, handed to the environment as ``rom``."""

    model: Path | None = None
    """A checkpoint whose weights and normalisers the run begins with; everything else begins anew."""

    seed: int = 0
    """Of everything: weights, actions, shuffling, and every episode of every slot."""

    device: str = "auto"
    """``cpu``, ``cuda``, or another device of torch; auto: CUDA where there is one."""

    threads: int | Literal["auto"] = "auto"
    """Threads of the learner's arithmetic; auto: one for small networks, all cores otherwise, none taken twice."""

    overlap: Literal["auto", "on", "off"] = "auto"
    """Collect the next rollout while this one is learned from; auto: measured at the start and said."""

    run_dir: Path | None = None
    """Where everything about the run is kept; None keeps nothing."""

    resume: bool = False
    """Go on from the newest checkpoint of ``run_dir``."""

    resume_previous: bool = False
    """The same, from the newest checkpoint that is whole, where later ones are damaged."""

    force: bool = False
    """Allow a ``run_dir`` that holds a run; what is there is replaced."""

    checkpoint_every: int = 10_000
    """Steps between checkpoints; written at the first update after."""

    keep_last: int = 3
    """Newest checkpoints that stay."""

    keep_best: bool = True
    """The checkpoint with the best mean return stays too."""

    visualize: bool = False
    """Show all slots while they play."""

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
        for name in ("n_envs", "threads"):
            if getattr(self, name) != "auto":
                whole(name, getattr(self, name), 1, or_else="'auto'")
        if self.frame_skip is not None:
            whole("frame_skip", self.frame_skip, 1)
        self._check_together()

    def _check_together(self) -> None:
        if (self.resume or self.resume_previous) and self.force:
            raise ConfigError("resume and force exclude each other: go on with what is there, or replace it")
        if (self.resume or self.resume_previous) and self.run_dir is None:
            raise ConfigError("resume needs run_dir: which run shall go on?")
        if (self.resume or self.resume_previous) and self.model is not None:
            raise ConfigError(
                "resume and model exclude each other: the weights come from the checkpoint that is resumed"
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
        asked: dict[str, Any] = {
            "frame_skip": self.frame_skip,
            "state": None if self.state is None else str(self.state),
            "rom": None if self.rom is None else str(self.rom),
        }
        given = {key: value for key, value in asked.items() if value is not None}
        if self.visualize and "render_mode" not in self.env_kwargs and re.search(r"-v\d+$", str(named.env)):
            given["render_mode"] = "rgb_array"
        twice = sorted(given.keys() & self.env_kwargs.keys())
        if twice:
            raise ConfigError(f"{twice[0]} is given twice: as a setting of the run and in env_kwargs")
        return EnvSpec(named.env, {**named.kwargs, **self.env_kwargs, **given}, named.modules)
