"""An emulated game plays as it says: frames, buttons, pictures, memory, rewards and ends, on every core."""

import gymnasium
import numpy as np
import pytest
from installed import ENV_CORES, core_named
from tiny_games import WIDTH, actions_for, make, memory_of, play, rom_file, settings

from ninelives.errors import ClosedError, ConfigError, UsageError
from ninelives.sims.emulators.actions import pad_named
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.memory_map import Field, MemoryMap
from ninelives.sims.emulators.rewards import delta, equals, explored, gained, progress, reached, stagnation
from ninelives.sims.emulators.screen import Screen, ScreenPipeline

ACTIONS = ("noop", "right", "left", "up", "down+b")
BOOT = (("noop", 10), ("right", 3))
PLAIN = {"screen": Screen(size=None), "sticky": 0.0, "max_steps": None}


@pytest.fixture(params=ENV_CORES)
def core(request):
    return core_named(request.param)


@pytest.fixture
def game(core, tmp_path):
    """Makes environments on one core, all closed at the end."""
    made = []

    def make_one(save=False, **changes):
        made.append(make(core, rom_file(tmp_path, core.system, save=save), **changes))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def test_it_is_an_environment_of_gymnasiums(game):
    env = game()
    screen = env.observation_space["screen"]
    assert (screen.shape, screen.dtype) == ((2, 84, 84), np.uint8)
    observation, info = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert set(info) == {"frame", "trail", "held"}
    for action in actions_for(1, 20):
        observation, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(observation)
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert set(info) == {"frame", "trail", "held", "reward/explored_x_y"}
    height, width = env.machine.picture().pixels.shape[:2]
    assert env.render().shape == (height, width, 3)
    assert env.metadata["render_fps"] == pytest.approx(env.machine.frames_per_s / 4)


@pytest.mark.parametrize(
    ("frame_skip", "max_of_two"), [(1, False), (12, False), (3, True)], ids=["one", "last of 12", "last two of 3"]
)
def test_a_step_is_its_frames_drawn_one_by_one(game, machine, core, frame_skip, max_of_two):
    screen = Screen(size=None, max_of_two=max_of_two)
    env = game(**{**PLAIN, "screen": screen, "frame_skip": frame_skip})
    observation, _ = env.reset(seed=1)
    reference = machine(core)
    for name, frames in BOOT:
        for _ in range(frames):
            reference.advance(1, pad_named(name))
    pipeline = ScreenPipeline(screen, reference.picture())
    assert np.array_equal(observation["screen"][0], pipeline.image(reference.picture()))
    for action in actions_for(2, 25):
        observation, *_ = env.step(action)
        images = []
        for _ in range(frame_skip):
            reference.advance(1, pad_named(ACTIONS[action]))
            images.append(pipeline.image(reference.picture()))
        expected = np.maximum(*images[-2:]) if max_of_two else images[-1]
        assert np.array_equal(observation["screen"][0], expected)
        for name, start, size in reference.memory.regions():
            if size <= 1 << 20:
                assert np.array_equal(env.machine.memory.view(start, size), reference.memory.view(start, size)), name


def test_buttons_are_held_as_the_action_says(game):
    env = game(**PLAIN)
    env.reset(seed=0)
    x, y = env.ram["x"], env.ram["y"]
    for action, moved in ((1, (4, 0)), (2, (0, 0)), (4, (0, 4)), (3, (0, 0)), (0, (0, 0))):
        env.step(action)
        assert (env.ram["x"] - x, env.ram["y"] - y) == moved


def test_every_button_may_be_an_action_of_its_own(game):
    env = game(**PLAIN, actions="buttons")
    assert env.action_space == gymnasium.spaces.MultiBinary(len(env.machine.buttons))
    env.reset(seed=0)
    x, y = env.ram["x"], env.ram["y"]
    held = [name in ("right", "down") for name in env.machine.buttons]
    env.step(np.array(held, np.int8))
    assert (env.ram["x"] - x, env.ram["y"] - y) == (4, 4)


def test_a_sticky_step_holds_what_was_held_before(game):
    plain, sticky = game(**PLAIN), game(**{**PLAIN, "sticky": 0.5})
    walks = []
    for env, seed in ((plain, 3), (sticky, 3), (sticky, 3), (sticky, 4)):
        env.reset(seed=seed)
        walks.append([(env.step(action), env.ram["x"])[1] for action in [1, 2] * 15])
    assert walks[0] != walks[1]
    assert walks[1] == walks[2]
    assert walks[2] != walks[3]
    moves = np.diff(walks[1])
    assert set(np.trim_zeros(moves) % 128) == {4, 124}, "every step is a whole action, or what was held at first"


