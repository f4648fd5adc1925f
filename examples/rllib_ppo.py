"""PPO of RLlib on environments in supervised workers; one worker is killed on the way.

    pip install ninelives "ray[rllib]" torch
    python examples/rllib_ppo.py

RLlib makes one vector environment per env runner by calling the registered function, and asks that vector environment
for ``num_envs_per_env_runner`` rows: both numbers must be the same.
"""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

import gymnasium
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

import ninelives
from ninelives.events import SlotHealed

NUM_ENVS = 8


def make(config: dict[str, Any]) -> ninelives.VectorEnv:
    """One vector environment; runs in the process of its env runner."""
    return ninelives.VectorEnv("CartPole-v1", config["num_envs"], workers=2)


def configured() -> PPOConfig:
    """Env runners that get their vector environment from ``make``."""
    register_env("supervised-cartpole", make)
    return (
        PPOConfig()
        .environment("supervised-cartpole", env_config={"num_envs": NUM_ENVS})
        .env_runners(
            gym_env_vectorize_mode=gymnasium.VectorizeMode.VECTOR_ENTRY_POINT,
            num_envs_per_env_runner=NUM_ENVS,
            num_env_runners=0,  # in this process, so that its workers can be found below; any number works
        )
        .training(train_batch_size=1000, minibatch_size=250, num_epochs=4, lr=1e-3)
        .debugging(seed=1)
    )


def main() -> None:
    """Train, kill a worker, train on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=10)
    iterations = parser.parse_args().iterations
    ray.init(include_dashboard=False, num_cpus=1)
    algorithm = configured().build_algo()
    pool = algorithm.env_runner.env.unwrapped.pool
    for iteration in range(iterations):
        if iteration == iterations // 2:
            os.kill(pool.worker_pids[0], signal.SIGKILL)
        result = algorithm.train()["env_runners"]
        print(f"iteration {iteration}: return {result['episode_return_mean']:.1f}", flush=True)
    healed = [slot for event in pool.events if isinstance(event, SlotHealed) for slot in event.slots]
    print(f"healed after the kill: slots {sorted(healed)}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
