"""Chaos: a pool whose workers are killed while it steps, compared row by row with an undisturbed reference pool.

::

    actions of slot s ──┬──▶ disturbed pool ──▶ row k of slot s ──┐
                        │      ▲ kill thread                      ├──▶ equal?   else: the first difference
                        └──▶ reference pool ──▶ row k of slot s ──┘

Both pools step side by side, so no row is kept longer than the slowest slot needs. This is how a user finds out whether
a simulator can be healed exactly: ``Chaos("CartPole-v1", kills=200).run().is_exact``.
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
from ninelives.spec.env import AnyEnv, EnvSpec
from ninelives.testing.chaos_report import ChaosReport, EventCounts, Percentiles
from ninelives.testing.kill_plan import KINDS, ArmedSpec, KillThread, plan_kills
from ninelives.testing.paired_run import Comparison, PairedPool, PairedRun

if TYPE_CHECKING:
    from ninelives.pool.pool import Pool

NO_LIMIT = 10**6
"""Restart budgets: the faults are injected here, so none of them may end the run."""

STEP_TIMEOUT_S = 0.5
"""A hang is detected by the step deadline; a short one keeps a run with many hangs short."""

START_TIMEOUT_S, START_FACTOR = 2.0, 5.0
"""Deadline of a start: this many seconds, or this many times the slowest start of the reference pool."""

RECOVERY_FACTOR = 1.5
"""A recovery is a start followed by a replay."""

DISTURBED_ONLY = (
    "on_fault", "step_timeout_s", "max_steps", "max_age_s", "max_rss_bytes", "spares", "sinks", "run_dir", "overwrite",
    "copy",
)  # fmt: skip
"""Settings that the reference pool does not get: no short deadlines, no recycling, no sinks; its rows are copied."""

OnProgress = Callable[["ChaosProgress"], None]


@dataclass(frozen=True)
class ChaosProgress:
    """How far a run is: steps done, and faults delivered."""

    steps: int
    of_steps: int
    delivered: int
    wanted: int


class Chaos:
    """Injects faults into workers at random moments and compares every row with an undisturbed reference pool.

    Args:
        env: anything ``ninelives.Pool`` takes.
        num_envs: number of slots.
        workers: number of worker processes.
        kills: faults by SIGKILL.
        hangs: faults by SIGSTOP.
        segfaults: faults by a bad read in native code.
        steps: environment steps of all slots together; more if it takes longer to deliver every fault.
        seed: seed of the environments, the actions and the plan of faults.
        batch_size: number of slots that ``recv`` returns; None: all.
        ignore_infos: infos that may differ, by name (``"a.b"`` for a nested one).
        **pool_settings: see ``PoolOptions``; by default restart budgets are unlimited and deadlines short.
    """

    def __init__(
        self,
        env: AnyEnv,
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
            raise ConfigError("autoreset='disabled' needs full batches here: omit batch_size")

    def run(self, on_progress: OnProgress | None = None) -> ChaosReport:
        """Step both pools to the end; ``on_progress`` is called a few times a second.

        Raises:
            WorkerError: the reference pool failed without an injected fault.
            PoolExhaustedError: the disturbed pool gave up.
        """
        counts = EventCounts()
        with self._reference_pool() as reference, self._disturbed_pool(reference, counts) as disturbed:
            batches = -(-self.steps // disturbed.batch_size)
            recovery_s = RECOVERY_FACTOR * _start_s(disturbed)
            plan = plan_kills(self.wanted, batches, disturbed.workers, recovery_s, random.Random(self.seed))
            slots_of = [disturbed.slots_of(worker) for worker in range(disturbed.workers)]
            kill_thread = KillThread(plan, lambda: disturbed.worker_pids, slots_of)
            run = PairedRun(
                PairedPool(disturbed, self.seed, self._is_disabled),
                PairedPool(reference, self.seed, self._is_disabled),
                kill_thread,
                Comparison(disturbed.num_envs, self.ignored, counts.broken),
            )
            kill_thread.start()
            began = time.monotonic()
            try:
                run.run(self.steps, self.seed, lambda: self._report_progress(on_progress, run, kill_thread))
            finally:
                kill_thread.close()
            return self._report(run, kill_thread, counts, time.monotonic() - began)

    def _reference_pool(self) -> Pool:
        from ninelives.pool.pool import Pool  # late: an armed worker imports this package too, and needs no pool

        settings = {key: value for key, value in self._settings.items() if key not in DISTURBED_ONLY}
        return Pool(self.spec, **self._shape, on_fault="raise", **settings)

    def _disturbed_pool(self, reference: Pool, counts: EventCounts) -> Pool:
        from ninelives.pool.pool import Pool

        start_timeout_s = max(START_TIMEOUT_S, START_FACTOR * _start_s(reference))
        settings: dict[str, Any] = {
            "max_restarts": NO_LIMIT, "max_restarts_per_slot": NO_LIMIT, "backoff_s": 0.0, "restart_wait_s": 1e6,
            "step_timeout_s": STEP_TIMEOUT_S, "import_timeout_s": start_timeout_s,
            "construct_timeout_s": start_timeout_s, "reset_timeout_s": start_timeout_s, **self._settings,
        }  # fmt: skip
        settings["sinks"] = (*settings.get("sinks", ()), counts)
        if settings.get("start_method") != "spawn":
            settings["preload"] = (*settings.get("preload", ()), ArmedSpec.__module__)
        return Pool(ArmedSpec.arming(self.spec), **self._shape, **settings)

    def _report_progress(self, on_progress: OnProgress | None, run: PairedRun, kill_thread: KillThread) -> None:
        if on_progress is not None:
            delivered = kill_thread.delivered.total()
            on_progress(ChaosProgress(run.steps, self.steps, delivered, sum(self.wanted.values())))

    def _report(self, run: PairedRun, kill_thread: KillThread, counts: EventCounts, seconds: float) -> ChaosReport:
        comparison = run.comparison
        return ChaosReport(
            env=self.spec.label,
            steps=run.steps,
            seconds=seconds,
            delivered={kind: kill_thread.delivered[kind] for kind in KINDS},
            wanted=self.wanted,
            faults=dict(counts.faults.most_common()),
            phases=dict(counts.phases.most_common()),
            restarts=counts.restarts,
            recovery_s=Percentiles.of(counts.recoveries_s),
            replayed_steps=counts.replayed_steps,
            compared_rows=comparison.compared_rows,
            cut_rows=comparison.cut_rows,
            not_healed=dict(counts.not_healed.most_common()),
            first_not_healed=counts.first_not_healed,
            first_difference=comparison.first_difference,
        )


def _start_s(pool: Pool) -> float:
    """Duration of the slowest start of a worker."""
    return max(event.seconds for event in pool.events if isinstance(event, WorkerReady))
