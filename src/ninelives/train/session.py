"""One training session: learner, collector and source of rollouts of one pool, joined into cycles, with one state.

::

    cycle    get a rollout ─▶ report it and its episodes ─▶ learn ─▶ report the update
    state    weights, optimiser, normalisers, generators, what the next rollout starts from, counters, decisions

Must never write a file: ``run`` decides what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from ninelives import host
from ninelives.errors import CheckpointError, ConfigError, NinelivesError
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.train import overlap, records, sizing
from ninelives.train.callbacks import Callbacks
from ninelives.train.collect import Collector
from ninelives.train.config.classes import PoolConfig, TrainConfig
from ninelives.train.config.layers import as_tree
from ninelives.train.event_bridge import EventBridge
from ninelives.train.learner import NOISE, Learner, random_stream
from ninelives.train.partial_collect import FirstReadyCollector, SplitCollector
from ninelives.train.policy.acting import ActingPolicy
from ninelives.train.policy.normalise import ObsNormaliser
from ninelives.train.progress import RunProgress
from ninelives.train.rollout import Rollout
from ninelives.train.saving import space_tree
from ninelives.train.saving.checkpoint import Checkpoint, load, sha256_of

SMALL_NETWORK = "gradient steps of so small a network are mostly Python code, which two threads cannot run at once"

MEASURED_CYCLE = 2
"""The cycle that is measured for ``overlap="auto"``; the first one includes warming up."""


class Session:
    """Everything that learns and collects.

    Args:
        config: the run; ``n_envs`` is a number.
        pool: a new pool; it is reset or resumed here.
        callbacks: receive all reports.
        bridge: passes the pool's events to the callbacks.
        checkpoint: to continue from, if the run is resumed.
        device: of the learner.
        because: reasons of decisions that were made before.
    """

    def __init__(
        self,
        config: TrainConfig,
        pool: Pool,
        callbacks: Callbacks,
        bridge: EventBridge,
        checkpoint: Checkpoint | None,
        device: str = "cpu",
        because: Sequence[str] = (),
    ) -> None:
        self.config, self.pool, self._callbacks, self._device = config, pool, callbacks, device
        torch.set_num_threads(1)  # the initial weights come from a decomposition, whose last bits depend on threads
        self.learner = Learner(config, pool.observation_space, pool.action_space, pool.num_envs, device)
        self.collector = self._make_collector()
        self._cores = host.cores()
        self._work = sizing.operations(config, pool.num_envs, self.learner.policy.multiplications())
        self._threads = sizing.choose_threads(config, self._work, self._cores)
        torch.set_num_threads(self._threads.value)
        self._overlaps = {"on": True, "off": False, "auto": None}[config.overlap]
        if config.overlap == "auto" and self._work < overlap.TINY:
            self._overlaps = False  # decided without measuring, so that equal runs stay equal
        self._because = [*because, f"workers={pool.workers}: {pool.workers_because}", self._threads.because]
        self._last_batch_s, self._cycles, self._losses = 0.0, 0, dict[str, float]()
        self.progress = RunProgress(callbacks, bridge, config.log.window)
        if checkpoint is None:
            self._start()
        else:
            self._resume(checkpoint)
        self._first_step = self.step

    @property
    def step(self) -> int:
        """Steps learned from."""
        return self.progress.step

    def _make_collector(self) -> Collector:
        config, pool = self.config, self.pool
        clip = config.normalise.clip_obs
        return _collector_class(config.pool)(
            pool,
            self.learner.policy,
            random_stream(config.seed, NOISE),
            ObsNormaliser.for_space(pool.observation_space, clip) if config.normalise.obs else None,
            self._show_batch if self._callbacks.batch_every_s is not None else None,
        )

    def _start(self) -> None:
        if self.config.model is not None:
            self._load_model(self.config.model)
        self.collector.begin(self.pool.reset(seed=self.config.seed))
        self.source = self._make_source()

    def _load_model(self, path: Path) -> None:
        checkpoint = load(path)
        self._load_weights(checkpoint, ConfigError)
        with checkpoint.understood():
            saved = checkpoint.state["collector"]["normaliser"]
            if self.collector.normaliser is not None and saved is not None:
                self.collector.normaliser.load_state_dict(saved)

    def _resume(self, checkpoint: Checkpoint) -> None:
        self._load_weights(checkpoint, CheckpointError)
        state = checkpoint.state
        with checkpoint.understood():
            self.learner.load_state_dict(state["learner"])
            self.pool.resume(checkpoint.pool())
            self.collector.load_state_dict(state["collector"])
            self.progress.load_state_dict(state["progress"])
            self._overlaps, self._cycles = (
                {None: None, True: True, False: False}[state["overlap"]],
                int(state["cycles"]),
            )
            self.source = self._make_source()
            self.source.load_state_dict(state["ahead"])

    def _load_weights(self, checkpoint: Checkpoint, refusal: type[NinelivesError]) -> None:
        with checkpoint.understood():
            weights = {str(name): torch.as_tensor(value) for name, value in checkpoint.state["weights"].items()}
        try:
            self.learner.policy.load_state_dict(weights)
        except RuntimeError as error:
            raise refusal(
                "the checkpoint's weights do not fit this network: it was trained with other spaces or another net "
                f"section. {' '.join(str(error).split())}"
            ) from error

    def _make_source(self) -> overlap.RolloutSource:
        if self._overlaps:
            rollouts = (self._allocate(), self._allocate())
            return overlap.OverlappedSource(self.collector, self.learner, rollouts, self._threads.value)
        return overlap.SerialSource(self.collector, self.learner, self._allocate())

    def _allocate(self) -> Rollout:
        return Rollout.allocate(
            self.learner.policy,
            self.pool.observation_space,
            self.config.ppo.n_steps,
            self.pool.num_envs,
            masks=self.collector.carry.masks is not None,
            bptt=self.config.net.bptt,
        )

    def report_start(self, run_dir: Path | None) -> None:
        """Report that everything is built."""
        decided = {True: "overlap=on", False: "overlap=off", None: "overlap=auto: will be measured"}[self._overlaps]
        if self._overlaps is False and self.config.overlap == "auto":
            reason = SMALL_NETWORK if self._work < overlap.TINY else "as measured before the run was resumed"
            decided = f"overlap=off: {reason}"
        self._callbacks.on_start(
            records.Started(
                config=self.config,
                run_dir=run_dir,
                pool=self.pool,
                step=self.step,
                workers=self.pool.workers,
                threads=self._threads.value,
                device=self._device,
                parameters=len(self.learner.weights),
                because=(*self._because, decided),
            )
        )

    def cycle(self) -> None:
        """Get a rollout, learn from it, and report both."""
        started = time.perf_counter()
        cpu = overlap.CpuTimer(self.pool.worker_pids) if self._overlaps is None else None
        done = min(1.0, self.step / self.config.timesteps)
        rollout = self.source.next_rollout()
        self.progress.report_rollout(rollout)
        if self.step < self.config.timesteps:
            self.source.start_next()
        learning = time.perf_counter()
        self._losses = self.learner.learn(rollout, done)
        learned_s = time.perf_counter() - learning
        self.source.finish()
        self._cycles += 1
        self._report_update(rollout, learned_s, time.perf_counter() - started)
        if cpu is not None and self._cycles >= MEASURED_CYCLE:
            self._choose_overlap(overlap.CycleTimes(rollout.seconds, learned_s, cpu.elapsed_s()))

    def _report_update(self, rollout: Rollout, learned_s: float, cycle_s: float) -> None:
        collected_s = self.source.collected_s
        self.progress.report_update(
            records.UpdateDone(
                step=self.step,
                version=self.learner.version,
                lag=self.learner.version - 1 - rollout.version,
                seconds=learned_s,
                losses=self._losses,
                idle_collect=1 - collected_s / max(cycle_s, collected_s, 1e-9),
                idle_learn=1 - learned_s / max(cycle_s, 1e-9),
            )
        )

    def _choose_overlap(self, cycle: overlap.CycleTimes) -> None:
        """Collecting and learning were measured one after the other: decide whether to overlap them."""
        decision = overlap.choose_overlap(cycle, self._cores)
        self._overlaps = bool(decision.value)
        if self._overlaps:
            self.source = self._make_source()
        self._callbacks.on_choice(
            records.SettingChosen(name="overlap", value="on" if decision.value else "off", because=decision.because)
        )

    def _show_batch(self, batch: Batch) -> None:
        now, every = time.perf_counter(), self._callbacks.batch_every_s
        if every is not None and now - self._last_batch_s >= every:
            self._last_batch_s = now
            self._callbacks.on_batch(self.pool, batch)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on, except the pool."""
        return {
            "weights": self.learner.weights_dict(),
            "learner": self.learner.state_dict(),
            "collector": self.collector.state_dict(),
            "ahead": self.source.state_dict(),
            "overlap": self._overlaps,
            "cycles": self._cycles,
            "progress": self.progress.state_dict(),
            "spaces": {
                "observation": space_tree.plain(self.pool.observation_space),
                "action": space_tree.plain(self.pool.action_space),
            },
            "net": as_tree(self.config.net),
            "clip_actions": self.config.ppo.clip_actions,
        }

    def result(self, run_dir: Path | None, stopped: bool) -> records.Result:
        """The run's result, now that it has ended."""
        seconds = self.progress.seconds
        return records.Result(
            step=self.step,
            episodes=self.progress.episodes,
            mean_return=self.progress.mean_return,
            version=self.learner.version,
            seconds=seconds,
            steps_per_s=(self.step - self._first_step) / max(seconds, 1e-9),
            weights_sha256=sha256_of(self.learner.weights_dict()),
            stopped=stopped,
            run_dir=run_dir,
            policy=ActingPolicy(
                self.learner.policy, self.pool.observation_space, self.pool.action_space, self.collector.normaliser
            ),
            losses=self._losses,
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.source.close()


def _collector_class(config: PoolConfig) -> type[Collector]:
    if config.split == 2:
        return SplitCollector
    return Collector if config.ready is None else FirstReadyCollector