def test_rewards_add_up_and_infos_tell_the_parts(game):
    env = game(**PLAIN)
    env.reset(seed=0)
    _, reward, _, _, info = env.step(1)
    assert info["reward/explored_x_y"] == 1.0
    assert reward == pytest.approx(0.4 + 1.0 - 0.01)
    _, reward, _, _, info = env.step(0)
    assert info["reward/explored_x_y"] == 0.0
    assert reward == pytest.approx(-0.01)
    env.reset()
    assert env.step(1)[4]["reward/explored_x_y"] == 1.0, "an episode explores anew"


def test_an_episode_ends_or_is_cut_off_as_its_terms_say(game, core):
    env = game(**{**PLAIN, "max_steps": 7})
    first = env.reset(seed=0) and env.ram["x"]
    assert [env.step(0)[2:4] for _ in range(7)] == [(False, False)] * 6 + [(False, True)]
    ends = game(
        **PLAIN, ends=(equals("x", (first + 8) % WIDTH[core.system]),), truncates=(equals("y", env.ram["y"] + 4),)
    )
    ends.reset(seed=0)
    assert [ends.step(action)[2:4] for action in (1, 1)] == [(False, False), (True, False)]
    ends.reset()
    assert ends.step(4)[2:4] == (False, True)


def test_every_episode_begins_at_the_same_moment_whatever_the_cartridge_saved(game):
    env = game(save=True)
    beginnings = []
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        beginnings.append((observation["screen"].tobytes(), info))
        play(env, actions_for(seed, 40))
    assert beginnings[0] == beginnings[1] == beginnings[2]
    assert np.array_equal(env.reset()[0]["screen"][0], env.reset()[0]["screen"][1])


def test_the_same_seed_and_actions_give_the_same_rows_in_any_copy(game):
    rows = []
    for env in (game(save=True), game(save=True)):
        env.reset(seed=5)
        rows.append(play(env, actions_for(5, 100)))
    assert rows[0] == rows[1]


def test_an_observation_is_the_callers_own(game):
    env = game()
    observation, _ = env.reset(seed=1)
    copies = {key: value.copy() for key, value in observation.items()}
    env.step(1)
    assert all(np.array_equal(observation[key], copies[key]) for key in copies)
    observation["screen"][:] = 0
    assert env.step(1)[0]["screen"].any()


# ---- what is observed -----------------------------------------------------------------------------------------------


def test_only_a_screen_is_an_array_and_only_fields_are_a_dict(game):
    env = game(observe=())
    assert env.observation_space.shape == (2, 84, 84)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    env = game(screen=None)
    assert set(env.observation_space.spaces) == {"x", "y"}
    assert env.observation_space.contains(env.reset(seed=0)[0])
    env.step(1)


@pytest.mark.parametrize("crop", [(8, 0, 0, 0), [8, 0, 0, 0]])
def test_a_screen_may_be_given_by_the_names_of_its_fields_as_files_and_command_lines_do(game, crop):
    env = game(observe=(), screen={"stack": 4, "size": [60, 70], "crop": crop})
    assert env.observation_space.shape == (4, 60, 70)
    named = game(observe=(), screen=Screen(stack=4, size=(60, 70), crop=(8, 0, 0, 0)))
    assert np.array_equal(env.reset(seed=0)[0], named.reset(seed=0)[0])


def test_a_field_called_screen_is_observed_where_there_is_no_picture(game, core):
    memory = {"screen": memory_of(core.system)["x"]}
    env = game(**NO_TERMS, memory=memory, screen=None, observe=("screen",))
    assert env.reset(seed=0)[0]["screen"].tolist() == [env.ram["screen"]]


# ---- mistakes -------------------------------------------------------------------------------------------------------

NO_TERMS = {"rewards": (), "info": ()}
ROW = {"memory": {"row": {"address": 0x02000000, "count": 3}}, "observe": (), **NO_TERMS}
OF_ROW = [delta("row"), gained("row"), explored("row"), progress("row"), stagnation("row", 3), (2 * gained("row"))]
HALF = {"memory": MemoryMap({"x": Field(0x02000000)}, {"half": lambda ram: 0.5}), "observe": (), **NO_TERMS}

