"""A whole pool's place in its run: to write to a file, and to continue from exactly in another process.

Holds for every slot its state, the seed its episodes are derived from and how many it has begun. A slot that cannot be
brought back (it was broken just then, or the pool does not heal) begins a new episode, masked as after any fault, and
the user is told. Writes no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ninelives.errors import CheckpointError, EnvRaisedError, WorkerError
from ninelives.pool.recovery.coordinator import Coordinator
from ninelives.pool.recovery.journal import EpisodeSeeds, Journal
from ninelives.pool.recovery.slot_status import SlotLife
from ninelives.pool.recovery.states import SlotState, States
from ninelives.pool.runtime import Runtime
from ninelives.spec.phase import Status
from ninelives.spec.plan import Slots
from ninelives.supervise.machine import NS

T = TypeVar("T")

ATTEMPTS = 10
"""Workers may die also while they save and load; a machine on which they die ten times in a row has another problem."""


BROKEN = "its worker was being replaced"


@dataclass(frozen=True)
class SlotRecord:
    """One slot's place in the run.

    Attributes:
        state: where its episode was; None if that is not known.
        seeds: what its episodes' seeds are derived from.
        begun: episodes begun so far.
        reward: of the newest row; so are the next three.
        terminated: the environment had ended the episode.
        truncated: the episode had been cut.
        ended: the next step begins a new episode.
        episode_s: how long the episode had taken so far.
        lost: why there is no state.
    """

    state: SlotState | None
    seeds: EpisodeSeeds
    begun: int
    reward: float
    terminated: bool
    truncated: bool
    ended: bool
    episode_s: float
    lost: str = ""


@dataclass(frozen=True)
class PoolState:
    """Every slot's place. Can be pickled; continue from it with ``Pool.resume``."""

    slots: tuple[SlotRecord, ...]
    autoreset: str
    seed_episodes: bool


class Checkpointer:
    """Records the places of all slots, and puts slots back into theirs."""

    def __init__(self, runtime: Runtime, coordinator: Coordinator, states: States, journal: Journal) -> None:
        self._control, self._clock = runtime.control, runtime.clock
        self._status, self._healing = coordinator.status, coordinator.healing
        self._states, self._journal, self._notices = states, journal, coordinator.notices

    def records(self) -> tuple[SlotRecord, ...]:
        """The places of all slots; nothing may be under way."""
        states, refused = _with_retries(self._saved)
        slots = range(len(self._status.life))
        return tuple(self._record(slot, states.get(slot), refused.get(slot, BROKEN)) for slot in slots)

    def resume(self, records: tuple[SlotRecord, ...]) -> None:
        """Put every slot of a pool that has not begun yet into its place, or let it begin a new episode."""
        for slot, record in enumerate(records):
            self._journal.take_seeds(slot, record.seeds)
            self._control.begun[slot] = record.begun
        lost = {
            slot: f"no state was saved ({record.lost})" for slot, record in enumerate(records) if record.state is None
        }
        known = {slot: record.state for slot, record in enumerate(records) if record.state is not None}
        if self._journal.recorder is None:
            lost |= {slot: f"no state can be loaded ({self._journal.cannot(slot)})" for slot in known}
        else:
            lost |= self._put(known, [records[slot].begun for slot in known])
        for slot, record in enumerate(records):
            self._take_flags(slot, record)
        self._begin_anew(lost)

    def _put(self, known: dict[int, SlotState], numbers: list[int]) -> dict[int, str]:
        """Put slots into their states; returns those that did not arrive, and why."""
        slots = np.array(sorted(known), np.int64)
        self._states.check(list(known.values()), slots)
        return _with_retries(lambda: self._states.put(list(known.values()), slots, numbers))

    def _begin_anew(self, lost: dict[int, str]) -> None:
        for slot in lost:
            self._healing.renew(slot)
            self._control.status[slot], self._control.ended[slot] = Status.OK, False
        self._status.renew(lost, valid=False)
        self._notices.begin_anew(lost)

    def _saved(self) -> tuple[dict[int, SlotState], dict[int, str]]:
        live: Slots = np.flatnonzero(self._status.life == SlotLife.LIVE)
        return self._states.save_some(live)

    def _record(self, slot: int, state: SlotState | None, lost: str) -> SlotRecord:
        control = self._control
        return SlotRecord(
            state=state,
            seeds=self._journal.seeds(slot),
            begun=int(control.begun[slot]),
            reward=float(control.reward[slot]),
            terminated=bool(control.terminated[slot]),
            truncated=bool(control.truncated[slot]),
            ended=bool(control.ended[slot]),
            episode_s=(self._clock.now_ns() - int(control.episode_began_ns[slot])) / NS,
            lost="" if state is not None else lost,
        )

    def _take_flags(self, slot: int, record: SlotRecord) -> None:
        control = self._control
        control.reward[slot], control.ended[slot] = record.reward, record.ended
        control.terminated[slot], control.truncated[slot] = record.terminated, record.truncated
        control.episode_began_ns[slot] = max(self._clock.now_ns() - int(record.episode_s * NS), 0)


def check_shape(state: PoolState, num_envs: int, autoreset: str, seed_episodes: bool) -> None:
    """Refuse the state of a pool with other settings, before anything is changed."""
    theirs = (len(state.slots), state.autoreset, state.seed_episodes)
    ours = (num_envs, autoreset, seed_episodes)
    for name, saved, here in zip(("num_envs", "autoreset", "seed_episodes"), theirs, ours, strict=True):
        if saved != here:
            raise CheckpointError(f"the state is of a pool with {name}={saved!r}, this one has {here!r}")


def _with_retries(act: Callable[[], T]) -> T:
    """Try again if a worker died meanwhile: saving and loading twice gives the same as once."""
    for _ in range(ATTEMPTS - 1):
        try:
            return act()
        except EnvRaisedError:
            raise
        except WorkerError:
            continue
    return act()
