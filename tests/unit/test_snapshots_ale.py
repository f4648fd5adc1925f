"""Atari games continue exactly from a snapshot: sticky actions, lives and frame numbers included."""

import importlib.util
import pickle

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from missing import MISSING
from ninelives.sims.atari_rng import Twister
from ninelives.worker.snapshots import Snapshotter, why_not

gymnasium.register_envs(ale_py)

needs_cv2 = pytest.mark.skipif(
    importlib.util.find_spec("cv2") is None, reason=f"{MISSING}OpenCV, for AtariPreprocessing"
)


def pong(**settings):
    return gymnasium.make("ALE/Pong-v5", **settings)


def breakout(**settings):
    return gymnasium.make("ALE/Breakout-v5", **settings)


def preprocessed(game, **settings):
    env = wrappers.AtariPreprocessing(game(frameskip=1), noop_max=10, **settings)
    return wrappers.FrameStackObservation(env, 4)


MAKES = {
    "sticky": pong,
    "very_sticky": lambda: pong(repeat_action_probability=0.9),
    "never_sticky": lambda: pong(repeat_action_probability=0.0),
    "every_frame": lambda: breakout(frameskip=1),
    "random_skip": lambda: pong(frameskip=(2, 5)),
    "ram": lambda: breakout(obs_type="ram"),
    "continuous_paddle": lambda: breakout(continuous=True),
    "lives": breakout,
    "time_limit": lambda: wrappers.TimeLimit(pong(), 45),
    "frame_limit": lambda: pong(max_num_frames_per_episode=200),
    "frame_stack": lambda: wrappers.FrameStackObservation(pong(obs_type="grayscale"), 4),
}
PREPROCESSED = {
    "preprocessed": lambda: preprocessed(pong),
    "preprocessed_lives": lambda: preprocessed(breakout, terminal_on_life_loss=True),
}


def random_actions(env, count, seed):
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def one_row(env, action):
    """A row down to its bits; a new episode is begun, unseeded, where one ends."""
    obs, reward, terminated, truncated, info = env.step(action)
    row = [obs.tobytes(), reward, terminated, truncated, info]
    if terminated or truncated:
        obs, info = env.reset()
        row += [obs.tobytes(), info]
    return row


def walk(env, actions):
    return [one_row(env, action) for action in actions]


def assert_equal_rows(rows, expected):
    different = [i for i, (row, other) in enumerate(zip(rows, expected, strict=True)) if row != other]
    assert not different, f"differs first at step {different[0]}"


def assert_continues(make, seed=5, after=200):
    """Saved at its beginning, after a step and in its middle, a game continues like one that was never saved.

    Games are expensive to build: the first two states are loaded into the same game, the last into a fresh one.
    """
    twin, saved, first, second = make(), make(), make(), make()
    snapshotter, loader, other = (Snapshotter.of(env) for env in (saved, first, second))
    actions = random_actions(twin, 137 + after, seed)
    for env in (twin, saved):
        env.reset(seed=seed)
    expected, rows = walk(twin, actions), []
    for before in (0, 1, 137):
        rows += walk(saved, actions[len(rows) : before])
        game, load = (second, other.load) if before == 137 else (first, loader.load)
        load(snapshotter.save())
        assert_equal_rows(walk(game, actions[before : before + after]), expected[before : before + after])
    assert_equal_rows(rows + walk(saved, actions[len(rows) :]), expected)


@pytest.mark.parametrize("game", MAKES)
def test_a_fresh_game_continues_where_another_was_saved(game):
    assert_continues(MAKES[game])


@needs_cv2
@pytest.mark.parametrize("game", PREPROCESSED)
def test_preprocessed_and_stacked_frames_continue_too(game):
    assert_continues(PREPROCESSED[game])


@pytest.mark.parametrize("make", [pong, lambda: breakout(frameskip=1)], ids=["pong", "every_frame_of_breakout"])
def test_a_game_can_be_saved_at_any_moment(make):
    # The action that a sticky frame repeats decides about one save in ten here.
    env, other = make(), make()
    saver, loader = Snapshotter.of(env), Snapshotter.of(other)
    env.reset(seed=11)
    rng = np.random.default_rng(11)
    for _ in range(60):
        walk(env, rng.integers(0, 4, rng.integers(0, 12)))
        loader.load(saver.save())
        actions = rng.integers(0, 4, 6)
        assert_equal_rows(walk(other, actions), walk(env, actions))


