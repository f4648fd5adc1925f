"""Brings an environment back to where an earlier one was: begin the same episode, repeat its actions, compare each row.

Touches the environment and the slot's words about its restoration, never its rows. Every row is compared by its digest:
a replay either arrives in the same state, as far as any row has shown it, or reports the step at which it differs.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ninelives.spec.call import CallRequest
from ninelives.spec.codec import ActionCodec
from ninelives.spec.phase import Phase
from ninelives.spec.restore import BEFORE_RESET, Beginning, Outcome, Restore
from ninelives.transport.control import Control
from ninelives.worker import calls, rng
from ninelives.worker.fingerprint import flags_of
from ninelives.worker.progress import ProgressWords
from ninelives.worker.snapshots import Snapshotter

DigestOf = Callable[[Any, float, int], int]
"""The digest of (observation, reward, flags)."""


class LateError(Exception):
    """The whole replay takes longer than it may."""


class DiffersError(Exception):
    """The replay gave another row than the first time; ``step`` is how many steps of the episode were done."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step} gives another row than before")
        self.step = step


@dataclass
class Arrived:
    """Where a replay ended: steps and return of the episode, and whether it is over."""

    length: int
    total: float
    over: bool


@dataclass
class EpisodeReplay:
    """One replay over one environment; ``on_step`` is called after each step with the number of steps done."""

    env: Any
    codec: ActionCodec
    snapshotter: Snapshotter | None
    digest_of: DigestOf
    on_step: Callable[[int], None]

    def run(self, order: Restore, beginning: Beginning) -> Arrived:
        """Begin the episode and repeat everything.

        Raises:
            DiffersError: a row is not what it was.
            LateError: it took too long.
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
            self.on_step(length)
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
        has_arguments = beginning.seed is not None or beginning.options is not None
        answer = self.env.reset(seed=beginning.seed, options=beginning.options) if has_arguments else self.env.reset()
        self._compare(answer[0], 0.0, 0, digest, beginning.length)

    def _compare(self, obs: Any, reward: float, flags: int, digest: int, step: int) -> None:
        if self.digest_of(obs, reward, flags) != digest:
            raise DiffersError(step)

    def _call_up_to(self, pending: deque[tuple[int, CallRequest]], step: int) -> None:
        while pending and pending[0][0] <= step:
            calls.answer(self.env, pending.popleft()[1])


def restore_episode(
    slot: int, control: Control, replay: EpisodeReplay, order: Restore, beginning: Beginning
) -> Outcome:
    """Replay, and set the slot's counters of the running episode to what they were."""
    try:
        arrived = replay.run(order, beginning)
    except DiffersError as error:
        control.restored_steps[slot] = error.step
        return Outcome.DIFFERS
    except LateError as error:
        print(error, file=sys.stderr)
        return Outcome.LATE
    except Exception:
        traceback.print_exc()
        return Outcome.FAILED
    control.running_return[slot], control.running_length[slot] = arrived.total, arrived.length
    control.saved_at[slot], control.ended[slot] = beginning.length, arrived.over
    return Outcome.RESTORED


def replay_reporter(slot: int, control: Control, progress: ProgressWords, timeout_s: float) -> Callable[[int], None]:
    """What to do after each replayed step: report it, restart the step's deadline, check the whole replay's."""
    end = time.monotonic() + timeout_s

    def on_step(step: int) -> None:
        control.restored_steps[slot] = step
        progress.enter(Phase.RESTORE, slot)
        if time.monotonic() > end:
            raise LateError(f"the replay took more than restore_timeout_s={timeout_s:g}")

    return on_step


def repeat_calls(env: Any, requests: Iterable[CallRequest]) -> None:
    """Repeat only what was called and set: the environment is new and has no episode to bring back."""
    for request in requests:
        calls.answer(env, request)
