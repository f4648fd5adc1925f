"""The real package behind ``NesPyEnv``: ids, infos, many at once, and the same rows in every slot."""

import numpy as np
import pytest

import ninelives
from ninelives.events import FaultSeen
from ninelives.sims.emulators.nes_py_env import NesPyEnv

ACTIONS = ("noop", "right", "right+a", "right+b", "right+a+b", "a", "left")
ENVS = 8


@pytest.mark.parametrize("game", ["SuperMarioBros-v0", "SuperMarioBros-1-2-v0", "SuperMarioBrosRandomStages-v0"])
def test_an_id_is_a_gymnasium_environment(game):
    env = NesPyEnv(game, actions=ACTIONS, frame_skip=4)
    first, _ = env.reset(seed=1)
    assert first.shape == (240, 256, 3)
    told = [env.step(ACTIONS.index("right+b"))[4] for _ in range(20)]
    assert told[-1]["x_pos"] > told[0]["x_pos"]
    assert told[-1]["time"] > 0
    env.close()
    env.close()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_eight_at_once_are_built_and_play_the_same(method):
    game = ninelives.EnvSpec(
        "ninelives.sims.emulators.nes_py_env:NesPyEnv",
        {"game": "SuperMarioBros-v0", "actions": ACTIONS, "frame_skip": 4},
    )
    with ninelives.Pool(game, ENVS, workers=ENVS, start_method=method) as pool:
        pool.reset(seed=0)
        for action in (1, 2, 2, 4, 0, 3):
            batch = pool.step(np.full(ENVS, action))
            assert all(np.array_equal(row, batch.obs[0]) for row in batch.obs)
        assert not [event for event in pool.events if isinstance(event, FaultSeen)]
