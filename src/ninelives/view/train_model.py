"""What a view of a training run shows, derived from plain numbers and events.

Pure: no terminal, no clock of its own. The pool's part is a ``PoolModel``; this one adds what the trainer knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ninelives.events import Event, HealFailed, SlotHealed
from ninelives.view.pool_model import PoolModel

RATE_WINDOW_S = 10.0
"""Speed and time left cover the last seconds: long enough for several rollouts, short enough to show a stall."""

CURVE_POINTS = 60
"""Points of the small curve: as many as a panel is wide."""


@dataclass
class TrainModel:
    """The current state of a run.

    ``total`` is the number of steps of the whole run, ``begun_at`` the step at which this process began; ``ends_s`` is
    set if the run ends by time.
    """

    name: str = ""
    total: int = 0
    begun_at: int = 0
    begun_s: float = 0.0
    ends_s: float | None = None
    step: int = 0
    version: int = 0
    episodes: int = 0
    mean_return: float | None = None
    best_return: float | None = None
    valid_share: float = 1.0
    healed: int = 0
    cut: int = 0
    idle: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    checkpoint_step: int | None = None
    notice: str = ""
    pool: PoolModel = field(default_factory=PoolModel)
    curve: list[tuple[int, float]] = field(default_factory=list)
    _pace: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, event: Event) -> None:
        """Receive one event of the pool."""
        self.pool.note(event)
        if isinstance(event, SlotHealed):
            self.healed += len(event.slots)
        elif isinstance(event, HealFailed):
            self.cut += len(event.slots)

    def begin(self, now_s: float, name: str, step: int, total: int, seconds: float | None = None) -> None:
        """The run starts."""
        self.name, self.begun_at, self.step, self.total, self.begun_s = name, step, step, total, now_s
        self.ends_s = None if seconds is None else now_s + seconds
        self._pace = deque([(now_s, step)])

    def episode(self, total: float) -> None:
        """An episode ended with this return."""
        self.episodes += 1
        self.best_return = total if self.best_return is None else max(self.best_return, total)

    def rollout(self, now_s: float, step: int, mean_return: float | None, valid_share: float) -> None:
        """A rollout was collected."""
        self.step, self.mean_return, self.valid_share = step, mean_return, valid_share
        self._pace.append((now_s, step))
        while now_s - self._pace[0][0] > RATE_WINDOW_S and len(self._pace) > 2:
            self._pace.popleft()
        if mean_return is not None:
            self.curve.append((step, mean_return))

    def update(self, version: int, losses: Mapping[str, float], idle: Mapping[str, float]) -> None:
        """The policy was updated."""
        self.version, self.losses, self.idle = version, dict(losses), dict(idle)

    @property
    def steps_per_s(self) -> float:
        """Steps per second over the last seconds, learning included."""
        if len(self._pace) < 2:
            return 0.0
        (before, steps_before), (now, steps) = self._pace[0], self._pace[-1]
        return (steps - steps_before) / max(now - before, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the run is done at this speed, or until its time is over."""
        if self.ends_s is not None:
            return max(0.0, self.ends_s - (self._pace[-1][0] if self._pace else self.begun_s))
        rate = self.steps_per_s
        return max(0, self.total - self.step) / rate if rate > 0 else None

    @property
    def share_done(self) -> float:
        """Between 0 and 1, by steps or by time."""
        if self.ends_s is None:
            return min(1.0, self.step / max(self.total, 1))
        return min(1.0, 1 - (self.seconds_left or 0.0) / max(self.ends_s - self.begun_s, 1e-9))

    def slot_states(self) -> list[str]:
        """Each slot's state, in the order of the slots."""
        states = {slot: worker.state for worker in self.pool.workers.values() for slot in worker.slots}
        states |= dict.fromkeys(self.pool.quarantined, "quarantined")
        return [states[slot] for slot in sorted(states)]

    def thin_curve(self) -> list[tuple[int, float]]:
        """The curve of mean returns, thinned to what can be drawn."""
        every = max(1, -(-len(self.curve) // CURVE_POINTS))
        return self.curve[::-1][::every][::-1]
