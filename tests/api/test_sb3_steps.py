"""Our ``VecEnv``, step for step: equal to SB3's own vector environments, and right where they are wrong."""

import copy
import subprocess
import sys
from contextlib import closing

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from tiny_envs import Chatty, Counting, Nested, OneBuffer, Painter, Seeded, assert_same

import ninelives
from ninelives.adapters.sb3 import VecEnv

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 3


class ChattyDict(Chatty):
    """Infos of every kind beside observations of several kinds."""

    observation_space = spaces.Dict(
        camera=spaces.Box(0, 255, (2, 3), np.uint8),
        body=spaces.Box(-np.inf, np.inf, (2,), np.float32),
        level=spaces.Discrete(10),
    )

    def see(self):
        camera = self.np_random.integers(0, 256, (2, 3), dtype=np.uint8)
        return {
            "camera": camera,
            "body": self.np_random.normal(size=2).astype(np.float32),
            "level": np.int64(self.count),
        }


class Steered(Nested):
    """Takes structured actions; what was done is seen as one row, because SB3 does not nest observations."""

    observation_space = spaces.Box(-9, 9, (6,), np.float32)

    def see(self):
        done = self.action or {"push": np.zeros(2, np.float32), "keys": (1, np.zeros(2, np.int8))}
        return np.array([self.count, *done["push"], done["keys"][0], *done["keys"][1]], np.float32)


class Taking(Steered):
    """The same with a Tuple space on top."""

    action_space = spaces.Tuple((Nested.action_space["push"], spaces.Discrete(3, start=1)))

    def step(self, action):
        push, key = action
        return super().step({"push": push, "keys": (key, np.zeros(2, np.int8))})


class Pair(Seeded):
    observation_space = spaces.Tuple((spaces.Box(0, 99, (), np.float32), spaces.MultiBinary(2)))

    def see(self):
        return np.float32(self.count), np.array([self.count % 2, 1], np.int8)


class FalseEnds(gymnasium.Wrapper):
    """Ends an episode every second step, as wrappers do that count a lost life as the end."""

    def step(self, action):
        obs, reward, _, _, info = self.env.step(action)
        self.count += 1
        return obs, reward, self.count % 2 == 0, False, info

    def reset(self, **kwargs):
        self.count = 0
        return super().reset(**kwargs)


def cartpole():
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


def short_cartpole():
    return gymnasium.make("CartPole-v1", disable_env_checker=True, max_episode_steps=12)


def monitored():
    return FalseEnds(Monitor(TimeLimit(Seeded(), 50), allow_early_resets=True))


def opened(env, n_envs=N, **settings):
    return closing(VecEnv(env, n_envs, **{"workers": 1, **settings}))


def without_episodes(infos):
    return [{key: value for key, value in info.items() if key != "episode"} for info in infos]


def play_together(ours, theirs, steps):
    """Both get the same seeds and actions and must answer the same; returns how many episodes ended."""
    assert ours.seed(7) == theirs.seed(7)
    assert_same(ours.reset(), theirs.reset(), "reset")
    assert_same(ours.reset_infos, list(theirs.reset_infos), "reset_infos")
    theirs.action_space.seed(11)
    ended = 0
    for i in range(steps):
        actions = np.array([theirs.action_space.sample() for _ in range(theirs.num_envs)])
        obs, rewards, dones, infos = ours.step(actions)
        wanted_obs, wanted_rewards, wanted_dones, wanted_infos = theirs.step(actions)
        assert_same(obs, wanted_obs, f"observation {i}")
        assert_same(rewards, wanted_rewards.astype(np.float32), f"rewards {i}")
        assert_same(dones, wanted_dones, f"dones {i}")
        assert_same(without_episodes(infos), list(wanted_infos), f"infos {i}")
        assert_same(ours.reset_infos, list(theirs.reset_infos), f"reset_infos {i}")
        ended += wanted_dones.sum()
    return ended


ENVS = {"cartpole": cartpole, "short cartpole": short_cartpole, "dict": ChattyDict, "tuple": Pair, "discrete": Counting}


@pytest.mark.parametrize("name", ENVS)
def test_every_step_equals_dummy_vec_env(name):
    theirs = DummyVecEnv([ENVS[name]] * N)
    with opened(ENVS[name], workers=2) as ours:
        assert ours.observation_space == theirs.observation_space
        assert ours.action_space == theirs.action_space
        assert play_together(ours, theirs, 80) >= N, "the episodes were too long to show a reset"


@pytest.mark.filterwarnings(
    "ignore:.*multi-threaded, use of fork.*:DeprecationWarning"
)  # SB3's choice to fork, not ours
@pytest.mark.parametrize("name", ["short cartpole", "dict"])
def test_every_step_equals_subproc_vec_env(name):
    with closing(SubprocVecEnv([ENVS[name]] * N, start_method="fork")) as theirs, opened(ENVS[name], workers=2) as ours:
        assert play_together(ours, theirs, 40) >= N


