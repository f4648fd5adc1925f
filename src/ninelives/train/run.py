"""The run: builds everything from a configuration, then collects, learns, reports and saves until the steps are done.

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
from ninelives.train.event_bridge import EventBridge
from ninelives.train.policy.heads import ACTION_MASK
from ninelives.train.saving import resume
from ninelives.train.saving.checkpoint import Checkpoint, Checkpoints
from ninelives.train.saving.provenance import provenance
from ninelives.train.saving.run_dir import RunDir
from ninelives.train.session import Session
from ninelives.train.sizing import with_n_envs


def train(config: TrainConfig, callbacks: Sequence[Callback] = (), *, sinks: Sequence[Sink] = ()) -> records.Result:
    """Train with PPO.

    Args:
        config: the whole run.
        callbacks: called in this order; see ``Callback``.
        sinks: receive the pool's events, as in ``ninelives.Pool``: at once, in any thread.

    Raises:
        ConfigError: a setting is impossible; nothing was started.
        CheckpointError: the run cannot be resumed from its checkpoint.
        WorkerStartError: the environment does not start.
    """
    listeners = Callbacks(callbacks)
    with ExitStack() as stack:
        device = chosen_device(config.device)
        run_dir = _open_run_dir(config, stack)
        found = _checkpoint_to_resume(config, run_dir)
        config, because = with_n_envs(config, _resumed_n_envs(config, run_dir, found))
        if found is not None:
            resume.check_same(found.config, plain_config(config))
        if run_dir is not None:
            run_dir.write_config(plain_config(config))
            run_dir.write_provenance(provenance())
        bridge = EventBridge(listeners)
        stack.enter_context(_torch_threads_restored())
        pool = stack.enter_context(_make_pool(config, run_dir, (bridge, *sinks), listeners))
        session = stack.enter_context(Session(config, pool, listeners, bridge, found, device, because))
        stop = stack.enter_context(_stop_on_signal(listeners))
        return _Run(config, session, listeners, run_dir, stop).train()


class _Run:
    """The cycles of one run in this process, and its checkpoints."""

    def __init__(
        self, config: TrainConfig, session: Session, callbacks: Callbacks, run_dir: RunDir | None, stop: threading.Event
    ) -> None:
        self._config, self._session, self._callbacks, self._stop = config, session, callbacks, stop
        self._tree = plain_config(config)
        self._run_dir = run_dir
        self._checkpoints = None
        if run_dir is not None:
            self._checkpoints = Checkpoints(run_dir.checkpoints, config.keep_last, config.keep_best)
        self._saved_at = session.step

    def train(self) -> records.Result:
        """Report the start, cycle until the end, report the end."""
        session, stopped = self._session, False
        session.report_start(self._path)
        while session.step < self._config.timesteps and not stopped:
            session.cycle()
            self._save_if_due()
            stopped = self._stop.is_set() or self._callbacks.stop_asked
        self._save()
        result = session.result(self._path, stopped)
        self._callbacks.on_end(result)
        return result

    @property
    def _path(self) -> Path | None:
        return None if self._run_dir is None else self._run_dir.path

    def _save_if_due(self) -> None:
        """Counted from the first step of the run, so that a resumed run saves at the same steps."""
        every = self._config.checkpoint_every
        if self._session.step // every > self._saved_at // every:
            self._save()

    def _save(self) -> None:
        if self._checkpoints is None or (
            self._saved_at == self._session.step and self._checkpoints.newest() is not None
        ):
            return
        started, session = time.perf_counter(), self._session
        path = self._checkpoints.write(
            session.state_dict(),
            step=session.step,
            config=self._tree,
            pool=session.pool.checkpoint(),
            score=session.progress.mean_return,
        )
        self._saved_at = session.step
        self._callbacks.on_checkpoint(
            records.CheckpointWritten(path=path, step=session.step, seconds=time.perf_counter() - started)
        )


def plain_config(config: TrainConfig) -> dict[str, Any]:
    """The configuration as a tree for JSON; an environment that is not a name is replaced by its label."""
    tree = {
        field.name: as_tree(getattr(config, field.name)) for field in dataclasses.fields(config) if field.name != "env"
    }
    return {"env": EnvSpec.of(config.env).label, **tree}


def _open_run_dir(config: TrainConfig, stack: ExitStack) -> RunDir | None:
    if config.run_dir is None:
        return None
    return stack.enter_context(RunDir.open(config.run_dir, resume=_resumes(config), force=config.force))


def _resumes(config: TrainConfig) -> bool:
    return config.resume or config.resume_previous


def _checkpoint_to_resume(config: TrainConfig, run_dir: RunDir | None) -> Checkpoint | None:
    if run_dir is None or not _resumes(config):
        return None
    return resume.chosen(Checkpoints(run_dir.checkpoints), previous=config.resume_previous)


def _resumed_n_envs(config: TrainConfig, run_dir: RunDir | None, found: Checkpoint | None) -> int | None:
    """The number of environments of the resumed run, also if it was ended before its first checkpoint."""
    if found is not None:
        with found.understood():
            return int(found.config["n_envs"])
    return run_dir.saved_n_envs() if run_dir is not None and _resumes(config) else None


def _make_pool(config: TrainConfig, run_dir: RunDir | None, sinks: Sequence[Sink], listeners: Callbacks) -> Pool:
    assert config.n_envs != "auto"
    settings = config.pool.settings()
    if listeners.batch_every_s is None:
        settings.update(infos=(ACTION_MASK,))  # nothing else is read; what a callback reads is not known
    if run_dir is not None:
        settings.update(run_dir=run_dir.pool, overwrite=True)
    if config.pool.split == 2:
        settings.update(batch_size=1)  # each slot alone, so that a half is complete as soon as its last slot is
    elif config.pool.ready is not None:
        settings.update(batch_size=config.pool.ready)
    return Pool(config.env_spec, config.n_envs, workers=config.pool.workers, sinks=tuple(sinks), **settings)


def chosen_device(name: str) -> str:
    """The torch device for ``config.device``.

    Raises:
        ConfigError: torch does not know it, or it is not available.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device={name!r} cannot be used: {str(error).splitlines()[0]}; try device='cpu'") from error
    return name


@contextmanager
def _torch_threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _stop_on_signal(callbacks: Callbacks) -> Iterator[threading.Event]:
    """The first Ctrl-C or SIGTERM ends the run after this update, with everything saved; the second one at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        callbacks.on_stop_signal()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