MISTAKES = [
    ({"frame_skip": 0}, "frame_skip=0 must be a whole number from 1"),
    ({"frame_skip": 2.5}, "frame_skip=2.5"),
    ({"sticky": 1.0}, "sticky=1.0 must be a probability below 1"),
    ({"max_steps": 0}, "max_steps=0"),
    ({"actions": ()}, "actions=() must be a list of names"),
    ({"actions": {"noop", "a"}}, "must be a list of names"),
    ({"actions": np.array(["noop", "a"])}, "must be a list of names"),
    ({"actions": ("jump",)}, "actions: 'jump' names 'jump'; allowed: 'noop', "),
    ({"actions": ("a+a",)}, "names a button twice"),
    ({"observe": ("z",)}, "observe: there is no 'z'; allowed: frame, x, y, trail, held"),
    ({"observe": "x"}, "must be a list of names"),
    ({"info": ("reward/none",)}, "info: there is no 'reward/none'"),
    ({"rewards": (reached("z", 1),), "info": ()}, "rewards: there is no 'z'"),
    ({"memory": None, "observe": (), "info": (), "rewards": (reached("x", 1),)}, "nothing without a memory map"),
    ({"screen": None, "observe": ()}, "nothing is observed"),
    ({"screen": "gray"}, "screen='gray' must be a Screen(...), a mapping like {'stack': 4}, or None"),
    ({"screen": {"stak": 4}}, "screen: no key 'stak'; did you mean 'stack'?"),
    ({"screen": {"zzz": 4}}, "screen: no key 'zzz'; allowed: color, size, crop, stack, max_of_two"),
    (
        {"memory": {"screen": {"address": 0x02000000}}, **NO_TERMS, "observe": ("screen",)},
        "give the field another name",
    ),
    ({"screen": Screen(max_of_two=True), "frame_skip": 1}, "frame_skip of at least 2"),
    ({"boot": (("start", 0),)}, "boot: ('start', 0) must last"),
    ({"boot": ("start",)}, "must be the name of an action and a number of frames"),
    ({"boot": (("jump", 3),)}, "boot: 'jump' names 'jump'"),
    *[({key: None}, f"{key}=None must be a list") for key in ("observe", "info", "rewards", "ends", "truncates")],
    ({"observe": (3,)}, "observe: there is no 3"),
    ({"core": 5}, "core=5 must be the name or file of an emulator"),
    ({"rom": None}, "rom=None must be a file name"),
    ({"state": 5, "boot": ()}, "state=5 must be a file name, or a list of file names"),
    *[({**ROW, "rewards": (term,)}, f"rewards: {term.name}: 'row' is an array of shape (3,)") for term in OF_ROW],
    ({**ROW, "ends": (equals("row", 1),)}, "ends: equals_row: 'row' is an array"),
    ({**HALF, "rewards": (explored("half"),)}, "explored_half: 'half' is 0.5; allowed: a field of whole numbers"),
    ({"state": "a.rook"}, "state and boot: give only one of them"),
    ({"render_mode": "human"}, "allowed: 'rgb_array', None"),
]


@pytest.mark.parametrize(("changes", "told"), MISTAKES)
def test_a_mistake_is_refused_with_what_is_allowed(new_mgba, tmp_path, changes, told):
    with pytest.raises(ConfigError) as refused:
        EmulatorEnv(**{**settings(new_mgba, rom_file(tmp_path, "gba")), **changes})
    assert told in str(refused.value)


def test_calls_in_the_wrong_order_are_told(game):
    env = game()
    with pytest.raises(UsageError, match=r"step\(\) before reset\(\)"):
        env.step(0)
    env.reset(seed=0)
    for action in (5, -1, 1.0, "a", None, [1], np.array([1, 2])):
        with pytest.raises(UsageError, match="is not one of the 5 actions: noop, right"):
            env.step(action)
    buttons = game(actions="buttons")
    buttons.reset(seed=0)
    for action in (0, [1], None, np.zeros((1, 10)), np.zeros((len(buttons.machine.buttons), 2))):
        with pytest.raises(UsageError, match="must have one number for each button: b, "):
            buttons.step(action)
    env.close()
    env.close()
    with pytest.raises(ClosedError):
        env.step(0)