def test_infos_are_the_same_when_numbers_among_them_live_in_shared_memory():
    with opened(Chatty, info_keys={"count": int, "half": float, "even": bool}) as ours:
        assert play_together(ours, DummyVecEnv([Chatty] * N), 40) >= N


def test_the_terminal_observation_is_true_where_an_environment_reuses_its_buffer():
    with opened(OneBuffer) as envs:
        envs.seed(1)
        envs.reset()
        seen = []
        for _ in range(30):
            *_, dones, infos = envs.step(np.zeros(N, np.int64))
            seen += [infos[row]["terminal_observation"] for row in np.flatnonzero(dones)]
    assert len(seen) > N
    assert all(count == length > 0 for count, length in seen)


def test_a_time_limit_is_distinguished_from_a_true_end():
    with opened(Seeded) as envs:
        envs.seed(3)
        envs.reset()
        ends = set()
        for _ in range(40):
            *_, dones, infos = envs.step(np.zeros(N, np.int64))
            for done, info in zip(dones, infos, strict=True):
                assert ("terminal_observation" in info) == done
                if done:  # these environments are cut after an odd number of steps
                    assert info["TimeLimit.truncated"] == (info["terminal_observation"][0] % 2 == 1)
                ends.add((bool(done), info["TimeLimit.truncated"]))
    assert ends == {(False, False), (True, False), (True, True)}


def test_returned_values_may_be_kept_and_changed():
    with opened(ChattyDict) as envs, opened(ChattyDict) as clean:
        for each in (envs, clean):
            each.seed(3)
            each.reset()
        kept, as_they_were = [], []
        for i in range(20):
            answer, wanted = (each.step(np.zeros(N, np.int64)) for each in (envs, clean))
            kept.append(answer)
            as_they_were.append(copy.deepcopy(answer))
            assert_same(without_episodes(answer[3]), without_episodes(wanted[3]), f"infos {i}")
        assert_same(kept, as_they_were)
        obs, rewards, _, infos = kept[-1]
        obs["body"][:], rewards[:] = 0, 0
        infos[0]["mine"] = infos[0].setdefault("nested", {})["mine"] = True
        assert "mine" not in infos[1]
        answer, wanted = (each.step(np.zeros(N, np.int64)) for each in (envs, clean))
        assert_same(answer[0], wanted[0])
        assert_same(without_episodes(answer[3]), without_episodes(wanted[3]))


def test_nothing_but_the_time_limit_is_in_the_infos_of_quiet_environments():
    with opened("CartPole-v1") as envs:
        envs.reset()
        infos = envs.step(np.zeros(N, np.int64))[3]
    assert infos == [{"TimeLimit.truncated": False}] * N
    assert len({id(info) for info in infos}) == N


def test_seeds_serve_one_reset():
    with opened(Seeded) as envs:
        envs.seed(5)
        first, second = envs.reset(), envs.reset()
        envs.seed(5)
        assert_same(envs.reset(), first)
        assert not np.array_equal(first, second)


def test_options_reach_the_next_reset_only():
    with opened(Painter) as envs:
        envs.set_options({"level": 1})
        envs.reset()
        assert envs.get_attr("given") == [{"level": 1}] * N
        envs.reset()
        assert envs.get_attr("given") == [None] * N


@pytest.mark.parametrize("before", [0, 1], ids=["first reset", "later reset"])
def test_every_environment_can_have_its_own_options(before):
    options = [{"level": 1}, {}, {"level": 2}]
    theirs = DummyVecEnv([Chatty] * N)
    with opened(Chatty) as ours:
        for envs in (ours, theirs):
            envs.seed(5)
            for _ in range(before):
                envs.reset()
        for envs in (ours, theirs):
            envs.seed(6)
            envs.set_options(options)
        assert_same(ours.reset(), theirs.reset())
        assert_same(ours.reset_infos, theirs.reset_infos)
    with opened(Painter) as painters:
        painters.set_options(options)
        painters.reset()
        assert painters.get_attr("given") == [{"level": 1}, None, {"level": 2}]
        painters.step(np.zeros(N, np.int64))


def test_options_for_too_few_environments_are_refused():
    with opened(Seeded) as envs:
        envs.set_options([{"level": 1}])
        with pytest.raises(ValueError, match="shorter"):
            envs.reset()


def test_a_reset_drops_the_step_under_way():
    with opened(Seeded) as envs:
        envs.seed(5)
        first = envs.reset()
        envs.step_async(np.zeros(N, np.int64))
        envs.seed(5)
        assert_same(envs.reset(), first)
        assert (envs.step(np.zeros(N, np.int64))[0][:, 0] == 1).all()


