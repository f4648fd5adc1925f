"""Plays a policy in a pool and scores it. Never learns, and never touches the run that the policy comes from.

::

    100 episodes on 8 slots:  slots 0-3 play 13 each, slots 4-7 play 12       settled before the first step

Every slot has its number of episodes, and plays these to the end. Taking the first hundred that happen to end would
count short ones more often than long ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.errors import ConfigError, NinelivesError
from ninelives.events import Event, SlotQuarantined
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec
from ninelives.train.score import Played, Score

SUCCESS_KEYS = ("success", "is_success")
"""Infos of an episode's last step that say whether it reached its goal, the first that is there."""

Seen = Callable[[Pool, Batch], None]


class Player(Protocol):
    """Whoever can play: a policy with its normalisers and its memory."""

    def begin(self, rows: int, *, greedy: bool, seed: int) -> None:
        """Forget everything; so many slots will be played."""

    def act(self, batch: Batch, starts: npt.NDArray[np.bool_]) -> Any:
        """Actions for every slot of a full batch; ``starts`` marks those whose episode has just begun."""


def evaluate(
    player: Player,
    env: EnvSpec | str | Callable[..., Any],
    *,
    episodes: int = 100,
    n_envs: int = 8,
    greedy: bool = True,
    seed: int = 0,
    success: float | None = None,
    seen: Seen | None = None,
    **pool_settings: Any,
) -> Score:
    """Play whole episodes and score them.

    Args:
        player: who plays.
        env: anything ``ninelives.Pool`` takes.
        episodes: how many count.
        n_envs: slots; no more than episodes are used.
        greedy: take the likeliest action, or draw.
        seed: of the environments and of what is drawn. The score depends on it and on ``n_envs``, not on workers.
        success: an episode with at least this return is a success; None: as ``info["success"]`` says, if it does.
        seen: is shown every batch, before the next actions are sent; for videos.
        **pool_settings: see ``ninelives.PoolOptions``.

    Raises:
        ConfigError: a setting is impossible.
        NinelivesError: slots are lost, so that the episodes cannot be played.
    """
    if episodes < 1 or n_envs < 1:
        raise ConfigError(f"episodes={episodes} and n_envs={n_envs} must each be 1 or more")
    rows, quarantine = min(n_envs, episodes), _Quarantine()
    sinks = (*pool_settings.pop("sinks", ()), quarantine)
    with _one_thread(), Pool(env, rows, autoreset="next_step", sinks=sinks, **pool_settings) as pool:
        player.begin(rows, greedy=greedy, seed=seed)
        tally = _Tally(rows, episodes, success)
        batch, starts = pool.reset(seed=seed), np.ones(rows, np.bool_)
        while True:
            if seen is not None:
                seen(pool, batch)
            if tally.is_full:
                break
            batch = pool.step(player.act(batch, starts))
            starts = tally.count(batch)
            tally.check(quarantine.slots)
    return Score(tuple(sorted(tally.played, key=lambda one: one.slot)), greedy, tally.cut)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch's threads cost more than they bring for a few rows, and the cores are the workers'."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Tally:
    """Counts episodes, slot by slot, until each slot has played its number."""

    def __init__(self, rows: int, episodes: int, success: float | None) -> None:
        self._left = np.full(rows, episodes // rows) + (np.arange(rows) < episodes % rows)
        self._success, self._ended = success, np.zeros(rows, np.bool_)
        self.cut = 0
        self.played: list[Played] = []

    @property
    def is_full(self) -> bool:
        return not self._left.any()

    def count(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Take what ended; returns which rows are the first of an episode."""
        for slot, total, length in zip(
            batch.episodes.slots.tolist(),
            batch.episodes.returns.tolist(),
            batch.episodes.lengths.tolist(),
            strict=True,
        ):
            if self._left[slot]:
                self._left[slot] -= 1
                self.played.append(Played(slot, total, length, self._succeeded(batch.infos, slot, total)))
        lost = ~batch.valid
        self.cut += int(np.count_nonzero(lost & batch.truncated & (self._left > 0)))
        ended = (batch.terminated | batch.truncated) & batch.valid
        starts, self._ended = self._ended | lost, ended
        return starts

    def _succeeded(self, infos: Mapping[str, Any], slot: int, total: float) -> bool | None:
        if self._success is not None:
            return total >= self._success
        for key in SUCCESS_KEYS:
            if key in infos and infos[f"_{key}"][slot]:
                return bool(infos[key][slot])
        return None

    def check(self, quarantined: set[int]) -> None:
        """Give up where a slot that still has to play never will again."""
        gone = [slot for slot in sorted(quarantined) if self._left[slot]]
        if gone:
            raise NinelivesError(
                f"slots {gone} are quarantined and have {int(self._left[gone].sum())} episodes left to play: their "
                "environments broke too often. See docs/faults.md on budgets, or raise max_restarts_per_slot"
            )


class _Quarantine:
    """Listens to the pool for slots that are given up."""

    def __init__(self) -> None:
        self.slots: set[int] = set()

    def emit(self, event: Event) -> None:
        if isinstance(event, SlotQuarantined):
            self.slots.update(event.slots)
