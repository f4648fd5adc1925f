"""Brings slots back after a fault: decides whether once more, writes the orders, hears what became of them.

A slot that breaks twice at the same step by its own fault holds a *poison action*: the same action would kill it for
ever. A step that breaks it in a replay is none: it has worked before, so the replay is repeated, a few times. A slot
whose worker was killed from outside is given more attempts. A worker that dies before it has come as far as the episode
says nothing about the episode: how often it may start again is up to the restart budget.

Writes a slot's order words only while no worker serves the slot. Decides nothing about rows: the caller learns whether
the slot will come back, and cuts its episode if not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from ninelives.clock import Clock
from ninelives.errors import Fault
from ninelives.events import Event, HealFailed, ReplayProgress, SlotHealed
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.recovery.used_episodes import UsedEpisodes
from ninelives.spec.options import PoolOptions
from ninelives.spec.restore import Outcome, Restore
from ninelives.supervise.machine import NS
from ninelives.transport.control import Control
from ninelives.transport.mailbox import ORDER, Mailbox

OWN_LIMIT = 2
"""The second time the same step breaks the environment is the last: one replay, then cut."""

REPLAY_LIMIT = 4
"""Replays of one and the same step that may break by the slot's own fault, at steps that worked the first time.

Smaller than ``OUTSIDE_LIMIT``: the other slots of the worker, to which these are faults from outside, outlast it.
"""

OUTSIDE_LIMIT = 6
"""Kills from outside that may hit one and the same step."""

OUTSIDE_SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
"""A process does not send these to itself; the kernel's own SIGKILL, when memory is short, comes from outside too."""

EPISODE_PHASES = ("step", "reset", "restore")
"""Phases in which an episode is played, so that it can be to blame."""

USED_DIFFERS = (
    "an episode of a used environment goes another way in a new one, so reset() leaves something of earlier episodes; "
    "use fresh_env_every_episode=True"
)

REASONS = {Outcome.DIFFERS: "diverged", Outcome.USED_DIFFERS: "reset"}


class NextTry(Enum):
    """What to do after a replay that did not arrive."""

    AGAIN = "the same replay"
    OLDER = "a replay from an older snapshot, or from the reset"
    NOTHING = "cut the episode"


@dataclass
class SlotFaults:
    """What happened to one slot at one place (episode, step), since the first fault there."""

    place: tuple[int, int]
    since_ns: int
    fault: Fault | None = None
    own: int = 0
    in_replay: int = 0
    replay_broke_at: int | None = None
    outside: int = 0
    skip_snapshots: int = 0
    tried: str = ""

    def add(self, slot: int, fault: Fault | None) -> None:
        """The slot lost its environment here by a fault, or (None) because its worker was replaced."""
        if fault is None:
            return
        self.fault = fault
        if is_own(fault, slot):
            self.in_replay += fault.phase == "restore"
            self.own += fault.phase != "restore"
        elif fault.phase in EPISODE_PHASES:
            self.outside += 1

    @property
    def why_not(self) -> str:
        """Empty: replay once more. Otherwise why not: ``poison``, ``failed`` or ``gave_up``."""
        if self.own >= OWN_LIMIT:
            return "poison"
        if self.in_replay >= REPLAY_LIMIT:
            return "failed"
        return "gave_up" if self.outside >= OUTSIDE_LIMIT else ""

    def next_try(self, outcome: Outcome, step: int, has_older: bool) -> NextTry:
        """A replay did not arrive, and its worker lives: what to try; ``has_older``: it began with a snapshot.

        What raises at one and the same step may be in the snapshot; what differs, or takes too long, does so again.
        """
        if outcome in (Outcome.LATE, Outcome.USED_DIFFERS):
            return NextTry.NOTHING
        if outcome is Outcome.FAILED:
            again_there, self.replay_broke_at = self.replay_broke_at == step, step
            self.in_replay += 1
            if self.in_replay < REPLAY_LIMIT and not (again_there and has_older):
                return NextTry.AGAIN
        return NextTry.OLDER if has_older else NextTry.NOTHING


def faults_at(place: tuple[int, int], known: SlotFaults | None, now_ns: int) -> SlotFaults:
    """The faults known of a slot if they happened at this place, else a new record."""
    return known if known is not None and known.place == place else SlotFaults(place, now_ns)


def is_own(fault: Fault, slot: int) -> bool:
    """Whether the environment of this slot caused the fault."""
    return fault.culprit == slot and fault.phase in EPISODE_PHASES and fault.signal not in OUTSIDE_SIGNALS


