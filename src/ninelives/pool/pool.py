"""The pool: ``send`` actions, ``recv`` a batch, whatever happens to the workers in between.

The fast path is short: write actions, increment the groups' numbers, wait, copy rows. While anything is wrong with any
slot, the careful path decides group by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ninelives import events
from ninelives.clock import Clock, SystemClock
from ninelives.errors import ClosedError, PendingError, UsageError
from ninelives.pool.batch import Batch
from ninelives.pool.data.actions import ActionWriter
from ninelives.pool.data.checks import checked_slots, seeds_for, whole_groups
from ninelives.pool.data.gather import Gatherer
from ninelives.pool.data.receive import Receiver
from ninelives.pool.data.requests import Requests
from ninelives.pool.inheritance import check_owner, disown_in_children
from ninelives.pool.metrics import PoolMetrics
from ninelives.pool.recovery.checkpoint import Checkpointer, PoolState, check_shape
from ninelives.pool.recovery.coordinator import TICK_NS, Coordinator
from ninelives.pool.recovery.healing import Healing
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.recovery.slot_status import SlotLife
from ninelives.pool.recovery.states import SlotState, States
from ninelives.pool.startup import PoolRequest, StartedPool, start_pool
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallRequest
from ninelives.spec.codec import ActionCodec
from ninelives.spec.env import AnyEnv, EnvSpec
from ninelives.spec.options import PoolOptions
from ninelives.spec.phase import Attention
from ninelives.spec.plan import Slots, check_num_envs
from ninelives.transport.exchange import ALREADY_SENT, NOT_SENT


class Pool:
    """N environments as one batch, in worker processes that are allowed to die.

    Args:
        env: a Gymnasium id, ``"module:factory"``, a callable, or an ``EnvSpec``, ours or Gymnasium's.
        num_envs: how many slots.
        workers: how many processes; None measures one environment and chooses.
        groups: groups per worker; None: one for full batches, one per slot otherwise.
        batch_size: how many slots ``recv`` returns; None: all.
        clock: for tests.
        **settings: see ``PoolOptions``.
    """

    def __init__(
        self,
        env: AnyEnv,
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
        check_num_envs(num_envs)
        self._journal = Journal(num_envs, self.options.seed_episodes)
        self._autoreset = Autoreset.parse(self.options.autoreset)
        request = PoolRequest(EnvSpec.of(env), num_envs, workers, groups, batch_size, self.options)
        self._env = request.env
        self._started = start_pool(request, self._clock, self._journal.describe)
        self._closed = False
        self._make_parts(self._started)
        self._begun, self._has_begun = False, np.zeros(self.num_envs, np.bool_)
        disown_in_children(self, Pool._disown)

    def _disown(self) -> None:
        self._closed = True

    def _make_parts(self, started: StartedPool) -> None:
        """Make every part once, out of what was brought up. None of them may hold the pool itself.

        A pool without references must be collected at once, because that takes its workers down.
        """
        runtime, supervisor, hello = started.runtime, started.supervisor, started.hello
        self._runtime, self._supervisor = runtime, supervisor
        self._plan, self._caller, self._control = runtime.plan, runtime.caller, runtime.control
        self.num_envs, self.batch_size = self._plan.num_envs, self._plan.batch_size
        self._is_full_batch = self._plan.is_synchronous
        self.observation_space, self.action_space = hello.observation_space, hello.action_space
        self.metadata, self.render_mode, self.env_spec = hello.metadata, hello.render_mode, hello.env_spec
        slab = (runtime.arrays, runtime.control, runtime.mail, self.num_envs)
        self._gatherer = Gatherer(runtime.data, *slab, self.options.copy)
        self._writer = ActionWriter(runtime.data.action, hello.action_space, *slab)
        self._open_journal()
        healing = Healing(self.options, self._journal, self._control, runtime.mail, self._clock, runtime.log.emit)
        self._coordinator = Coordinator(runtime, supervisor, healing)
        self._requests = Requests(runtime, self._coordinator, self._journal)
        shared = (runtime, self._coordinator, self._requests, self._gatherer, self._journal)
        self._receiver, self._states = Receiver(*shared), States(*shared)
        self._checkpointer = Checkpointer(runtime, self._coordinator, self._states, self._journal)

    def _open_journal(self) -> None:
        self._journal.last_action = self._writer.last
        codec, heals = ActionCodec.of(self._runtime.data.action), self.options.on_fault == "heal"
        next_step = self._autoreset is Autoreset.NEXT_STEP
        self._journal.open(self._control, self._runtime.arrays, codec, next_step, heals, self.run_dir / "journal")
        # Steps in one native call need actions that are rows of one array, and the machine's own clock.
        rows_only = self._writer.plain is not None and self._autoreset is not Autoreset.DISABLED
        self._action_rows = self._writer.plain if rows_only and isinstance(self._clock, SystemClock) else None
        recorder = self._journal.recorder
        self._note_all = recorder.note_all if recorder is not None else None
        self._note = recorder.note if recorder is not None else None

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
        chosen = self._gatherer.all_slots if slots is None else checked_slots(slots, self.num_envs)
        seeds = seeds_for(seed, chosen)
        self._coordinator.patient = True
        try:
            self._requests.drain()
            for slot, slot_seed in zip(chosen.tolist(), seeds, strict=True):
                self._coordinator.healing.drop(slot)
                self._journal.mark(slot)
                self._requests.prepare_reset(slot, self._journal.begin(slot, slot_seed, options), options)
            batch = self._reset_until_done(chosen)
        finally:
            self._coordinator.patient = False
            self._requests.restore()
        self._have_begun(chosen)
        return batch

    def send(self, actions: Any, slots: Sequence[int] | Slots | None = None) -> None:
        """Give actions to all slots, or to ``slots`` (row by row); returns at once."""
        if self._closed or not self._begun:
            self._refuse()
        if slots is self._receiver.last_slots and self._sent_back(actions):
            return
        chosen, groups = self._chosen(slots)
        if self._autoreset is Autoreset.DISABLED:
            self._refuse_finished(self._gatherer.all_slots if chosen is None else chosen)
        if chosen is None:
            self._writer.write_all(actions)
        else:
            self._writer.write(actions, chosen)
        if self._coordinator.careful:
            for group in range(len(self._plan.group_slots)) if groups is None else groups:
                self._requests.step(group)
        elif groups is None:
            self._journal.note_all()
            self._coordinator.sent_ns.fill(self._clock.now_ns())
            self._caller.post_all()
        else:
            if chosen is not None:
                self._journal.note(chosen)
            self._coordinator.sent_ns[groups] = self._clock.now_ns()
            self._caller.post(groups)

    def _sent_back(self, actions: Any) -> bool:
        """Send actions to the slots of the last batch in one native call; False where that is not possible."""
        if self._action_rows is None or self._coordinator.careful:
            return False
        slots, groups = self._receiver.last_slots, self._receiver.last_groups
        sent_ns = self._coordinator.sent_ns
        return self._caller.send_some(actions, self._action_rows, slots, groups, self._note, sent_ns)

    def recv(self) -> Batch:
        """Wait for the first ``batch_size`` slots that are ready and return their rows."""
        if self._closed:
            self._refuse()
        return self._receiver.recv()

    def latest(self) -> Batch:
        """Every slot's row as it stands, without stepping anything; for views that must answer for all slots."""
        self._check_open()
        return self._gatherer.full_batch(Attention.NONE)

    def step(self, actions: Any) -> Batch:
        """``send`` then ``recv``; in one native call where nothing is wrong and the actions are plain rows."""
        coordinator, rows = self._coordinator, self._action_rows
        if rows is not None and self._is_full_batch and self._begun and not self._closed and not coordinator.careful:
            attention = self._caller.exchange_all(
                actions, rows, self._note_all, coordinator.sent_ns, TICK_NS, coordinator.next_tick
            )
            if attention == ALREADY_SENT:
                return self.recv()
            if attention != NOT_SENT:
                batch = self._receiver.full_batch(attention)
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
        return self._requests.call(chosen, requests)

    def save_states(self, slots: Sequence[int] | None = None) -> list[SlotState]:
        """The states of all or some slots: snapshots where environments offer them, else recipes to get there again."""
        chosen = self._idle(slots, "save_states()")
        self._refuse_finished(chosen, "their episodes are over, and there is nothing to go on from")
        return self._states.save(chosen)

    def load_states(self, states: Sequence[SlotState], slots: Sequence[int] | None = None) -> Batch:
        """Put slots into states, one each; their rows are returned as ``reset`` returns first observations."""
        chosen = self._idle(slots, "load_states()")
        self._states.check(states, chosen)
        self._states.load(states, chosen)
        self._have_begun(chosen)
        return self._gatherer.partial_batch(chosen, Attention.NONE)

    def broadcast_state(self, from_slot: int, to_slots: Sequence[int] | None = None) -> Batch:
        """All other slots (or ``to_slots``) continue from where one slot is."""
        (state,) = self.save_states([from_slot])
        chosen = [slot for slot in range(self.num_envs) if slot != from_slot] if to_slots is None else list(to_slots)
        return self.load_states([state] * len(chosen), chosen)

    def checkpoint(self) -> PoolState:
        """Where every slot is, to continue from in another process with ``resume``. Nothing may be under way."""
        self._idle(None, "checkpoint()")
        if not self._begun:
            raise UsageError("call reset() before checkpoint()")
        return PoolState(self._checkpointer.records(), *self._rules())

    def resume(self, state: PoolState) -> Batch:
        """In place of the first ``reset``: be where another pool was; the rows are the last ones it handed out."""
        chosen = self._idle(None, "resume()")
        if self._has_begun.any():
            raise UsageError("resume() takes the place of the first reset(); make a new pool for it")
        check_shape(state, self.num_envs, *self._rules())
        self._checkpointer.resume(state.slots)
        self._have_begun(chosen)
        return self._gatherer.partial_batch(chosen, Attention.NONE)

    def metrics(self) -> PoolMetrics:
        """Per-slot numbers: step-time percentiles, restarts, memory, share of time by phase, stragglers."""
        self._check_open()
        return self._coordinator.measure()

    @property
    def workers(self) -> int:
        """How many worker processes there are."""
        return self._plan.workers

    @property
    def workers_because(self) -> str:
        """Why there are this many workers."""
        return self._started.because

    @property
    def run_dir(self) -> Path:
        """Where this run's logs (and, if asked for, its events) are."""
        return self._runtime.resources.run_dir

    @property
    def worker_pids(self) -> tuple[int | None, ...]:
        """Process numbers of the workers; None for one that is down."""
        return tuple(worker.pid for worker in self._supervisor.workers)

    @property
    def events(self) -> tuple[events.Event, ...]:
        """The latest events, oldest first."""
        return self._runtime.log.recent

    def slots_of(self, worker: int) -> tuple[int, ...]:
        """The slots a worker serves."""
        return self._plan.slots_of(worker)

    def close(self) -> None:
        """End everything within ``close_timeout_s``, whatever the workers do. A second Ctrl-C kills at once.

        Does nothing in a process that inherited the pool through fork.
        """
        if self._closed:
            return
        self._closed = True
        self._runtime.log.sample(self._clock.now_ns(), self._coordinator.measure, last=True)
        self._started.close(steps=int(self._control.steps.sum()))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._plan.workers} workers"
        return f"Pool({self._env.label}, num_envs={self.num_envs}, batch_size={self.batch_size}, {state})"

    # ---- sending ----------------------------------------------------------------------------------------------------

    def _chosen(self, slots: Sequence[int] | Slots | None) -> tuple[Slots | None, list[int] | None]:
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
            self._requests.reset(left)
            self._requests.await_answers()
            _, attention = self._caller.collect(len(self._plan.group_slots), 0)
            self._receiver.check_infos(chosen)
            self._coordinator.sort_out(chosen)
            batch = self._receiver.hand_out(chosen, attention)
            left = [slot for slot in left if self._coordinator.status.life[slot] not in (SlotLife.LIVE, SlotLife.OUT)]
            if not left:
                return batch

    def _idle(self, slots: Sequence[int] | None, verb: str) -> Slots:
        """The slots of a request that may only be made while no answer is under way."""
        self._check_open()
        if self._caller.inflight_count:
            raise PendingError(f"answers are under way: call recv() before {verb}")
        return self._gatherer.all_slots if slots is None else checked_slots(slots, self.num_envs)

    def _rules(self) -> tuple[str, bool]:
        """Settings that a checkpoint must share with the pool that continues from it."""
        return self._autoreset.name.lower(), self.options.seed_episodes

    def _have_begun(self, chosen: Slots) -> None:
        self._has_begun[chosen] = True
        self._begun = bool(self._has_begun.all())

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            check_owner(self._runtime.resources.owner_pid)
            raise ClosedError("this pool was closed; make a new one")
        if self._coordinator.exhausted is not None:
            raise self._coordinator.exhausted

    def _refuse(self) -> None:
        self._check_open()
        raise UsageError("call reset() before the first send()")

    def _refuse_pending(self) -> None:
        self._check_open()
        raise PendingError("these slots have not answered yet: call recv() before the next send()")

    def _refuse_finished(
        self, chosen: Slots, because: str = "autoreset is disabled: call reset(slots=...) for them first"
    ) -> None:
        ended = chosen[self._control.ended[chosen] != 0]
        if len(ended):
            raise UsageError(f"slots {ended.tolist()} have finished and {because}")
