"""Eight games at once are eight games alone: the same memory, pictures and rewards, on any number of workers.

``NINELIVES_FULL=1`` plays 20,000 steps in each slot, which takes minutes; without it a few.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from tiny_games import actions_for

import ninelives
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.memory_map import Field, MemoryMap
from ninelives.sims.emulators.rewards import changed, delta, explored
from ninelives.sims.games import errand, lantern
from ninelives.sims.games.registry import DATA
from ninelives.spec.seeds import episode_seed

IS_FULL = bool(os.environ.get("NINELIVES_FULL"))
SLOTS, SEED = 8, 40
STEPS = 20_000 if IS_FULL else 60
EPISODE = 500 if IS_FULL else 30
AT_ONCE = 100 if IS_FULL else 20
"""Rows of one digest: the first that differs says where."""

ERRAND = {
    "rom": str(DATA / "errand.gba"), "frame_skip": 12, "actions": errand.ACTIONS, "boot": errand.BOOT,
    "memory": MemoryMap({
        **errand.MEMORY.fields, "ewram": Field(0x02000000, count=0x14000), "iwram": Field(0x03000000, count=0x6000),
    }),
    "rewards": (delta("score"), explored("map", "x", "y")), "max_steps": EPISODE,
}  # fmt: skip
LANTERN = {
    "rom": str(DATA / "lantern.nes"), "frame_skip": 4, "actions": ("noop", "right", "right+a", "left", "a"),
    "boot": lantern.BOOT, "memory": MemoryMap({"ram": Field(0, count=0x800)}), "rewards": (changed("ram"),),
    "max_steps": EPISODE,
}  # fmt: skip
GAMES = {"mgba-new": (ERRAND, ("ewram", "iwram")), "fceumm": (LANTERN, ("ram",))}
if IS_FULL:
    GAMES["mgba-old"] = GAMES["mgba-new"]


def settings(core):
    words, observed = GAMES[core.name]
    return {**words, "core": str(core.path), "observe": observed, "sticky": 0.1}


class Digests:
    """Of one slot's rows, some at a time."""

    def __init__(self):
        self.all, self._rows, self._digest = [], 0, hashlib.blake2b()

    def add(self, observation, *rest):
        for key in sorted(observation):
            self._digest.update(np.ascontiguousarray(observation[key]).data)
        self._digest.update(repr(rest).encode())
        self._rows += 1
        if self._rows % AT_ONCE == 0:
            self.all.append(self._digest.hexdigest())


def alone(core, slot):
    """The slot's rows by a loop of its own: the seeds of its episodes are the pool's."""
    env, digests, episode = EmulatorEnv(**settings(core)), Digests(), 0
    observation, _ = env.reset(seed=episode_seed(SEED + slot, slot, episode))
    digests.add(observation, 0.0, False, False)
    is_over = False
    for action in actions_for(slot, STEPS):
        if is_over:
            episode += 1
            observation, reward, is_over, is_cut = (
                env.reset(seed=episode_seed(SEED + slot, slot, episode))[0],
                0.0,
                False,
                False,
            )
        else:
            observation, reward, is_over, is_cut, _ = env.step(action)
        digests.add(observation, reward, is_over, is_cut)
        is_over = is_over or is_cut
    env.close()
    return digests.all


def together(core, workers):
    slots = [Digests() for _ in range(SLOTS)]
    actions = np.stack([actions_for(slot, STEPS) for slot in range(SLOTS)], 1)
    game = ninelives.EnvSpec("ninelives.sims.emulators.env:EmulatorEnv", settings(core))
    with ninelives.Pool(game, SLOTS, workers=workers) as pool:
        see(slots, pool.reset(seed=SEED))
        for eight in actions:
            see(slots, pool.step(eight))
    return [slot.all for slot in slots]


def see(slots, batch):
    for i, slot in enumerate(batch.slots.tolist()):
        rest = float(batch.reward[i]), bool(batch.terminated[i]), bool(batch.truncated[i])
        slots[slot].add({key: batch.obs[key][i] for key in batch.obs}, *rest)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("core", GAMES, indirect=True)
def test_eight_games_at_once_are_eight_games_alone(core):
    expected = [alone(core, slot) for slot in range(SLOTS)]
    assert len({digests[-1] for digests in expected}) == SLOTS, "slots that play the same would hide a mix-up"
    for workers in (2, 8):
        assert together(core, workers) == expected
