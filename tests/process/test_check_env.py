"""``check_env``: what an author learns about an environment before training with it."""

from __future__ import annotations

import pathlib
import random
import subprocess
import tempfile
import threading
import time

import gymnasium
import numpy as np
import pytest

import ninelives
from ninelives.testing import CountingEnv, Fragile, When, check_env
from ninelives.testing.counting import next_row

QUICK = {"steps": 40, "start_methods": ("fork",)}


class Chance(CountingEnv):
    """Draws from a generator that is never seeded."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + random.random(), *rest


class ForgetsToReseed(CountingEnv):
    """Its first episode depends on the seed, later ones on what happened before."""

    lives = 0

    def reset(self, *, seed=None, options=None):
        self.lives += 1
        return super().reset(seed=(seed or 0) + self.lives)


class Shared(CountingEnv):
    """All copies of a process count together."""

    row = None

    def reset(self, *, seed=None, options=None):
        Shared.row, info = super().reset(seed=seed, options=options)
        return Shared.row, info

    def step(self, action):
        Shared.row = next_row(Shared.row, int(action))
        return Shared.row, 0.0, False, False, {}


class Reusing(CountingEnv):
    """Returns one buffer again and again."""

    def reset(self, *, seed=None, options=None):
        row, info = super().reset(seed=seed, options=options)
        self._buffer = row.copy()
        return self._buffer, info

    def step(self, action):
        row, *rest = super().step(action)
        self._buffer[:] = row
        return self._buffer, *rest


class Outside(CountingEnv):
    """Observes what its space does not hold."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (6,), np.float64)


class Single(CountingEnv):
    """Cannot be there twice in one process."""

    there = False

    def __init__(self):
        assert not Single.there, "only one at a time"
        Single.there = True
        super().__init__()

    def close(self):
        Single.there = False


class Leaving(CountingEnv):
    """Its player goes on after close."""

    def __init__(self):
        super().__init__()
        self.player = subprocess.Popen(["sleep", "3600"])


class Large(CountingEnv):
    """Needs memory."""

    def __init__(self):
        super().__init__()
        self.world = np.ones(4 << 20)


