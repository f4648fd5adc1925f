"""How each slot's episode began and everything that was done to it since: enough to bring it back exactly.

Kept by the parent, in memory that no worker can touch. Actions go to the recorder, one call per batch; full chunks are
packed away, and long episodes spill to a file. With two snapshots, nothing before the older one is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.pool.recovery.recorder import NOTHING, STEP, ActionRecorder, Records, make_recorder
from ninelives.pool.recovery.spill import DIGEST_BYTES, Spill, share_bytes
from ninelives.spec.call import CallRequest
from ninelives.spec.codec import ActionCodec
from ninelives.spec.restore import BEFORE_RESET, Beginning, Restore
from ninelives.spec.seeds import episode_seed
from ninelives.transport.control import RNG_KNOWN, Control

CALLS_LIMIT = 10_000
"""Calls into one environment that are remembered; with more, its episodes are cut instead of brought back."""


@dataclass(frozen=True)
class EpisodeSeeds:
    """What the seeds of a slot's later episodes are derived from: its seed, and the episode that had it itself."""

    seed: int | None
    episode: int
    restarts: int


@dataclass
class SlotJournal:
    """What is recorded of one slot besides its actions. Beginnings and calls have the number of their episode."""

    seed: int | None = None
    restarts: int = 0
    began: tuple[int, Beginning] | None = None
    snapshots: list[tuple[int, Beginning]] = field(default_factory=list)
    calls: list[tuple[int, int, CallRequest]] = field(default_factory=list)
    forgot_calls: bool = False


