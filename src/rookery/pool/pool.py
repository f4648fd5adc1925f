"""The pool: ``send`` actions, ``recv`` a batch, whatever happens to the workers in between.

The fast path is short: write actions, bump the groups' numbers, wait, copy rows. Whenever anything is wrong with any
slot (``desk.troubled``) the careful path decides group by group. A dead or late worker is noticed in the slow branch of
the same wait that waits for answers; there is no watching thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from rookery import events
from rookery.clock import Clock, SystemClock
from rookery.errors import ClosedError, ConfigError, Fault, UsageError, error_for
from rookery.pool import evidence
from rookery.pool.batch import Batch
from rookery.pool.crew import Crew, Happening
from rookery.pool.desk import Desk, Life, Verdict
from rookery.pool.journal import Journal
from rookery.pool.metrics import PoolMetrics, measure
from rookery.pool.start import Start, begin
from rookery.spec.autoreset import Autoreset
from rookery.spec.call import CallRequest, CallResult
from rookery.spec.env import EnvSpec
from rookery.spec.options import PoolOptions
from rookery.spec.phase import Attention, Op, Status
from rookery.supervise.machine import NS
from rookery.transport.mailbox import TO_PARENT, TO_WORKER

TICK_NS = 50_000_000
"""How often a busy pool looks after its workers; an idle wait looks as often."""

LIMITS_NS = 1_000_000_000
"""How often ages, sizes and logs are looked at."""


class Pool:
    """N environments as one batch, in worker processes that are allowed to die.

    Args:
        env: a Gymnasium id, ``"module:factory"``, a callable, or an ``EnvSpec``.
        num_envs: how many slots.
        workers: how many processes; None measures one environment and chooses.
        groups: groups per worker; None: one for full batches, one per slot otherwise.
        batch_size: how many slots ``recv`` returns; None: all.
        clock: for tests.
        **settings: see ``PoolOptions``.
    """

    def __init__(
        self,
        env: EnvSpec | str | Callable[..., Any],
        num_envs: int,
        *,
        workers: int | None = None,
        groups: int | None = None,
        batch_size: int | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        self._closed = True
        self._clock = clock or SystemClock()
        self.options = PoolOptions.of(settings)
        self._journal = Journal(num_envs if num_envs > 0 else 1)
        self._start: Start = begin(
            EnvSpec.of(env), num_envs, workers, groups, batch_size, self.options, self._clock, self._describe
        )
        self._closed = False
        self._adopt(self._start)

    def _adopt(self, start: Start) -> None:
        self._plan, self._crew, self._control, self._mail = start.plan, start.crew, start.wiring.control, start.wiring.mail
        self._caller, self._gather, self._writer = start.caller, start.gatherer, start.writer
        self.num_envs, self.batch_size = self._plan.num_envs, self._plan.batch_size
        self.observation_space, self.action_space = start.hello.observation_space, start.hello.action_space
        self.metadata, self.render_mode, self.env_spec = (
            start.hello.metadata, start.hello.render_mode, start.hello.env_spec,
        )  # fmt: skip
        self._autoreset = Autoreset.parse(self.options.autoreset)
        self._desk = Desk(self.num_envs)
        self._group_slots = [np.array(slots) for slots in self._plan.group_slots]
        self._group_of = np.empty(self.num_envs, np.int64)
        for g, slots in enumerate(self._group_slots):
            self._group_of[slots] = g
        self._worker_of = np.array([self._plan.group_worker[g] for g in self._group_of])
        self._batch_groups = len(self._group_slots)
        if not self._plan.is_synchronous:
            self._batch_groups = self.batch_size // len(self._group_slots[0])
        self._sent_ns = np.zeros(len(self._group_slots), np.int64)
        self._turn = 0
        self._begun = False
        self._held: dict[int, int] = {}
        self._wait_for_resets = False
        self._faults_now: dict[int, Fault] = {}
        self._retiring: tuple[int, str] | None = None
        self._next_tick = self._next_limits = self._clock.now_ns() + TICK_NS
        self._control.op[:] = Op.STEP

    # ---- public: stepping ------------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
        slots: Sequence[int] | None = None,
    ) -> Batch:
        """Reset all or some slots and return their first observations.

        Answers that are still under way are waited for and dropped. ``seed`` is one number (slot ``i`` gets
        ``seed + i``), or one per slot that is reset.
        """
        self._check_open()
        chosen = self._gather.all_slots if slots is None else self._checked_slots(slots)
        seeds = self._seeds(seed, chosen)
        self._drain()
        for slot, slot_seed in zip(chosen.tolist(), seeds, strict=True):
            self._journal.begin(slot, slot_seed, options)
        self._wait_for_resets = True
        try:
            batch = self._reset_until_done(chosen, seeds, options)
        finally:
            self._wait_for_resets = False
        self._begun = self._begun or slots is None
        return batch

    def send(self, actions: Any, slots: Sequence[int] | npt.NDArray[np.int64] | None = None) -> None:
        """Give actions to all slots, or to ``slots`` (row by row); returns at once."""
        if self._closed or not self._begun:
            self._refuse()
        if slots is None:
            if self._caller.inflight_count:
                self._refuse_pending()
            self._writer.write_all(actions)
        else:
            slots = self._checked_slots(slots)
            self._writer.write(actions, slots)
        if self._autoreset is Autoreset.DISABLED:
            self._refuse_finished(slots)
        now = self._clock.now_ns()
        if self._desk.troubled or self._retiring or slots is not None:
            self._send_groups(self._groups_of(slots), now)
        else:
            self._sent_ns.fill(now)
            self._caller.post_all()

    def recv(self) -> Batch:
        """Wait for the first ``batch_size`` slots that are ready and return their rows."""
        if self._closed:
            self._refuse()
        inflight = self._caller.inflight_count
        if not inflight:
            raise UsageError("nothing is under way: call send() (or reset()) before recv()")
        need = min(self._batch_groups, inflight)
        while self._caller.wait(need, TICK_NS) < need or self._clock.now_ns() >= self._next_tick:
            self._attend()
            if self._count_ready(need):
                break
        if self._desk.troubled:
            self._attend()  # a worker that answers is up: learn of it before its rows are judged
        if need == len(self._group_slots) and not self._desk.troubled:
            attention = self._caller.collect_all()
            if not attention & Attention.FAULT:
                return self._gather.everybody(attention)
            return self._hand_out(self._gather.all_slots, attention)
        groups, attention = self._caller.collect(need, self._turn)
        self._turn = (groups[-1] + 1) % len(self._group_slots)
        if need == len(self._group_slots):
            groups.sort()
        return self._hand_out(np.concatenate([self._group_slots[g] for g in groups]), attention)

    def step(self, actions: Any) -> Batch:
        """``send`` then ``recv``."""
        self.send(actions)
        return self.recv()

    # ---- public: everything else ------------------------------------------------------------------------------------

    def call(self, method: str, *args: Any, slots: Sequence[int] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment (or read an attribute); results in the order of the slots."""
        return self.request(CallRequest("call", method, args, kwargs), slots)

    def request(
        self, request: CallRequest | Sequence[CallRequest], slots: Sequence[int] | None = None
    ) -> tuple[Any, ...]:
        """Send a call (or one per slot) into environments and wait for the results.

        Raises:
            EnvRaisedError: the call raised in an environment; the episode goes on.
            WorkerError: a worker died under the call.
        """
        self._check_open()
        if self._caller.inflight_count:
            raise UsageError("answers are under way: call recv() before call()")
        chosen = self._gather.all_slots if slots is None else self._checked_slots(slots)
        requests = [request] * len(chosen) if isinstance(request, CallRequest) else list(request)
        self._await_up(chosen)
        for slot, one in zip(chosen.tolist(), requests, strict=True):
            self._control.ask_bytes[slot] = self._mail.put(slot, TO_WORKER, one)
        self._ask_only(chosen, Op.CALL)
        self._desk.verdict[chosen] = Verdict.TRUE
        self._post(sorted({int(self._group_of[s]) for s in chosen}))
        self._await_all()
        attention = self._collect_everything()
        self._control.op[:] = Op.STEP
        self._control.ask_bytes[chosen] = 0
        return tuple(self._call_result(int(slot), attention) for slot in chosen)

    def metrics(self) -> PoolMetrics:
        """Per-slot numbers: step-time percentiles, restarts, memory, share of time by phase, stragglers."""
        self._check_open()
        return measure(self._control, self._crew, self._plan, self._clock.now_ns(), self._start.started_ns)

    @property
    def workers(self) -> int:
        """How many worker processes there are."""
        return self._plan.workers

    @property
    def run_dir(self) -> Path:
        """Where this run's logs (and, if asked for, its events) are."""
        return self._start.run_dir

    @property
    def worker_pids(self) -> tuple[int | None, ...]:
        """Process numbers of the workers; None for one that is down."""
        return tuple(member.pid for member in self._crew.members)

    @property
    def events(self) -> tuple[events.Event, ...]:
        """The latest events, oldest first."""
        return self._start.log.recent

    @property
    def workers_because(self) -> str:
        """Why there are this many workers."""
        return self._start.because

    def slots_of(self, worker: int) -> tuple[int, ...]:
        """The slots a worker serves."""
        return self._plan.slots_of(worker)

    def close(self) -> None:
        """End everything within ``close_timeout_s``, in whatever state the workers are. A second Ctrl-C kills at once."""
        if self._closed:
            return
        self._closed = True
        self._start.close(steps=int(self._control.steps.sum()))

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._plan.workers} workers"
        return f"Pool({self._start.env.label}, num_envs={self.num_envs}, batch_size={self.batch_size}, {state})"

    # ---- sending ----------------------------------------------------------------------------------------------------

    def _groups_of(self, slots: npt.NDArray[np.int64] | None) -> list[int]:
        """The groups of these slots; whole groups only, none of them under way."""
        if slots is None:
            return list(range(len(self._group_slots)))
        groups = list(dict.fromkeys(self._group_of[slots].tolist()))
        if sum(len(self._group_slots[g]) for g in groups) != len(slots) or len(set(slots.tolist())) != len(slots):
            raise UsageError(
                f"slots {slots.tolist()} are not whole groups; send back the slots of a batch, or use groups of one slot"
            )
        for g in groups:
            if self._caller.is_inflight(g):
                self._refuse_pending()
        return groups

    def _send_groups(self, groups: Iterable[int], now: int) -> None:
        plain: list[int] = []
        for g in groups:
            self._sent_ns[g] = now
            if self._desk.troubled or self._retiring:
                self._send_carefully(g, now)
            else:
                plain.append(g)
        if plain:
            self._desk.verdict[np.concatenate([self._group_slots[g] for g in plain])] = Verdict.TRUE
            self._caller.post(plain)

    def _send_carefully(self, group: int, now: int) -> None:
        slots = self._plan.group_slots[group]
        parking = self._park_for_recycling(group)
        ops = self._desk.ask(slots)
        if parking:
            parked = [slot for slot, op in zip(slots, ops, strict=True) if op is Op.RESET]
            self._desk.wait_longer(parked)
            ops = [Op.NONE if op is Op.RESET else op for op in ops]
        for slot, op in zip(slots, ops, strict=True):
            self._control.op[slot] = op
            if op is Op.RESET:
                self._prepare_reset(slot, self._journal.begin_again(slot), None)
        self._post_or_answer(group, ops, now)

    def _post_or_answer(self, group: int, ops: Sequence[Op], now: int) -> None:
        """Ask the worker, or answer at once if there is nothing to ask of it."""
        up = self._crew.members[self._plan.group_worker[group]].is_up
        if all(op is Op.NONE for op in ops):
            self._caller.answer(group)
        else:
            if not up:
                self._held[group] = now
            self._caller.post([group])

    def _prepare_reset(self, slot: int, seed: int | None, options: Any) -> None:
        control = self._control
        control.seeded[slot] = seed is not None
        control.seed[slot] = seed or 0
        control.ask_bytes[slot] = self._mail.put(slot, TO_WORKER, options) if options is not None else 0

    def _post(self, groups: list[int]) -> None:
        self._sent_ns[groups] = self._clock.now_ns()
        self._caller.post(groups)

    def _ask_only(self, chosen: npt.NDArray[np.int64], op: Op) -> None:
        self._control.op[:] = Op.NONE
        self._control.op[chosen] = op

    # ---- resetting --------------------------------------------------------------------------------------------------

    def _reset_until_done(self, chosen: npt.NDArray[np.int64], seeds: Sequence[int | None], options: Any) -> Batch:
        """A slot whose environment fails in its reset is tried again until it works or its budget is spent."""
        for slot, seed in zip(chosen.tolist(), seeds, strict=True):
            self._prepare_reset(slot, seed, options)
        left = chosen
        while True:
            self._desk.renew(left.tolist(), valid=True)
            self._control.op[:] = Op.NONE
            now = self._clock.now_ns()
            for g in sorted({int(self._group_of[s]) for s in left}):
                wanted = [s for s in self._plan.group_slots[g] if s in left]
                ops = self._desk.ask(wanted)
                for slot, op in zip(wanted, ops, strict=True):
                    self._control.op[slot] = op
                self._sent_ns[g] = now
                self._post_or_answer(g, ops, now)
            self._await_all()
            attention = self._collect_everything()
            batch = self._hand_out(chosen, attention)
            self._control.op[:] = Op.STEP
            left = np.array([s for s in left.tolist() if self._desk.life[s] not in (Life.LIVE, Life.OUT)], np.int64)
            if not len(left):
                self._control.ask_bytes[chosen] = 0
                return batch

    def _seeds(self, seed: int | Sequence[int | None] | None, chosen: npt.NDArray[np.int64]) -> list[int | None]:
        if seed is None:
            return [None] * len(chosen)
        if isinstance(seed, int | np.integer):
            return [int(seed) + int(slot) for slot in chosen]
        seeds = [None if s is None else int(s) for s in seed]
        if len(seeds) != len(chosen):
            raise ConfigError(f"seed has {len(seeds)} entries for {len(chosen)} slots; give one number or one per slot")
        return seeds

    def _drain(self) -> None:
        """Wait for answers under way and forget them."""
        if self._caller.inflight_count:
            self._await_all()
            self._collect_everything()
            self._faults_now.clear()

    def _await_all(self) -> None:
        while self._caller.wait(self._caller.inflight_count, TICK_NS) < self._caller.inflight_count:
            self._attend()
        self._attend()

    def _collect_everything(self) -> int:
        _, attention = self._caller.collect(len(self._group_slots), 0)
        return int(attention)

    def _await_up(self, chosen: npt.NDArray[np.int64]) -> None:
        """Calls need an environment: wait for restarts; a quarantined slot has none."""
        out = [s for s in chosen.tolist() if s in self._crew.quarantined]
        if out:
            raise UsageError(f"slots {out} are quarantined and have no environment to call")
        while not all(self._crew.members[w].is_up for w in set(self._worker_of[chosen].tolist())):
            self._attend()
            time.sleep(0.001)

    def _call_result(self, slot: int, attention: int) -> Any:
        fault = self._faults_now.pop(slot, None)
        if fault is not None:
            raise error_for(fault)
        result: CallResult = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        self._control.mail_bytes[slot] = 0
        if result.error:
            words = {"summary": result.error, "traceback": result.traceback, "phase": "call"}
            raise error_for(evidence.raised("raised", self._crew.slot_scene(slot), words))
        return result.value

    # ---- receiving --------------------------------------------------------------------------------------------------

    def _count_ready(self, need: int) -> bool:
        return bool(self._caller.wait(need, 0) >= need)

    def _hand_out(self, slots: npt.NDArray[np.int64], attention: int) -> Batch:
        """The careful batch: faults that workers survived, masked rows, slots that are alive again."""
        if attention & Attention.FAULT:
            for slot in slots[self._control.status[slots] != Status.OK].tolist():
                self._slot_broke(slot)
        masked = self._desk.masked(slots)
        for slot in slots[masked].tolist():
            if self._control.torn[slot]:
                self._gather.blank(slot)
        faults = {s: self._faults_now.pop(s) for s in slots.tolist() if s in self._faults_now}
        self._desk.handed_out(slots, (self._crew.members[w].is_up for w in self._worker_of[slots].tolist()))
        self._control.op[slots] = Op.STEP
        return self._gather.some(slots, attention, masked if masked.any() else None, faults)

    def _slot_broke(self, slot: int) -> None:
        """An environment raised or returned bad data; its worker lives and will build it anew."""
        if self._desk.life[slot] == Life.OUT or self._control.op[slot] == Op.NONE:
            return
        words = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        kind = "bad_data" if self._control.status[slot] == Status.BAD_DATA else "raised"
        fault = evidence.raised(kind, self._crew.slot_scene(slot), words)
        self._control.mail_bytes[slot] = 0
        self._control.status[slot] = Status.OK
        self._crew.tell(fault)
        self._desk.slot_broke(slot)
        self._faults_now[slot] = fault
        self._crew.spend(fault, self._clock.now_ns())
        self._quarantine_spent()
        if self.options.on_fault == "raise":
            raise error_for(fault)

    # ---- looking after workers ---------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """One look at the workers: who came up, who went down, who is late, who waits too long."""
        now = self._clock.now_ns()
        self._next_tick = now + TICK_NS
        raised: Fault | None = None
        for happening in self._crew.poll(self._asked_ns):
            if happening.kind == "down":
                self._went_down(happening)
                raised = raised or happening.fault
            elif happening.kind == "up":
                self._came_up(happening.worker)
        self._expire_holds(now)
        if now >= self._next_limits:
            self._next_limits = now + LIMITS_NS
            self._retiring = self._retiring or self._crew.overdue()
            self._start.log.sample(now, self._crew, self._control, self._plan)
        if raised is not None and self.options.on_fault == "raise":
            raise error_for(raised)

    def _asked_ns(self, worker: int) -> int | None:
        open_since = [int(self._sent_ns[g]) for g in self._plan.groups_of(worker) if self._caller.is_open(g)]
        return min(open_since) if open_since else None

    def _went_down(self, happening: Happening) -> None:
        """Settle the dead worker's groups. Its words and rows belong to us now: the process is reaped."""
        worker, now = happening.worker, self._clock.now_ns()
        for g in self._plan.groups_of(worker):
            slots, is_open = self._plan.group_slots[g], self._caller.is_open(g)
            ops = [int(self._control.op[s]) for s in slots]
            if self._desk.worker_died(slots if is_open else (), ops if is_open else (), () if is_open else slots):
                self._caller.settle(g)
            elif is_open:
                self._held[g] = now
        if happening.fault is not None:
            for slot in self._plan.slots_of(worker):
                if slot not in self._crew.quarantined:
                    self._faults_now[slot] = happening.fault
            if happening.fault.culprit is not None:
                self._faults_now[happening.fault.culprit] = happening.fault
        self._quarantine_spent()
        if self._retiring and self._retiring[0] == worker:
            self._retiring = None

    def _quarantine_spent(self) -> None:
        for slot in self._crew.quarantined:
            if self._desk.life[slot] != Life.OUT:
                self._desk.quarantine(slot)
                self._control.op[slot] = Op.NONE
        for g, slots in enumerate(self._plan.group_slots):
            if all(s in self._crew.quarantined for s in slots) and self._caller.is_open(g):
                self._caller.settle(g)
                self._held.pop(g, None)

    def _came_up(self, worker: int) -> None:
        for g in self._plan.groups_of(worker):
            self._held.pop(g, None)
            self._sent_ns[g] = self._clock.now_ns()  # its deadline counts from when it can serve

    def _expire_holds(self, now: int) -> None:
        """A synchronous batch waits for a restarting slot only so long, then goes on with a masked row."""
        if not self._plan.is_synchronous or self._wait_for_resets:
            return
        for g, since in list(self._held.items()):
            if now - since >= self.options.restart_wait_s * NS and not self._is_serving(g):
                self._desk.wait_longer(self._plan.group_slots[g])
                self._caller.settle(g)
                del self._held[g]

    def _is_serving(self, group: int) -> bool:
        return self._crew.members[self._plan.group_worker[group]].is_up

    def _park_for_recycling(self, group: int) -> bool:
        """Slots of a worker that is to be replaced stop at the end of their episode; the last one ends the worker.

        Returns whether parked slots still have to wait for their neighbours.
        """
        if self._retiring is None or self._plan.group_worker[group] != self._retiring[0]:
            return False
        worker, reason = self._retiring
        next_step = self._autoreset is Autoreset.NEXT_STEP
        for slot in self._plan.group_slots[group]:
            between = self._control.ended[slot] or self._control.running_length[slot] == 0
            if self._desk.life[slot] == Life.LIVE and between:
                self._desk.renew([slot], valid=next_step and bool(self._control.ended[slot]))
        if any(self._desk.life[s] == Life.LIVE for s in self._plan.slots_of(worker)):
            return True
        self._crew.retire(worker, reason)  # before anything is posted: the old worker will not serve it
        return False

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def _describe(self, slot: int) -> tuple[int | None, Any]:
        """Seed and last action of a slot, for reports."""
        return self._journal.seed_of(slot), self._writer.last(slot) if not self._closed else None

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this pool was closed; make a new one")

    def _refuse(self) -> None:
        self._check_open()
        raise UsageError("call reset() before the first send()")

    def _refuse_pending(self) -> None:
        raise UsageError("these slots have not answered yet: call recv() before the next send()")

    def _refuse_finished(self, slots: npt.NDArray[np.int64] | None) -> None:
        chosen = self._gather.all_slots if slots is None else slots
        ended = chosen[self._control.ended[chosen] != 0]
        if len(ended):
            raise UsageError(
                f"slots {ended.tolist()} have finished and autoreset is disabled: call reset(slots=...) for them first"
            )

    def _checked_slots(self, slots: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        chosen = np.asarray(slots, dtype=np.int64).reshape(-1)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= self.num_envs):
            raise UsageError(f"slots {chosen.tolist()} are outside 0..{self.num_envs - 1}")
        return chosen

