"""Brings a pool up and takes it down: run directory, keeper, wiring, first worker, plan, the rest.

::

    refuse impossible settings -> directory -> segments and bells -> keeper -> first worker says hello
    -> (workers=None: choose how many) -> slab -> the other workers -> all ready

Any failure on the way takes everything down again before it is raised.
"""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]

from rookery import events
from rookery.clock import Clock
from rookery.errors import ConfigError
from rookery.pool.actions import ActionWriter
from rookery.pool.crew import Crew
from rookery.pool.member import Happening
from rookery.pool.eventlog import EVENTS_FILE, EventLog, has_run
from rookery.pool.gather import Gatherer
from rookery.pool.wiring import Wiring
from rookery.spec.autoreset import Autoreset
from rookery.spec.data import DataSpec
from rookery.spec.env import EnvSpec
from rookery.spec.options import PoolOptions
from rookery.spec.plan import Plan, choose_workers, make_plan
from rookery.spec.seat import Hello, WorkerSpec
from rookery.supervise import host
from rookery.supervise.children import Children
from rookery.transport.native import native_status

PRELOAD = ("numpy", "gymnasium", "rookery.worker.main")
"""What every worker needs anyway; imported once by the fork server."""


@dataclass
class Start:
    """Everything a running pool consists of."""

    env: EnvSpec
    plan: Plan
    crew: Crew
    wiring: Wiring
    children: Children
    hello: Hello
    run_dir: Path
    log: EventLog
    because: str
    options: PoolOptions
    caller: Any
    gatherer: Gatherer
    writer: ActionWriter
    started_ns: int
    _finalizer: Any = field(default=None)

    def close(self, steps: int) -> None:
        """Take everything down within the time limit."""
        self._finalizer.detach()
        take_down(self.crew, self.children, self.wiring, self.log, self.run_dir, self.options, steps)


def begin(
    env: EnvSpec, num_envs: int, workers: int | None, groups: int | None, batch_size: int | None,
    options: PoolOptions, clock: Clock, describe: Callable[[int], tuple[int | None, Any]],
) -> Start:  # fmt: skip
    """Bring a pool up; returns when every worker is ready."""
    most = workers if workers is not None else min(max(num_envs, 1), _most_workers())
    plan = make_plan(num_envs, most, groups, batch_size)
    infos = options.info_dtypes
    payload = _payload(env, options.start_method)
    host.allow_descriptors(2 * most + 16)
    run_dir = _run_dir(options)
    wiring = Wiring(most, num_envs)
    log = EventLog(options.sinks)
    children = Children(options.start_method, wiring.shared_fds, (*PRELOAD, *options.preload), env)
    spec = WorkerSpec(
        env=payload, slots=(), groups=None, total_slots=num_envs, autoreset=int(Autoreset.parse(options.autoreset)),
        check=options.check, infos=infos, launch_dir=os.getcwd(),
    )  # fmt: skip
    crew = Crew(wiring, options, children, run_dir, clock, log.emit, describe, spec)
    try:
        _open_run_dir(run_dir, options, children, log)
        return _bring_up(env, num_envs, workers, groups, batch_size, options, clock, plan, crew, wiring, children, run_dir, log)
    except BaseException:
        take_down(crew, children, wiring, log, run_dir, options, steps=0)
        raise


def _bring_up(
    env: EnvSpec, num_envs: int, workers: int | None, groups: int | None, batch_size: int | None, options: PoolOptions,
    clock: Clock, plan: Plan, crew: Crew, wiring: Wiring, children: Children, run_dir: Path, log: EventLog,
) -> Start:  # fmt: skip
    began = clock.now_ns()
    crew.started_ns = began
    because = f"workers={workers} was asked for"
    news = _News(crew, wiring, children)
    children.await_up()
    if workers is None and num_envs > 1:
        crew.assign(0, None, (0,))
        crew.call_up([0])
        hello = news.hello()
        assert hello.probe is not None
        choice = choose_workers(num_envs, host.cores(), host.free_bytes(), hello.probe)
        because = choice.because
        plan = make_plan(num_envs, min(choice.workers, wiring.workers), groups, batch_size)
        _assign(crew, plan, first=1)
    else:
        because = because if workers is not None else "there is one slot"
        _assign(crew, plan, first=0)
        crew.call_up(range(plan.workers))
        hello = news.hello()
    data = DataSpec.of(
        hello.observation_space, hello.action_space, options.info_dtypes, Autoreset.parse(options.autoreset), num_envs
    )
    arrays = wiring.size_slab(data.layout)
    if workers is None and num_envs > 1:
        crew.tell_scout({g: plan.group_slots[g] for g in plan.groups_of(0)})
        crew.call_up(range(1, plan.workers))
    crew.let_go()
    news.await_all(plan.workers, data.layout.digest)
    crew.dismiss(plan.workers)
    autoreset = Autoreset.parse(options.autoreset)
    start = Start(
        env, plan, crew, wiring, children, hello, run_dir, log, because, options,
        wiring.caller(list(plan.group_worker), children.fileno),
        Gatherer(data, arrays, wiring.control, wiring.mail, num_envs, autoreset, options.copy),
        ActionWriter(data.action, hello.action_space, arrays, wiring.control, wiring.mail, num_envs), clock.now_ns(),
    )  # fmt: skip
    start._finalizer = weakref.finalize(start, take_down, crew, children, wiring, log, run_dir, options, 0)
    log.emit(
        events.PoolStarted(
            env=env.label, num_envs=num_envs, workers=plan.workers, groups=len(plan.group_slots),
            batch_size=plan.batch_size, start_method=options.start_method, native=native_status().active,
            on_fault=options.on_fault, seconds=(clock.now_ns() - began) * 1e-9, workers_because=because,
        )
    )  # fmt: skip
    return start


