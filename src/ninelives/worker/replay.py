"""Brings an environment back to where an earlier one was: begin as it began, do what was done, see what was seen.

Touches the environment and nothing that is shared: no row, no counter. Every row is compared by its digest, so a replay
either arrives in the same state, as far as anybody has ever seen of it, or says at which step it differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ninelives.spec.call import CallRequest
from ninelives.spec.codec import ActionCodec
from ninelives.spec.restore import BEFORE_RESET, Beginning, Restore
from ninelives.worker import calls, rng
from ninelives.worker.snapshots import Snapshotter

TERMINATED_BIT, TRUNCATED_BIT = 1, 2

RowDigest = Callable[[Any, float, int], int]
"""The digest of (observation, reward, flags)."""


class DiffersError(Exception):
    """The replay gave another row than the first time; ``step`` is how many steps of the episode were done."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step} gives another row than before")
        self.step = step


@dataclass
class Arrived:
    """Where a replay came to."""

    length: int
    total: float
    over: bool


@dataclass
class Replay:
    """One replay over one environment."""

    env: Any
    codec: ActionCodec
    snapshotter: Snapshotter | None
    digest_of: RowDigest
    progress: Callable[[int], None]

    def run(self, order: Restore, beginning: Beginning) -> Arrived:
        """Do it all.

        Raises:
            DiffersError: a row is not what it was.
            Exception: whatever the environment raises.
        """
        digests = memoryview(order.digests).cast("I")
        pending = deque(order.calls)
        # A snapshot is taken within a step: calls made at that step came after it, earlier ones are part of it (and
        # still matter for what it does not hold).
        self._call_up_to(pending, BEFORE_RESET if beginning.state is None else beginning.length - 1)
        self._begin(beginning, digests[0])
        length, total, over = beginning.length, beginning.total, beginning.over
        for k in range(order.steps):
            self._call_up_to(pending, length)
            row = order.actions[k * self.codec.width : (k + 1) * self.codec.width]
            obs, reward, terminated, truncated, _ = self.env.step(self.codec.decode(row))
            reward, over = float(reward), bool(terminated) or bool(truncated)
            length, total = length + 1, total + reward
            self._compare(obs, reward, flags_of(terminated, truncated), digests[k + 1], length)
            self.progress(length)
        self._call_up_to(pending, length)
        return Arrived(length, total, over)

    def _begin(self, beginning: Beginning, digest: int) -> None:
        """Reset and compare the first row, or load a snapshot, which has none."""
        if beginning.state is not None:
            if self.snapshotter is None:
                raise RuntimeError("a snapshot was taken of this environment, but it can no longer load one")
            self.snapshotter.load(beginning.state)
            return
        if beginning.rng is not None:
            rng.restore(self.env, beginning.rng)
        asked = beginning.seed is not None or beginning.options is not None
        answer = self.env.reset(seed=beginning.seed, options=beginning.options) if asked else self.env.reset()
        self._compare(answer[0], 0.0, 0, digest, beginning.length)

    def _compare(self, obs: Any, reward: float, flags: int, digest: int, step: int) -> None:
        if self.digest_of(obs, reward, flags) != digest:
            raise DiffersError(step)

    def _call_up_to(self, pending: deque[tuple[int, CallRequest]], step: int) -> None:
        while pending and pending[0][0] <= step:
            calls.answer(self.env, pending.popleft()[1])


def flags_of(terminated: Any, truncated: Any) -> int:
    """Both flags as one number, as it goes into a digest."""
    return (TERMINATED_BIT if terminated else 0) | (TRUNCATED_BIT if truncated else 0)
