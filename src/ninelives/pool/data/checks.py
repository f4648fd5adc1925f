"""Arguments of pool calls, checked before anything is sent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ninelives.errors import ConfigError, UsageError
from ninelives.spec.plan import Slots

SEED_LIMIT = 2**63
"""Seeds travel as signed 64-bit words."""


def checked_slots(slots: Sequence[int] | Slots, num_envs: int) -> Slots:
    """Slots as an array; refused if outside the pool, or named twice."""
    chosen = np.asarray(slots, dtype=np.int64).reshape(-1)
    if len(chosen) and (chosen.min() < 0 or chosen.max() >= num_envs):
        raise UsageError(f"slots {chosen.tolist()} are outside 0..{num_envs - 1}")
    if len(set(chosen.tolist())) != len(chosen):
        raise UsageError(f"slots {chosen.tolist()} name a slot twice")
    return chosen


def seeds_for(seed: int | Sequence[int | None] | None, chosen: Slots) -> list[int | None]:
    """One seed per chosen slot: one number gives slot ``i`` the seed ``seed + i``."""
    if isinstance(seed, int | np.integer):
        seeds: list[Any] = [int(seed) + slot for slot in chosen.tolist()]
    else:
        seeds = [None] * len(chosen) if seed is None else list(np.atleast_1d(np.asarray(seed, dtype=object)))
    if len(seeds) != len(chosen):
        raise ConfigError(f"seed has {len(seeds)} entries for {len(chosen)} slots; give one number or one per slot")
    for one in seeds:
        if one is not None and not (isinstance(one, int | np.integer) and 0 <= one < SEED_LIMIT):
            raise ConfigError(f"seed={one!r} is not a seed; allowed: None, or a whole number from 0 to 2**63 - 1")
    return [None if one is None else int(one) for one in seeds]


def whole_groups(chosen: Slots, group_of: Slots, group_slots: Sequence[Slots]) -> list[int]:
    """The groups of these slots, in their order; refused if a group is only partly there."""
    groups = list(dict.fromkeys(group_of[chosen].tolist()))
    if sum(len(group_slots[g]) for g in groups) != len(chosen):
        raise UsageError(
            f"slots {chosen.tolist()} are not whole groups; send back the slots of a batch, or use groups of one"
        )
    return groups
