"""Two bare loops that wait for each other after every round: what full batches could reach with no system at all.

A second limit beside that of two loops on their own. What lies between the two is the machine's and the game's: cores
are seldom equally fast, and episodes do not end at the same moment.
"""

from __future__ import annotations

import mmap
import multiprocessing
import time
from typing import Any

from typing_extensions import override

from systems import LAST, System
from workloads import make

ASKED, ANSWERED = 0, 8
"""Places of the two counters, a cache line apart."""

STOP = -1
PATIENCE = 20_000
"""Looks at the counter before the other loop naps: it must not burn a core while somebody else is measured."""

NAP_S = 0.001


class Lockstep(System):
    """Half of the environments here, half in another process; a round is over when both have stepped theirs."""

    reset_takes_a_row = False

    def __init__(self, workload: str, num_envs: int) -> None:
        super().__init__(workload, num_envs)
        self._num_envs, half = num_envs, num_envs // 2
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")  # shared with the process below
        self._mine = Half(workload, self.table[:, :half].tolist())
        other = self.table[:, half:].tolist()
        fork = multiprocessing.get_context("fork")
        self._other = fork.Process(target=_follow, args=(self._words, workload, other), daemon=True)
        self._other.start()
        self._round = 0

    @override
    def step(self, turn: int) -> int:
        words, self._round = self._words, self._round + 1
        words[ASKED] = self._round
        self._mine.step(turn)
        while words[ANSWERED] != self._round:
            pass
        return self._num_envs

    @override
    def close(self) -> None:
        self._words[ASKED] = STOP
        self._other.join()


class Half:
    """Some environments, stepped in turn."""

    def __init__(self, workload: str, rows: list[list[int]]) -> None:
        self._rows = rows
        self._envs = [make(workload) for _ in rows[0]]
        for seed, env in enumerate(self._envs):
            env.reset(seed=seed)

    def step(self, turn: int) -> None:
        """Step each once."""
        for env, action in zip(self._envs, self._rows[turn & LAST], strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()


def _follow(words: Any, workload: str, rows: list[list[int]]) -> None:
    half, done, looks = Half(workload, rows), 0, 0
    while (asked := words[ASKED]) != STOP:
        if asked == done:
            looks += 1
            if looks > PATIENCE:
                time.sleep(NAP_S)
            continue
        half.step(asked)
        words[ANSWERED] = done = asked
        looks = 0
