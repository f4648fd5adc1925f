"""Atari games go on exactly where they were saved: sticky actions, lives, frame numbers and all."""

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
    "grayscale": lambda: pong(obs_type="grayscale"),
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


def assert_goes_on(make, before, after, seed):
    """Saved after ``before`` steps and loaded into a fresh game, it does what an unsaved twin does."""
    twin, saved, fresh = make(), make(), make()
    snapshotter, loader = Snapshotter.of(saved), Snapshotter.of(fresh)
    actions = random_actions(twin, before + after, seed)
    for env in (twin, saved):
        env.reset(seed=seed)
        walk(env, actions[:before])
    loader.load(snapshotter.save())
    expected = walk(twin, actions[before:])
    assert_equal_rows(walk(saved, actions[before:]), expected)
    assert_equal_rows(walk(fresh, actions[before:]), expected)


@pytest.mark.parametrize("before", [0, 1, 137])
@pytest.mark.parametrize("game", MAKES)
def test_a_fresh_game_goes_on_where_another_was_saved(game, before):
    assert_goes_on(MAKES[game], before, 200, seed=before + 5)


@needs_cv2
@pytest.mark.parametrize("before", [0, 1, 137])
@pytest.mark.parametrize("game", PREPROCESSED)
def test_preprocessed_and_stacked_frames_go_on_too(game, before):
    assert_goes_on(PREPROCESSED[game], before, 200, seed=before + 5)


@pytest.mark.parametrize("make", [pong, lambda: breakout(frameskip=1)], ids=["pong", "every_frame_of_breakout"])
def test_no_moment_is_too_awkward(make):
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


def test_a_game_that_ran_unwatched_can_be_saved_once_it_is_clear_what_it_holds():
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


def test_a_clone_that_a_user_puts_back_does_not_confuse_the_watch():
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


def test_a_twister_is_the_same_read_where_it_lies_or_through_numpy():
    lying, asked = Twister(), Twister()
    asked._is_known = False
    numpys = np.random.MT19937(5)
    said = numpys.state["state"]
    for twister in (lying, asked):
        twister.put(said["key"].tobytes(), int(said["pos"]))
    expected = numpys.random_raw(1000).tolist()
    assert lying.bits.random_raw(1000).tolist() == asked.bits.random_raw(1000).tolist() == expected
    assert lying.get() == asked.get()
