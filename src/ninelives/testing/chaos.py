"""Chaos: a pool whose workers are murdered while it steps, compared row by row with a twin that nobody disturbs.

::

    actions of slot s ──┬──▶ pool under chaos ──▶ row k of slot s ──┐
                        │      ▲ murderer (thread)                  ├──▶ equal?   else: the first difference
                        └──▶ undisturbed twin ──▶ row k of slot s ──┘

Both pools step side by side, so no row is kept longer than the slowest slot needs. It is how a user learns whether a
simulator is safe in a pool that heals: ``Chaos("CartPole-v1", kills=200).run().is_exact``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ninelives.errors import ConfigError
from ninelives.events import WorkerReady
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.env import EnvSpec
from ninelives.testing.chaos_report import ChaosReport, Percentiles, Witness
from ninelives.testing.kill_plan import KINDS, ArmedSpec, Murderer, plan_murders
from ninelives.testing.paired_run import Comparison, Course, Side

if TYPE_CHECKING:
    from ninelives.pool.pool import Pool

NO_LIMIT = 10**6
"""Restart budgets: here the faults are ours, and none of them may end the run."""

STEP_TIMEOUT_S = 0.5
"""A hang is found by the step's deadline; a short one keeps a run with many of them short."""

START_TIMEOUT_S, START_FACTOR = 2.0, 5.0
"""A worker that is stopped while it starts is found by this deadline, or by so many times what a start took."""

RECOVERY_FACTOR = 1.5
"""A recovery takes a start, and a replay on top."""

FOR_ONE_ONLY = (
    "on_fault", "step_timeout_s", "max_steps", "max_age_s", "max_rss_bytes", "spares", "sinks", "run_dir", "overwrite",
    "copy",
)  # fmt: skip
"""Settings that the twin does not share: nobody hurries it, replaces its workers or listens; its rows are kept."""

OnProgress = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    steps: int
    of_steps: int
    murders: int
    of_murders: int


class Chaos:
    """Murders workers at random moments in random ways and compares every row with an undisturbed twin's.

    Args:
        env: anything ``ninelives.Pool`` takes.
        num_envs: how many slots.
        workers: how many worker processes.
        kills: workers to end by SIGKILL.
        hangs: workers to stop by SIGSTOP.
        segfaults: workers to have read a bad address.
        steps: environment steps, all slots together; more if it takes longer to deliver every murder.
        seed: of the environments, the actions and the plan of murders.
        batch_size: how many slots ``recv`` returns; None: all.
        ignore_infos: infos that may differ, by name (``"a.b"`` for one that lies in another).
        **pool_settings: see ``PoolOptions``; restart budgets are out of the way and deadlines short unless told here.
    """

    def __init__(
        self,
        env: EnvSpec | str | Callable[..., Any],
        *,
        num_envs: int = 8,
        workers: int = 2,
        kills: int = 200,
        hangs: int = 20,
        segfaults: int = 20,
        steps: int = 20_000,
        seed: int = 1,
        batch_size: int | None = None,
        ignore_infos: Sequence[str] = (),
        **pool_settings: Any,
    ) -> None:
        self.wanted = dict(zip(KINDS, (kills, hangs, segfaults), strict=True))
        for kind, count in self.wanted.items():
            if count < 0:
                raise ConfigError(f"{kind}s={count} must not be negative")
        if steps < 1:
            raise ConfigError(f"steps={steps} must be greater than zero")
        self.spec, self.steps, self.seed, self.ignored = EnvSpec.of(env), steps, seed, tuple(ignore_infos)
        self._shape: dict[str, Any] = {"num_envs": num_envs, "workers": workers, "batch_size": batch_size}
        self._settings = pool_settings
        self._is_disabled = Autoreset.parse(pool_settings.get("autoreset", "next_step")) is Autoreset.DISABLED
        if self._is_disabled and batch_size not in (None, num_envs):
            raise ConfigError("autoreset='disabled' needs full batches here: leave batch_size out")

    def run(self, on_progress: OnProgress | None = None) -> ChaosReport:
        """Step both pools to the end; ``on_progress`` is called a few times a second.

        Raises:
            WorkerError: the twin broke, though nobody touched it.
            PoolExhaustedError: the pool under chaos gave up.
        """
        witness = Witness()
        with self._twin() as twin, self._victim(twin, witness) as victim:
            batches = -(-self.steps // victim.batch_size)
            recovery_s = RECOVERY_FACTOR * _start_s(victim)
            plan = plan_murders(self.wanted, batches, victim.workers, recovery_s, random.Random(self.seed))
            slots_of = [victim.slots_of(worker) for worker in range(victim.workers)]
            murderer = Murderer(plan, lambda: victim.worker_pids, slots_of)
            sides = (Side(victim, self.seed, self._is_disabled), Side(twin, self.seed, self._is_disabled))
            course = Course(*sides, murderer, Comparison(victim.num_envs, self.ignored, witness.broken))
            murderer.start()
            began = time.monotonic()
            try:
                course.run(self.steps, self.seed, lambda: self._tell(on_progress, course, murderer))
            finally:
                murderer.close()
            return self._report(course, murderer, witness, time.monotonic() - began)

    def _twin(self) -> Pool:
        from ninelives.pool.pool import Pool  # late: an armed worker imports this package too, and needs no pool

        settings = {key: value for key, value in self._settings.items() if key not in FOR_ONE_ONLY}
        return Pool(self.spec, **self._shape, on_fault="raise", **settings)

    def _victim(self, twin: Pool, witness: Witness) -> Pool:
        from ninelives.pool.pool import Pool

        patience_s = max(START_TIMEOUT_S, START_FACTOR * _start_s(twin))
        settings: dict[str, Any] = {
            "max_restarts": NO_LIMIT, "max_restarts_per_slot": NO_LIMIT, "backoff_s": 0.0, "restart_wait_s": 1e6,
            "step_timeout_s": STEP_TIMEOUT_S, "import_timeout_s": patience_s, "construct_timeout_s": patience_s,
            "reset_timeout_s": patience_s, **self._settings,
        }  # fmt: skip
        settings["sinks"] = (*settings.get("sinks", ()), witness)
        if settings.get("start_method") != "spawn":
            settings["preload"] = (*settings.get("preload", ()), ArmedSpec.__module__)
        return Pool(ArmedSpec.arming(self.spec), **self._shape, **settings)

    def _tell(self, on_progress: OnProgress | None, course: Course, murderer: Murderer) -> None:
        if on_progress is not None:
            murders = murderer.delivered.total()
            on_progress(Progress(course.steps, self.steps, murders, sum(self.wanted.values())))

    def _report(self, course: Course, murderer: Murderer, witness: Witness, seconds: float) -> ChaosReport:
        comparison = course.comparison
        return ChaosReport(
            env=self.spec.label,
            steps=course.steps,
            seconds=seconds,
            murders={kind: murderer.delivered[kind] for kind in KINDS},
            wanted=self.wanted,
            faults=dict(witness.faults.most_common()),
            phases=dict(witness.phases.most_common()),
            restarts=witness.restarts,
            recovery_s=Percentiles.of(witness.recoveries_s),
            replayed_steps=witness.replayed_steps,
            compared_rows=comparison.compared_rows,
            cut_rows=comparison.cut_rows,
            not_healed=dict(witness.not_healed.most_common()),
            first_not_healed=witness.first_not_healed,
            first_difference=comparison.first_difference,
        )


def _start_s(pool: Pool) -> float:
    """What the slowest start of a worker took."""
    return max(event.seconds for event in pool.events if isinstance(event, WorkerReady))
