"""The run: builds everything from a configuration, then collect, learn, tell, keep, until the steps are done.

Owns the order of things and nothing else. Between two updates the rest of the run is a function of one state, which is
what a checkpoint holds.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from ninelives.errors import ConfigError
from ninelives.events import Sink
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec
from ninelives.train import records
from ninelives.train.callbacks import Callback, Callbacks
from ninelives.train.config.classes import TrainConfig
from ninelives.train.config.layers import as_tree
from ninelives.train.event_bridge import Inbox
from ninelives.train.saving import checkpoint, resume
from ninelives.train.saving.provenance import facts_of_start
from ninelives.train.saving.run_dir import RunDir
from ninelives.train.session import Session
from ninelives.train.sizing import choose_n_envs


def run(config: TrainConfig, callbacks: Sequence[Callback] = (), *, sinks: Sequence[Sink] = ()) -> records.Result:
    """Train with PPO.

    Args:
        config: the whole run.
        callbacks: told in this order; see ``Callback``.
        sinks: listeners to the pool's events, as ``ninelives.Pool`` takes them; told at once, by whatever thread.

    Raises:
        ConfigError: something is impossible; nothing was started.
        CheckpointError: the run that shall be resumed cannot be.
        WorkerStartError: the environment does not start.
    """
    heard = Callbacks(callbacks)
    with ExitStack() as stack:
        device = chosen_device(config.device)
        place = _open(config, stack)
        found = _found(config, place)
        config, because = _sized(config, found)
        if found is not None:
            resume.check_same(found.config, plain_config(config))
        if place is not None:
            place.write_config(plain_config(config))
            place.write_facts(facts_of_start())
        inbox = Inbox(heard)
        stack.enter_context(_threads_kept())
        pool = stack.enter_context(_pool(config, place, (inbox, *sinks)))
        session = stack.enter_context(Session(config, pool, heard, inbox, found, device, because))
        stop = stack.enter_context(_asked_to_stop())
        return _Run(config, session, heard, place, stop).to_its_end()


class _Run:
    """One run in this process."""

    def __init__(
        self, config: TrainConfig, session: Session, heard: Callbacks, place: RunDir | None, stop: threading.Event
    ) -> None:
        self._config, self._session, self._heard, self._stop = config, session, heard, stop
        self._tree = plain_config(config)
        self._place = place
        self._checkpoints = None
        if place is not None:
            self._checkpoints = checkpoint.Checkpoints(place.checkpoints, config.keep_last, config.keep_best)
        self._kept_at = session.step

    def to_its_end(self) -> records.Result:
        """Tell the start, cycle, tell the end."""
        session, stopped = self._session, False
        session.tell_start(self._path)
        while session.step < self._config.timesteps and not stopped:
            session.cycle()
            self._keep_if_due()
            stopped = self._stop.is_set() or self._heard.stop_asked
        self._keep()
        result = session.result(self._path, stopped)
        self._heard.on_end(result)
        return result

    @property
    def _path(self) -> Path | None:
        return None if self._place is None else self._place.path

    def _keep_if_due(self) -> None:
        """Counted from the first step, so that a resumed run keeps what an uninterrupted one would."""
        every = self._config.checkpoint_every
        if self._session.step // every > self._kept_at // every:
            self._keep()

    def _keep(self) -> None:
        if self._checkpoints is None or (
            self._kept_at == self._session.step and self._checkpoints.newest() is not None
        ):
            return
        begun, session = time.perf_counter(), self._session
        path = self._checkpoints.write(
            session.state_dict(),
            step=session.step,
            config=self._tree,
            pool=session.pool.checkpoint(),
            score=session.told.mean_return,
        )
        self._kept_at = session.step
        self._heard.on_checkpoint(
            records.CheckpointWritten(path=path, step=session.step, seconds=time.perf_counter() - begun)
        )


def plain_config(config: TrainConfig) -> dict[str, Any]:
    """The configuration as a tree for JSON; an environment that is no name becomes one."""
    tree = {
        field.name: as_tree(getattr(config, field.name)) for field in dataclasses.fields(config) if field.name != "env"
    }
    return {"env": EnvSpec.of(config.env).label, **tree}


def _sized(config: TrainConfig, found: checkpoint.Checkpoint | None) -> tuple[TrainConfig, tuple[str, ...]]:
    """With a number of slots, and why that one if it was chosen here; a resumed run keeps its own."""
    if config.n_envs != "auto":
        return config, ()
    if found is not None:
        return dataclasses.replace(config, n_envs=found.config["n_envs"]), ()
    sizing = choose_n_envs(config.env_spec)
    return dataclasses.replace(config, n_envs=sizing.n_envs), (f"n_envs={sizing.n_envs}: {sizing.because}",)


def _open(config: TrainConfig, stack: ExitStack) -> RunDir | None:
    if config.run_dir is None:
        return None
    wanted = config.resume or config.resume_previous
    return stack.enter_context(RunDir.open(config.run_dir, resume=wanted, force=config.force))


def _found(config: TrainConfig, place: RunDir | None) -> checkpoint.Checkpoint | None:
    """The checkpoint to go on from, if this is to go on and there is one."""
    if place is None or not (config.resume or config.resume_previous):
        return None
    return resume.chosen(checkpoint.Checkpoints(place.checkpoints), previous=config.resume_previous)


def _pool(config: TrainConfig, place: RunDir | None, sinks: Sequence[Sink]) -> Pool:
    assert config.n_envs != "auto"
    settings = config.pool.settings()
    if place is not None:
        settings.update(run_dir=place.pool, overwrite=True)
    if config.pool.split == 2:
        settings.update(batch_size=1)  # each slot alone, so that a half is complete the moment its last slot is
    elif config.pool.ready is not None:
        settings.update(batch_size=config.pool.ready)
    return Pool(config.env_spec, config.n_envs, workers=config.pool.workers, sinks=tuple(sinks), **settings)


def chosen_device(name: str) -> str:
    """The device of this name.

    Raises:
        ConfigError: torch does not know it, or it is not there.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device={name!r} cannot be used: {str(error).splitlines()[0]}; try device='cpu'") from error
    return name


@contextmanager
def _threads_kept() -> Iterator[None]:
    """The caller's number of threads comes back."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """The first Ctrl-C or SIGTERM ends the run after this update, with everything kept; the second one at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
