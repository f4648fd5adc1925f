"""What parent and worker exchange at a start: the place of the worker, what it builds, what it found.

These travel by mailbox between our own processes. Pure data: the parent never imports the code of a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninelives.spec.observation_mode import SAME, ObservationMode
from ninelives.spec.plan import Probe


@dataclass(frozen=True)
class WorkerSpec:
    """The message a worker is started with.

    ``groups`` maps group numbers to slots; None means "construct ``slots``, measure a step, and wait for the groups".
    ``measure`` is False after a worker died while it measured.
    ``digest`` is the slab's layout once it exists: a generation with other spaces must not write into it.
    """

    env: bytes | Any
    slots: tuple[int, ...]
    groups: Mapping[int, tuple[int, ...]] | None
    total_slots: int
    autoreset: int
    check: str
    infos: Mapping[str, str]
    launch_dir: str
    digest: str = ""
    seed_episodes: bool = False
    heals: bool = False
    snapshot_every: int = 0
    restore_timeout_s: float = 600.0
    spare: bool = False
    measure: bool = True
    info_types: Sequence[str] | str = ()
    observation_mode: ObservationMode = SAME
    fresh_env_every_episode: bool = False
    wanted_infos: tuple[str, ...] | None = None


@dataclass(frozen=True)
class WorkerPlace:
    """Where a process finds its part of the shared memory: numbers and descriptors, handed over by the keeper."""

    worker: int
    generation: int
    workers: int
    slots: int
    control_fd: int
    slab_fd: int
    mail_fd: int
    bell: Sequence[int]
    parent_bell: Sequence[int]
    scratch: str
    message_bytes: int
    payload: Any = field(default=None, compare=False)


@dataclass(frozen=True)
class Hello:
    """What the parent learns from a worker that has built its first environment."""

    observation_space: Any
    action_space: Any
    metadata: Mapping[str, Any]
    render_mode: str | None
    env_spec: Any
    digest: str
    probe: Probe | None
    warnings: tuple[str, ...] = ()
