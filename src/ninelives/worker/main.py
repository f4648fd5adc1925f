"""A worker's life: import, construct, say hello, wait for go, construct the rest, serve, close.

Called by name in a process that ``supervise.child`` has prepared (own process group, log instead of terminal, scratch
directory, no foreign descriptors). A failure before the first observation leaves an error report in the mailbox.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import random
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ninelives.native import native_module
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.context import SlotContext
from ninelives.spec.data import DataSpec
from ninelives.spec.equal_spaces import DifferentSpacesError
from ninelives.spec.handshake import Hello, WorkerPlace, WorkerSpec
from ninelives.spec.phase import Phase, Stage
from ninelives.spec.plan import Probe
from ninelives.supervise.child import DUMP_SIGNAL
from ninelives.transport.bell import Bell
from ninelives.transport.control import TO_CORE, TO_GO, TO_MESSAGE, TO_STOP, Control, control_layout
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER, Mailbox
from ninelives.transport.plain_pickle import PlainPickle
from ninelives.transport.segment import Segment
from ninelives.worker import probe
from ninelives.worker.error_report import collected_warnings, error_report
from ninelives.worker.loop import make_loop
from ninelives.worker.progress import ProgressWords
from ninelives.worker.reuse import ReuseCheck
from ninelives.worker.slot import EnvSlot, SlotSettings

EXIT_FAILED = 3
"""Exit code of a worker that left an error report: it never started."""


def run(args: Mapping[str, Any], payload: Any) -> int:
    """Run a worker; returns its exit code. ``payload`` is the environment's specification if it came by fork."""
    seat = WorkerPlace(**args, payload=payload)
    _dump_native_stack_too()
    control_segment = Segment(seat.control_fd, control_layout(seat.workers, seat.slots).nbytes)
    control_segment.keep_from_children()
    worker = Worker(seat, Control(control_segment.buffer, seat.workers, seat.slots))
    try:
        worker.start()
        worker.serve()
    except Exception:
        worker.report_error()
        return EXIT_FAILED
    worker.close()
    return 0


def _dump_native_stack_too() -> None:
    """On the dump signal write the native stack too: faulthandler calls our handler after the Python stack."""
    native = native_module("ninelives.worker._stack")
    if native is not None:
        faulthandler.unregister(DUMP_SIGNAL)
        native.install(int(DUMP_SIGNAL), 2)
        faulthandler.register(DUMP_SIGNAL, file=2, all_threads=True, chain=True)


