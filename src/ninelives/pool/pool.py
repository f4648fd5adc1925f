"""The pool: ``send`` actions, ``recv`` a batch, whatever happens to the workers in between.

The fast path is short: write actions, bump the groups' numbers, wait, copy rows. Whenever anything is wrong with any
slot the careful path decides group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ninelives import events
from ninelives.clock import Clock, SystemClock
from ninelives.errors import ClosedError, UsageError
from ninelives.pool.assembly import Parts, assemble
from ninelives.pool.batch import Batch
from ninelives.pool.data.checks import Slots, checked_slots, seeds_for, whole_groups
from ninelives.pool.metrics import PoolMetrics, measure
from ninelives.pool.recovery.checkpoint import PoolState, check_shape
from ninelives.pool.recovery.coordinator import TICK_NS
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.recovery.slot_status import Life
from ninelives.pool.recovery.states import SlotState
from ninelives.pool.startup import Order, Start, begin
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallRequest
from ninelives.spec.env import EnvSpec
from ninelives.spec.options import PoolOptions
from ninelives.spec.phase import Attention

ALREADY_SENT, NOT_SENT = -1, -2
"""Answers of the native exchange that leave the rest to ``recv``, or all of it to ``send`` and ``recv``."""


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
        self._journal = Journal(max(num_envs, 1), self.options.seed_episodes)
        order = Order(EnvSpec.of(env), num_envs, workers, groups, batch_size, self.options)
        start = begin(order, self._clock, self._journal.describe)
        self._closed = False
        self._adopt(start, assemble(start, self._journal, self.options, self._clock))

    def _adopt(self, start: Start, parts: Parts) -> None:
        self._start, self._rig, self._plan, self._crew = start, start.rig, start.plan, start.rig.crew
        self._caller, self._gather, self._writer = start.caller, start.gatherer, start.writer
        self._control = start.rig.wiring.control
        self.num_envs, self.batch_size = start.plan.num_envs, start.plan.batch_size
        self.observation_space, self.action_space = start.hello.observation_space, start.hello.action_space
        self.metadata, self.render_mode = start.hello.metadata, start.hello.render_mode
        self.env_spec = start.hello.env_spec
        self._healer, self._minder, self._desk = parts.healer, parts.minder, parts.minder.desk
        self._asker, self._receiver, self._calling = parts.asker, parts.receiver, parts.calling
        self._states, self._registrar = parts.states, parts.registrar
        self._short_way = parts.short_way
        autoreset = Autoreset.parse(self.options.autoreset)
        self._disabled = autoreset is Autoreset.DISABLED
        self._rules = (autoreset.name.lower(), self.options.seed_episodes)
        self._begun, self._has_begun = False, np.zeros(self.num_envs, np.bool_)

    # ---- stepping ---------------------------------------------------------------------------------------------------

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
        chosen = self._gather.all_slots if slots is None else checked_slots(slots, self.num_envs)
        seeds = seeds_for(seed, chosen)
        self._minder.patient = True
        try:
            self._drain()
            for slot, slot_seed in zip(chosen.tolist(), seeds, strict=True):
                self._healer.drop(slot)
                self._journal.mark(slot)
                self._asker.prepare_reset(slot, self._journal.begin(slot, slot_seed, options), options)
            batch = self._reset_until_done(chosen)
        finally:
            self._minder.patient = False
            self._asker.restore()
        self._have_begun(chosen)
        return batch

    def send(self, actions: Any, slots: Sequence[int] | Slots | None = None) -> None:
        """Give actions to all slots, or to ``slots`` (row by row); returns at once."""
        if self._closed or not self._begun:
            self._refuse()
        if slots is self._receiver.last_slots and self._sent_back(actions):
            return
        chosen, groups = self._whom(slots)
        if self._disabled:
            self._refuse_finished(self._gather.all_slots if chosen is None else chosen)
        if chosen is None:
            self._writer.write_all(actions)
        else:
            self._writer.write(actions, chosen)
        if self._minder.careful:
            for group in range(len(self._plan.group_slots)) if groups is None else groups:
                self._asker.step(group)
        elif groups is None:
            self._journal.note_all()
            self._minder.sent_ns.fill(self._clock.now_ns())
            self._caller.post_all()
        else:
            if chosen is not None:
                self._journal.note(chosen)
            self._minder.sent_ns[groups] = self._clock.now_ns()
            self._caller.post(groups)

    def _sent_back(self, actions: Any) -> bool:
        """Send the last batch back as it came, in one native call; False where something is wrong or not plain."""
        way, receiver = self._short_way, self._receiver
        if way.send_some is None or self._minder.careful:
            return False
        rows, sent_ns = self._writer.plain, self._minder.sent_ns
        return bool(way.send_some(actions, rows, receiver.last_slots, receiver.last_groups, way.note, sent_ns))

    def recv(self) -> Batch:
        """Wait for the first ``batch_size`` slots that are ready and return their rows."""
        if self._closed:
            self._refuse()
        return self._receiver.recv()

    def latest(self) -> Batch:
        """Every slot's row as it stands, without stepping anything; for views that must answer for all slots."""
        self._check_open()
        return self._gather.everybody(Attention.NONE)

    def step(self, actions: Any) -> Batch:
        """``send`` then ``recv``; in one native call where nothing is wrong and the actions are plain rows."""
        way = self._short_way
        if way.exchange is not None and self._begun and not self._closed and not self._minder.careful:
            minder = self._minder
            attention = way.exchange(
                actions,
                self._writer.plain,
                way.hook,
                minder.sent_ns,
                TICK_NS,
                minder.next_tick,
            )
            if attention == ALREADY_SENT:
                return self.recv()
            if attention != NOT_SENT:
                batch = self._receiver.everybody(attention) if attention else self._gather.everybody(attention)
                return batch if batch is not None else self.recv()
        self.send(actions)
        return self.recv()

    # ---- everything else --------------------------------------------------------------------------------------------

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
        chosen = self._idle(slots, "call()")
        requests = [request] * len(chosen) if isinstance(request, CallRequest) else list(request)
        return self._calling.make(chosen, requests)

    def save_states(self, slots: Sequence[int] | None = None) -> list[SlotState]:
        """The states of all or some slots: snapshots where environments offer them, else how to get there again."""
        chosen = self._idle(slots, "save_states()")
        self._refuse_finished(chosen, "their episodes are over, and there is nothing to go on from")
        return self._states.save(chosen)

    def load_states(self, states: Sequence[SlotState], slots: Sequence[int] | None = None) -> Batch:
        """Put slots into states, one each; their rows are returned as ``reset`` returns first observations."""
        chosen = self._idle(slots, "load_states()")
        self._states.check(states, chosen)
        self._states.load(states, chosen)
        self._have_begun(chosen)
        return self._gather.some(chosen, Attention.NONE)

    def broadcast_state(self, from_slot: int, to_slots: Sequence[int] | None = None) -> Batch:
        """Everybody (or ``to_slots``) goes on from where one slot is."""
        (state,) = self.save_states([from_slot])
        chosen = [slot for slot in range(self.num_envs) if slot != from_slot] if to_slots is None else list(to_slots)
        return self.load_states([state] * len(chosen), chosen)

    def checkpoint(self) -> PoolState:
        """Where every slot is, to go on from in another process with ``resume``. Nothing may be under way."""
        self._idle(None, "checkpoint()")
        if not self._begun:
            raise UsageError("call reset() before checkpoint()")
        return PoolState(self._registrar.records(), *self._rules)

    def resume(self, state: PoolState) -> Batch:
        """In place of the first ``reset``: be where another pool was; the rows are the last ones it handed out."""
        chosen = self._idle(None, "resume()")
        if self._has_begun.any():
            raise UsageError("resume() takes the place of the first reset(); make a new pool for it")
        check_shape(state, self.num_envs, *self._rules)
        self._registrar.resume(state.slots)
        self._have_begun(chosen)
        return self._gather.some(chosen, Attention.NONE)

    def metrics(self) -> PoolMetrics:
        """Per-slot numbers: step-time percentiles, restarts, memory, share of time by phase, stragglers."""
        self._check_open()
        return measure(self._control, self._crew, self._plan, self._clock.now_ns(), self._start.started_ns)

    @property
    def workers(self) -> int:
        """How many worker processes there are."""
        return self._plan.workers

    @property
    def workers_because(self) -> str:
        """Why there are this many workers."""
        return self._start.because

    @property
    def run_dir(self) -> Path:
        """Where this run's logs (and, if asked for, its events) are."""
        return self._rig.run_dir

    @property
    def worker_pids(self) -> tuple[int | None, ...]:
        """Process numbers of the workers; None for one that is down."""
        return tuple(member.pid for member in self._crew.members)

    @property
    def events(self) -> tuple[events.Event, ...]:
        """The latest events, oldest first."""
        return self._rig.log.recent

    def slots_of(self, worker: int) -> tuple[int, ...]:
        """The slots a worker serves."""
        return self._plan.slots_of(worker)

    def close(self) -> None:
        """End everything within ``close_timeout_s``, whatever the workers do. A second Ctrl-C kills at once."""
        if self._closed:
            return
        self._closed = True
        self._rig.log.sample(self._clock.now_ns(), self._crew, self._control, self._plan, last=True)
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

    def _whom(self, slots: Sequence[int] | Slots | None) -> tuple[Slots | None, list[int] | None]:
        """Slots and their groups (None: all); whole groups only, none of them under way."""
        if slots is None:
            if self._caller.inflight_count:
                self._refuse_pending()
            return None, None
        if slots is self._receiver.last_slots:  # a batch sent back as it came needs no second look
            chosen, groups = self._receiver.last_slots, self._receiver.last_groups
        else:
            chosen = checked_slots(slots, self.num_envs)
            groups = whole_groups(chosen, self._plan.group_of, self._plan.group_rows)
        if any(self._caller.is_inflight(g) for g in groups):
            self._refuse_pending()
        return chosen, groups

    # ---- resetting and calling ---------------------------------------------------------------------------------------

    def _reset_until_done(self, chosen: Slots) -> Batch:
        """A slot whose environment fails in its reset is tried again until it works or its budget is spent."""
        left = chosen.tolist()
        while True:
            self._asker.reset(left)
            self._asker.await_answers()
            _, attention = self._caller.collect(len(self._plan.group_slots), 0)
            self._minder.sort_out(chosen)
            batch = self._receiver.hand_out(chosen, attention)
            left = [slot for slot in left if self._desk.life[slot] not in (Life.LIVE, Life.OUT)]
            if not left:
                return batch

    def _drain(self) -> None:
        """Wait for answers under way and forget them."""
        if self._caller.inflight_count:
            self._asker.await_answers()
            self._caller.collect(len(self._plan.group_slots), 0)
        self._minder.forget_faults()

    def _idle(self, slots: Sequence[int] | None, verb: str) -> Slots:
        """The slots of a request that may only be made while no answer is under way."""
        self._check_open()
        if self._caller.inflight_count:
            raise UsageError(f"answers are under way: call recv() before {verb}")
        return self._gather.all_slots if slots is None else checked_slots(slots, self.num_envs)

    def _have_begun(self, chosen: Slots) -> None:
        self._has_begun[chosen] = True
        self._begun = bool(self._has_begun.all())

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this pool was closed; make a new one")
        if self._minder.exhausted is not None:
            raise self._minder.exhausted

    def _refuse(self) -> None:
        self._check_open()
        raise UsageError("call reset() before the first send()")

    def _refuse_pending(self) -> None:
        self._check_open()
        raise UsageError("these slots have not answered yet: call recv() before the next send()")

    def _refuse_finished(
        self, chosen: Slots, because: str = "autoreset is disabled: call reset(slots=...) for them first"
    ) -> None:
        ended = chosen[self._control.ended[chosen] != 0]
        if len(ended):
            raise UsageError(f"slots {ended.tolist()} have finished and {because}")