class Journal:
    """The journals of all slots. ``open`` once the spaces are known; until then only seeds are remembered.

    Attributes:
        last_action: the action last given to a slot.
        recorder: takes down actions; None where episodes cannot be healed.
    """

    def __init__(self, slots: int, seed_episodes: bool = False) -> None:
        self._journals = [SlotJournal() for _ in range(slots)]
        self._seed_episodes = seed_episodes
        self.last_action: Callable[[int], Any] = lambda slot: None
        self.recorder: ActionRecorder | None = None
        self._control: Any = None

    def open(
        self,
        control: Control,
        arrays: Mapping[str, npt.NDArray[Any]],
        codec: ActionCodec | None,
        next_step: bool,
        heals: bool,
        spill_dir: Path,
    ) -> None:
        """Begin to record, if episodes are to be healed and their actions can be recorded."""
        self._control, self._codec = control, codec
        if not heals or codec is None:
            return
        slots = len(self._journals)
        self._records = Records.blank(slots, codec.width)
        share = share_bytes(slots)
        self._spills = [Spill(codec.width, spill_dir / f"slot-{slot}.journal", share) for slot in range(slots)]
        pack = partial(_pack, self._records, self._spills)  # not a method: the recorder must not hold the journal
        self.recorder = make_recorder(control, self._records, codec, arrays, next_step, pack)

    # ---- beginnings -------------------------------------------------------------------------------------------------

    def begin(self, slot: int, seed: int | None, options: Any) -> int | None:
        """An episode is about to begin on request; returns the seed to begin it with.

        Where every episode has a seed, one that was not given is derived from the last that was, or drawn.
        """
        own, number = self._journals[slot], int(self._control.begun[slot]) + 1
        if seed is None and self._seed_episodes:
            known = own.seed
            seed = self._draw_seed(slot, number) if known is None else self._derived(slot, known, number)
        elif seed is not None:
            own.seed, own.restarts = seed, 0
            self._control.base_seed[slot], self._control.base_episode[slot] = seed, number
        own.began = (number, Beginning(seed, options))
        return seed

    def begin_again(self, slot: int) -> int | None:
        """After a cut: the next episode's seed, derived, so that a run with the same faults gives the same numbers."""
        own, number = self._journals[slot], int(self._control.begun[slot]) + 1
        seed = None
        if own.seed is not None and self._seed_episodes:
            seed = self._derived(slot, own.seed, number)
        elif own.seed is not None:
            own.restarts += 1
            seed = int(np.random.SeedSequence([own.seed, slot, own.restarts]).generate_state(1, np.uint32)[0])
        own.began = (number, Beginning(seed))
        return seed

    def load(self, slot: int, recipe: Restore, length: int) -> None:
        """The slot is about to be put into a state: from here on its journal begins with that state."""
        own, records, episode = self._journals[slot], self._records, int(self._control.begun[slot])
        beginning = recipe.beginning
        if beginning is None:
            raise ValueError("this state does not say how its episode began, so it cannot be loaded")
        if own.seed is None and self._seed_episodes:
            self._draw_seed(slot, episode)
        own.began, own.snapshots = (episode, beginning), []
        own.calls = [(episode, step, request) for step, request in recipe.calls]
        records.episode[slot], records.count[slot], records.base[slot], records.blind[slot] = episode, length, length, 0
        digests = np.frombuffer(recipe.digests, np.uint32)[:-1]
        self._spills[slot].put(episode, beginning.length, recipe.actions, digests)

    def seeds(self, slot: int) -> EpisodeSeeds:
        """What the seeds of the slot's later episodes are derived from."""
        own = self._journals[slot]
        return EpisodeSeeds(own.seed, int(self._control.base_episode[slot]), own.restarts)

    def take_seeds(self, slot: int, seeds: EpisodeSeeds) -> None:
        """Go on with the seeds of another pool."""
        own = self._journals[slot]
        own.seed, own.restarts = seeds.seed, seeds.restarts
        self._control.base_seed[slot], self._control.base_episode[slot] = seeds.seed or 0, seeds.episode

    def _draw_seed(self, slot: int, episode: int) -> int:
        """A run without a seed: draw one, so that its episodes can be begun again."""
        seed = int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
        self._journals[slot].seed = seed
        self._control.base_seed[slot], self._control.base_episode[slot] = seed, episode
        return seed

    def _derived(self, slot: int, seed: int, number: int) -> int:
        return episode_seed(seed, slot, number - int(self._control.base_episode[slot]))

    def describe(self, slot: int) -> tuple[int | None, Any]:
        """Seed of the present episode (or of the stream it is part of) and last action of a slot, for reports."""
        seed, begun = self._journals[slot].seed, int(self._control.begun[slot]) if self._control is not None else 0
        if seed is not None and self._seed_episodes and begun:
            seed = self._derived(slot, seed, begun)
        return seed, self.last_action(slot)

    # ---- what happens -----------------------------------------------------------------------------------------------

    def note_all(self) -> None:
        """Every slot is about to be stepped."""
        if self.recorder is not None:
            self.recorder.note_all()

    def note(self, slots: npt.NDArray[np.int64]) -> None:
        """These slots are about to be stepped."""
        if self.recorder is not None:
            self.recorder.note(slots)

    def mark(self, slot: int) -> None:
        """A request other than a step is about to be sent: remember the newest row."""
        if self.recorder is not None:
            self._catch_up(slot)
            self._records.seen[slot] = self._control.digest[slot]
            self._records.pending[slot] = NOTHING

    def remember_call(self, slot: int, request: CallRequest) -> None:
        """A call that may have changed the environment; it is repeated wherever the environment is rebuilt."""
        own = self._journals[slot]
        if len(own.calls) >= CALLS_LIMIT:
            own.forgot_calls = True
            return
        episode, step = self.position(slot)
        own.calls.append((episode, step, request))

    def keep_snapshot(self, slot: int, state: bytes) -> None:
        """A snapshot came with the newest row. The last two are kept, and the actions since the older one."""
        if self.recorder is None:
            return
        control, own = self._control, self._journals[slot]
        episode, length = int(control.begun[slot]), int(control.state_length[slot])
        snapshot = Beginning(state=state, length=length, total=float(control.state_total[slot]))
        last = [kept for kept in own.snapshots if kept[0] == episode][-1:]
        own.snapshots = [*last, (episode, snapshot)]
        if len(own.snapshots) == 2:
            self._spills[slot].forget_before(own.snapshots[0][1].length)

    def _catch_up(self, slot: int) -> None:
        """A new episode has begun and nothing of it is recorded yet."""
        records, begun = self._records, self._control.begun[slot]
        if records.episode[slot] != begun:
            records.episode[slot], records.count[slot], records.base[slot], records.blind[slot] = begun, 0, 0, 0

    # ---- coming back ------------------------------------------------------------------------------------------------

    def position(self, slot: int) -> tuple[int, int]:
        """Episode and step up to which everything is published, while nothing is under way for the slot."""
        return int(self._control.begun[slot]), int(self._control.running_length[slot])

    def undone(self, slot: int, is_open: bool) -> tuple[int, int]:
        """Episode and number of the step that was under way, or would come next."""
        if not is_open:
            self._catch_up(slot)
        return int(self._records.episode[slot]), self._done(slot, is_open)

    def _done(self, slot: int, is_open: bool) -> int:
        under_way = is_open and self._records.pending[slot] == STEP
        return int(self._records.count[slot]) - int(under_way)

    def cannot(self, slot: int) -> str:
        """Why the slot's present episode cannot be brought back; empty if it can."""
        if self._codec is None:
            return "its actions are objects, which are not recorded"
        if self.recorder is None:
            return "on_fault is not 'heal'"
        if self._records.blind[slot]:
            return "it was given an action outside its action space"
        if self._journals[slot].forgot_calls:
            return f"more than {CALLS_LIMIT} calls were made into its environment"
        beginning = self._first(slot)
        if beginning.seed is None and beginning.state is None and beginning.rng is None:
            return "its episode began without a seed and with an unknown generator; use seed_episodes=True"
        return ""

    def order(self, slot: int, is_open: bool, skip_snapshots: int = 0) -> Restore | None:
        """Everything a worker needs to bring the slot back, without the ``skip_snapshots`` newest snapshots.

        None if the actions since the nearest beginning are not all kept any more.
        """
        if not is_open:
            self._catch_up(slot)
        records, done = self._records, self._done(slot, is_open)
        beginning = self._nearest(slot, done, skip_snapshots)
        last = records.seen[slot] if is_open else self._control.digest[slot]
        actions, digests = self._entries(slot, beginning.length, done)
        if len(digests) != DIGEST_BYTES * (done - beginning.length):
            return None
        return Restore(
            beginning=beginning,
            actions=actions,
            steps=done - beginning.length,
            digests=digests + np.uint32(last).tobytes(),
            calls=self._calls(slot, int(records.episode[slot])),
        )

    def played(self, slot: int, longest: int) -> Restore | None:
        """The slot's recorded episode, which has ended, up to the row before its last one, or ``longest`` steps of it.

        None if it did not begin with a reset, or is not kept from there on.
        """
        records, beginning = self._records, self._first(slot)
        steps = min(int(records.count[slot]) - 1, longest)
        if steps < 1 or self.cannot(slot) or beginning.state is not None:
            return None
        width = len(records.actions[slot, 0])
        actions, digests = self._entries(slot, 0, steps + 1)
        if len(digests) != DIGEST_BYTES * (steps + 1):
            return None
        calls = tuple(made for made in self._calls(slot, int(records.episode[slot])) if made[0] <= steps)
        return Restore(beginning, actions[: steps * width], steps, digests, calls)

    def plain_order(self, slot: int) -> Restore:
        """For a slot whose episode is over or cut: build the environment anew and repeat calls made into it."""
        return Restore(None, calls=self._calls(slot, -1))

    def has_calls(self, slot: int) -> bool:
        """Whether a new environment needs calls to be repeated."""
        return bool(self._journals[slot].calls)

    def episode(self, slot: int) -> int:
        """The episode that is recorded."""
        return int(self._records.episode[slot])

    def is_autoreset(self, slot: int) -> bool:
        """Whether the request under way only begins the slot's next episode, with a seed of its own."""
        return self._seed_episodes and self._records.pending[slot] not in (NOTHING, STEP)

    def _calls(self, slot: int, episode: int) -> tuple[tuple[int, CallRequest], ...]:
        calls = self._journals[slot].calls
        return tuple((step if made_in == episode else BEFORE_RESET, request) for made_in, step, request in calls)

    def _nearest(self, slot: int, done: int, skip: int) -> Beginning:
        """The newest usable snapshot, else the episode's own beginning.

        At least one step is replayed after a snapshot, so that something is compared.
        """
        episode = int(self._records.episode[slot])
        snapshots = [snapshot for taken_in, snapshot in self._journals[slot].snapshots if taken_in == episode]
        for snapshot in snapshots[: len(snapshots) - skip][::-1]:
            if snapshot.length < done:
                return snapshot
        return self._first(slot)

    def _first(self, slot: int) -> Beginning:
        """How the episode began."""
        own, episode = self._journals[slot], int(self._records.episode[slot])
        began = own.began[1] if own.began is not None and own.began[0] == episode else Beginning()
        if began.seed is not None or began.state is not None or began.rng is not None:
            return began
        if self._seed_episodes and own.seed is not None:
            return Beginning(self._derived(slot, own.seed, episode), began.options)
        record = self._control.rng[slot, episode % 2].tobytes()
        return Beginning(None, began.options, rng=record if record[RNG_KNOWN] else None)

    def is_on_the_way(self, slot: int, beginning: Beginning) -> bool:
        """Whether this is a snapshot of the running episode: an older one, or a reset, can be tried instead."""
        return beginning.state is not None and beginning is not self._first(slot)

    def _entries(self, slot: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Actions and digests of these steps."""
        records = self._records
        base = int(records.base[slot])
        old_actions, old_digests = self._spills[slot].get(int(records.episode[slot]), start, min(stop, base))
        first, last = max(start, base) - base, max(stop, base) - base
        return (
            old_actions + records.actions[slot, first:last].tobytes(),
            old_digests + records.digests[slot, first:last].tobytes(),
        )


def _pack(records: Records, spills: Sequence[Spill], slot: int) -> None:
    """A slot's chunk is full: pack it away."""
    spills[slot].put(
        int(records.episode[slot]), int(records.base[slot]), records.actions[slot].data, records.digests[slot]
    )
    records.base[slot] = records.count[slot]
