"""PPO of TorchRL on environments in supervised workers; one worker is killed on the way.

    pip install ninelives torchrl
    python examples/torchrl_ppo.py --autoreset SameStep

TorchRL's ``GymWrapper`` takes vector environments that reset in the same step or not at all. With ``Disabled`` it
resets the ended ones itself, which costs one more call after each step that ended an episode.
"""

from __future__ import annotations

import argparse
import os
import signal

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import ninelives
from ninelives.events import SlotHealed

NUM_ENVS, STEPS, EPOCHS, MINIBATCHES = 8, 128, 4, 4


def networks(env: GymWrapper) -> tuple[ProbabilisticActor, ValueOperator]:
    """Actor and critic, for one discrete action."""
    seen, actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    body = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, actions))
    actor = ProbabilisticActor(
        TensorDictModule(body, in_keys=["observation"], out_keys=["logits"]),
        spec=env.action_spec,
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 1)), in_keys=["observation"])
    return actor, critic


def train(env: GymWrapper, pool: ninelives.Pool, updates: int) -> None:
    """Train, kill a worker, train on."""
    actor, critic = networks(env)
    advantage, loss = GAE(gamma=0.99, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=2.5e-3)
    rows = NUM_ENVS * STEPS
    # Transforms are for recurrent policies; this one needs none.
    settings = {"frames_per_batch": rows, "total_frames": updates * rows, "auto_register_policy_transforms": False}
    collector = Collector(env, actor, **settings)
    for update, data in enumerate(collector):
        if update == updates // 2:
            os.kill(pool.worker_pids[0], signal.SIGKILL)
        with torch.no_grad():
            advantage(data)
        flat = data.reshape(-1)
        for _ in range(EPOCHS):
            for index in torch.randperm(rows).chunk(MINIBATCHES):
                losses = loss(flat[index])
                total = losses["loss_objective"] + losses["loss_entropy"] + losses["loss_critic"]
                optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        ended = int(data["next", "done"].sum())
        print(f"update {update}: {rows / max(ended, 1):.1f} steps an episode", flush=True)
    collector.shutdown()  # closes the environments too


def main() -> None:
    """Make the environments, and say at the end what became of the worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autoreset", choices=("SameStep", "Disabled"), default="SameStep")
    parser.add_argument("--updates", type=int, default=15)
    args = parser.parse_args()
    torch.manual_seed(1)
    envs = ninelives.VectorEnv("CartPole-v1", NUM_ENVS, workers=2, autoreset_mode=args.autoreset)
    pool = envs.pool
    env = GymWrapper(envs, device="cpu")
    env.set_seed(1)
    train(env, pool, args.updates)
    healed = [slot for event in pool.events if isinstance(event, SlotHealed) for slot in event.slots]
    print(f"healed after the kill: slots {sorted(healed)}")


if __name__ == "__main__":
    main()
