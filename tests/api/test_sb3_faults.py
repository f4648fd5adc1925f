"""What an SB3 learner sees when a worker dies: a truncated episode, unrewarded rows, and training that goes on."""

import os
import signal
import sys
from contextlib import closing

import cloudpickle
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from tiny_envs import Mortal, assert_same

import ninelives
from ninelives.adapters.sb3 import VecEnv
from ninelives.testing import CountingEnv, Fragile, When

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 4
IDLE, DEADLY = np.zeros(N, np.int64), np.array([0, 0, 2, 0])
LOST = np.array([False, False, True, True])  # slots 2 and 3 share the second worker


class MortalDict(Mortal):
    observation_space = spaces.Dict(
        body=spaces.Box(-np.inf, np.inf, (2,), np.float64), count=spaces.Box(0, 1000, (), np.int64)
    )

    def see(self):
        return {"body": super().see(), "count": np.int64(self.count)}


class MortalMasked(Mortal):
    """Has no mask before its first reset; if ``is_tired``, the call for the mask kills its worker."""

    is_tired = False

    def action_masks(self):
        if self.is_tired:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.array([True, self.count % 2 == 0, False])


def opened(env, n_envs=N, **settings):
    return closing(VecEnv(env, n_envs, **{"workers": 2, "on_fault": "cut", **settings}))


def begin(envs, steps=2):
    envs.seed(1)
    envs.reset()
    for _ in range(steps):
        obs = envs.step(IDLE)[0]
    return obs


def rows_of(obs, mask):
    return {key: rows[mask] for key, rows in obs.items()} if isinstance(obs, dict) else obs[mask]


@pytest.mark.parametrize("env", [Mortal, MortalDict])
def test_a_lost_episode_is_a_truncated_one_that_ends_at_the_last_good_observation(env):
    with opened(env) as envs:
        last = begin(envs)
        _, rewards, dones, infos = envs.step(DEADLY)
        np.testing.assert_array_equal(dones, LOST)
        assert (rewards[LOST] == 0).all()
        for row in np.flatnonzero(LOST):
            info = infos[row]
            assert info["TimeLimit.truncated"] is True
            assert info["valid"] is False
            assert info["fault"].signal == "SIGKILL"
            assert info["fault"].culprit == 2
            assert "episode" not in info
            assert_same(info["terminal_observation"], rows_of(last, row))
        for row in np.flatnonzero(~LOST):
            assert infos[row] == {"TimeLimit.truncated": False}


def test_rows_until_the_next_episode_are_marked_and_unrewarded_and_the_others_never_notice():
    with opened(Mortal) as envs, opened(Mortal) as calm:
        for each, actions in ((envs, DEADLY), (calm, IDLE)):
            begin(each)
            each.step(actions)
        rows = [envs.step(IDLE) for _ in range(6)]
        wanted = [calm.step(IDLE) for _ in range(6)]
        fresh = next(i for i, row in enumerate(rows) if row[0][2, 0] == 0)
        for _, rewards, dones, infos in rows[: fresh + 1]:
            assert not dones.any()
            assert (rewards[LOST] == 0).all()
            assert [info.get("valid") for info in infos] == [None, None, False, False]
        for step, row in enumerate(rows[fresh + 1 :], start=1):
            assert (row[0][LOST, 0] == step).all()
            assert all("valid" not in info for info in row[3])
        for row, other in zip(rows, wanted, strict=True):
            assert_same(row[0][~LOST], other[0][~LOST])
            assert_same(row[1][~LOST], other[1][~LOST])


def test_the_terminal_observation_is_the_learners_own_copy():
    with opened(Mortal) as envs:
        last = begin(envs)
        kept = last.copy()
        infos = envs.step(DEADLY)[3]
        infos[2]["terminal_observation"][:] = -1
        assert_same(last, kept)


def test_an_environment_that_raises_loses_its_own_episode_only():
    broken = Fragile("raise_error", When("step", at=3, slots=(1,), generations=None))
    with opened(broken) as envs:
        last = begin(envs)
        _, _, dones, infos = envs.step(IDLE)
        assert dones.tolist() == [False, True, False, False]
        assert infos[1]["fault"].kind == "raised"
        assert_same(infos[1]["terminal_observation"], last[1])


def test_a_slow_restart_gives_waiting_rows_that_end_nothing():
    slow = Fragile("nap", When("construct", slots=(2,), generations=(2,)))
    with opened(slow, restart_wait_s=0.01) as envs:  # a nap is longer
        begin(envs)
        os.kill(envs.pool.worker_pids[1], signal.SIGKILL)
        rows = [envs.step(IDLE)]
        while not rows[-1][2].any():
            rows.append(envs.step(IDLE))
        while any("valid" in info for info in rows[-1][3]):
            rows.append(envs.step(IDLE))
        ends = np.array([row[2] for row in rows])
        assert (ends.sum(axis=0) == LOST).all(), "each lost episode ends once"
        assert sum("valid" in row[3][2] for row in rows) > 2, "there was no waiting row"


