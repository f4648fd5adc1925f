"""Which slots first-ready batches have left out for too long. Pure counting; the receiver does the waiting.

Counts in rounds: in one round every slot could have come once. Looks once a round, so that a batch costs one store.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninelives.spec.plan import Slots

WAKE_ROUNDS = 4
"""After so many rounds without a slot, a batch waits until its worker has woken up (``WAKE_NS``), once each time.

On a busy machine a worker that sleeps is woken late, by milliseconds in which another one answers a hundred times. A
worker that is at work is not waited for: its steps are long, and that is what first-ready batches are for.
"""

WAKE_NS = 20_000_000
"""Some time slices of the scheduler."""

LOOK_NS = 1_000_000
"""How often it is looked whether a slot is still to be waited for."""

LEFT_OUT_ROUNDS = 50
"""No slot is left out for longer: then the batch waits for it, as long as its deadline allows.

Many enough that a slow reset delays nobody in most environments; few enough that a learner sees every slot.
"""

LEEWAY = 2
"""One round may pass until the next look, and one until each of several slots has had its place in a batch."""


class Turns:
    """When each slot last came."""

    def __init__(self, num_envs: int, batch_size: int) -> None:
        self.round = -(-num_envs // batch_size)
        self._batches = self._next_look = 0
        self._came: npt.NDArray[np.int64] = np.zeros(num_envs, np.int64)
        self._waited: npt.NDArray[np.int64] = np.full(num_envs, -1, np.int64)

    def note(self, slots: Slots) -> None:
        """These slots are in the next batch."""
        self._batches += 1
        self._came[slots] = self._batches

    @property
    def is_due(self) -> bool:
        """Whether it is time to look for slots that are left out."""
        return self._batches >= self._next_look

    def left_out(self) -> tuple[list[int], list[int]]:
        """Slots to wait for at any rate, and slots whose worker is to wake up; some may not be asked for anything."""
        self._next_look = self._batches + self.round
        away = self._batches - self._came
        if away.max() < WAKE_ROUNDS * self.round:
            return [], []
        at_any_rate = away >= (LEFT_OUT_ROUNDS - LEEWAY) * self.round
        late = (away >= WAKE_ROUNDS * self.round) & ~at_any_rate & (self._waited != self._came)
        self._waited[late] = self._came[late]
        return np.flatnonzero(at_any_rate).tolist(), np.flatnonzero(late).tolist()
