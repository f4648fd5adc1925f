"""An environment that counts, and a referee that knows the next correct row.

Every observation contains the slot, the episode's seed and number, the step, the last action and a digest of all
actions so far. So a row of another slot, of an old generation or of the previous step, or a torn write, is detected
immediately: it is not the successor of the row before it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.errors import UsageError
from ninelives.spec.context import current_slot

SLOT, SEED, EPISODE, STEP, ACTION, DIGEST = range(6)
FIELDS = 6
ACTIONS = 7
MODULUS = 2_147_483_647

Row = npt.NDArray[np.float64]


def first_row(slot: int, seed: int, episode: int) -> Row:
    """The observation after a reset."""
    digest = (slot * 1_000_003 + seed * 31 + episode) % MODULUS
    return np.array([slot, seed, episode, 0, -1, digest], np.float64)


def next_row(row: Row, action: int) -> Row:
    """The observation after one more step."""
    digest = (int(row[DIGEST]) * 48_271 + action + 1) % MODULUS
    return np.array([row[SLOT], row[SEED], row[EPISODE], row[STEP] + 1, action, digest], np.float64)


def reward_of(row: Row) -> float:
    """The reward of an observation; zero after a reset."""
    return float(row[STEP] + 0.001 * row[SLOT])


class CountingEnv(gymnasium.Env[Row, np.int64]):
    """Counts its steps; ends an episode after ``episode_steps`` of them (0: never)."""

    def __init__(self, episode_steps: int = 0) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, np.inf, (FIELDS,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.slot = _own_slot()
        self._episode_steps = episode_steps
        self._seed, self._episode = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Row, dict[str, Any]]:
        """Start the next episode; ``seed`` restarts the count of episodes."""
        super().reset(seed=seed)
        if seed is not None:
            self._seed, self._episode = seed, 0
        self._episode += 1
        self._row = first_row(self.slot, self._seed, self._episode)
        return self._row, {}

    def step(self, action: int | np.int64) -> tuple[Row, float, bool, bool, dict[str, Any]]:
        """Count one step."""
        self._row = next_row(self._row, int(action))
        return self._row, reward_of(self._row), self._row[STEP] == self._episode_steps, False, {}


def _own_slot() -> int:
    try:
        return current_slot().slot
    except UsageError:
        return 0  # not in a pool


class Referee:
    """Checks the rows of a pool of ``CountingEnv`` and raises AssertionError for the first wrong one.

    The rule is the pool's promise (next-step autoreset): a valid row is the true successor of the row before it, or the
    first row of an episode if that row ended one. A masked row promises nothing, except that the last masked row before
    a valid one is the first row of an episode.
    """

    def __init__(self, slots: int) -> None:
        self._rows: list[Row | None] = [None] * slots
        self._ended = [False] * slots
        self._masked = [False] * slots
        self.valid_rows = self.masked_rows = 0

    def reset(self, batch: Any) -> None:
        """Check the rows of ``pool.reset``."""
        for i, slot in enumerate(batch.slots.tolist()):
            self._expect(slot, batch.obs[i], "reset", _is_first(slot, batch.obs[i]))
            self._keep(slot, batch, i)

    def step(self, actions: npt.ArrayLike, batch: Any) -> None:
        """Check the rows of ``pool.recv``; ``actions`` are by slot."""
        sent = np.asarray(actions)
        for i, slot in enumerate(batch.slots.tolist()):
            if batch.valid[i]:
                self._judge(slot, int(sent[slot]), batch.obs[i], float(batch.reward[i]))
            self._keep(slot, batch, i)

    def _judge(self, slot: int, action: int, row: Row, reward: float) -> None:
        before = self._rows[slot]
        assert before is not None, f"slot {slot}: a step before any reset"
        if self._ended[slot]:
            self._expect(slot, row, "the first row of an episode", _is_first(slot, row) and reward == 0.0)
            return
        if self._masked[slot]:
            self._expect(slot, before, "a first row before the first valid one", _is_first(slot, before))
        after = next_row(before, action)
        self._expect(slot, row, f"{after.tolist()}", np.array_equal(row, after) and reward == reward_of(after))

    def _expect(self, slot: int, row: Row, what: str, is_so: bool) -> None:
        if not is_so:
            before = self._rows[slot]
            raise AssertionError(f"slot {slot}: expected {what}, got {np.asarray(row).tolist()} after {before}")

    def _keep(self, slot: int, batch: Any, i: int) -> None:
        self._rows[slot] = np.array(batch.obs[i])
        self._masked[slot] = not batch.valid[i]
        self._ended[slot] = bool(batch.valid[i] and (batch.terminated[i] or batch.truncated[i]))
        self.valid_rows += int(batch.valid[i])
        self.masked_rows += int(not batch.valid[i])


def _is_first(slot: int, row: Row) -> bool:
    return bool(row[SLOT] == slot and np.array_equal(row, first_row(slot, int(row[SEED]), int(row[EPISODE]))))
