"""Two bare loops over all environments of a cell, half of them each: what could be reached with no system at all.

Second limits beside that of two loops with one environment each. ``Apart``, in which each loop runs at its own pace,
shows what it costs to have many environments, which share the caches. ``Lockstep``, in which they wait for each other
after every round as full batches must, shows what that costs on top: cores are seldom equally fast, and episodes do not
end at the same moment.
"""

from __future__ import annotations

import mmap
import multiprocessing
import time
from collections.abc import Callable

from typing_extensions import override

from systems import LAST, System
from workloads import make

ASKED, ANSWERED, ASLEEP = 0, 8, 16
"""Places of the numbers that the loops share, a cache line apart."""

STOP = -1
PATIENCE = 20_000
"""Looks at the number asked before the other loop sleeps: it must not take anything from whoever is measured then."""

LONGEST_SLEEP_S = 1.0
"""Should the bell ever be missed: nothing in Python keeps two processors from seeing two writes in different orders."""

LEASE_NS = 20_000_000
"""How long the other loop goes on after this one was last seen stepping; longer than any round."""

FORK = multiprocessing.get_context("fork")


class Board:
    """What the loops share: a few numbers, and a bell for the one that follows and may be asleep."""

    def __init__(self) -> None:
        self.words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self._bell = FORK.Semaphore(0)

    def ask(self, number: int) -> None:
        """Write what is asked, and wake the other."""
        self.words[ASKED] = number
        if self.words[ASLEEP]:
            self.words[ASLEEP] = 0
            self._bell.release()

    def sleep(self, seen: int) -> None:
        """Until something else is asked than what was seen."""
        self.words[ASLEEP] = 1
        if self.words[ASKED] == seen:
            self._bell.acquire(timeout=LONGEST_SLEEP_S)
        self.words[ASLEEP] = 0


Follow = Callable[[Board, "Half"], None]


class Halves(System):
    """Half of the environments here, half in another process, which follows what is written on the board."""

    reset_takes_a_row = False

    def __init__(self, workload: str, num_envs: int, follow: Follow) -> None:
        super().__init__(workload, num_envs)
        self._num_envs, self._half = num_envs, num_envs // 2
        self._board = Board()
        self._mine = Half(workload, self.table[:, : self._half].tolist())
        other = self.table[:, self._half :].tolist()
        self._other = FORK.Process(target=_run, args=(follow, self._board, workload, other), daemon=True)
        self._other.start()

    @override
    def close(self) -> None:
        self._board.ask(STOP)
        self._other.join()


class Lockstep(Halves):
    """A round is over when both have stepped theirs. ASKED and ANSWERED are numbers of rounds."""

    def __init__(self, workload: str, num_envs: int) -> None:
        super().__init__(workload, num_envs, _follow_rounds)
        self._round = 0

    @override
    def step(self, turn: int) -> int:
        words, self._round = self._board.words, self._round + 1
        self._board.ask(self._round)
        self._mine.step(turn)
        while words[ANSWERED] != self._round:
            pass
        return self._num_envs


class Apart(Halves):
    """Both go on as fast as they can. ASKED is the time until which the other may, ANSWERED how many rounds it made."""

    def __init__(self, workload: str, num_envs: int) -> None:
        super().__init__(workload, num_envs, _follow_time)
        self._counted = 0

    @override
    def step(self, turn: int) -> int:
        self._board.ask(time.monotonic_ns() + LEASE_NS)
        self._mine.step(turn)
        done = self._board.words[ANSWERED]
        others, self._counted = done - self._counted, done
        return self._half + others * (self._num_envs - self._half)


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


def _run(follow: Follow, board: Board, workload: str, rows: list[list[int]]) -> None:
    follow(board, Half(workload, rows))


def _follow_rounds(board: Board, half: Half) -> None:
    words, done, looks = board.words, 0, 0
    while (asked := words[ASKED]) != STOP:
        if asked == done:
            looks += 1
            if looks > PATIENCE:
                board.sleep(asked)
            continue
        half.step(asked)
        words[ANSWERED] = done = asked
        looks = 0


def _follow_time(board: Board, half: Half) -> None:
    words = board.words
    while (until := words[ASKED]) != STOP:
        if time.monotonic_ns() < until:
            half.step(words[ANSWERED])
            words[ANSWERED] += 1
        else:
            board.sleep(until)
