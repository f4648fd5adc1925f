"""What parent and worker tell each other at a start: where the worker sits, what it builds, what it found.

These travel by mailbox between our own processes; the parent never needs the worker's code to speak of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninelives.spec.plan import Probe


@dataclass(frozen=True)
class WorkerSpec:
    """The letter a worker is started with.

    ``groups`` maps group numbers to slots; None means "construct ``slots``, measure a step, and wait to be told".
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


@dataclass(frozen=True)
class Seat:
    """Where a worker sits: numbers and descriptors, handed over by the keeper."""

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
    letter_bytes: int
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
