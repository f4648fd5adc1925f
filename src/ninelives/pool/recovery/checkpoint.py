"""A whole pool's place in its run, to write to a file and to go on from in another process, exactly.

Holds for every slot its state, the seed its episodes are derived from and how far it has counted them. What cannot be
brought back (a slot that was broken just then) begins a new episode, masked as after any fault. Writes no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ninelives.clock import Clock
from ninelives.errors import CheckpointError, EnvRaisedError, WorkerError
from ninelives.pool.data.checks import Slots
from ninelives.pool.recovery.journal import EpisodeSeeds, Journal
from ninelives.pool.recovery.slot_status import Desk, Life
from ninelives.pool.recovery.states import SlotState, StateDesk
from ninelives.spec.phase import Status
from ninelives.supervise.machine import NS
from ninelives.transport.control import Control

T = TypeVar("T")

ATTEMPTS = 10
"""Workers may die also while they save and load; a machine on which they die ten times in a row has another problem."""


@dataclass(frozen=True)
class SlotRecord:
    """One slot's place in the run.

    Attributes:
        state: where its episode was; None if that was lost.
        seeds: what its episodes' seeds are derived from.
        begun: episodes begun so far.
        reward: of the newest row; so are the next three.
        terminated: the environment had ended the episode.
        truncated: the episode had been cut.
        ended: the next step begins a new episode.
        episode_s: how long the episode had taken so far.
    """

    state: SlotState | None
    seeds: EpisodeSeeds
    begun: int
    reward: float
    terminated: bool
    truncated: bool
    ended: bool
    episode_s: float


@dataclass(frozen=True)
class PoolState:
    """Every slot's place. Can be pickled; go on from it with ``Pool.resume``."""

    slots: tuple[SlotRecord, ...]
    autoreset: str
    seed_episodes: bool


@dataclass
class Registrar:
    """Writes down the places of all slots, and puts slots back into theirs."""

    control: Control
    journal: Journal
    states: StateDesk
    desk: Desk
    clock: Clock

    def records(self) -> tuple[SlotRecord, ...]:
        """The places of all slots; nothing may be under way."""
        states = _persistently(self._saved)
        return tuple(self._record(slot, state) for slot, state in enumerate(states))

    def resume(self, records: tuple[SlotRecord, ...]) -> None:
        """Put every slot of a pool that has not begun yet into its place."""
        for slot, record in enumerate(records):
            self.journal.take_seeds(slot, record.seeds)
            self.control.begun[slot] = record.begun
        known = {slot: record.state for slot, record in enumerate(records) if record.state is not None}
        slots = np.array(sorted(known), np.int64)
        self.states.check(list(known.values()), slots)
        numbers = [records[slot].begun for slot in known]
        lost = _persistently(lambda: self.states.put(list(known.values()), slots, numbers))
        for slot, record in enumerate(records):
            self._take_flags(slot, record)
        self._begin_anew([slot for slot in range(len(records)) if slot not in known or slot in lost])

    def _begin_anew(self, slots: list[int]) -> None:
        for slot in slots:
            self.states.healer.renew(slot)
            self.control.status[slot], self.control.ended[slot] = Status.OK, False
        self.desk.renew(slots, valid=False)

    def _saved(self) -> list[SlotState | None]:
        live: Slots = np.flatnonzero(self.desk.life == Life.LIVE)
        saved = dict(zip(live.tolist(), self.states.save(live), strict=True))
        return [saved.get(slot) for slot in range(len(self.desk.life))]

    def _record(self, slot: int, state: SlotState | None) -> SlotRecord:
        control = self.control
        return SlotRecord(
            state=state,
            seeds=self.journal.seeds(slot),
            begun=int(control.begun[slot]),
            reward=float(control.reward[slot]),
            terminated=bool(control.terminated[slot]),
            truncated=bool(control.truncated[slot]),
            ended=bool(control.ended[slot]),
            episode_s=(self.clock.now_ns() - int(control.episode_began_ns[slot])) / NS,
        )

    def _take_flags(self, slot: int, record: SlotRecord) -> None:
        control = self.control
        control.reward[slot], control.ended[slot] = record.reward, record.ended
        control.terminated[slot], control.truncated[slot] = record.terminated, record.truncated
        control.episode_began_ns[slot] = max(self.clock.now_ns() - int(record.episode_s * NS), 0)


def check_shape(state: PoolState, num_envs: int, autoreset: str, seed_episodes: bool) -> None:
    """Refuse the state of a pool that is made otherwise, before anything is changed."""
    theirs = (len(state.slots), state.autoreset, state.seed_episodes)
    ours = (num_envs, autoreset, seed_episodes)
    for name, saved, here in zip(("num_envs", "autoreset", "seed_episodes"), theirs, ours, strict=True):
        if saved != here:
            raise CheckpointError(f"the state is of a pool with {name}={saved!r}, this one has {here!r}")


def _persistently(act: Callable[[], T]) -> T:
    """Again, if a worker died under it: saving and loading change nothing that doing it twice would change again."""
    for _ in range(ATTEMPTS - 1):
        try:
            return act()
        except EnvRaisedError:
            raise
        except WorkerError:
            continue
    return act()