class Slow(CountingEnv):
    """A hundred steps a second."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


def test_good_environment_passes_with_every_start_method():
    report = check_env("CartPole-v1", steps=100)
    assert report.env == "CartPole-v1"
    assert report.deterministic
    assert report.first_difference is None
    assert report.isolated
    assert report.picklable
    assert not report.reuses_buffer
    assert report.fork_safe == {"forkserver": None, "fork": None, "spawn": None}
    assert report.findings == ()
    assert report.steps_per_s > 100
    assert report.on_fault.startswith("'heal', the default: it replays exactly")


def test_environment_that_is_not_repeatable_is_reported_with_its_first_difference():
    report = check_env(Chance, **QUICK)
    assert not report.deterministic
    assert not report.reuse_differs
    assert report.first_difference.startswith("reward of row 1")
    assert "would differ" in report.on_fault


@pytest.mark.parametrize("seed", [0, 2])
def test_environment_whose_reset_leaves_something_is_told_from_chance(seed):
    """The first rollouts of seed 2 show nothing of it."""
    report = check_env("BipedalWalker-v3", seed=seed, start_methods=("fork",))
    assert not report.deterministic
    assert report.reuse_differs
    assert report.isolated
    assert "of a used environment" in report.first_difference
    assert report.on_fault.startswith("'heal' with fresh_env_every_episode=True")


def test_environment_that_forgets_to_seed_again_differs_from_a_new_one():
    report = check_env(ForgetsToReseed, **QUICK)
    assert report.reuse_differs
    assert report.first_difference.startswith("observation of row 0")


def test_environment_that_breaks_when_it_is_built_again_is_a_finding():
    report = check_env(Fragile("raise_error", When("reset", at=4)), **QUICK)
    assert any("breaks when it is reset or built again: raised" in finding for finding in report.findings)


def test_copies_that_disturb_each_other_are_found():
    report = check_env(Shared, **QUICK)
    assert report.deterministic
    assert not report.isolated


def test_environment_that_can_be_there_only_once_is_found():
    report = check_env(Single, **QUICK)
    assert not report.isolated
    assert any("give every slot its own worker" in finding for finding in report.findings)


def test_reused_buffer_is_found():
    report = check_env(Reusing, **QUICK)
    assert report.reuses_buffer
    assert report.deterministic


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Outside, "not in observation_space"),
        (Fragile("info_not_dict", When("step", again=True)), "info is a list"),
        (Leaving, "close() leaves a process"),
    ],
    ids=["space", "info", "process"],
)
def test_what_an_author_should_mend_is_a_finding(env, words):
    assert any(words in finding for finding in check_env(env, **QUICK).findings)


def test_factory_that_cannot_be_pickled_is_found_and_tried_by_fork_alone():
    lock = threading.Lock()

    def make():
        assert lock is not None
        return CountingEnv()

    report = check_env(make, steps=20, start_methods=("forkserver", "fork"))
    assert not report.picklable
    assert report.fork_safe["fork"] is None
    assert "cannot be sent to a worker" in report.fork_safe["forkserver"]


def test_speed_and_memory_of_one_copy_are_measured():
    assert 1 < check_env(Slow, **QUICK).steps_per_s < 101
    large = check_env(Large, **QUICK).rss_bytes_per_copy
    assert 30 << 20 < large < 50 << 20


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("segfault", ninelives.WorkerCrashedError),
        ("raise_error", ninelives.EnvRaisedError),
        ("hang_native", ninelives.WorkerHungError),
    ],
)
def test_environment_that_breaks_under_examination_ends_as_a_typed_error(fault, error):
    with pytest.raises(error):
        check_env(Fragile(fault, When("step", at=5, generations=None)), timeout_s=0.7, **QUICK)


def test_environment_that_cannot_be_built_ends_as_a_start_error_with_its_traceback():
    with pytest.raises(ninelives.WorkerStartError) as caught:
        check_env(Fragile("raise_error", When("construct")), **QUICK)
    assert "the zoo raised this on purpose" in caught.value.fault.traceback


class Placed(CountingEnv):
    """Asks for its place whenever it is made."""

    def __init__(self):
        super().__init__()
        (ninelives.current_slot().scratch / "log").write_text("here")


def test_an_environment_that_asks_for_its_slot_can_be_checked():
    report = check_env(Placed, **QUICK)
    assert report.deterministic
    assert report.findings == ()


@pytest.mark.parametrize(
    ("when", "place"),
    [(When("step", at=5), "at step 5, seed 3: "), (When("reset"), "in reset(), seed 3: ")],
    ids=["step", "reset"],
)
@pytest.mark.parametrize("fault", ["segfault", "raise_error", "hang_native"])
def test_environment_that_breaks_is_reported_with_its_step_and_seed(fault, when, place):
    with pytest.raises(ninelives.WorkerError) as caught:
        check_env(Fragile(fault, when), timeout_s=0.7, seed=3, **QUICK)
    assert caught.value.fault.summary.startswith(place)
    assert caught.value.fault.seed == 3


class ClassLevel(CountingEnv):
    """Its spaces belong to the class, as in many environments of the web."""

    observation_space = CountingEnv().observation_space
    action_space = gymnasium.spaces.Discrete(7)

    def __init__(self):
        super().__init__()
        del self.observation_space, self.action_space


def test_spaces_that_all_copies_share_are_no_disturbance():
    report = check_env(ClassLevel, **QUICK)
    assert report.deterministic
    assert report.isolated


class Observing(gymnasium.Env):
    """Observes what it is told to, in a dict."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, value):
        box = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"eye": box})
        self._value = value

    def reset(self, *, seed=None, options=None):
        return {"eye": np.zeros(2, np.float32)}, {}

    def step(self, action):
        return {"eye": self._value}, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([0, 3], np.float32), "eye: value 3.0 at index [1] lies outside the declared bounds [-1.0, 1.0]"),
        (np.array([0, np.nan], np.float32), "eye: holds NaN at index [1] where the space declares float32"),
        (np.zeros(2, np.float64), "eye: dtype float64 where the space declares float32"),
        (np.zeros(3, np.float32), "eye: shape (3,) where the space declares (2,)"),
    ],
    ids=["bounds", "nan", "dtype", "shape"],
)
def test_observation_outside_its_space_is_named_with_what_was_found_and_expected(value, words):
    report = check_env(lambda: Observing(value), **QUICK)
    assert report.findings == (f"an observation is not in observation_space: {words} (step 1, seed 0)",)


def test_reward_that_is_nan_is_a_finding():
    report = check_env(Fragile("nan_reward", When("step", at=7)), **QUICK)
    assert report.findings == ("a reward is NaN, where a number is expected (step 7, seed 0)",)


class Saving(CountingEnv):
    """Writes beside itself, into a temporary file, and into its slot's own directory."""

    def __init__(self):
        super().__init__()
        self._own = ninelives.current_slot().scratch

    def step(self, action):
        pathlib.Path("game.sav").write_text("here")
        tempfile.mkstemp()
        (self._own / "game.log").write_text("there")
        return super().step(action)


def test_files_that_the_slots_of_a_worker_would_share_are_found():
    assert check_env(Saving, steps=3, start_methods=("fork",)).shared_files == ("game.sav",)
    assert check_env(CountingEnv, steps=3, start_methods=("fork",)).shared_files == ()
