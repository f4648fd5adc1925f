"""Emulated games in a pool: healed from their snapshots to the bit, apart from each other, refused if damaged."""

import json
import os
import signal

import numpy as np
import pytest
from installed import ENV_CORES, core_named
from tiny_games import actions_for, memory_of, play, rom_file, row, settings, spec

import ninelives
from ninelives.errors import WorkerStartError
from ninelives.events import HealFailed, SlotHealed
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.screen import Screen
from ninelives.sims.emulators.state_files import write_snapshot
from ninelives.testing import Chaos

CALM = {"start_method": "fork", "backoff_s": 0.0}


@pytest.fixture(params=ENV_CORES)
def core(request):
    return core_named(request.param)


def rows_of(batch):
    return [row({key: batch.obs[key][i] for key in batch.obs}, float(batch.reward[i])) for i in range(len(batch.slots))]


def test_a_killed_game_comes_back_from_its_snapshot_and_nobody_notices(core, tmp_path):
    game = spec(core, rom_file(tmp_path, core.system, save=True))
    actions = np.stack([actions_for(slot, 120) for slot in range(2)], 1)
    streams, healed = [], []
    for kills in (0, 4):
        with ninelives.Pool(game, 2, workers=1, snapshot_every=5, **CALM) as pool:
            stream = rows_of(pool.reset(seed=9))
            for number, pair in enumerate(actions):
                if kills and number % 30 == 25:
                    os.kill(pool.worker_pids[0], signal.SIGKILL)
                stream += rows_of(pool.step(pair))
            healed = [event for event in pool.events if isinstance(event, SlotHealed)]
            assert not [event for event in pool.events if isinstance(event, HealFailed)]
        streams.append(stream)
    assert streams[0] == streams[1]
    assert len(healed) >= 6
    assert any(event.from_step > 0 for event in healed), "every episode was replayed from its beginning"


def test_chaos_finds_no_difference(new_mgba, tmp_path):
    game = spec(new_mgba, rom_file(tmp_path, "gba", save=True))
    faults = {"kills": 3, "hangs": 1, "segfaults": 1, "steps": 200}
    report = Chaos(game, num_envs=4, workers=2, seed=5, start_method="forkserver", snapshot_every=5, **faults).run()
    assert report.first_difference is None
    assert not report.cut_rows, report.first_not_healed
    assert report.delivered == report.wanted


def test_two_slots_on_one_rom_never_see_each_others_cartridge(core, tmp_path):
    rom = rom_file(tmp_path, core.system, save=True)
    rom.with_suffix(".sav").write_bytes(b"\x11" * 0x8000)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    actions = np.stack([actions_for(slot, 100) for slot in range(4)], 1)
    game = spec(core, rom, sticky=0.0, max_steps=None)
    with ninelives.Pool(game, 4, workers=2, **CALM) as pool:
        pool.reset(seed=0)
        together = [(pool.step(four), pool.call("ram"))[1] for four in actions]
    for slot in range(4):
        env = EmulatorEnv(**game.kwargs)
        env.reset(seed=0)
        alone = [(env.step(action), dict(env.ram))[1] for action in actions[:, slot]]
        env.close()
        assert [rams[slot] for rams in together] == alone
    assert len({repr(rams["held"]) for rams in together[-1]}) > 1, "all cartridges hold the same: nothing was tested"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_game_that_is_open_in_the_program_does_not_disturb_workers_forked_from_it(core, tmp_path):
    """A worker closes the descriptors it inherits; the two games that it opens share code among themselves."""
    game = spec(core, rom_file(tmp_path, core.system), sticky=0.0, max_steps=None)
    actions = actions_for(1, 20)
    env = EmulatorEnv(**game.kwargs)
    first = row(env.reset(seed=3)[0], 0.0)
    with ninelives.Pool(game, 2, workers=1, seed_episodes=False, **CALM) as pool:
        together = [rows_of(pool.reset(seed=[3, 3])), *(rows_of(pool.step([action, action])) for action in actions)]
    alone = [(seen, reward) for seen, reward, *_ in play(env, actions)]
    env.close()
    assert [both[0] for both in together] == [both[1] for both in together] == [first, *alone]


# ---- damaged files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rom", "told"),
    [(b"", "empty"), (b"no game at all", "tiny.gba"), (None, "tiny.gba")],
    ids=["empty", "rubbish", "missing"],
)
def test_a_damaged_rom_is_a_start_error_that_names_it(new_mgba, tmp_path, rom, told):
    path = rom_file(tmp_path, "gba")
    path.unlink() if rom is None else path.write_bytes(rom)
    with pytest.raises(WorkerStartError) as refused, ninelives.Pool(spec(new_mgba, path), 2, **CALM):
        pass
    assert told in str(refused.value)


def test_a_damaged_state_is_a_start_error_that_names_it(new_mgba, tmp_path):
    rom = rom_file(tmp_path, "gba")
    env = EmulatorEnv(**settings(new_mgba, rom))
    write_snapshot(tmp_path / "start.rook", env.snapshot())
    env.close()
    data = bytearray((tmp_path / "start.rook").read_bytes())
    data[len(data) // 2] ^= 4
    (tmp_path / "start.rook").write_bytes(data)
    game = spec(new_mgba, rom, state=str(tmp_path / "start.rook"), boot=())
    with (
        pytest.raises(WorkerStartError, match=r"start\.rook: the snapshot is damaged"),
        ninelives.Pool(game, 2, **CALM),
    ):
        pass


def test_a_path_in_a_pool_is_relative_to_where_the_program_runs(new_mgba, tmp_path, monkeypatch):
    rom_file(tmp_path, "gba")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.json").write_text(json.dumps(memory_of("gba")))
    words = {"core": str(new_mgba.path), "memory": "map.json", "screen": Screen(stack=1)}
    game = ninelives.EnvSpec("ninelives.sims.emulators.env:EmulatorEnv", {"rom": "tiny.gba", **words})
    with ninelives.Pool(game, 1, **CALM) as pool:
        assert pool.reset(seed=0).obs.shape == (1, 1, 84, 84)
    assert sorted(os.listdir(tmp_path)) == ["map.json", "tiny.gba"]


def test_slots_of_one_worker_do_not_share_what_terms_remember(new_mgba, tmp_path):
    game = spec(new_mgba, rom_file(tmp_path, "gba"), sticky=0.0)
    with ninelives.Pool(game, 2, workers=1, **CALM) as pool:
        pool.reset(seed=0)
        assert pool.step([1, 1]).reward.tolist() == pytest.approx([0.4 + 1 - 0.01] * 2)


def test_rows_in_a_pool_are_those_of_the_environment_alone(new_mgba, tmp_path):
    game = spec(new_mgba, rom_file(tmp_path, "gba"), max_steps=None)
    env = EmulatorEnv(**game.kwargs)
    actions = actions_for(1, 30)
    with ninelives.Pool(game, 1, seed_episodes=False, **CALM) as pool:
        first = rows_of(pool.reset(seed=7))[0][0]
        together = [rows_of(pool.step([action]))[0] for action in actions]
    observation, _ = env.reset(seed=7)
    assert row(observation)[0] == first
    assert [(seen, reward) for seen, reward, *_ in play(env, actions)] == together
    env.close()
