"""A stack is saved and loaded exactly, or refused with the name of the layer that cannot be saved."""

import pickle
import time

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.envs.classic_control import CartPoleEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from ninelives.worker.snapshots import Snapshotter, why_not


class SavedCartPole(CartPoleEnv):
    """CartPole that can be saved: what it is, and the generator that will begin its next episodes."""

    def save_state(self) -> bytes:
        return pickle.dumps((self.state, self.steps_beyond_terminated, self._np_random, self._np_random_seed))

    def load_state(self, state: bytes) -> None:
        self.state, self.steps_beyond_terminated, self._np_random, self._np_random_seed = pickle.loads(state)


class Plain(gymnasium.Wrapper):
    """A user's wrapper, of which nothing is known."""


class InCharge(gymnasium.Wrapper):
    """A user's wrapper that saves everything below it."""

    def save_state(self) -> bytes:
        return pickle.dumps((self.unwrapped.state, self.unwrapped.np_random))

    def load_state(self, state: bytes) -> None:
        base = self.unwrapped
        base.state, base._np_random = pickle.loads(state)
        base.steps_beyond_terminated = None


def made(env):
    """As ``gymnasium.make`` wraps an environment."""
    return wrappers.TimeLimit(wrappers.OrderEnforcing(wrappers.PassiveEnvChecker(env)), 23)


STACKS = {
    "bare": SavedCartPole,
    "made": lambda: made(SavedCartPole()),
    "frames": lambda: wrappers.FrameStackObservation(made(SavedCartPole()), 4),
    "zero_frames": lambda: wrappers.FrameStackObservation(made(SavedCartPole()), 3, padding_type="zero"),
    "delay": lambda: wrappers.DelayObservation(made(SavedCartPole()), 3),
    "delayed_frames": lambda: wrappers.FrameStackObservation(wrappers.DelayObservation(made(SavedCartPole()), 2), 3),
    "time": lambda: wrappers.TimeAwareObservation(made(SavedCartPole()), flatten=False),
    "skip": lambda: wrappers.MaxAndSkipObservation(made(SavedCartPole()), 3),
    "sticky": lambda: wrappers.StickyAction(made(SavedCartPole()), 0.6, (1, 4)),
    "normal": lambda: wrappers.NormalizeReward(wrappers.NormalizeObservation(made(SavedCartPole()))),
    "statistics": lambda: wrappers.RecordEpisodeStatistics(made(SavedCartPole())),
    "autoreset": lambda: wrappers.Autoreset(made(SavedCartPole())),
    "stateless": lambda: wrappers.FlattenObservation(
        wrappers.DtypeObservation(wrappers.ClipReward(made(SavedCartPole()), 0, 0.5), np.float64)
    ),
    "in_charge": lambda: wrappers.FrameStackObservation(InCharge(Plain(CartPoleEnv())), 2),
}


