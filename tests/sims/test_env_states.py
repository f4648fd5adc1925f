"""A game that was saved goes on to the bit, in the same environment and in a fresh one; foreign states are refused."""

import dataclasses
import os

import gymnasium
import numpy as np
import pytest
from installed import ENV_CORES, core_named
from tiny_games import actions_for, make, memory_of, play, rom_file, settings

from ninelives.errors import CheckpointError, ConfigError
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.rewards import Term, explored, per_step
from ninelives.sims.emulators.screen import Screen
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.emulators.state_files import write_snapshot
from ninelives.worker.snapshots import Snapshotter, why_not


@pytest.fixture(params=ENV_CORES)
def core(request):
    return core_named(request.param)


@pytest.fixture
def game(tmp_path):
    """Makes environments, all closed at the end."""
    made = []

    def make_one(core, save=False, **changes):
        made.append(make(core, rom_file(tmp_path, core.system, save=save), **changes))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


@pytest.mark.parametrize(("save", "max_of_two"), [(False, False), (True, True)], ids=["plain", "cartridge, two frames"])
def test_a_saved_game_goes_on_the_same_anywhere(game, core, save, max_of_two):
    changes = {"save": save, "screen": Screen(stack=3, max_of_two=max_of_two)}
    env = game(core, **changes)
    env.reset(seed=3)
    actions = actions_for(3, 120)
    play(env, actions[:45])
    state = env.save_state()
    expected = play(env, actions[45:])  # over the end of an episode
    env.load_state(state)
    assert play(env, actions[45:]) == expected
    fresh = game(core, **changes)
    fresh.load_state(state)
    assert play(fresh, actions[45:]) == expected
    assert fresh.np_random_seed == env.np_random_seed


def test_saving_changes_nothing(game, core):
    quiet, saving = game(core, save=True), game(core, save=True)
    rows = []
    for env in (quiet, saving):
        env.reset(seed=1)
        played = []
        for action in actions_for(1, 50):
            if env is saving:
                env.save_state()
            played += play(env, [action])
        rows.append(played)
    assert rows[0] == rows[1]


def test_what_is_shown_is_part_of_the_state(game, core):
    env = game(core)
    env.reset(seed=1)
    play(env, [1, 1])
    state, shown = env.save_state(), env.render()
    play(env, [3, 3, 0])
    assert not (env.render() == shown).all()
    env.load_state(state)
    assert (env.render() == shown).all()


def test_a_state_saved_before_the_first_episode_is_one_too(game, new_mgba):
    env, other = game(new_mgba), game(new_mgba)
    other.load_state(env.save_state())
    assert str(env.reset()[1]) == str(other.reset()[1])


def test_the_pool_accepts_the_stack_that_gymnasium_makes(game, new_mgba, tmp_path):
    words = settings(new_mgba, rom_file(tmp_path, "gba"))
    gymnasium.register("TestTiny-v0", EmulatorEnv, kwargs=words, max_episode_steps=30)
    try:
        env = gymnasium.make("TestTiny-v0", disable_env_checker=True)
    finally:
        del gymnasium.registry["TestTiny-v0"]
    assert why_not(env) == ""
    snapshotter = Snapshotter.of(env)
    env.reset(seed=2)
    play(env, actions_for(2, 10))
    state = snapshotter.save()
    expected = play(env, actions_for(3, 40))
    snapshotter.load(state)
    assert play(env, actions_for(3, 40)) == expected
    env.close()


class Late(Term):
    """Pays the steps since its first; before that it remembers nothing."""

    def __init__(self):
        super().__init__("late")
        self._steps = None

    def __call__(self, before, after):
        self._steps = (self._steps or 0) + 1
        return self._steps

    def reset(self):
        self._steps = None

    def save(self):
        return self._steps

    def load(self, saved):
        self._steps = saved


@pytest.mark.parametrize("term", [Late(), 2 * Late(), Late() + explored("x").named("more")], ids=["own", "2x", "sum"])
def test_a_term_that_remembered_nothing_when_it_was_saved_remembers_nothing_when_loaded(game, new_mgba, term):
    env = game(new_mgba, rewards=[term], info=(), sticky=0.0)
    env.reset(seed=0)
    state = env.save_state()
    ahead = play(env, [0, 0, 0])
    env.load_state(state)
    assert play(env, [0, 0, 0]) == ahead


class Diary(Late):
    """Remembers in a list and an array that it goes on writing to."""

    def reset(self):
        self._steps = {"days": [], "last": np.zeros(1, np.int64)}

    def __call__(self, before, after):
        self._steps["days"].append(after["frame"])
        self._steps["last"][0] = after["frame"]
        return 0.0


def test_a_snapshot_stays_as_it_was_taken_while_the_game_goes_on(game, new_mgba):
    env = game(new_mgba, rewards=[Diary()], info=())
    env.reset(seed=0)
    play(env, [1])
    snapshot = env.snapshot()
    taken = snapshot.to_bytes()
    play(env, [1, 2, 3])
    assert snapshot.to_bytes() == taken


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"frame_skip": 5}, "frame_skip=4, this one has 5"),
        ({"actions": ("noop", "a")}, "this one has ['noop', 'a']"),
        ({"screen": Screen(stack=2, crop=(1, 1, 1, 1))}, "with screen="),
        ({"sticky": 0.0}, "with sticky=0.2"),
        ({"max_steps": 9}, "with max_steps=60, this one has 9"),
        ({"rewards": (per_step(),), "info": ()}, "with rewards=['delta_x'"),
        ({"ends": (explored("x"),)}, "with ends=[], this one has ['explored_x']"),
        ({"screen": Screen(stack=3)}, "'stack': 2"),
        ({"screen": None}, "this one has None"),
        ({"observe": ("x",)}, "with observe=['x', 'y'], this one has ['x']"),
        ({"memory": {**memory_of("gba"), "more": {"address": 0x02000000}}}, "this one has ['frame', 'x', 'y', "),
    ],
)
def test_the_state_of_an_environment_with_other_settings_is_refused(game, new_mgba, changes, told):
    state = game(new_mgba).save_state()
    other = game(new_mgba, **changes)
    other.reset(seed=0)
    before = other.save_state()
    with pytest.raises(CheckpointError) as refused:
        other.load_state(state)
    assert told in str(refused.value)
    assert other.save_state() == before, "a refused state must change nothing"