class _News:
    """Waits for workers to come up, one look at a time."""

    def __init__(self, crew: Crew, wiring: Wiring, children: Children) -> None:
        self._crew, self._wiring, self._children = crew, wiring, children
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
        for happening in self._crew.poll(lambda worker: None):
            self._take(happening)
        if not self._hellos or self._crew.living():
            self._wiring.parent_bell.wait(self._crew.next_look_s, self._children.fileno)

    def _take(self, happening: Happening) -> None:
        if happening.kind == "hello" and happening.hello is not None:
            self._hellos[happening.worker] = happening.hello
        elif happening.kind == "up":
            self._up.add(happening.worker)
        elif happening.kind == "down":
            self._up.discard(happening.worker)
            self._hellos.pop(happening.worker, None)


def take_down(
    crew: Crew, children: Children, wiring: Wiring, log: EventLog, run_dir: Path, options: PoolOptions, steps: int
) -> None:
    """End workers politely, then firmly, then the keeper; remove what must not stay. Bounded in every branch.

    A second Ctrl-C while waiting skips the polite part.
    """
    began, limit = time.monotonic(), options.close_timeout_s
    try:
        crew.stop_all()
        crew.await_exits(limit / 2)
    except KeyboardInterrupt:
        pass
    killed = len(crew.living())
    crew.kill_all()
    crew.await_exits(limit / 4)
    children.close(limit / 4)
    log.emit(events.PoolClosed(seconds=time.monotonic() - began, killed=killed, steps=steps, faults=crew.ledger.faults))
    log.close()
    wiring.close()
    shutil.rmtree(run_dir if options.run_dir is None else run_dir / "scratch", ignore_errors=True)


def _assign(crew: Crew, plan: Plan, first: int) -> None:
    for worker in range(first, plan.workers):
        crew.assign(worker, {g: plan.group_slots[g] for g in plan.groups_of(worker)}, plan.slots_of(worker))


def _most_workers() -> int:
    """Room for the choice: environments that wait for something outside may use many more workers than cores."""
    return 4 * host.cores()


def _payload(env: EnvSpec, start_method: str) -> bytes | None:
    """The environment as bytes; with ``fork`` it may also simply be inherited."""
    try:
        return bytes(cloudpickle.dumps(env, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        if start_method == "fork":
            return None
        raise ConfigError(
            f"env={env.label!r} cannot be sent to a worker ({type(error).__name__}: {error}); define it at module level, "
            "give it as 'module:factory', or use start_method='fork'"
        ) from error


def _run_dir(options: PoolOptions) -> Path:
    if options.run_dir is None:
        return Path(tempfile.gettempdir()) / f"rookery-{os.getpid()}-{secrets.token_hex(4)}"
    run_dir = Path(options.run_dir).absolute()
    if has_run(run_dir) and not options.overwrite:
        raise ConfigError(
            f"run_dir={str(options.run_dir)!r} already holds a run; choose another directory, or pass overwrite=True to "
            "replace its events and logs"
        )
    return run_dir


def _open_run_dir(run_dir: Path, options: PoolOptions, children: Children, log: EventLog) -> None:
    """Make directories. A temporary one is made by the keeper, which removes it however the parent ends."""
    if options.run_dir is None:
        children.tidy(str(run_dir))
    else:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_old_run(run_dir)
        log.keep_in(run_dir)
        children.tidy(str(run_dir / "scratch"))


def _forget_old_run(run_dir: Path) -> None:
    """Only what a pool itself wrote; anything else in the directory is the user's."""
    for path in (run_dir / EVENTS_FILE, *run_dir.glob("worker-*.log")):
        path.unlink(missing_ok=True)

