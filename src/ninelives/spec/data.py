"""What the data slab holds: observations, actions, final observations and infos of all slots.

Parent and workers build the same layout from the same spaces; equal digests prove it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ninelives.spec.arrays import Node, fields, leaves, text_fields, tree_of
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.info_schema import INFO_BYTES
from ninelives.spec.layout import Layout, LayoutField


@dataclass(frozen=True)
class DataSpec:
    """Trees of both spaces and the slab layout for ``slots`` rows."""

    observation: Node
    action: Node
    infos: Mapping[str, str]
    wanted: frozenset[str] | None
    layout: Layout

    @property
    def fingerprint(self) -> str:
        """Stands for both spaces, whatever the number of slots."""
        parts = [
            (leaf.name, leaf.shape, leaf.dtype) for tree in (self.observation, self.action) for leaf in leaves(tree)
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @classmethod
    def of(
        cls,
        observation_space: Any,
        action_space: Any,
        infos: Mapping[str, str],
        autoreset: Autoreset,
        slots: int,
        wanted: Iterable[str] | None = None,
    ) -> DataSpec:
        """Lay out everything an environment with these spaces needs; ``wanted`` are the keys of infos, None: all."""
        observation, action = tree_of(observation_space), tree_of(action_space)
        final = fields(observation, "final", slots) if autoreset is Autoreset.SAME_STEP else []
        declared = [LayoutField(f"info:{key}", (slots,), dtype) for key, dtype in infos.items()]
        masks = [LayoutField(f"has:{key}", (slots,), "?") for key in infos]
        learned = LayoutField("infos", (slots, INFO_BYTES), "u1")
        layout = Layout.of(
            [
                *fields(observation, "obs", slots),
                *text_fields(observation, slots),
                *fields(action, "action", slots),
                *final,
                *declared,
                *masks,
                learned,
            ]
        )
        return cls(observation, action, infos, None if wanted is None else frozenset(wanted), layout)
