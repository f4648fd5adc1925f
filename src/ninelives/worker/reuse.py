"""Finds out whether ``reset`` of a used environment gives the same episodes as that of a new one.

Plays recorded episodes, and variants of them with other seeds, in a new environment and then again in the same one, now
used. Reads and writes nothing but the environment, which its caller builds.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ninelives.spec.codec import ActionCodec
from ninelives.spec.restore import Beginning, Restore
from ninelives.worker.fingerprint import flags_of
from ninelives.worker.replay import DiffersError, DigestOf, EpisodeReplay

VARIANTS = 4
"""An episode as it was, and others: many a used environment differs only in some episodes."""

STEPS = 200
"""Steps of a variant; where its episodes are shorter, there are several."""

LONGEST_CPU_S, LONGEST_S = 1.0, 10.0
"""When a worker begins nothing more, because its slots are waiting to be healed.

Processor time is what counts, so that as much is played on a busy machine; the other is for environments that wait.
"""

Rows = tuple[int, ...]
"""Digests, row by row."""

BROKEN = -1
"""Ends the rows of an environment that raised; no digest is negative."""

Play = Callable[[Restore, int, bool], Rows]
"""Play a variant of an episode, in a new environment or (False) in the one that has just played."""


class ReuseCheck:
    """What one worker has found out; its slots share the verdict and the time that may be spent on it."""

    def __init__(self) -> None:
        self._spent_s, self._spent_cpu_s, self._differs = 0.0, 0.0, False

    def used_differs(self, episodes: Sequence[Restore], play: Play) -> bool:
        """Whether used environments differ from new ones in any of these, while new ones agree."""
        began_s, began_cpu_s = time.monotonic() - self._spent_s, time.process_time() - self._spent_cpu_s

        def is_late() -> bool:
            self._spent_s, self._spent_cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
            return self._spent_s > LONGEST_S or self._spent_cpu_s > LONGEST_CPU_S

        self._differs = self._differs or any(differs_in(episode, play, is_late) for episode in episodes)
        return self._differs


def differs_in(episode: Restore, play: Play, is_late: Callable[[], bool] = lambda: False) -> bool:
    """Whether a used environment differs from a new one in a variant of this episode.

    A second new environment must agree with the first: otherwise there is chance, which says nothing about the reset.
    A difference between a new and a used one must show twice, because a fault that comes once is no part of the reset.
    An environment that was called into is not played again: the calls would change it once more.
    """
    for variant in range(1 if episode.calls else VARIANTS):
        if is_late():
            break
        new = play(episode, variant, True)
        is_as_before = variant > 0 or new == tuple(memoryview(episode.digests).cast("I"))
        used = new if episode.calls or not is_as_before else play(episode, variant, False)
        if is_as_before and used == new:
            continue
        if play(episode, variant, True) != new:
            continue
        if not is_as_before or _differs_again(new, used, play(episode, variant, False)):
            return True
    return False


def _differs_again(new: Rows, used: Rows, used_again: Rows) -> bool:
    """Whether the second pair differs as the first did; what raises at another step each time is a fault of its own."""
    has_raised = BROKEN in (used[-1], used_again[-1])
    return used_again == used if has_raised else used_again != new


@dataclass
class EpisodePlayer:
    """Plays variants in one environment; ``on_step`` is called at each step."""

    env: Any
    codec: ActionCodec
    digest_of: DigestOf
    on_step: Callable[[], None]

    def play(self, episode: Restore, beginning: Beginning, variant: int) -> Rows:
        """The rows, up to the first that was not recorded so; where the environment raises, they end with a mark."""
        rows: list[int] = []

        def noted(obs: Any, reward: float, flags: int) -> int:
            rows.append(self.digest_of(obs, reward, flags))
            return rows[-1]

        try:
            if variant:
                rows.extend(self._vary(episode, beginning, variant))
            else:
                EpisodeReplay(self.env, self.codec, None, noted, lambda step: self.on_step()).run(episode, beginning)
        except DiffersError:
            pass
        except Exception:
            traceback.print_exc()
            rows.append(BROKEN)
        return tuple(rows)

    def _vary(self, episode: Restore, beginning: Beginning, variant: int) -> Iterator[int]:
        """The same actions, again and again, in episodes with other seeds."""
        actions = [self.codec.decode(row) for row in _split(episode.actions, self.codec.width)]
        seed, is_over = variant * STEPS, True
        for step in range(STEPS):
            if is_over:
                obs, _ = self.env.reset(seed=seed + step, options=beginning.options)
                yield self.digest_of(obs, 0.0, 0)
            obs, reward, terminated, truncated, _ = self.env.step(actions[step % len(actions)])
            yield self.digest_of(obs, float(reward), flags_of(terminated, truncated))
            is_over = bool(terminated) or bool(truncated)
            self.on_step()


def _split(actions: bytes, width: int) -> list[bytes]:
    return [actions[at : at + width] for at in range(0, len(actions), width)]