def frozen(value):
    """A value down to its bits and types, without readings of the clock."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items() if key != "t"}
    if isinstance(value, tuple | list):
        return [frozen(item) for item in value]
    return type(value).__name__, repr(value)


def walk(env, actions):
    """Every row that these actions give; a new episode is begun, unseeded, wherever one ends."""
    rows = []
    for action in actions:
        row = env.step(int(action))
        rows.append(frozen(row))
        if (row[2] or row[3]) and not isinstance(env, wrappers.Autoreset):
            rows.append(frozen(env.reset()))
    return rows


def assert_goes_on(make, seed, before, after):
    """Saved after ``before`` and loaded into a fresh stack, it continues like a stack that was never saved."""
    twin = make()
    twin.reset(seed=seed)
    walk(twin, before)
    expected = walk(twin, after)

    saved = make()
    snapshotter = Snapshotter.of(saved)
    saved.reset(seed=seed)
    walk(saved, before)
    state = snapshotter.save()
    assert walk(saved, after) == expected, "saving changed what came next"

    for _ in range(2):  # stepping after a load must not change the saved state
        fresh = make()
        Snapshotter.of(fresh).load(state)
        assert walk(fresh, after) == expected


@pytest.mark.parametrize("stack", STACKS)
@settings(max_examples=35)
@given(seed=st.integers(0, 1000), before=st.lists(st.integers(0, 1), max_size=60))
def test_a_fresh_stack_goes_on_where_another_was_saved(stack, seed, before):
    after = np.random.default_rng(seed).integers(0, 2, 50)
    assert_goes_on(STACKS[stack], seed, before, after)


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_goes_back_to_where_it_was(stack):
    env = STACKS[stack]()
    snapshotter = Snapshotter.of(env)
    env.reset(seed=3)
    state = snapshotter.save()
    actions = np.random.default_rng(0).integers(0, 2, 40)
    first = walk(env, actions)
    snapshotter.load(state)
    assert walk(env, actions) == first


def test_a_stack_that_was_never_reset_still_needs_its_reset():
    never, running = STACKS["made"](), STACKS["made"]()
    running.reset(seed=0)
    state = Snapshotter.of(never).save()
    Snapshotter.of(running).load(state)
    with pytest.raises(gymnasium.error.ResetNeeded):
        running.step(0)


def test_an_episode_that_ended_stays_ended():
    env = STACKS["autoreset"]()
    snapshotter = Snapshotter.of(env)
    env.reset(seed=1)
    while not any(env.step(1)[2:4]):
        pass
    fresh = STACKS["autoreset"]()
    Snapshotter.of(fresh).load(snapshotter.save())
    assert frozen(fresh.step(0)) == frozen(env.step(0))  # the first row of the next episode


def test_the_time_of_a_restored_episode_counts_only_its_own_steps():
    env = STACKS["statistics"]()
    began = time.perf_counter()
    env.reset(seed=0)
    ready = time.perf_counter()
    walk(env, [0, 1] * 4)
    played = time.perf_counter()
    state = Snapshotter.of(env).save()

    fresh = STACKS["statistics"]()
    Snapshotter.of(fresh).load(state)
    info = {}
    while "episode" not in info:
        info = fresh.step(1)[4]
    rounding = 1e-6
    assert played - ready - rounding < info["episode"]["t"] < time.perf_counter() - began + rounding
    assert info["episode"]["l"] > 8


def test_public_attributes_of_wrappers_are_restored_too():
    env = wrappers.NormalizeReward(STACKS["statistics"]())
    env.update_running_mean = False
    env.reset(seed=0)
    walk(env, [1] * 50)
    fresh = wrappers.NormalizeReward(STACKS["statistics"]())
    Snapshotter.of(fresh).load(Snapshotter.of(env).save())
    assert fresh.update_running_mean is False
    assert fresh.env.episode_count == env.env.episode_count > 2
    assert fresh.env.return_queue == env.env.return_queue
    assert fresh.env.length_queue == env.env.length_queue
    assert fresh.env.time_queue == env.env.time_queue


def test_the_outermost_layer_that_can_be_saved_saves_all_below():
    env = InCharge(Plain(wrappers.TransformReward(CartPoleEnv(), lambda reward: reward)))
    assert why_not(env) == ""
    assert Snapshotter.of(env) is not None


class LongerLimit(wrappers.TimeLimit):
    pass


class OnlySaves(CartPoleEnv):
    def save_state(self) -> bytes:
        return b""


class Forgetful(wrappers.TimeLimit):
    pass


Forgetful.__module__, Forgetful.__qualname__ = wrappers.TimeLimit.__module__, "TimeLimit"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: made(Plain(SavedCartPole())), "Plain"),
        (lambda: LongerLimit(SavedCartPole(), 9), "LongerLimit"),
        (lambda: Forgetful(SavedCartPole(), 9), "TimeLimit"),
        (lambda: made(CartPoleEnv()), "CartPoleEnv"),
        (lambda: made(OnlySaves()), "OnlySaves"),
        (lambda: wrappers.TransformObservation(SavedCartPole(), lambda obs: obs, None), "TransformObservation"),
        (lambda: wrappers.TransformAction(SavedCartPole(), lambda action: action, None), "TransformAction"),
        (lambda: wrappers.TransformReward(SavedCartPole(), lambda reward: reward), "TransformReward"),
        (lambda: wrappers.RenderCollection(SavedCartPole(render_mode="rgb_array")), "RenderCollection"),
        (lambda: wrappers.HumanRendering(SavedCartPole(render_mode="rgb_array")), "HumanRendering"),
        (object, "object"),
    ],
)
def test_an_unknown_layer_is_refused_by_name(make, named):
    env = make()
    assert named in why_not(env)
    assert Snapshotter.of(env) is None


def test_a_known_wrapper_without_its_known_state_is_refused():
    env = made(SavedCartPole())
    del env._elapsed_steps  # as if a later Gymnasium called it something else
    assert "TimeLimit has no _elapsed_steps" in why_not(env)
    assert Snapshotter.of(env) is None


def test_every_wrapper_of_the_installed_gymnasium_is_in_a_table():
    known = 0
    for name in wrappers.__all__:
        try:
            kind = getattr(wrappers, name)
        except (ImportError, gymnasium.error.DependencyNotInstalled):
            continue
        if name != "vector":
            wrapper = kind.__new__(kind)
            wrapper.env = SavedCartPole()
            wrapper.recorded_frames = []  # RecordVideo looks at it when it is collected
            assert "unknown wrapper" not in why_not(wrapper), name
            known += 1
    assert known > 30


@pytest.mark.parametrize("stack", ["made", "zero_frames", "bare"])
def test_a_state_of_another_stack_is_refused(stack):
    env = STACKS["frames"]()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="another stack"):
        Snapshotter.of(env).load(Snapshotter.of(STACKS[stack]()).save())
    env.step(0)  # and nothing has happened to it


@pytest.mark.parametrize("junk", [b"", b"no pickle", pickle.dumps(7), pickle.dumps((99, [], []))])
def test_bytes_that_are_not_a_state_are_refused(junk):
    with pytest.raises(ValueError, match=r"not a saved state|format 99"):
        Snapshotter.of(SavedCartPole()).load(junk)


def test_a_state_must_be_bytes():
    class Wordy(SavedCartPole):
        def save_state(self):
            return "text"

    with pytest.raises(TypeError, match=r"Wordy.save_state\(\) must return bytes, got str"):
        Snapshotter.of(Wordy()).save()