class Healing:
    """Orders under way, and the faults that led to them.

    Attributes:
        heals: whether slots are brought back at all.
        orders: those under way, by slot.
        diverged: whether a replay has gone another way than the first time.
        used: episodes that show whether a new environment is as good as a used one.
    """

    def __init__(
        self,
        options: PoolOptions,
        journal: Journal,
        control: Control,
        mail: Mailbox,
        clock: Clock,
        emit: Callable[[Event], None],
    ) -> None:
        self.heals = options.on_fault == "heal"
        self._journal, self._control, self._mail, self._clock, self._emit = journal, control, mail, clock, emit
        self._faults: dict[int, SlotFaults] = {}
        self.orders: dict[int, Restore] = {}
        self._healing: set[int] = set()
        self.diverged = False
        self.used = UsedEpisodes(journal, len(control.begun), self.heals and not options.fresh_env_every_episode)

    def try_to_heal(self, slot: int, is_open: bool, fault: Fault | None) -> bool:
        """The slot's environment is gone. Whether it will be brought back; the order is written then."""
        if not self.heals:
            return False
        why_not = self._journal.cannot(slot)
        if why_not:
            self._fail(slot, "cannot", int(self._control.running_length[slot]), why_not)
            return False
        place = self._journal.undone(slot, is_open)
        faults = self._faults[slot] = faults_at(place, self._faults.get(slot), self._clock.now_ns())
        faults.add(slot, fault)
        if faults.why_not:
            in_replay = faults.why_not == "failed"
            step = int(self._control.restored_steps[slot]) if in_replay else faults.place[1]
            self._fail(slot, faults.why_not, step, _explain(faults, step))
            return False
        return self._ordered(slot, is_open, faults)

    def order(self, slot: int, order: Restore) -> None:
        """Bring the slot to a given state; it goes there with its next request."""
        self.renew(slot)
        self._write(slot, order)

    def drop(self, slot: int) -> None:
        """A new episode is wanted on purpose: an order under way for the slot is not needed any more."""
        if slot in self.orders:
            self.renew(slot)

    def renew(self, slot: int) -> None:
        """The slot gets a new environment and a new episode; calls made into the old one are repeated."""
        self.orders.pop(slot, None)
        self._healing.discard(slot)
        self._faults.pop(slot, None)
        self._control.restore_bytes[slot] = 0
        self.used.order_env(slot, int(self._control.begun[slot]) + 1)
        self.used.have_new_env(slot)
        if self._journal.has_calls(slot):
            self._write(slot, self._journal.plain_order(slot))

    def note_outcomes(self, slots: Iterable[int]) -> list[int]:
        """Their worker is up, or has answered: report those that are back; returns those that failed to come back."""
        failed = []
        for slot in slots:
            order = self.orders.get(slot)
            if order is None:
                continue
            if self._control.outcome[slot] == Outcome.RESTORED:
                self._healed(slot, order)
            elif self._control.outcome[slot] != Outcome.NONE:
                failed.append(slot)
        return failed

    def try_again(self, slot: int, is_open: bool) -> bool:
        """A replay did not arrive, and its worker lives. Whether another one is tried; the order is written then."""
        faults, order = self._faults.get(slot), self.orders.pop(slot, None)
        if faults is None or order is None:
            return False
        word, step = int(self._control.outcome[slot]), int(self._control.restored_steps[slot])
        outcome = Outcome(word) if word < len(Outcome) else Outcome.FAILED  # no worker of ours writes another one
        has_older = order.beginning is not None and self._journal.is_on_the_way(slot, order.beginning)
        next_try = faults.next_try(outcome, step, has_older)
        if next_try is not NextTry.NOTHING:
            faults.skip_snapshots += next_try is NextTry.OLDER
            return self._ordered(slot, is_open, faults)
        self._control.restore_bytes[slot] = 0
        self.diverged |= outcome is Outcome.DIFFERS
        if outcome is Outcome.USED_DIFFERS:
            self.used.differ()
        self._fail(slot, REASONS.get(outcome, "failed"), step, _why(outcome, order, step))
        return False

    def _ordered(self, slot: int, is_open: bool, faults: SlotFaults) -> bool:
        order = self._order(slot, is_open, faults)
        if order is None:
            self._control.restore_bytes[slot] = 0
            self._fail(
                slot, "diverged", faults.place[1], "no snapshot led to the same rows, and the journal is shorter"
            )
            return False
        if self.used.differs and self.used.is_used(slot, order):
            self._control.restore_bytes[slot] = 0
            self._fail(slot, "reset", faults.place[1], USED_DIFFERS)
            return False
        # Replays that break again and again may be broken by these episodes: the last one is tried without them.
        is_last = faults.in_replay >= REPLAY_LIMIT - 1
        episodes = () if is_last or faults.skip_snapshots else self.used.to_play(slot, order)
        self._write(slot, dataclasses.replace(order, episodes=episodes))
        self._healing.add(slot)
        return True

    def fault_of(self, slot: int) -> Fault | None:
        """What broke the slot last, and what was tried; None if its worker was replaced on purpose."""
        faults = self._faults.get(slot)
        return faults.fault if faults is not None else None

    def tried(self, slot: int) -> str:
        """What was tried for the slot, without success."""
        faults = self._faults.get(slot)
        return faults.tried if faults is not None else ""

    def report_progress(self, slots: Iterable[int]) -> None:
        """Emit how far long replays have come."""
        for slot in self._healing.intersection(slots):
            order, done = self.orders[slot], int(self._control.restored_steps[slot])
            if done:
                first = order.beginning.length if order.beginning is not None else 0
                self._emit(ReplayProgress(slots=(slot,), done=max(done - first, 0), total=order.steps))

    def can_move(self, slots: Iterable[int]) -> bool:
        """Whether these slots' workers may be replaced at any moment."""
        is_exact = self.heals and not self.diverged and not self.used.differs
        return is_exact and not any(self._journal.cannot(slot) for slot in slots)

    def is_healing(self, slot: int) -> bool:
        """Whether the slot is on its way back."""
        return slot in self._healing

    def _order(self, slot: int, is_open: bool, faults: SlotFaults) -> Restore | None:
        if is_open and self._journal.is_autoreset(slot):
            # The episode is over and its successor has a seed of its own: there is nothing to replay.
            self._control.ended[slot] = 1
            order: Restore | None = self._journal.plain_order(slot)
        else:
            order = self._journal.order(slot, is_open, faults.skip_snapshots)
        self._control.begun[slot] = self._journal.episode(slot)
        return order

    def _write(self, slot: int, order: Restore) -> None:
        control = self._control
        control.outcome[slot], control.restored_steps[slot] = Outcome.NONE, 0
        control.restore_number[slot] += 1
        control.restore_bytes[slot] = self._mail.put(slot, ORDER, order)
        self.orders[slot] = order
        self.used.order_env(slot, int(control.begun[slot]) + (order.beginning is None))

    def _healed(self, slot: int, order: Restore) -> None:
        del self.orders[slot]
        self.used.agree(order.episodes)
        self.used.have_new_env(slot)
        self._control.restore_bytes[slot] = 0
        faults = self._faults.get(slot)
        if faults is not None and slot in self._healing:
            self._healing.discard(slot)
            seconds = (self._clock.now_ns() - faults.since_ns) / NS
            first = order.beginning.length if order.beginning is not None else 0
            self._emit(SlotHealed(slots=(slot,), seconds=seconds, replayed=order.steps, from_step=first))

    def _fail(self, slot: int, reason: str, step: int, detail: str) -> None:
        faults = self._faults.get(slot)
        if faults is not None:
            faults.tried = detail
            faults.fault = None if faults.fault is None else dataclasses.replace(faults.fault, tried=detail)
        action = self._journal.last_action(slot) if reason == "poison" else None
        self._emit(HealFailed(slots=(slot,), reason=reason, step=step, action=action, detail=detail))


def _explain(faults: SlotFaults, step: int) -> str:
    if faults.why_not == "poison":
        return f"one replay; the action at step {step} broke the environment again"
    if faults.why_not == "failed":
        return f"{REPLAY_LIMIT} replays; the last one broke the environment after step {step}, which had worked before"
    return f"{OUTSIDE_LIMIT - 1} replays; each time the worker was killed again"


def _why(outcome: Outcome, order: Restore, step: int) -> str:
    if outcome is Outcome.USED_DIFFERS:
        return USED_DIFFERS
    if outcome is Outcome.DIFFERS:
        return f"the replay of {order.steps} steps differs at step {step}"
    if outcome is Outcome.LATE:
        return f"the replay of {order.steps} steps had come to step {step} when restore_timeout_s was over"
    return f"{REPLAY_LIMIT} replays of {order.steps} steps; the last failed after step {step}: see the worker's log"
