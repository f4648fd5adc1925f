"""Brings a pool up.

::

    refuse impossible settings -> segments and bells -> keeper -> directory -> first worker says hello
    -> (workers=None: choose how many) -> slab -> the other workers -> all ready

Any failure on the way takes everything down again before it is raised.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]

from ninelives import events, host
from ninelives.clock import Clock
from ninelives.errors import ConfigError, NinelivesWarning
from ninelives.native import native_status
from ninelives.pool.data.actions import ActionWriter
from ninelives.pool.data.gather import Gatherer
from ninelives.pool.eventlog import EventLog
from ninelives.pool.rig import Rig, choose_run_dir
from ninelives.pool.workers.supervisor import Crew
from ninelives.pool.workers.worker import Happening
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.data import DataSpec
from ninelives.spec.env import EnvSpec
from ninelives.spec.handshake import Hello, WorkerSpec
from ninelives.spec.options import PoolOptions
from ninelives.spec.plan import Choice, Plan, choose_workers, make_plan
from ninelives.supervise.children import Children
from ninelives.supervise.lockfile import LockFile
from ninelives.transport.shared_memory import Wiring

PRELOAD = ("numpy", "gymnasium", "ninelives.worker.main")
"""What every worker needs anyway; imported once by the fork server."""

WORKERS_PER_CORE = 4
"""Room for ``workers=None``: environments that wait for something outside may use more workers than cores."""

Describe = Callable[[int], tuple[int | None, Any]]


@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    env: EnvSpec
    num_envs: int
    workers: int | None
    groups: int | None
    batch_size: int | None
    options: PoolOptions

    @property
    def wants_choice(self) -> bool:
        """Whether the number of workers is left to us."""
        return self.workers is None and self.num_envs > 1

    @property
    def most_workers(self) -> int:
        """How many workers there may be at most."""
        return self.workers if self.workers is not None else min(max(self.num_envs, 1), WORKERS_PER_CORE * host.cores())

    def plan(self, workers: int) -> Plan:
        """The deal for so many workers."""
        return make_plan(self.num_envs, workers, self.groups, self.batch_size)


@dataclass
class Start:
    """A pool that is up: the rig and what was learnt on the way."""

    env: EnvSpec
    rig: Rig
    plan: Plan
    hello: Hello
    because: str
    caller: Any
    gatherer: Gatherer
    writer: ActionWriter
    data: DataSpec
    arrays: Any
    started_ns: int

    def __post_init__(self) -> None:
        self._at_collection = weakref.finalize(self, self.rig.take_down, 0)

    def close(self, steps: int) -> None:
        """Take everything down within the time limit, once."""
        if self._at_collection.detach():
            self.rig.take_down(steps)


def begin(order: Order, clock: Clock, describe: Describe) -> Start:
    """Bring a pool up; returns when every worker is ready."""
    order.plan(order.most_workers)  # refuses what cannot be dealt, before any process starts
    rig = _make_rig(order, clock, describe)
    try:
        rig.open_run_dir()
        rig.children.await_up()
        return _bring_up(order, rig, clock)
    except BaseException:
        rig.take_down(steps=0)
        raise


def _make_rig(order: Order, clock: Clock, describe: Describe) -> Rig:
    options = order.options
    spec = WorkerSpec(
        env=_payload(order.env, options.start_method),
        slots=(),
        groups=None,
        total_slots=order.num_envs,
        autoreset=int(Autoreset.parse(options.autoreset)),
        check=options.check,
        infos=options.info_dtypes,
        launch_dir=os.getcwd(),
        seed_episodes=options.seed_episodes,
        heals=options.on_fault == "heal",
        snapshot_every=options.snapshot_every or 0,
        restore_timeout_s=options.restore_timeout_s,
    )
    run_dir = choose_run_dir(options)
    lock = LockFile(options.start_lock) if options.start_lock else None
    host.allow_descriptors(2 * (order.most_workers + options.spares) + 16)
    with contextlib.ExitStack() as undo:
        wiring, log = Wiring(order.most_workers, order.num_envs, options.spares), EventLog(options.sinks)
        undo.callback(wiring.close)
        preload = (*PRELOAD, *order.env.preload, *options.preload)
        children = Children(options.start_method, wiring.shared_fds, preload, order.env)
        undo.callback(children.close, options.close_timeout_s)
        crew = Crew(wiring, options, children, run_dir, clock, log.emit, describe, spec, lock)
        undo.pop_all()
    return Rig(options, run_dir, wiring, log, children, crew)


def _bring_up(order: Order, rig: Rig, clock: Clock) -> Start:
    began, news, crew, options = clock.now_ns(), _News(rig), rig.crew, order.options
    if order.wants_choice:
        hello, choice = _send_scout(order, news, crew)
        plan = order.plan(min(choice.workers, order.most_workers))
        crew.tell_scout(_groups(plan, 0))
    else:
        choice = Choice(order.most_workers, "asked for" if order.workers is not None else "there is one slot")
        plan = order.plan(choice.workers)
    later = range(1 if order.wants_choice else 0, plan.workers)
    for worker in later:
        crew.assign(worker, _groups(plan, worker), plan.slots_of(worker))
    crew.dismiss(plan.workers)
    crew.call_up(later)
    hello = news.hello()
    autoreset = Autoreset.parse(options.autoreset)
    data = DataSpec.of(hello.observation_space, hello.action_space, options.info_dtypes, autoreset, order.num_envs)
    arrays = rig.wiring.size_slab(data.layout)
    crew.let_go(data.layout.digest)
    news.await_all(plan.workers, data.layout.digest)
    crew.call_up_spares(max(len(plan.slots_of(worker)) for worker in range(plan.workers)))
    for text in hello.warnings:
        rig.log.emit(events.EnvWarned(text=text))
        warnings.warn(text, NinelivesWarning, stacklevel=4)  # where the pool was made
    control, mail = rig.wiring.control, rig.wiring.mail
    rig.log.emit(_started(order, plan, choice.because, (clock.now_ns() - began) * 1e-9))
    return Start(
        env=order.env,
        rig=rig,
        plan=plan,
        hello=hello,
        because=choice.because,
        caller=rig.wiring.caller(list(plan.group_worker), rig.children.fileno),
        gatherer=Gatherer(data, arrays, control, mail, order.num_envs, options.copy),
        writer=ActionWriter(data.action, hello.action_space, arrays, control, mail, order.num_envs),
        data=data,
        arrays=arrays,
        started_ns=clock.now_ns(),
    )


def _send_scout(order: Order, news: _News, crew: Crew) -> tuple[Hello, Choice]:
    """One worker builds and measures one environment; its numbers decide how many workers pay."""
    crew.assign(0, None, (0,))
    crew.call_up([0])
    hello = news.hello()
    assert hello.probe is not None
    return hello, choose_workers(order.num_envs, host.cores(), host.free_bytes(), hello.probe)


def _groups(plan: Plan, worker: int) -> dict[int, tuple[int, ...]]:
    return {g: plan.group_slots[g] for g in plan.groups_of(worker)}


def _started(order: Order, plan: Plan, because: str, seconds: float) -> events.PoolStarted:
    return events.PoolStarted(
        env=order.env.label,
        num_envs=order.num_envs,
        workers=plan.workers,
        groups=len(plan.group_slots),
        batch_size=plan.batch_size,
        start_method=order.options.start_method,
        native=native_status().active,
        on_fault=order.options.on_fault,
        seconds=seconds,
        workers_because=because,
    )


class _News:
    """Waits for workers to come up, one look at a time."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._hellos: dict[int, Hello] = {}
        self._up: set[int] = set()

    def hello(self) -> Hello:
        """The first worker's hello, whichever that is."""
        while not self._hellos:
            self._look()
        return next(iter(self._hellos.values()))

    def await_all(self, workers: int, digest: str) -> None:
        """Until every worker is ready; all must have the same spaces."""
        while len(self._up) < workers:
            self._look()
        for worker, hello in self._hellos.items():
            if hello.digest != digest:
                raise ConfigError(f"worker {worker} built environments with other spaces than the first worker")

    def _look(self) -> None:
        crew, rig = self._rig.crew, self._rig
        happenings = crew.poll(lambda worker: None)
        for happening in happenings:
            self._take(happening)
        crew.start_due()
        if not happenings:
            rig.wiring.parent_bell.wait(crew.next_look_s, rig.children.fileno)

    def _take(self, happening: Happening) -> None:
        if happening.kind == "hello" and happening.hello is not None:
            self._hellos[happening.worker] = happening.hello
        elif happening.kind == "up":
            self._up.add(happening.worker)
        elif happening.kind == "down":
            self._up.discard(happening.worker)
            self._hellos.pop(happening.worker, None)


def _payload(env: EnvSpec, start_method: str) -> bytes | None:
    """The environment as bytes; with ``fork`` it may also simply be inherited."""
    try:
        return bytes(cloudpickle.dumps(env, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        if start_method == "fork":
            return None
        raise ConfigError(
            f"env={env.label!r} cannot be sent to a worker ({type(error).__name__}: {error}); define it at module "
            "level, give it as 'module:factory', or use start_method='fork'"
        ) from error
