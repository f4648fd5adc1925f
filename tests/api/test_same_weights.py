"""Learners end with the same weights, bit by bit, through our views as through Gymnasium's and SB3's own."""

import sys
from contextlib import closing

import cloudpickle
import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv
from tiny_envs import Chatty
from torch import nn
from torch.distributions import Categorical, Independent, Normal

import ninelives
from ninelives.adapters.sb3 import VecEnv

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 4
STEPS, UPDATES, EPOCHS, MINIBATCHES = 24, 3, 2, 4
GAMMA, GAE_LAMBDA, CLIP = 0.99, 0.95, 0.2

ENVS = {
    "cartpole": lambda: gymnasium.make("CartPole-v1"),
    "infos and truncation": Chatty,
    "continuous": lambda: gymnasium.make("Pendulum-v1", max_episode_steps=17),
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


class Agent(nn.Module):
    """Two small networks, and a head for the kind of action."""

    def __init__(self, envs):
        super().__init__()
        self.is_discrete = isinstance(envs.single_action_space, gymnasium.spaces.Discrete)
        seen = int(np.prod(envs.single_observation_space.shape))
        outputs = int(envs.single_action_space.n if self.is_discrete else np.prod(envs.single_action_space.shape))
        self.critic = nn.Sequential(nn.Linear(seen, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor = nn.Sequential(nn.Linear(seen, 32), nn.Tanh(), nn.Linear(32, outputs))
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def policy(self, obs):
        out = self.actor(obs)
        return Categorical(logits=out) if self.is_discrete else Independent(Normal(out, self.log_std.exp()), 1)

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


def tensor(values):
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def last_values(agent, infos, truncated):
    """What a truncated episode would still have been worth, where the reset happened in the same step."""
    worth = torch.zeros(N)
    for row in np.flatnonzero(truncated):
        worth[row] = agent.value(tensor(infos["final_obs"][row]))
    return worth


def told(infos):
    """A number from every numeric info, so that a difference in infos becomes one in weights."""
    total = np.zeros(N)
    for key, values in infos.items():
        if isinstance(values, np.ndarray) and values.shape == (N,) and values.dtype.kind in "bif":
            total += values * (1 + len(key) % 5)
    return tensor(0.01 * total)


@torch.no_grad()
def rollout(envs, agent, obs, ended, same_step):
    """``ended[t]`` says that the step before ``t`` ended an episode; values must not flow across it."""
    rows = {name: [] for name in ("obs", "actions", "log_probs", "values", "rewards", "ended")}
    for _ in range(STEPS):
        policy = agent.policy(tensor(obs))
        action = policy.sample()
        kept = (tensor(obs), action, policy.log_prob(action), agent.value(tensor(obs)), ended)
        for name, value in zip(("obs", "actions", "log_probs", "values", "ended"), kept, strict=True):
            rows[name].append(value)
        obs, reward, terminated, truncated, infos = envs.step(action.numpy())
        reward = tensor(reward) + told(infos)
        rows["rewards"].append(reward + GAMMA * last_values(agent, infos, truncated) if same_step else reward)
        ended = tensor(terminated | truncated)
    return {name: torch.stack(values) for name, values in rows.items()}, obs, ended


@torch.no_grad()
def advantages_of(rows, agent, obs, ended):
    following, following_ended, gae = agent.value(tensor(obs)), ended, torch.zeros(N)
    found = torch.zeros_like(rows["rewards"])
    for t in reversed(range(STEPS)):
        goes_on = 1 - following_ended
        delta = rows["rewards"][t] + GAMMA * following * goes_on - rows["values"][t]
        found[t] = gae = delta + GAMMA * GAE_LAMBDA * goes_on * gae
        following, following_ended = rows["values"][t], rows["ended"][t]
    return found


def improve(agent, optimizer, rows, advantages):
    flat = {name: values.flatten(0, 1) for name, values in rows.items()}
    advantages, returns = advantages.flatten(), (advantages + rows["values"]).flatten()
    for _ in range(EPOCHS):
        for index in torch.randperm(STEPS * N).chunk(MINIBATCHES):
            policy, value = agent.policy(flat["obs"][index]), agent.value(flat["obs"][index])
            ratio = (policy.log_prob(flat["actions"][index]) - flat["log_probs"][index]).exp()
            gain = advantages[index]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            actor_loss = torch.max(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            loss = actor_loss - 0.01 * policy.entropy().mean() + 0.25 * (value - returns[index]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def learnt(envs, same_step):
    """The weights after a few updates of PPO written as CleanRL writes it."""
    torch.manual_seed(1)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    (obs, _), ended, episodes = envs.reset(seed=7), torch.zeros(N), 0
    for _ in range(UPDATES):
        rows, obs, ended = rollout(envs, agent, obs, ended, same_step)
        improve(agent, optimizer, rows, advantages_of(rows, agent, obs, ended))
        episodes += int(rows["ended"].sum())
    assert episodes > N, "too short to have seen how episodes end"
    return agent.state_dict()


def assert_same_weights(ours, theirs):
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if ours[name].numpy().tobytes() != theirs[name].numpy().tobytes()]
    assert not different, f"other weights than through theirs: {different}"


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", ENVS)
def test_ppo_like_cleanrl_learns_the_same_weights_as_through_sync_vector_env(name, mode):
    same_step = mode is AutoresetMode.SAME_STEP
    with closing(SyncVectorEnv([ENVS[name]] * N, autoreset_mode=mode)) as envs:
        theirs = learnt(envs, same_step)
    with closing(ninelives.VectorEnv([ENVS[name]] * N, workers=2, autoreset_mode=mode)) as envs:
        assert_same_weights(learnt(envs, same_step), theirs)


def learnt_by_sb3(envs):
    model = PPO("MlpPolicy", envs, n_steps=STEPS, batch_size=24, n_epochs=EPOCHS, seed=7, device="cpu")
    return model.learn(UPDATES * STEPS * N).policy.state_dict()


@pytest.mark.parametrize("name", ENVS)
def test_ppo_of_sb3_learns_the_same_weights_as_through_dummy_vec_env(name):
    with closing(DummyVecEnv([ENVS[name]] * N)) as envs:
        theirs = learnt_by_sb3(envs)
    with closing(VecEnv([ENVS[name]] * N, workers=2)) as envs:
        assert_same_weights(learnt_by_sb3(envs), theirs)