def test_states_of_other_roms_and_cores_are_refused(game, new_mgba, old_mgba):
    state = game(new_mgba).save_state()
    with pytest.raises(CheckpointError, match="another ROM"):
        game(new_mgba, save=True).load_state(state)
    with pytest.raises(CheckpointError, match=r"saved by mGBA 0\.10.*, this is mGBA 0\.7"):
        game(old_mgba).load_state(state)


def test_a_moment_without_an_environment_begins_episodes_and_cannot_be_gone_on_from(game, new_mgba):
    env = game(new_mgba)
    moment = dataclasses.replace(env.snapshot(), wrapper={}, rng={})
    with pytest.raises(CheckpointError, match="use it as state="):
        env.load_state(moment.to_bytes())


@pytest.mark.parametrize(
    "change",
    [
        {"steps": "many"},
        {"rewards": {}},
        {"rewards": {"explored_x_y": 5}},
        {"rewards": None},
        {"held": []},
        {"stack": 1},
    ],
)
def test_a_forged_environment_is_refused_and_a_reset_repairs(game, new_mgba, change):
    env = game(new_mgba)
    env.reset(seed=1)
    snapshot = env.snapshot()
    forged = dataclasses.replace(snapshot, wrapper={**snapshot.wrapper, **change})
    with pytest.raises(CheckpointError):
        env.load_state(forged.to_bytes())
    with pytest.raises(CheckpointError, match="is invalid"):
        env.load_state(dataclasses.replace(snapshot, rng={"bit_generator": "os"}).to_bytes())
    env.reset(seed=1)
    assert play(env, [1, 2]) == play_fresh(game, new_mgba)


def play_fresh(game, core):
    env = game(core)
    env.reset(seed=1)
    return play(env, [1, 2])


# ---- states to begin at ---------------------------------------------------------------------------------------------


@pytest.fixture
def moments(game, new_mgba, tmp_path):
    """Three files: a game after 1, 2 and 3 steps to the right."""
    env = game(new_mgba, sticky=0.0)
    env.reset(seed=0)
    paths = []
    for number in range(3):
        play(env, [1])
        paths.append(tmp_path / f"{number}.rook")
        write_snapshot(paths[-1], env.snapshot())
    return paths


def test_episodes_begin_at_a_state_file_with_any_settings(game, new_mgba, moments):
    env = game(new_mgba, state=moments[1], boot=(), frame_skip=12, screen=Screen())
    env.reset(seed=0)
    first = env.ram["x"]
    assert first == (120 + 3 + 8) % 128
    play(env, [1, 1])
    env.reset()
    assert env.ram["x"] == first


def test_of_several_files_the_seed_chooses_one_or_you_do(game, new_mgba, moments):
    env = game(new_mgba, state=moments, boot=())
    beginnings = [(env.reset(seed=seed), env.ram["x"])[1] for seed in range(20)]
    assert len(set(beginnings)) == 3
    assert beginnings == [(env.reset(seed=seed), env.ram["x"])[1] for seed in range(20)]
    chosen = [(env.reset(options={"state": number}), env.ram["x"])[1] for number in range(3)]
    assert chosen == [127, 3, 7]
    with pytest.raises(ConfigError, match=r"options\['state'\]=3 must be a number from 0 to 2"):
        env.reset(options={"state": 3})


def test_a_bad_state_file_is_refused_by_name(game, new_mgba, moments, tmp_path):
    good = moments[0].read_bytes()
    (tmp_path / "damaged.rook").write_bytes(good[:-100] + bytes([good[-100] ^ 1]) + good[-99:])
    (tmp_path / "raw.state").write_bytes(Snapshot.from_bytes(good).machine.core)
    for name, told in (("damaged.rook", "is damaged"), ("raw.state", "ninelives state convert"), ("no.rook", "read")):
        with pytest.raises(CheckpointError, match=told) as refused:
            game(new_mgba, state=[moments[1], tmp_path / name], boot=())
        assert str(tmp_path / name) in str(refused.value)
    with pytest.raises(CheckpointError, match="belongs to another ROM"):
        game(new_mgba, save=True, state=moments[0], boot=())


# ---- files ----------------------------------------------------------------------------------------------------------


def test_the_users_files_are_neither_read_nor_written(core, tmp_path):
    rom = rom_file(tmp_path, core.system, save=True)
    clean = make(core, rom)
    clean.reset(seed=0)
    expected = play(clean, actions_for(0, 60))
    clean.close()
    for suffix in (".sav", ".srm", ".rtc", ".state"):
        rom.with_suffix(suffix).write_bytes(b"\x5a" * 0x8000)
    rom.chmod(0o444)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    env = make(core, rom)
    env.reset(seed=0)
    rows = play(env, actions_for(0, 60))
    env.close()
    assert rows == expected
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_a_relative_path_is_the_users(new_mgba, tmp_path, monkeypatch):
    rom_file(tmp_path, "gba")
    monkeypatch.chdir(tmp_path)
    make(new_mgba, "tiny.gba").close()
    assert os.listdir(tmp_path) == ["tiny.gba"]
