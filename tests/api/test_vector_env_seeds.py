"""Seeds belong to environments: neither workers nor groups change a trajectory."""

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from tiny_envs import Chatty, assert_same

import ninelives

NUM_ENVS = 7
LAYOUTS = [(1, None), (2, None), (7, None), (1, 3), (2, 2)]
SEEDS = {"int": 123, "numpy int": np.int64(123), "list": [5, 3, 8, 5, 1, 0, 2], "gap": [9, None, 4, 2, 2, 2, 1]}


def trajectory(envs, seed):
    """A seeded reset, steps over several episodes, an unseeded reset, more steps."""
    rng = np.random.default_rng(5)
    seen = [envs.reset(seed=seed)]
    for _ in range(2):
        seen += [envs.step(rng.integers(0, 3, NUM_ENVS)) for _ in range(15)]
        seen.append(envs.reset())
    return seen


@pytest.fixture(scope="module")
def theirs():
    return SyncVectorEnv([Chatty] * NUM_ENVS)


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: "{} workers, {} groups".format(*layout))
def ours(request):
    workers, groups = request.param
    envs = ninelives.VectorEnv(Chatty, NUM_ENVS, workers=workers, groups=groups)
    yield envs
    envs.close()


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_a_seed_gives_the_trajectory_of_sync_vector_env_whatever_the_workers(ours, theirs, seed):
    wanted = [int(seed) + i for i in range(NUM_ENVS)] if isinstance(seed, np.integer) else seed
    mine, reference = trajectory(ours, seed), trajectory(theirs, wanted)
    if isinstance(seed, list) and None in seed:
        known = np.array([one is not None for one in seed])
        mine, reference = ([step[0][known] for step in steps] for steps in (mine, reference))
    assert_same(mine, reference, "trajectory")


def test_without_seeds_every_environment_plays_its_own_game(ours):
    ours.set_attr("_np_random", None)  # as if never seeded
    obs, _ = ours.reset()
    assert len(set(obs[:, 1])) == NUM_ENVS


def test_random_generators_are_those_of_the_environments(ours, theirs):
    ours.reset(seed=40)
    theirs.reset(seed=40)
    assert ours.np_random_seed == theirs.np_random_seed == tuple(range(40, 40 + NUM_ENVS))
    assert [rng.random() for rng in ours.np_random] == [rng.random() for rng in theirs.np_random]


def test_too_few_seeds_are_refused(ours):
    with pytest.raises(ValueError, match="3 entries for 7"):
        ours.reset(seed=[1, 2, 3])