def test_faults_are_raised_if_so_configured():
    with opened(Mortal, on_fault="raise") as envs:
        begin(envs)
        with pytest.raises(ninelives.WorkerCrashedError, match="SIGKILL"):
            envs.step(DEADLY)


def test_a_recycled_worker_ends_no_episode_by_itself():
    five_steps = ninelives.EnvSpec(CountingEnv, {"episode_steps": 5})
    with opened(five_steps, max_steps=60) as envs:
        envs.seed(1)
        envs.reset()
        lengths, running = [], np.zeros(N, int)
        first, steps_after = envs.pool.worker_pids, 0
        while steps_after < 20:
            _, _, dones, infos = envs.step(IDLE)
            assert not any("fault" in info for info in infos)
            running += [info.get("valid", True) for info in infos]
            lengths += running[dones].tolist()
            running[dones] = 0
            steps_after += envs.pool.worker_pids != first and None not in envs.pool.worker_pids
    assert set(lengths) == {5}


def test_action_masks_are_there_in_every_row_of_a_fault():
    with opened(MortalMasked) as envs:
        begin(envs)
        assert np.stack(envs.env_method("action_masks")).shape == (N, 3)
        envs.step(DEADLY)
        for _ in range(5):
            masks = np.stack(envs.env_method("action_masks"))
            obs = envs.step(IDLE)[0]
            assert masks[0].tolist() == [True, (obs[0, 0] - 1) % 2 == 0, False]
        assert masks[2].tolist() == [True, (obs[2, 0] - 1) % 2 == 0, False]


@pytest.mark.parametrize("death", ["between two steps", "in the call"])
def test_a_worker_that_dies_before_its_next_action_leaves_its_mask_open_and_its_episode_ended(death):
    with opened(MortalMasked) as envs:
        last = begin(envs)
        envs.env_method("action_masks")
        if death == "in the call":
            envs.set_attr("is_tired", True, indices=2)
        else:
            os.kill(envs.pool.worker_pids[1], signal.SIGKILL)
        masks = np.stack(envs.env_method("action_masks"))
        assert masks[LOST].all()
        assert masks[0].tolist() == [True, True, False]
        _, _, dones, infos = envs.step(IDLE)
        np.testing.assert_array_equal(dones, LOST)
        assert_same(infos[3]["terminal_observation"], last[3])


def test_a_quarantined_slot_stays_out_and_the_others_go_on():
    with opened(MortalMasked, workers=4, max_restarts_per_slot=0) as envs:
        begin(envs)
        envs.env_method("action_masks")
        *_, dones, infos = envs.step(DEADLY)
        assert dones.tolist() == [False, False, True, False]
        for _ in range(2):
            for _ in range(3):
                masks = np.stack(envs.env_method("action_masks"))
                assert masks.all(axis=1).tolist() == [False, False, True, False]
                _, rewards, dones, infos = envs.step(IDLE)
                assert [info.get("valid") for info in infos] == [None, None, False, None]
                assert not dones.any()
                assert rewards[2] == 0
            envs.reset()
        envs.set_attr("count", None, indices=1)
        with pytest.raises(ninelives.EnvRaisedError, match="TypeError"):
            envs.env_method("action_masks")


def test_a_mask_that_raises_in_a_healthy_environment_is_an_error():
    with opened(MortalMasked) as envs:
        envs.seed(1)
        envs.reset()
        envs.env_method("action_masks")
        envs.set_attr("count", None, indices=1)
        with pytest.raises(ninelives.EnvRaisedError, match="TypeError"):
            envs.env_method("action_masks")


class Killer(BaseCallback):
    """Kills a worker once, half way, and notes what the infos say."""

    def __init__(self):
        super().__init__()
        self.faults, self.invalid, self.killed = [], 0, False

    def _on_step(self):
        if self.num_timesteps >= 512 and not self.killed:
            os.kill(self.training_env.unwrapped.pool.worker_pids[0], signal.SIGKILL)
            self.killed = True
        self.faults += [info["fault"] for info in self.locals["infos"] if "fault" in info]
        self.invalid += sum(not info.get("valid", True) for info in self.locals["infos"])
        return True


def test_training_goes_on_when_a_worker_is_killed():
    torch.set_num_threads(1)
    with opened("CartPole-v1") as envs:
        killer = Killer()
        model = PPO("MlpPolicy", envs, n_steps=64, batch_size=128, n_epochs=2, seed=0, device="cpu")
        model.learn(1024, callback=killer)
        assert model.num_timesteps == 1024
        assert [fault.signal for fault in killer.faults] == ["SIGKILL"] * 2
        assert 4 <= killer.invalid <= 20
        assert all(torch.isfinite(weights).all() for weights in model.policy.parameters())
        assert None not in envs.pool.worker_pids
