"""How each slot's episode began and everything that was done to it since: enough to bring it back, exactly.

Kept by the parent, in memory that no worker can touch. Actions go to the notes, one write per batch; full chunks are
packed away, and long episodes spill to a file. A snapshot makes everything before the one before it superfluous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.pool.recovery.recorder import NOTHING, STEP, Notes, Sheets, make_notes
from ninelives.pool.recovery.spill import DIGEST_BYTES, Shelf, share_bytes
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
class Page:
    """What is written down of one slot besides its actions. Beginnings and calls stand with the episode's number."""

    seed: int | None = None
    restarts: int = 0
    began: tuple[int, Beginning] | None = None
    snapshots: list[tuple[int, Beginning]] = field(default_factory=list)
    calls: list[tuple[int, int, CallRequest]] = field(default_factory=list)
    forgot_calls: bool = False


class Journal:
    """One page per slot. ``open`` once the spaces are known; until then only seeds are remembered."""

    def __init__(self, slots: int, seed_episodes: bool = False) -> None:
        self._pages = [Page() for _ in range(slots)]
        self._seed_episodes = seed_episodes
        self.last_action: Callable[[int], Any] = lambda slot: None
        self.notes: Notes | None = None
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
        """Begin to take notes, if episodes shall be healed and their actions can be written down."""
        self._control, self._codec = control, codec
        if not heals or codec is None:
            return
        slots = len(self._pages)
        sheets = self._written = Sheets.blank(slots, codec.width)
        share = share_bytes(slots)
        self._shelves = [Shelf(codec.width, spill_dir / f"slot-{slot}.journal", share) for slot in range(slots)]
        pack = partial(_pack, sheets, self._shelves)  # no method: the notes must not hold the journal
        self.notes = make_notes(control, sheets, codec, arrays, next_step, pack)

    @property
    def _sheets(self) -> Sheets:
        """What was noted, up to the newest request."""
        if self.notes is not None:
            self.notes.complete()
        return self._written

    # ---- beginnings -------------------------------------------------------------------------------------------------

    def begin(self, slot: int, seed: int | None, options: Any) -> int | None:
        """An episode is about to be begun on request; returns the seed to begin it with.

        Where every episode has a seed, one that was not given is derived from the last that was, or drawn.
        """
        page, number = self._pages[slot], int(self._control.begun[slot]) + 1
        if seed is None and self._seed_episodes:
            known = page.seed
            seed = self._draw_seed(slot, number) if known is None else self._derived(slot, known, number)
        elif seed is not None:
            page.seed, page.restarts = seed, 0
            self._control.base_seed[slot], self._control.base_episode[slot] = seed, number
        page.began = (number, Beginning(seed, options))
        return seed

    def begin_again(self, slot: int) -> int | None:
        """After a cut: the next episode's seed, derived, so that a run with the same faults gives the same numbers."""
        page, number = self._pages[slot], int(self._control.begun[slot]) + 1
        seed = None
        if page.seed is not None and self._seed_episodes:
            seed = self._derived(slot, page.seed, number)
        elif page.seed is not None:
            page.restarts += 1
            seed = int(np.random.SeedSequence([page.seed, slot, page.restarts]).generate_state(1, np.uint32)[0])
        page.began = (number, Beginning(seed))
        return seed

    def load(self, slot: int, recipe: Restore, length: int) -> None:
        """The slot is about to be put into a state: from here on its episode is written down as begun so."""
        page, sheets, episode = self._pages[slot], self._sheets, int(self._control.begun[slot])
        beginning = recipe.beginning
        if beginning is None:
            raise ValueError("a state without a beginning cannot be loaded")
        if page.seed is None and self._seed_episodes:
            self._draw_seed(slot, episode)
        page.began, page.snapshots = (episode, beginning), []
        page.calls = [(episode, step, request) for step, request in recipe.calls]
        sheets.episode[slot], sheets.count[slot], sheets.base[slot], sheets.blind[slot] = episode, length, length, 0
        digests = np.frombuffer(recipe.digests, np.uint32)[:-1]
        self._shelves[slot].put(episode, beginning.length, recipe.actions, digests)

    def seeds(self, slot: int) -> EpisodeSeeds:
        """What the slot's later seeds come from."""
        page = self._pages[slot]
        return EpisodeSeeds(page.seed, int(self._control.base_episode[slot]), page.restarts)

    def take_seeds(self, slot: int, seeds: EpisodeSeeds) -> None:
        """Go on with the seeds of another pool."""
        page = self._pages[slot]
        page.seed, page.restarts = seeds.seed, seeds.restarts
        self._control.base_seed[slot], self._control.base_episode[slot] = seeds.seed or 0, seeds.episode

    def _draw_seed(self, slot: int, episode: int) -> int:
        """A run without a seed: draw one, so that its episodes can be begun again."""
        seed = int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
        self._pages[slot].seed = seed
        self._control.base_seed[slot], self._control.base_episode[slot] = seed, episode
        return seed

    def _derived(self, slot: int, seed: int, number: int) -> int:
        return episode_seed(seed, slot, number - int(self._control.base_episode[slot]))

    def describe(self, slot: int) -> tuple[int | None, Any]:
        """Seed of the present episode (or of the stream it is part of) and last action of a slot, for reports."""
        seed, begun = self._pages[slot].seed, int(self._control.begun[slot]) if self._control is not None else 0
        if seed is not None and self._seed_episodes and begun:
            seed = self._derived(slot, seed, begun)
        return seed, self.last_action(slot)

    # ---- what happens -----------------------------------------------------------------------------------------------

    def note_all(self) -> None:
        """Every slot is about to be stepped."""
        if self.notes is not None:
            self.notes.note_all()

    def note(self, slots: npt.NDArray[np.int64]) -> None:
        """These slots are about to be stepped."""
        if self.notes is not None:
            self.notes.note(slots)

    def mark(self, slot: int) -> None:
        """A request that is no step is about to be sent: remember the newest row."""
        if self.notes is not None:
            self._catch_up(slot)
            self._sheets.seen[slot] = self._control.digest[slot]
            self._sheets.pending[slot] = NOTHING

    def remember_call(self, slot: int, request: CallRequest) -> None:
        """A call that may have changed the environment; it is repeated wherever the environment is rebuilt."""
        page = self._pages[slot]
        if len(page.calls) >= CALLS_LIMIT:
            page.forgot_calls = True
            return
        episode, step = self.position(slot)
        page.calls.append((episode, step, request))

    def keep_snapshot(self, slot: int, state: bytes) -> None:
        """A snapshot came with the newest row. The last two are kept, and the actions since the older one."""
        if self.notes is None:
            return
        control, page = self._control, self._pages[slot]
        episode, length = int(control.begun[slot]), int(control.state_length[slot])
        snapshot = Beginning(state=state, length=length, total=float(control.state_total[slot]))
        last = [kept for kept in page.snapshots if kept[0] == episode][-1:]
        page.snapshots = [*last, (episode, snapshot)]
        if len(page.snapshots) == 2:
            self._shelves[slot].forget_before(page.snapshots[0][1].length)

    def _catch_up(self, slot: int) -> None:
        """A new episode has begun and nothing of it is noted yet."""
        sheets, begun = self._sheets, self._control.begun[slot]
        if sheets.episode[slot] != begun:
            sheets.episode[slot], sheets.count[slot], sheets.base[slot], sheets.blind[slot] = begun, 0, 0, 0

    # ---- coming back ------------------------------------------------------------------------------------------------

    def position(self, slot: int) -> tuple[int, int]:
        """Episode and step up to which everything is published, while nothing is under way for the slot."""
        return int(self._control.begun[slot]), int(self._control.running_length[slot])

    def undone(self, slot: int, is_open: bool) -> tuple[int, int]:
        """Episode and number of the step that was under way, or would come next."""
        if not is_open:
            self._catch_up(slot)
        return int(self._sheets.episode[slot]), self._done(slot, is_open)

    def _done(self, slot: int, is_open: bool) -> int:
        under_way = is_open and self._sheets.pending[slot] == STEP
        return int(self._sheets.count[slot]) - int(under_way)

    def cannot(self, slot: int) -> str:
        """Why the slot's present episode cannot be brought back; empty if it can."""
        if self._codec is None:
            return "its actions are objects, which are not written down"
        if self.notes is None:
            return "on_fault is not 'heal'"
        if self._sheets.blind[slot]:
            return "it was given an action outside of its action space"
        if self._pages[slot].forgot_calls:
            return f"more than {CALLS_LIMIT} calls were made into its environment"
        beginning = self._first(slot)
        if beginning.seed is None and beginning.state is None and beginning.rng is None:
            return "its episode began without a seed and with an unknown generator; use seed_episodes=True"
        return ""

    def order(self, slot: int, is_open: bool, skip_snapshots: int = 0) -> Restore | None:
        """Everything a worker needs to bring the slot back. ``skip_snapshots``: so many of the newest did not help.

        None if the actions since the nearest beginning are not all kept any more.
        """
        if not is_open:
            self._catch_up(slot)
        sheets, done = self._sheets, self._done(slot, is_open)
        beginning = self._nearest(slot, done, skip_snapshots)
        last = sheets.seen[slot] if is_open else self._control.digest[slot]
        actions, digests = self._entries(slot, beginning.length, done)
        if len(digests) != DIGEST_BYTES * (done - beginning.length):
            return None
        return Restore(
            beginning=beginning,
            actions=actions,
            steps=done - beginning.length,
            digests=digests + np.uint32(last).tobytes(),
            calls=self._calls(slot, int(sheets.episode[slot])),
        )

    def plain_order(self, slot: int) -> Restore:
        """For a slot whose episode is over or cut: its environment is new, but calls made into it still count."""
        return Restore(None, calls=self._calls(slot, -1))

    def has_calls(self, slot: int) -> bool:
        """Whether a new environment needs calls to be repeated."""
        return bool(self._pages[slot].calls)

    def episode(self, slot: int) -> int:
        """The episode that is written down."""
        return int(self._sheets.episode[slot])

    def is_autoreset(self, slot: int) -> bool:
        """Whether the request under way only begins the slot's next episode, with a seed of its own."""
        return self._seed_episodes and self._sheets.pending[slot] not in (NOTHING, STEP)

    def _calls(self, slot: int, episode: int) -> tuple[tuple[int, CallRequest], ...]:
        calls = self._pages[slot].calls
        return tuple((step if made_in == episode else BEFORE_RESET, request) for made_in, step, request in calls)

    def _nearest(self, slot: int, done: int, skip: int) -> Beginning:
        """The newest usable snapshot, else the episode's own beginning.

        At least one step is replayed after a snapshot, so that something is compared.
        """
        episode = int(self._sheets.episode[slot])
        snapshots = [snapshot for taken_in, snapshot in self._pages[slot].snapshots if taken_in == episode]
        for snapshot in snapshots[: len(snapshots) - skip][::-1]:
            if snapshot.length < done:
                return snapshot
        return self._first(slot)

    def _first(self, slot: int) -> Beginning:
        """How the episode began."""
        page, episode = self._pages[slot], int(self._sheets.episode[slot])
        began = page.began[1] if page.began is not None and page.began[0] == episode else Beginning()
        if began.seed is not None or began.state is not None or began.rng is not None:
            return began
        if self._seed_episodes and page.seed is not None:
            return Beginning(self._derived(slot, page.seed, episode), began.options)
        record = self._control.rng[slot, episode % 2].tobytes()
        return Beginning(None, began.options, rng=record if record[RNG_KNOWN] else None)

    def is_on_the_way(self, slot: int, beginning: Beginning) -> bool:
        """Whether the episode began before this: a snapshot was taken here, and there is an older one, or a reset."""
        return beginning.state is not None and beginning is not self._first(slot)

    def _entries(self, slot: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Actions and digests of these steps."""
        sheets = self._sheets
        base = int(sheets.base[slot])
        old_actions, old_digests = self._shelves[slot].get(int(sheets.episode[slot]), start, min(stop, base))
        first, last = max(start, base) - base, max(stop, base) - base
        return (
            old_actions + sheets.actions[slot, first:last].tobytes(),
            old_digests + sheets.digests[slot, first:last].tobytes(),
        )


def _pack(sheets: Sheets, shelves: Sequence[Shelf], slot: int) -> None:
    """A slot's chunk is full: put it on its shelf."""
    shelves[slot].put(
        int(sheets.episode[slot]), int(sheets.base[slot]), sheets.actions[slot].data, sheets.digests[slot]
    )
    sheets.base[slot] = sheets.count[slot]