def test_episodes_are_reported_as_by_a_monitor():
    theirs = DummyVecEnv([lambda: Monitor(Seeded())] * N)
    with opened(Seeded) as ours:
        reported = 0
        for envs in (ours, theirs):
            envs.seed(5)
            envs.reset()
        for _ in range(40):
            infos, wanted = (envs.step(np.zeros(N, np.int64))[3] for envs in (ours, theirs))
            for info, other in zip(infos, wanted, strict=True):
                assert ("episode" in info) == ("episode" in other)
                if "episode" in other:
                    reported += 1
                    assert set(info["episode"]) == set(other["episode"]) == {"r", "l", "t"}
                    assert info["episode"]["r"] == pytest.approx(other["episode"]["r"], abs=1e-6)
                    assert info["episode"]["l"] == other["episode"]["l"]
                    assert 0 <= info["episode"]["t"] < 60
    assert reported > N


def test_a_monitor_in_the_environment_is_believed():
    with opened(monitored, 2, workers=1) as envs:
        assert envs.env_is_wrapped(Monitor) == [True, True]
        envs.seed(5)
        envs.reset()
        ends = reported = 0
        for _ in range(30):
            *_, dones, infos = envs.step(np.zeros(2, np.int64))
            ends += dones.sum()
            reported += sum("episode" in info for info in infos)
    assert ends == 30, "the wrapper outside ends an episode every second step"
    assert reported < ends, "a false end is not an episode to the Monitor inside"


def test_a_view_of_an_existing_pool_closes_it():
    pool = ninelives.Pool(Seeded, 4, workers=2, groups=2, autoreset="same_step", seed_episodes=False)
    envs = VecEnv.of(pool)
    assert envs.pool is pool
    assert play_together(envs, DummyVecEnv([Seeded] * 4), 20)
    envs.close()
    envs.close()
    with pytest.raises(ninelives.ClosedError):
        pool.recv()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"autoreset": "next_step"}, "same_step"), ({"copy": False}, "keeps"), ({"batch_size": 2}, "all 4")],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_sb3_is_refused(settings, words):
    with pytest.raises(ninelives.ConfigError, match=words):
        VecEnv(Seeded, 4, **settings)
    pool = ninelives.Pool(Seeded, 4, workers=2, **{"autoreset": "same_step", **settings})
    with pool, pytest.raises(ninelives.ConfigError, match=words):
        VecEnv.of(pool)


def test_without_sb3_the_extra_is_named():
    code = "import sys; sys.modules['stable_baselines3'] = None; import ninelives.adapters.sb3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'ninelives[sb3]'" in done.stderr


@pytest.mark.parametrize("env", [Steered, Taking])
def test_structured_actions_are_given_one_per_environment_as_in_sb3(env):
    theirs = DummyVecEnv([env] * N)
    with closing(VecEnv(env, N, workers=2)) as ours:
        assert len(ours) == N
        for each in (ours, theirs):
            each.seed(1)
        assert_same(ours.reset(), theirs.reset())
        for _ in range(10):
            actions = [theirs.action_space.sample() for _ in range(N)]
            for mine, other in zip(ours.step(actions)[:3], theirs.step(actions)[:3], strict=True):
                assert_same(mine, other)


def test_structured_actions_that_do_not_fit_are_refused_and_the_slot_is_named():
    with closing(VecEnv(Steered, N, workers=1)) as envs:
        envs.reset()
        actions = [envs.action_space.sample() for _ in range(N)]
        with pytest.raises(ninelives.ActionError, match="2 actions for 3 environments"):
            envs.step(actions[1:])
        with pytest.raises(ninelives.ActionError, match=r"slot 1 does not fit .* key 'keys' is missing"):
            envs.step([actions[0], {"push": actions[1]["push"]}, actions[2]])
        with pytest.raises(ninelives.ActionError, match="different shapes"):
            envs.step([actions[0], {**actions[1], "push": np.zeros(5, np.float32)}, actions[2]])
        envs.step(actions)


@pytest.mark.parametrize("wanted", [None, ("extra",)])
@pytest.mark.parametrize("monitored", [False, True])
def test_whatever_infos_are_wanted_sb3_gets_its_own(wanted, monitored):
    def make():
        env = TimeLimit(Talkative(), 4)
        return Monitor(env) if monitored else env

    theirs = DummyVecEnv([lambda: Monitor(TimeLimit(Talkative(), 4))] * N)
    with closing(VecEnv(make, N, workers=2, infos=wanted)) as ours:
        ours.reset(), theirs.reset()
        for _ in range(9):
            infos, expected = ours.step(np.zeros(N, np.int64))[3], theirs.step(np.zeros(N, np.int64))[3]
            for info, whole in zip(infos, expected, strict=True):
                left_out = {"extra", "words"} - set(wanted or ())
                assert set(info) == set(whole) - left_out
                assert info["TimeLimit.truncated"] == whole["TimeLimit.truncated"]
                assert info["is_success"] == whole["is_success"]
                if "episode" in whole:
                    assert (info["episode"]["r"], info["episode"]["l"]) == (4.0, 4)
                    np.testing.assert_array_equal(info["terminal_observation"], whole["terminal_observation"])


class Talkative(gymnasium.Env):
    observation_space, action_space = spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._length = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._length += 1
        info = {"extra": 1.5, "words": "many", "is_success": self._length == 4}
        return np.full(1, self._length, np.float32), 1.0, False, False, info
