"""One training session: learner, collector and feed of one pool, joined into cycles, with one complete state.

::

    cycle    take a rollout ─▶ tell rollout and episodes ─▶ learn ─▶ tell update
    state    weights, optimiser, normalisers, generators, what the next rollout begins with, counters, choices

Must never write a file: what becomes of the state is the loop's business.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from ninelives import host
from ninelives.errors import ConfigError
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.train import choices, records
from ninelives.train.callbacks import Callbacks
from ninelives.train.collect import Collector
from ninelives.train.config.classes import PoolConfig, TrainConfig
from ninelives.train.config.layers import as_tree
from ninelives.train.event_bridge import Inbox
from ninelives.train.learner import NOISE, Learner, stream
from ninelives.train.overlap import Feed, Overlapped, Plain
from ninelives.train.partial_collect import HalvesCollector, ReadyCollector
from ninelives.train.player import Player, obs_normaliser
from ninelives.train.progress import Teller
from ninelives.train.rollout import Rollout
from ninelives.train.saving import space_tree
from ninelives.train.saving.checkpoint import Checkpoint, load, sha256_of
from ninelives.train.stopwatch import Stopwatch

LITTLE = "gradient steps of so small a network are mostly Python's, which two threads cannot run at once"

MEASURED = 2
"""Which cycle is measured for ``overlap="auto"``: the first one still warms up."""


class Session:
    """Everything that learns and collects.

    Args:
        config: the run; ``n_envs`` is a number.
        pool: fresh; it is reset or resumed here.
        heard: told of everything.
        inbox: brings the pool's events.
        found: a checkpoint to go on from.
        device: of the learner.
        because: why other choices were made before this.
    """

    def __init__(
        self,
        config: TrainConfig,
        pool: Pool,
        heard: Callbacks,
        inbox: Inbox,
        found: Checkpoint | None,
        device: str = "cpu",
        because: Sequence[str] = (),
    ) -> None:
        self.config, self.pool, self._heard, self._device = config, pool, heard, device
        torch.set_num_threads(1)  # the first weights come from a decomposition, whose last bits depend on threads
        self.learner = Learner(config, pool.observation_space, pool.action_space, pool.num_envs, device)
        normalise = config.normalise
        normaliser = obs_normaliser(pool.observation_space, normalise.clip_obs) if normalise.obs else None
        watch = self._watch if heard.batch_every_s is not None else None
        kind = _collector_kind(config.pool)
        self.collector = kind(pool, self.learner.policy, stream(config.seed, NOISE), normaliser, watch)
        self._cores = host.cores()
        self._work = choices.operations(config, pool.num_envs, self.learner.policy.multiplications())
        self._threads = choices.choose_threads(config, self._work, self._cores)
        torch.set_num_threads(self._threads.value)
        self._overlaps = {"on": True, "off": False, "auto": None}[config.overlap]
        if config.overlap == "auto" and self._work < choices.TINY:
            self._overlaps = False  # not measured, so that equal runs stay equal
        self._because = [*because, f"workers={pool.workers}: {pool.workers_because}", self._threads.because]
        self._seen_s, self._cycles, self._losses = 0.0, 0, dict[str, float]()
        self.told = Teller(heard, inbox, config.log.window)
        if found is None:
            self._begin()
        else:
            self._go_on(found)
        self._begun_step = self.step

    @property
    def step(self) -> int:
        """Steps learned from."""
        return self.told.step

    def _begin(self) -> None:
        if self.config.model is not None:
            self._take_model(self.config.model)
        self.collector.begin(self.pool.reset(seed=self.config.seed))
        self.feed = self._make_feed()

    def _take_model(self, path: Path) -> None:
        state = load(path).state
        self._load_weights(state["weights"])
        if self.collector.normaliser is not None and state["collector"]["normaliser"] is not None:
            self.collector.normaliser.load_state_dict(state["collector"]["normaliser"])

    def _go_on(self, found: Checkpoint) -> None:
        state = found.state
        self._load_weights(state["weights"])
        self.learner.load_state_dict(state["learner"])
        self.pool.resume(found.pool())
        self.collector.load_state_dict(state["collector"])
        self.told.load_state_dict(state["progress"])
        self._overlaps, self._cycles = state["overlap"], int(state["cycles"])
        self.feed = self._make_feed()
        self.feed.load_state_dict(state["ahead"])

    def _load_weights(self, weights: dict[str, Any]) -> None:
        try:
            self.learner.policy.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
        except RuntimeError as error:
            raise ConfigError(
                "the checkpoint's weights do not fit this network: it was trained with other spaces or another net "
                f"section. {' '.join(str(error).split())}"
            ) from error

    def _make_feed(self) -> Feed:
        if self._overlaps:
            rollouts = (self._allocate(), self._allocate())
            return Overlapped(self.collector, self.learner, rollouts, self._threads.value)
        return Plain(self.collector, self.learner, self._allocate())

    def _allocate(self) -> Rollout:
        return Rollout.allocate(
            self.learner.policy,
            self.pool.observation_space,
            self.config.ppo.n_steps,
            self.pool.num_envs,
            masks=self.collector.carry.masks is not None,
            bptt=self.config.net.bptt,
        )

    def tell_start(self, run_dir: Path | None) -> None:
        """Everything is built."""
        overlap = {True: "overlap=on", False: "overlap=off", None: "overlap=auto: will be measured"}[self._overlaps]
        if self._overlaps is False and self.config.overlap == "auto":
            overlap = "overlap=off: " + (LITTLE if self._work < choices.TINY else "as was measured before")
        self._heard.on_start(
            records.Started(
                config=self.config,
                run_dir=run_dir,
                pool=self.pool,
                step=self.step,
                workers=self.pool.workers,
                threads=self._threads.value,
                device=self._device,
                parameters=len(self.learner.weights),
                because=(*self._because, overlap),
            )
        )

    def cycle(self) -> None:
        """Take a rollout, learn from it, tell of both."""
        begun, cpu = time.perf_counter(), Stopwatch(self.pool.worker_pids) if self._overlaps is None else None
        progress = min(1.0, self.step / self.config.timesteps)
        rollout = self.feed.take()
        self.told.rollout(rollout)
        if self.step < self.config.timesteps:
            self.feed.ahead()
        learning = time.perf_counter()
        self._losses = self.learner.learn(rollout, progress)
        learned_s = time.perf_counter() - learning
        self.feed.settle()
        self._cycles += 1
        self._tell_update(rollout, learned_s, time.perf_counter() - begun)
        if cpu is not None and self._cycles >= MEASURED:
            self._choose_overlap(choices.Cycle(rollout.seconds, learned_s, cpu.all_s()))

    def _tell_update(self, rollout: Rollout, learned_s: float, cycle_s: float) -> None:
        self.told.update(
            records.Update(
                step=self.step,
                version=self.learner.version,
                lag=self.learner.version - 1 - rollout.version,
                seconds=learned_s,
                losses=self._losses,
                idle_collect=1 - self.feed.collected_s / max(cycle_s, self.feed.collected_s, 1e-9),
                idle_learn=1 - learned_s / max(cycle_s, 1e-9),
            )
        )

    def _choose_overlap(self, cycle: choices.Cycle) -> None:
        """Collecting and learning were measured one after the other: is it worth doing both at once?"""
        choice = choices.choose_overlap(cycle, self._cores)
        self._overlaps = bool(choice.value)
        if self._overlaps:
            self.feed = self._make_feed()
        self._heard.on_choice(
            records.Chosen(name="overlap", value="on" if choice.value else "off", because=choice.because)
        )

    def _watch(self, batch: Batch) -> None:
        now, every = time.perf_counter(), self._heard.batch_every_s
        if every is not None and now - self._seen_s >= every:
            self._seen_s = now
            self._heard.on_batch(self.pool, batch)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on, but for the pool."""
        return {
            "weights": self.learner.weights_dict(),
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "ahead": self.feed.state_dict(),
            "overlap": self._overlaps,
            "cycles": self._cycles,
            "progress": self.told.state_dict(),
            "spaces": {
                "observation": space_tree.plain(self.pool.observation_space),
                "action": space_tree.plain(self.pool.action_space),
            },
            "net": as_tree(self.config.net),
            "clip_actions": self.config.ppo.clip_actions,
        }

    def result(self, run_dir: Path | None, stopped: bool) -> records.Result:
        """What the run ended with."""
        seconds = self.told.seconds
        return records.Result(
            step=self.step,
            episodes=self.told.episodes,
            mean_return=self.told.mean_return,
            version=self.learner.version,
            seconds=seconds,
            steps_per_s=(self.step - self._begun_step) / max(seconds, 1e-9),
            weights_sha256=sha256_of(self.learner.weights_dict()),
            stopped=stopped,
            run_dir=run_dir,
            policy=Player(
                self.learner.policy, self.pool.observation_space, self.pool.action_space, self.collector.normaliser
            ),
            losses=self._losses,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.feed.close()


def _collector_kind(config: PoolConfig) -> type[Collector]:
    if config.split == 2:
        return HalvesCollector
    return Collector if config.ready is None else ReadyCollector