class Worker:
    """The process's own state: its slots, its control words, its mailbox."""

    def __init__(self, seat: WorkerPlace, control: Control) -> None:
        self._seat, self._control = seat, control
        self._mail = Mailbox(seat.mail_fd, seat.slots)
        self._progress = ProgressWords(control, seat.worker, seat.generation)
        self._bell, self._parent_bell = Bell(*seat.bell), Bell(*seat.parent_bell)
        self._slots: dict[int, EnvSlot] = {}

    def start(self) -> None:
        """Everything up to the first request."""
        self._progress.enter(Phase.IMPORT)
        # A forked process inherits its parent's random state: unseeded environments would all play the same game.
        random.seed()
        np.random.seed()
        window = self._mail.worker_window(self._seat.worker)
        spec: WorkerSpec = self._mail.get(window, TO_WORKER, self._seat.message_bytes)
        env = pickle.loads(spec.env) if isinstance(spec.env, bytes) else self._seat.payload
        self._make = env.load()
        self._spec, self._mail.plain = spec, PlainPickle(spec.info_types)
        with collected_warnings() as self._warnings:
            for slot in spec.slots:
                self._construct(slot)
        measured = self._measure(spec.slots[0]) if spec.groups is None and not spec.spare else None
        self._say_hello(measured)
        given = self._await_go()
        self._groups = spec.groups if spec.groups is not None else given
        if spec.spare:
            self._take_slots([s for slots in self._groups.values() for s in slots])
        for slot in (s for slots in self._groups.values() for s in slots if s not in self._slots):
            self._construct(slot)
        self._attach()
        self._progress.enter(Phase.IDLE)
        self._report(Stage.READY)

    def _take_slots(self, slots: list[int]) -> None:
        """A spare takes over: its environments become those of the slots that lost theirs."""
        built = list(self._slots.values())
        self._slots = {}
        for env_slot, slot in zip(built, slots, strict=False):
            env_slot.index = slot
            self._slots[slot] = env_slot
        for left_over in built[len(slots) :]:
            left_over.close()

    def _attach(self) -> None:
        """Take the rows of the slab, then restore the episodes that an earlier generation left."""
        if os.fstat(self._seat.slab_fd).st_size != self._data.layout.nbytes:
            raise self._misfit()  # the parent may have sized it before it read this worker's hello
        slab = Segment(self._seat.slab_fd, self._data.layout.nbytes)
        slab.keep_from_children()
        self._arrays = self._data.layout.views(slab.buffer)
        spec = self._spec
        self._settings = SlotSettings(
            spec.check,
            Autoreset(spec.autoreset),
            spec.seed_episodes,
            spec.heals,
            spec.snapshot_every,
            spec.restore_timeout_s,
            spec.fresh_env_every_episode,
        )
        reuse = ReuseCheck()
        for slot in self._slots.values():
            # Bounds are checked slot by slot, so where they may differ each slot has its own; the layout is the same.
            data = self._data if spec.observation_mode.is_same else self._data_of(slot.env)
            slot.attach(data, self._arrays, self._settings, reuse)
        for slot in self._slots.values():
            if self._control.restore_bytes[slot.index]:
                slot.restore(fresh=True)

    def serve(self) -> None:
        """Answer requests until the parent says stop."""
        self._keep_to_core()
        groups = {g: [self._slots[s] for s in slots if s in self._slots] for g, slots in self._groups.items()}
        make_loop(
            self._control,
            self._seat.worker,
            self._progress,
            groups,
            self._data,
            self._arrays,
            self._settings,
            (self._bell, self._parent_bell),
        ).serve()

    def _keep_to_core(self) -> None:
        """Stay on this worker's own core. Not before: the start may use whatever core is free."""
        core = int(self._control.to_worker[self._seat.worker, TO_CORE]) - 1
        if core < 0:
            return
        try:
            os.sched_setaffinity(0, {core})
        except OSError as error:
            print(
                f"core {core} is no longer available ({error}): this worker may run on any core",
                file=sys.stderr,
            )

    def close(self) -> None:
        """Close the environments."""
        self._progress.enter(Phase.CLOSE)
        for slot in self._slots.values():
            slot.close()

    def report_error(self) -> None:
        """Report a failure before the first observation, or a bug in this package, as text."""
        traceback.print_exc()
        self._report(Stage.FAILED, error_report(sys.exc_info()[1], self._progress.phase))

    def _construct(self, slot: int) -> None:
        context = SlotContext(
            slot, self._seat.generation, Path(self._seat.scratch) / f"slot-{slot}", Path(self._spec.launch_dir)
        )
        self._slots[slot] = EnvSlot(context, self._make, self._control, self._mail, self._progress)
        self._slots[slot].construct()
        self._check_spaces(slot)

    def _check_spaces(self, slot: int) -> None:
        """All environments of this worker must fit the spaces of its first; other workers are the parent's affair."""
        first, env = next(iter(self._slots.values())), self._slots[slot].env
        found = (env.observation_space, env.action_space)
        wanted = (first.env.observation_space, first.env.action_space)
        text = self._spec.observation_mode.difference(slot, found, first.index, wanted)
        if text is not None:
            raise DifferentSpacesError(text)

    def _measure(self, slot: int) -> Probe:
        """Measure one environment, then rebuild it so that no episode begins with used state."""
        env_slot = self._slots[slot]
        build_s = int(self._control.construct_ns[slot]) * 1e-9
        if not self._spec.measure:
            return probe.unknown(probe.BROKE)
        if build_s > probe.QUICK_BUILD_S:
            return probe.unknown(probe.SLOW)
        result = probe.measure(env_slot.env, lambda phase: self._progress.enter(phase, slot))
        self._progress.enter(Phase.CLOSE, slot)
        env_slot.close()
        env_slot.construct()
        return result

    def _say_hello(self, measured: Probe | None) -> None:
        env = next(iter(self._slots.values())).env
        spec = self._spec
        self._data = self._data_of(env)
        if spec.digest and self._data.layout.digest != spec.digest:
            raise self._misfit()
        hello = Hello(
            env.observation_space,
            env.action_space,
            dict(getattr(env, "metadata", None) or {}),
            getattr(env, "render_mode", None),
            getattr(env, "spec", None),
            self._data.layout.digest,
            measured,
            tuple(dict.fromkeys(self._warnings)),
        )
        self._report(Stage.HELLO, hello)

    def _data_of(self, env: Any) -> DataSpec:
        spec = self._spec
        return DataSpec.of(
            env.observation_space,
            env.action_space,
            spec.infos,
            Autoreset(spec.autoreset),
            spec.total_slots,
            spec.wanted_infos,
        )

    def _misfit(self) -> DifferentSpacesError:
        """This worker's rows do not fit the slab, which has the layout of another worker's spaces."""
        slot = next(iter(self._slots.values()))
        return DifferentSpacesError(
            f"slot {slot.index} has other spaces than the pool: its observation space is "
            f"{slot.env.observation_space}, its action space is {slot.env.action_space}; all must be equal"
        )

    def _await_go(self) -> Mapping[int, tuple[int, ...]]:
        """Wait until the slab has its size; returns the groups, for a worker that was started without."""
        self._progress.enter(Phase.IDLE)
        line = self._control.to_worker[self._seat.worker]
        while not line[TO_GO]:
            if line[TO_STOP]:
                raise SystemExit(0)
            self._bell.wait(1.0)
        if not line[TO_MESSAGE]:
            return {}
        window = self._mail.worker_window(self._seat.worker)
        groups: Mapping[int, tuple[int, ...]] = self._mail.get(window, TO_WORKER, int(line[TO_MESSAGE]))
        return groups

    def _report(self, stage: Stage, message: Any = None) -> None:
        """Publish a stage of the start, with its message; the parent may sleep on its bell."""
        window = self._mail.worker_window(self._seat.worker)
        self._progress.reach(stage, None if message is None else self._mail.put(window, TO_PARENT, message))
        self._parent_bell.ring()
