"""Whatever a file holds, there is a clear error or a right answer: damaged snapshots, memory maps and ROMs.

``NINELIVES_FULL=1`` tries 5,000 of each kind; without it some hundred.
"""

from __future__ import annotations

import json
import os
import random

import pytest
from damage import PLAYED, REFUSED, UNCLEAR, RomTaster, damaged
from installed import core_named
from raw_envelopes import ENVELOPES
from tiny_games import actions_for, make, play, rom_file

import ninelives
from ninelives.errors import CheckpointError, ConfigError, EmulatorError
from ninelives.sims.emulators.memory_map import KINDS, TRANSFORMS, MemoryMap
from ninelives.sims.emulators.ram import RamReader
from ninelives.sims.emulators.raw_states import core_state
from ninelives.sims.emulators.screen import Screen

IS_FULL = bool(os.environ.get("NINELIVES_FULL"))
MANY = 5000 if IS_FULL else 400
ROMS_OF_A_CORE = 1250 if IS_FULL else 20
"""Four cores share the 5,000."""


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    env = make(core_named("mgba-new"), rom_file(tmp_path_factory.mktemp("fuzz"), "gba"), screen=Screen(size=(8, 8)))
    env.reset(seed=1)
    play(env, actions_for(1, 10))
    yield env
    env.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("compress", [False, True])
def test_a_damaged_snapshot_never_reaches_the_emulator(game, compress):
    whole = game.snapshot().to_bytes(compress=compress)
    rng = random.Random(7)
    game.load_state(whole)
    before = game.ram
    for number in range(MANY // 2):
        data = damaged(whole, rng)
        if data == whole:
            continue
        with pytest.raises(CheckpointError, match="snapshot"):
            game.load_state(data)
        assert game.ram is before, f"damage {number} changed the game"
    game.load_state(whole)


@pytest.mark.parametrize("envelope", ["rzip", "container", "picture", "bare"])
def test_a_damaged_raw_state_is_unwrapped_or_refused(envelope):
    rng = random.Random(8)
    whole = ENVELOPES[envelope](bytes(range(256)) * 40)
    for _ in range(MANY // 4):
        try:
            assert core_state(damaged(whole, rng))
        except CheckpointError as error:
            assert "emulator's state" in str(error)  # noqa: PT017


# ---- memory maps ----------------------------------------------------------------------------------------------------

ODD = [
    None,
    -1,
    0,
    1,
    3.5,
    "",
    "u8",
    "0x10",
    "0xzz",
    [],
    [1, 2],
    [0],
    {},
    True,
    1 << 31,
    1 << 33,
    "big",
    "bits",
    "ewram",
]


def odd_field(rng):
    keys = ["address", "kind", "count", "shape", "endian", "bank", "mask", "shift", "transform", "pointer", "null", "x"]
    field = {"address": 0x02000000 + rng.randrange(64)}
    for key in rng.sample(keys, rng.randrange(5)):
        right = {"kind": KINDS, "transform": tuple(TRANSFORMS), "endian": ("big", "little"), "bank": ("ewram", "iwram")}
        field[key] = rng.choice(right[key]) if key in right and rng.random() < 0.6 else rng.choice(ODD)
    return field


@pytest.mark.timeout(3600)
def test_an_odd_memory_map_is_read_or_refused(game, tmp_path):
    rng = random.Random(9)
    outcomes = {"read": 0, "refused": 0}
    for number in range(MANY):
        words = {f"f{i}": odd_field(rng) for i in range(rng.randrange(1, 3))}
        try:
            RamReader(MemoryMap.of(words), game.machine.memory).read()
            outcomes["read"] += 1
        except (ConfigError, EmulatorError) as error:
            assert "f0" in str(error) or "f1" in str(error), f"map {number} is refused without the field's name"  # noqa: PT017
            outcomes["refused"] += 1
    assert min(outcomes.values()) > MANY // 20, outcomes


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_damaged_memory_map_file_is_read_or_refused_by_its_name(tmp_path, suffix):
    rng = random.Random(10)
    whole = json.dumps({"hp": {"address": 16, "kind": "u16"}, "row": {"address": 32, "shape": [2, 3]}}).encode()
    path = tmp_path / f"map{suffix}"
    for _ in range(MANY // 2):
        path.write_bytes(damaged(whole, rng))
        try:
            MemoryMap.of(path)
        except ConfigError as error:
            assert str(path) in str(error)  # noqa: PT017


# ---- ROMs: native code, so in workers only --------------------------------------------------------------------------


@pytest.mark.timeout(3600)
def test_a_damaged_rom_is_refused_or_played_and_the_pool_survives(core):
    game = ninelives.EnvSpec(RomTaster, {"core": str(core.path), "system": core.system})
    limits = {"max_restarts": 10**6, "max_restarts_per_slot": 10**6, "backoff_s": 0.0, "step_timeout_s": 10.0}
    outcomes = []
    with ninelives.Pool(game, 2, workers=2, start_method="fork", on_fault="cut", **limits) as pool:
        pool.reset(seed=0)
        for number in range(0, ROMS_OF_A_CORE, 2):
            batch = pool.step([number, number + 1])
            assert not (batch.obs[batch.valid] == UNCLEAR).any(), batch.infos
            outcomes += batch.obs[batch.valid, 0].tolist()
    assert PLAYED in outcomes
    assert REFUSED in outcomes or core.name == "gambatte", "which plays anything"
    assert len(outcomes) > ROMS_OF_A_CORE // 2, "most workers died of their ROM: that is not what a core does"
