"""reset: options reach the environments, reset_mask resets some of them, as Gymnasium 1.4 defines it."""

from contextlib import closing

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_envs import Chatty, Echo, Painter, assert_same

import ninelives

NUM_ENVS = 4
MASK = np.array([True, False, False, True])


@pytest.fixture(scope="module", params=list(AutoresetMode), ids=lambda mode: mode.value)
def pair(request):
    ours = ninelives.VectorEnv(Chatty, NUM_ENVS, workers=2, autoreset_mode=request.param)
    yield ours, SyncVectorEnv([Chatty] * NUM_ENVS, autoreset_mode=request.param)
    ours.close()


@pytest.fixture(scope="module")
def painters():
    envs = ninelives.VectorEnv(Painter, NUM_ENVS, workers=2)
    yield envs
    envs.close()


def test_options_reach_every_environment(painters):
    painters.reset(seed=1, options={"level": [3]})
    assert painters.get_attr("given") == ({"level": [3]},) * NUM_ENVS
    painters.reset()
    assert painters.get_attr("given") == (None,) * NUM_ENVS


def test_masked_environments_get_the_options_without_the_mask(painters):
    painters.reset(options={"level": 1})
    painters.reset(options={"level": 2, "reset_mask": MASK})
    assert painters.get_attr("given") == ({"level": 2}, {"level": 1}, {"level": 1}, {"level": 2})


def test_the_options_of_the_caller_are_not_changed(painters):
    options = {"level": 2, "reset_mask": MASK}
    painters.reset(options=options)
    assert list(options) == ["level", "reset_mask"]
    assert options["reset_mask"] is MASK


@pytest.mark.parametrize("seed", [31, [4, 5, 6, 7], [4, None, None, 7]], ids=["int", "list", "list with gaps"])
def test_a_masked_reset_is_that_of_sync_vector_env(pair, seed):
    ours, theirs = pair
    assert_same(ours.reset(seed=7), theirs.reset(seed=7))
    for _ in range(3):
        assert_same(
            ours.reset(seed=seed, options={"reset_mask": MASK.copy()}),
            theirs.reset(seed=seed, options={"reset_mask": MASK.copy()}),
            "masked reset",
        )
        actions = np.ones(NUM_ENVS, np.int64)
        assert_same(ours.step(actions), theirs.step(actions), "step after it")


def test_rows_that_are_not_reset_show_their_last_observation_even_if_the_caller_wrote_into_it(pair):
    ours, _ = pair
    ours.reset(seed=7)
    obs, *_ = ours.step(np.zeros(NUM_ENVS, np.int64))
    last = obs.copy()
    obs[:] = -1
    after, _ = ours.reset(options={"reset_mask": MASK})
    np.testing.assert_array_equal(after[~MASK], last[~MASK])
    assert (after[MASK, 0] == 0).all()


def test_a_masked_reset_keeps_observations_that_are_no_arrays():
    from gymnasium import spaces

    spec = ninelives.EnvSpec(Echo, {"space": spaces.Text(5), "beside": True})
    with closing(ninelives.VectorEnv(spec, NUM_ENVS, workers=2)) as envs:
        envs.reset(seed=1)
        envs.step(("a", "b", "c", "d"))
        obs, _ = envs.reset(seed=1, options={"reset_mask": MASK})
        assert obs["echo"][1:3] == ("b", "c")
        np.testing.assert_array_equal(obs["count"], [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("mask", "error", "words"),
    [
        ([True, False, False, True], TypeError, "numpy array, got list"),
        (np.array([True, False]), ValueError, r"shape \(4,\)"),
        (np.array([1, 0, 0, 1]), TypeError, "dtype bool, got int64"),
        (np.zeros(4, bool), ValueError, "True somewhere"),
    ],
    ids=["list", "shape", "dtype", "empty"],
)
def test_a_mask_that_gymnasium_refuses_is_refused_with_the_same_type_of_error(pair, mask, error, words):
    ours, theirs = pair
    theirs.reset(seed=7)
    with pytest.raises(error):
        theirs.reset(options={"reset_mask": mask})
    before, _ = ours.reset(seed=7)
    with pytest.raises(error, match=words):
        ours.reset(options={"reset_mask": mask})
    assert_same(ours.reset(seed=7)[0], before)


def test_seeds_of_a_masked_reset_still_count_all_environments(pair):
    with pytest.raises(ValueError, match="2 entries for 4"):
        pair[0].reset(seed=[1, 2], options={"reset_mask": MASK})