def test_saving_around_every_lost_life():
    env = breakout()
    saver = Snapshotter.of(env)
    _, info = env.reset(seed=2)
    rng = np.random.default_rng(2)
    lives, lost = info["lives"], 0
    while lost < 4:
        state = saver.save()
        actions = rng.integers(0, 4, 4)
        rows = walk(env, actions)
        if rows[-1][4]["lives"] < lives:
            fresh = breakout()
            Snapshotter.of(fresh).load(state)
            assert_equal_rows(walk(fresh, actions), rows)
            lost += 1
        lives = rows[-1][4]["lives"]


def test_the_state_before_any_reset_can_be_saved_and_loaded():
    env, other = pong(disable_env_checker=True), pong(disable_env_checker=True)
    saver, loader = Snapshotter.of(env.unwrapped), Snapshotter.of(other.unwrapped)
    loader.load(saver.save())
    actions = random_actions(env, 30, 0)
    assert_equal_rows(walk(other.unwrapped, actions), walk(env.unwrapped, actions))


def test_the_next_seeded_episode_is_the_same_with_and_without_a_snapshotter():
    watched, free = pong(), pong()
    saver = Snapshotter.of(watched)
    for seed in (1, 2):
        infos = [pickle.dumps(env.reset(seed=seed)[1]) for env in (watched, free)]
        assert infos[0] == infos[1]
        actions = random_actions(free, 40, seed)
        saver.save()
        assert_equal_rows(walk(watched, actions), walk(free, actions))


def test_a_game_that_was_stepped_untracked_can_be_saved_after_its_next_reset():
    env, fresh = pong(repeat_action_probability=0.9, frameskip=1), pong(repeat_action_probability=0.9, frameskip=1)
    env.reset(seed=0)
    env.step(2)
    saver = Snapshotter.of(env)
    with pytest.raises(ValueError, match="reset the environment"):
        saver.save()
    env.reset()
    env.step(3)
    Snapshotter.of(fresh).load(saver.save())
    actions = random_actions(env, 40, 0)
    assert_equal_rows(walk(fresh, actions), walk(env, actions))


def test_a_state_of_another_game_is_refused():
    state = Snapshotter.of(breakout()).save()
    with pytest.raises(ValueError, match=r"another stack(.|\n)*breakout(.|\n)*pong"):
        Snapshotter.of(pong()).load(state)


def test_a_clone_that_a_user_restores_does_not_confuse_the_tracker():
    env, fresh = pong(), pong()
    saver = Snapshotter.of(env)
    env.reset(seed=4)
    clone = env.unwrapped.ale.cloneState(include_rng=True)
    walk(env, random_actions(env, 20, 4))
    env.unwrapped.ale.restoreState(clone)
    walk(env, random_actions(env, 10, 5))
    Snapshotter.of(fresh).load(saver.save())
    actions = random_actions(env, 40, 6)
    assert_equal_rows(walk(fresh, actions), walk(env, actions))


class MyAtari(ale_py.AtariEnv):
    pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MyAtari("pong"), "MyAtari"),
        (lambda: gymnasium.make("ALE/Tetris-v5"), "tetris"),
        (lambda: pong(sound_obs=True), "sound"),
        (lambda: pong(repeat_action_probability=0.99), "0.95"),
    ],
)
def test_a_game_that_cannot_be_saved_exactly_is_refused(make, words):
    env = make()
    assert words in why_not(env)
    assert Snapshotter.of(env) is None


def test_asking_whether_it_can_be_saved_changes_nothing():
    env = pong()
    ale = env.unwrapped.ale
    assert why_not(env) == ""
    assert env.unwrapped.ale is ale


def test_a_twister_is_the_same_read_from_memory_or_through_numpy():
    direct, asked = Twister(), Twister()
    asked._is_known = False
    numpys = np.random.MT19937(5)
    state = numpys.state["state"]
    for twister in (direct, asked):
        twister.put(state["key"].tobytes(), int(state["pos"]))
    expected = numpys.random_raw(1000).tolist()
    assert direct.bits.random_raw(1000).tolist() == asked.bits.random_raw(1000).tolist() == expected
    assert direct.get() == asked.get()
