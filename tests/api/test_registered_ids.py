"""Ids that the user's program registered are known in its workers, with their settings."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import gymnasium
import pytest
from tiny_envs import Painter

import ninelives

HERE = "NinelivesTest/Painter-v3"

PROGRAM = """
import gymnasium
import ninelives

class Mine(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(5)
    def __init__(self, shade): self.shade = shade
    def reset(self, *, seed=None, options=None): return self.shade, {}
    def step(self, action): return self.shade, 0.0, False, False, {}

gymnasium.register("ByClass-v0", Mine, kwargs={"shade": 3})
gymnasium.register("ByName-v0", "__main__:Mine", kwargs={"shade": 4})
gymnasium.register("NoVersion", lambda: Mine(2))
for env in ("ByClass-v0", "ByName-v0", "NoVersion", lambda: gymnasium.make("ByClass-v0")):
    envs = ninelives.make_vec(env, 2, workers=1)
    print(envs.reset()[0])
    envs.close()
"""


@pytest.fixture(autouse=True)
def registered():
    """An id that only this process registers."""
    gymnasium.register(HERE, Painter, max_episode_steps=4, kwargs={"colour": 9})
    yield
    del gymnasium.registry[HERE]


def colours(env, **kwargs):
    with closing(ninelives.make_vec(env, 2, workers=1, **kwargs)) as envs:
        return envs.get_attr("colour"), envs.spec.max_episode_steps


def test_an_id_of_this_process_is_made_in_the_workers_with_the_settings_of_its_registration():
    assert colours(HERE) == ((9, 9), 4)
    assert colours(HERE, colour=5, max_episode_steps=3) == ((5, 5), 3)


def test_wrappers_and_callables_may_use_the_id_too():
    with closing(ninelives.VectorEnv(lambda: gymnasium.make(HERE), 2, workers=1)) as envs:
        assert envs.get_attr("colour") == (9, 9)
    identity = ninelives.make_vec(HERE, 2, workers=1, wrappers=[lambda env: env])
    with closing(identity) as envs:
        assert envs.get_attr("colour") == (9, 9)


def test_the_spec_of_gymnasium_is_accepted_and_counts_more_than_the_registry():
    spec = gymnasium.spec(HERE)
    spec.kwargs, before = {"colour": 6}, spec.kwargs
    try:
        assert colours(spec) == ((6, 6), 4)
    finally:
        spec.kwargs = before


def test_an_id_that_is_registered_anew_is_the_one_of_this_process():
    cart_pole = gymnasium.registry["CartPole-v1"]
    with pytest.warns(UserWarning, match="Overriding"):
        gymnasium.register("CartPole-v1", Painter)
    try:
        assert colours("CartPole-v1")[0] == (7, 7)
    finally:
        gymnasium.registry["CartPole-v1"] = cart_pole


def test_a_worker_that_is_replaced_is_built_from_the_registration():
    with ninelives.Pool(HERE, 2, workers=1, max_steps=3) as pool:
        pool.reset(seed=1)
        assert all(pool.step([0, 0]).valid.all() for _ in range(12))


def test_ids_registered_in_the_main_program_work(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:-1] == ["[3 3]", "[4 4]", "[2 2]", "[3 3]"], done.stderr


def test_an_id_that_nobody_knows_is_refused_at_once_and_the_form_with_a_module_is_named():
    with pytest.raises(ninelives.WorkerStartError) as caught:
        ninelives.make_vec("Nobody/Knows-v0", 2)
    assert "registered neither in your program nor in its workers" in caught.value.fault.refusal
    assert "'package:Nobody/Knows-v0'" in caught.value.fault.refusal
    assert caught.value.fault.tried == "1 start"
