"""Brings a pool up.

::

    refuse impossible settings -> shared memory and bells -> keeper -> directory -> first worker says hello
    -> (workers=None: choose how many) -> slab -> the other workers -> all ready

Any failure on the way takes everything down again before it is raised.
"""

from __future__ import annotations

import contextlib
import pickle
import warnings
import weakref
from dataclasses import dataclass, replace

import cloudpickle  # type: ignore[import-untyped, unused-ignore]

from ninelives import events, host
from ninelives.clock import Clock
from ninelives.errors import ConfigError, NinelivesWarning
from ninelives.native import native_status
from ninelives.pool.eventlog import EventLog
from ninelives.pool.resources import Resources, choose_run_dir
from ninelives.pool.runtime import Runtime
from ninelives.pool.shutdown import shut_down
from ninelives.pool.workers.postmortem import Describe
from ninelives.pool.workers.supervisor import Supervisor
from ninelives.pool.workers.worker import WorkerChange
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.data import DataSpec
from ninelives.spec.env import EnvSpec
from ninelives.spec.handshake import Hello, WorkerSpec
from ninelives.spec.observation_mode import ObservationMode
from ninelives.spec.options import PoolOptions
from ninelives.spec.plan import Plan, WorkerChoice, choose_workers, make_plan
from ninelives.supervise.children import Children
from ninelives.supervise.lockfile import LockFile
from ninelives.transport.plain_pickle import PlainPickle
from ninelives.transport.shared_memory import SharedMemory

PRELOAD = ("numpy", "gymnasium", "ninelives.worker.main")
"""What every worker needs anyway; imported once by the fork server."""

WORKERS_PER_CORE = 4
"""Room for ``workers=None``: environments that wait for something outside may use more workers than cores."""


@dataclass(frozen=True)
class PoolRequest:
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
        """The plan for so many workers."""
        return make_plan(self.num_envs, workers, self.groups, self.batch_size)


class StartedPool:
    """A pool that is up: its runtime, its supervisor, and what was learned on the way."""

    def __init__(self, runtime: Runtime, supervisor: Supervisor, hello: Hello, because: str) -> None:
        self.runtime, self.supervisor, self.hello, self.because = runtime, supervisor, hello, because
        self.started_ns = runtime.clock.now_ns()
        self._at_collection = weakref.finalize(self, shut_down, runtime.resources, supervisor, 0)

    def close(self, steps: int) -> None:
        """Take everything down within the time limit, once."""
        if self._at_collection.detach():
            shut_down(self.runtime.resources, self.supervisor, steps)


def start_pool(request: PoolRequest, clock: Clock, describe: Describe) -> StartedPool:
    """Bring a pool up; returns when every worker is ready."""
    request.plan(request.most_workers)  # refuses what cannot be planned, before any process starts
    spec = _worker_spec(request)
    resources = _acquire(request, clock)
    supervisor = Supervisor(resources, spec, describe)
    try:
        resources.open_run_dir()
        resources.children.await_up()
        return _bring_up(request, resources, supervisor)
    except BaseException:
        shut_down(resources, supervisor, steps=0)
        raise


def _worker_spec(request: PoolRequest) -> WorkerSpec:
    options = request.options
    return WorkerSpec(
        env=_payload(request.env, options.start_method),
        slots=(),
        groups=None,
        total_slots=request.num_envs,
        autoreset=int(Autoreset.parse(options.autoreset)),
        check=options.check,
        infos=options.info_dtypes,
        launch_dir=host.current_directory(),
        seed_episodes=options.seed_episodes,
        heals=options.on_fault == "heal",
        snapshot_every=options.snapshot_every or 0,
        restore_timeout_s=options.restore_timeout_s,
        info_types=options.info_types,
        observation_mode=ObservationMode.parse(options.observation_mode),
        fresh_env_every_episode=options.fresh_env_every_episode,
        wanted_infos=options.wanted_infos,
    )


def _acquire(request: PoolRequest, clock: Clock) -> Resources:
    """Memory and keeper; nothing is left behind if either cannot be had."""
    options = request.options
    run_dir = choose_run_dir(options)
    lock = LockFile(options.start_lock) if options.start_lock else None
    host.allow_descriptors(2 * (request.most_workers + options.spares) + 16)
    with contextlib.ExitStack() as undo:
        memory = SharedMemory(request.most_workers, request.num_envs, options.spares)
        undo.callback(memory.close)
        memory.mail.plain = PlainPickle(options.info_types)
        preload = (*PRELOAD, *request.env.preload, *options.preload)
        children = Children(options.start_method, memory.shared_fds, preload, request.env)
        undo.pop_all()
    return Resources(options, clock, run_dir, memory, children, EventLog(options.sinks), lock)


