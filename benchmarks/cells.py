"""What is measured: which systems, with which settings, on which workload, with how many environments.

Pure data. A cell is one table of the results. Systems get the settings their users get by default; where a system has a
mode made for the workload (first-ready batches on the heavy tail), it gets a row of its own for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One row: a system with its settings.

    Attributes:
        key: its name within the cell; floors refer to it.
        system: which opener of ``systems.py``.
        label: what the results call it.
        settings: keyword arguments of the opener.
        has_limit: False for a system that steps another program than the bare loops do.
    """

    key: str
    system: str
    label: str
    settings: dict[str, Any] = field(default_factory=dict)
    has_limit: bool = True


@dataclass(frozen=True)
class Cell:
    """One workload at one size.

    Attributes:
        workload: a name of ``workloads.make``.
        num_envs: how many environments.
        entries: the systems, side by side.
        limit: whose bare loops are the limit; the heavy tail uses the burn's, whose mean cost is the same, because a
            bare loop over a heavy tail is a noisy measure.
        stretch: how much longer its windows are than usual.
        times: how many times as many windows it has: where a few hundredths decide, few windows decide by luck.
        quick: part of a ``--quick`` run.
    """

    workload: str
    num_envs: int
    entries: tuple[Entry, ...]
    limit: str
    stretch: float = 1.0
    times: int = 1
    quick: bool = False

    @property
    def name(self) -> str:
        """Its name on the command line and in the results."""
        return f"{self.workload}-{self.num_envs}"


NINELIVES = Entry("ninelives", "ninelives", "Ninelives Pool")
STREAM = Entry(
    "ninelives", "ninelives", "Ninelives Pool, first reset seeded as the others do", {"seed_episodes": False}
)
SEEDED = Entry("ninelives_seeded", "ninelives", "Ninelives Pool, every episode seeded (default)")
TWO_WORKERS = Entry("ninelives_two", "ninelives", "Ninelives Pool, two workers", {"workers": 2})
LOCKSTEP = Entry("lockstep", "lockstep", "no system: two bare loops that wait for each other")
APART = Entry("apart", "apart", "no system: two bare loops, half of the environments each")
NINELIVES_VECTOR = Entry("ninelives_vector", "ninelives_vector", "Ninelives VectorEnv")
GYM_ASYNC = Entry("gymnasium_async", "gymnasium_async", "Gymnasium AsyncVectorEnv")
GYM_SYNC = Entry("gymnasium_sync", "gymnasium_sync", "Gymnasium SyncVectorEnv")
SB3_DUMMY = Entry("sb3_dummy", "sb3_dummy", "SB3 DummyVecEnv")
SB3_SUBPROC = Entry("sb3_subproc", "sb3_subproc", "SB3 SubprocVecEnv")
TIANSHOU = Entry("tianshou", "tianshou", "Tianshou ShmemVectorEnv")
ENVPOOL = Entry("envpool", "envpool", "EnvPool (its own C++ env), 2 threads", {"num_threads": 2}, has_limit=False)


def first_ready(num_envs: int, batch: int, each: int = 1, **settings: Any) -> Entry:
    """Ninelives's first-ready batches: two workers, groups of ``each`` slots."""
    settings = {"workers": 2, "groups": num_envs // 2 // each, "batch_size": batch, **settings}
    return Entry("ninelives_first", "ninelives", f"Ninelives Pool, first {batch} ready", settings)


def pinned(num_envs: int, batch: int) -> Entry:
    """The same with a core for each worker."""
    settings = first_ready(num_envs, batch, pin_workers=True).settings
    return Entry("ninelives_pinned", "ninelives", f"Ninelives Pool, first {batch} ready, workers pinned", settings)


def tianshou_first(batch: int) -> Entry:
    """Tianshou's own first-ready mode."""
    return Entry("tianshou_first", "tianshou", f"Tianshou ShmemVectorEnv, wait_num={batch}", {"wait_num": batch})


def envpool_first(batch: int) -> Entry:
    """EnvPool's own first-ready mode."""
    settings = {"num_threads": 2, "batch_size": batch}
    label = f"EnvPool (its own C++ env), first {batch} ready"
    return Entry("envpool_first", "envpool", label, settings, has_limit=False)


CELLS = (
    Cell(
        "cartpole", 8,
        (LOCKSTEP, STREAM, SEEDED, NINELIVES_VECTOR, GYM_ASYNC, GYM_SYNC, SB3_DUMMY, SB3_SUBPROC, TIANSHOU, ENVPOOL),
        limit="cartpole", quick=True,
    ),
    Cell(
        "cartpole", 32,
        (LOCKSTEP, STREAM, first_ready(32, 24, 4, seed_episodes=False), SEEDED, GYM_ASYNC, GYM_SYNC, ENVPOOL),
        limit="cartpole",
    ),
    Cell(
        "cartpole", 128,
        (
            APART, LOCKSTEP, STREAM, first_ready(128, 96, 8, seed_episodes=False), SEEDED, GYM_ASYNC, GYM_SYNC,
            SB3_DUMMY, ENVPOOL, envpool_first(64),
        ),
        limit="cartpole",
    ),
    Cell(
        "burn", 8, (LOCKSTEP, NINELIVES, first_ready(8, 2), GYM_ASYNC, SB3_SUBPROC, TIANSHOU, tianshou_first(4)),
        limit="burn", quick=True,
    ),
    Cell("tail", 8, (NINELIVES, first_ready(8, 4), GYM_ASYNC, TIANSHOU, tianshou_first(4)), limit="burn", stretch=1.5),
    Cell("tail", 32, (NINELIVES, first_ready(32, 16), GYM_ASYNC, tianshou_first(16)), limit="burn", stretch=1.5),
    Cell("null4", 8, (NINELIVES, GYM_ASYNC, GYM_SYNC, SB3_DUMMY), limit="null4", quick=True),
    Cell("null4", 128, (NINELIVES, GYM_ASYNC, GYM_SYNC), limit="null4"),
    Cell("null84", 8, (NINELIVES, GYM_ASYNC, GYM_SYNC), limit="null84"),
    Cell(
        "errand", 8,
        (APART, LOCKSTEP, NINELIVES, TWO_WORKERS, first_ready(8, 4), pinned(8, 4), GYM_ASYNC, SB3_SUBPROC),
        limit="errand", times=4,
    ),
    Cell("pong", 8, (LOCKSTEP, STREAM, SEEDED, GYM_ASYNC, SB3_SUBPROC, TIANSHOU, ENVPOOL), limit="pong"),
)  # fmt: skip
