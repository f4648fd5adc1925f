"""Learners of libraries that are too large for the test requirements; runs where they are installed."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

import ninelives

EXAMPLES = Path(__file__).parents[2] / "examples"


def needs(module, requirement):
    """Not a missing requirement in the sense of ``missing.py``: these are installed on purpose or not at all."""
    reason = f"{module} is not installed, and too large to be required: pip install '{requirement}'"
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=reason)


needs_ray = needs("ray", "ray[rllib]")
needs_torchrl = needs("torchrl", "torchrl")


def run_example(name, *arguments):
    """Run an example as a reader would; returns what it printed."""
    environ = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    result = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], env=environ, capture_output=True, text=True, timeout=280
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


@needs_ray
def test_rllib_trains_through_a_kill():
    printed = run_example("rllib_ppo.py", "--iterations", "4")
    assert len(re.findall(r"return \d+\.\d", printed)) == 4
    assert "healed after the kill: slots [0, 1, 2, 3]" in printed


@needs_torchrl
@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_torchrl_trains_through_a_kill(mode):
    printed = run_example("torchrl_ppo.py", "--updates", "4", "--autoreset", mode)
    assert len(re.findall(r"\d+\.\d steps an episode", printed)) == 4
    assert "healed after the kill: slots [0, 1, 2, 3]" in printed


@needs_torchrl
@pytest.mark.filterwarnings("ignore")  # torchrl's own
@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_torchrl_sees_the_same_rollout_as_through_sync_vector_env(mode):
    import torch
    from torchrl.envs import GymWrapper

    rollouts = []
    for envs in (
        ninelives.VectorEnv("CartPole-v1", 3, workers=1, autoreset_mode=mode),
        gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode),
    ):
        env = GymWrapper(envs, device="cpu")
        env.set_seed(3)
        torch.manual_seed(0)
        rollouts.append(env.rollout(60, break_when_any_done=False))
        env.close()
    assert rollouts[0]["next", "done"].sum() > 3
    assert (rollouts[0] == rollouts[1]).all()