def _bring_up(request: PoolRequest, resources: Resources, supervisor: Supervisor) -> StartedPool:
    clock, options, arrivals = resources.clock, request.options, _Arrivals(resources, supervisor)
    began = clock.now_ns()
    plan, because = _start_workers(request, supervisor, arrivals)
    hello = arrivals.hello()
    autoreset = Autoreset.parse(options.autoreset)
    data = DataSpec.of(hello.observation_space, hello.action_space, options.info_dtypes, autoreset, request.num_envs)
    arrays = resources.memory.size_slab(data.layout)
    supervisor.launcher.let_all_go(data.layout.digest)
    arrivals.await_all(plan.workers)
    hello = arrivals.hello_of_first_slot()
    supervisor.launcher.request_spares(max(len(plan.slots_of(worker)) for worker in range(plan.workers)))
    for text in hello.warnings:
        resources.log.emit(events.EnvWarned(text=text))
        warnings.warn(text, NinelivesWarning, stacklevel=4)  # where the pool was made
    resources.log.emit(_started(request, plan, because, (clock.now_ns() - began) * 1e-9))
    caller = resources.memory.caller(list(plan.group_worker), resources.children.fileno)
    return StartedPool(Runtime(plan, caller, data, arrays, resources), supervisor, hello, because)


def _start_workers(request: PoolRequest, supervisor: Supervisor, arrivals: _Arrivals) -> tuple[Plan, str]:
    """Choose the number of workers, by measuring if it was left to us, and let all of them start."""
    launcher = supervisor.launcher
    if request.wants_choice:
        choice = _measure(request, supervisor, arrivals)
        plan = request.plan(min(choice.workers, request.most_workers))
        launcher.send_groups(launcher.workers[0], _groups(plan, 0))
    else:
        choice = WorkerChoice(request.most_workers, "asked for" if request.workers is not None else "there is one slot")
        plan = request.plan(choice.workers)
    later = range(1 if request.wants_choice else 0, plan.workers)
    for worker in later:
        launcher.assign(worker, _groups(plan, worker), plan.slots_of(worker))
    launcher.forget_beyond(plan.workers)
    launcher.request(later)
    return plan, choice.because


def _measure(request: PoolRequest, supervisor: Supervisor, arrivals: _Arrivals) -> WorkerChoice:
    """One worker builds and measures one environment; its numbers decide how many workers pay."""
    supervisor.launcher.assign(0, None, (0,))
    supervisor.launcher.request([0])
    hello = arrivals.hello()
    assert hello.probe is not None
    return choose_workers(request.num_envs, host.cores(), host.free_bytes(), hello.probe)


def _groups(plan: Plan, worker: int) -> dict[int, tuple[int, ...]]:
    return {g: plan.group_slots[g] for g in plan.groups_of(worker)}


def _started(request: PoolRequest, plan: Plan, because: str, seconds: float) -> events.PoolStarted:
    return events.PoolStarted(
        env=request.env.label,
        num_envs=request.num_envs,
        workers=plan.workers,
        groups=len(plan.group_slots),
        batch_size=plan.batch_size,
        start_method=request.options.start_method,
        native=native_status().active,
        on_fault=request.options.on_fault,
        seconds=seconds,
        workers_because=because,
    )


class _Arrivals:
    """Waits for workers to come up."""

    def __init__(self, resources: Resources, supervisor: Supervisor) -> None:
        self._resources, self._supervisor = resources, supervisor
        self._hellos: dict[int, Hello] = {}
        self._up: set[int] = set()

    def hello(self) -> Hello:
        """The first worker's hello, whichever that is."""
        while not self._hellos:
            self._look()
        return next(iter(self._hellos.values()))

    def hello_of_first_slot(self) -> Hello:
        """What stands for all slots, once every worker is ready: slot 0, or the user's own space."""
        hello, mode = self._hellos[0], ObservationMode.parse(self._resources.options.observation_mode)
        return hello if mode.single is None else replace(hello, observation_space=mode.single)

    def await_all(self, workers: int) -> None:
        """Until every worker is ready."""
        while len(self._up) < workers:
            self._look()

    def _look(self) -> None:
        supervisor, resources = self._supervisor, self._resources
        changes = supervisor.poll(lambda worker: None)
        for change in changes:
            self._take(change)
        supervisor.start_due()
        if not changes:
            resources.memory.parent_bell.wait(supervisor.next_look_s, resources.children.fileno)

    def _take(self, change: WorkerChange) -> None:
        if change.kind == "hello" and change.hello is not None:
            self._check_spaces(change.worker, change.hello)
            self._hellos[change.worker] = change.hello
        elif change.kind == "up":
            self._up.add(change.worker)
        elif change.kind == "down":
            self._up.discard(change.worker)
            self._hellos.pop(change.worker, None)

    def _check_spaces(self, worker: int, hello: Hello) -> None:
        """All workers must fit the spaces of the first."""
        if not self._hellos:
            return
        first, other = next(iter(self._hellos.items()))
        found = (hello.observation_space, hello.action_space)
        wanted = (other.observation_space, other.action_space)
        slot, first_slot = (self._supervisor.workers[one].slots[0] for one in (worker, first))
        mode = ObservationMode.parse(self._resources.options.observation_mode)
        text = mode.difference(slot, found, first_slot, wanted)
        if text is not None:
            self._supervisor.refuse_spaces(worker, text)


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
