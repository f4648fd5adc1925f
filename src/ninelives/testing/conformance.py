"""``check_env``: examines an environment before it is used for training.

For authors of environments, in their own tests::

    def test_my_env_is_fit_for_a_pool():
        report = ninelives.testing.check_env("my_package:MyEnv")
        assert report.deterministic and report.isolated

Everything runs in workers of a pool of one slot; the calling process never builds the environment.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]

from ninelives.errors import NinelivesError, WorkerError
from ninelives.spec.env import AnyEnv, EnvSpec
from ninelives.spec.options import START_METHODS
from ninelives.testing.examination import ExaminedEnv, RolloutMark, RolloutTrace, first_difference

if TYPE_CHECKING:
    from ninelives.pool.pool import Pool

IN_ANOTHER, IN_USED = "in another process", "after reset(seed=...) of a used environment"

REUSES = 4
"""Rollouts of a used environment that are compared with those of new ones, beside the first.

Half of the episodes of a BipedalWalker show no difference.
"""


@dataclass(frozen=True)
class EnvReport:
    """What was found.

    Attributes:
        env: the environment's name.
        deterministic: the same seed and actions gave the same rows, in one instance and in other processes.
        first_difference: a description of the first row that differed.
        reuse_differs: new environments agree with each other, but a used one differs from a new one after
            ``reset(seed=...)``: the reset leaves something of earlier episodes. Such an environment heals exactly with
            ``fresh_env_every_episode=True``.
        reuses_buffer: an observation is overwritten by a later step (a pool copies it in time; copy it yourself if you
            keep it).
        picklable: the factory can be sent to a worker; if not, only ``start_method="fork"`` works.
        isolated: a second copy in the same process works and changes nothing (as far as a deterministic environment
            can show); if not, give every slot its own worker.
        steps_per_s: speed of one copy in its own process, without the cost of a pool.
        rss_bytes_per_copy: memory of an additional copy in a process that has one.
        fork_safe: for each start method None, or the error it caused.
        findings: everything else that an author should know.
        on_fault: the recommended ``on_fault``, and why.
        shared_files: names that it writes into its working directory, which all slots of a worker share. Temporary
            files, whose names are never the same twice, are not among them.
    """

    env: str
    deterministic: bool
    first_difference: str | None
    reuses_buffer: bool
    picklable: bool
    isolated: bool
    steps_per_s: float
    rss_bytes_per_copy: int
    fork_safe: dict[str, str | None]
    findings: tuple[str, ...]
    on_fault: str
    shared_files: tuple[str, ...] = ()
    reuse_differs: bool = False


def check_env(
    env: AnyEnv,
    *,
    steps: int = 200,
    seed: int = 0,
    start_methods: Sequence[str] = START_METHODS,
    timeout_s: float = 60.0,
) -> EnvReport:
    """Examine an environment.

    Args:
        env: anything ``ninelives.Pool`` takes.
        steps: length of each rollout.
        seed: seed of the environment and the actions.
        start_methods: the start methods to try.
        timeout_s: time limit of every construction and every rollout.

    Raises:
        WorkerError: the environment cannot be built, crashes, hangs or raises with every start method; the error of the
            first one is raised, and its summary says at which step and with which seed.
    """
    with tempfile.TemporaryDirectory(prefix="ninelives-") as place:
        mark = RolloutMark(os.path.join(place, "mark"))
        return _Check(EnvSpec.of(env), steps, seed, timeout_s, mark).run(start_methods)


class _Check:
    def __init__(self, spec: EnvSpec, steps: int, seed: int, timeout_s: float, mark: RolloutMark) -> None:
        self._spec, self._steps, self._seed, self._timeout_s, self._mark = spec, steps, seed, timeout_s, mark
        self._findings: dict[str, None] = {}
        self._errors: dict[str, NinelivesError | None] = {}
        self._of_new: list[str] = []
        self._of_used: list[str] = []

    def run(self, start_methods: Sequence[str]) -> EnvReport:
        traces = [self._trace_with(method) for method in start_methods]
        good = [trace for trace in traces if trace is not None]
        if not good:
            raise next(error for error in self._errors.values() if error is not None)
        for other in good[1:]:
            self._compare(good[0], other, IN_ANOTHER, self._of_new)
        method = next(name for name, error in self._errors.items() if error is None)
        self._use_again(method, good[0])
        pair = self._beside_another(method)
        differences = [*self._of_new, *self._of_used]
        return EnvReport(
            env=self._spec.label,
            deterministic=not differences,
            first_difference=next(iter(differences), None),
            reuses_buffer=any(trace.reuses_buffer for trace in good),
            picklable=self._is_picklable(),
            isolated=pair is not None and (bool(self._of_new) or first_difference(good[0], pair) is None),
            steps_per_s=max(trace.steps_per_s for trace in good),
            rss_bytes_per_copy=(pair or good[0]).rss_bytes,
            fork_safe={name: str(error) if error else None for name, error in self._errors.items()},
            findings=tuple(self._findings),
            on_fault=self._recommend(),
            shared_files=tuple(sorted(good[0].files & pair.files)) if pair is not None else (),
            reuse_differs=bool(self._of_used) and not self._of_new,
        )

    def _trace_with(self, method: str) -> RolloutTrace | None:
        """Two rollouts of one instance, then close; None if that fails with this start method."""
        try:
            with self._pool(method) as pool:
                trace: RolloutTrace = self._call(pool, "trace", self._seed, self._steps)
                again: RolloutTrace = self._call(pool, "trace", self._seed, self._steps)
                self._compare(trace, again, IN_USED, self._of_used)
                self._note(trace.findings)
                self._note(self._call(pool, "close_and_look"))
        except NinelivesError as error:
            self._errors[method] = self._placed(error)
            return None
        self._errors[method] = None
        return trace

    def _use_again(self, method: str, first: RolloutTrace) -> None:
        """Roll out with other seeds in a used environment, then in a new one each: some episodes show more."""
        seeds = range(self._seed + 1, self._seed + 1 + REUSES)
        try:
            with self._pool(method) as pool:
                self._compare(first, self._call(pool, "trace", self._seed, self._steps), IN_ANOTHER, self._of_new)
                used = [self._call(pool, "trace", seed, self._steps) for seed in seeds]
                for seed, trace in zip(seeds, used, strict=True):
                    new = self._call(pool, "trace_in_new", seed, self._steps)
                    self._compare(new, trace, f"{IN_USED}, seed {seed}", self._of_used)
        except WorkerError as error:
            self._note([f"breaks when it is reset or built again: {error.fault.summary}"])

    def _beside_another(self, method: str) -> RolloutTrace | None:
        try:
            with self._pool(method) as pool:
                trace: RolloutTrace = self._call(pool, "trace_beside_another", self._seed, self._steps)
                return trace
        except WorkerError as error:
            self._note([f"two copies in one process fail, so give every slot its own worker: {error.fault.summary}"])
            return None

    def _placed(self, error: NinelivesError) -> NinelivesError:
        """The error, with the step and the seed at which the rollout stopped."""
        where = self._mark.read()
        if not where or not isinstance(error, WorkerError):
            return error
        return type(error)(replace(error.fault, summary=f"{where}: {error.fault.summary}", seed=self._seed))

    def _pool(self, method: str) -> Pool:
        from ninelives.pool.pool import Pool  # late: the zoo's workers import this package too, and need no pool

        limit = self._timeout_s
        return Pool(
            _Examinee(self._spec, self._mark), 1, workers=1, start_method=method, start_attempts=1, on_fault="raise",
            import_timeout_s=limit, construct_timeout_s=limit, call_timeout_s=limit,
        )  # fmt: skip

    @staticmethod
    def _call(pool: Pool, name: str, *args: Any) -> Any:
        return pool.call(name, *args)[0]

    @staticmethod
    def _compare(one: RolloutTrace, other: RolloutTrace, where: str, differences: list[str]) -> None:
        difference = first_difference(one, other)
        if difference is not None:
            differences.append(f"{difference}, {where}")

    def _note(self, findings: Sequence[str]) -> None:
        self._findings.update(dict.fromkeys(findings))

    def _is_picklable(self) -> bool:
        try:
            cloudpickle.dumps(self._spec)
        except Exception as error:
            self._note([f"the factory cannot be pickled ({type(error).__name__}: {error}): use start_method='fork'"])
            return False
        return True

    def _recommend(self) -> str:
        if self._of_used and not self._of_new:
            return "'heal' with fresh_env_every_episode=True: each episode has a new environment, which replays exactly"
        if self._of_new:
            return "'cut': rows after a fault are masked and a fresh episode starts; an exact replay would differ"
        return "'heal', the default: it replays exactly, so an interrupted episode is restored bit for bit"


@dataclass(frozen=True)
class _Examinee:
    """A factory that wraps an environment in ``ExaminedEnv``."""

    spec: EnvSpec
    mark: RolloutMark

    def __call__(self) -> ExaminedEnv:
        return ExaminedEnv(self.spec, self.mark)
