"""Texts in observations: exactly what the environment gave, short ones through shared memory, healed like the rest."""

import os
import signal
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

import ninelives
from ninelives.spec.text import TEXT_BYTES, text_of, text_row

SLOTS = 4
LONG = "go " * TEXT_BYTES
TEXTS = ["", "get the green ball", "öffne die Tür", LONG, "lone \ud800 surrogate", "x" * (TEXT_BYTES - 2)]


class Mission(spaces.Space):
    """A space of strings that is not Gymnasium's own, as MiniGrid has one."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self, mask=None, probability=None):
        return "go"

    def contains(self, x):
        return isinstance(x, str)


class Errands(gymnasium.Env):
    """Episodes of some steps, each with a mission; the mission changes now and then within an episode, too."""

    observation_space = spaces.Dict(
        mission=Mission(),
        direction=spaces.Discrete(4),
        inner=spaces.Dict(note=spaces.Text(9), view=spaces.Box(0, 9, (2,), np.float32)),
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._length, self._mission = 0, self._draw()
        return self._see(), {}

    def step(self, action):
        self._length += 1
        if self.np_random.random() < 0.3:
            self._mission = self._draw()
        return self._see(), 1.0, self._length == 7, False, {}

    def _draw(self):
        return TEXTS[self.np_random.integers(len(TEXTS))]

    def _see(self):
        view = self.np_random.random(2).astype(np.float32)
        direction, note = self.np_random.integers(4), "abc"[: self._length % 4]
        return {"mission": self._mission, "direction": direction, "inner": {"note": note, "view": view}}


def expected_rows(mode, steps):
    """What the environments themselves give, slot by slot, with the autoreset of this mode."""
    envs = [Errands() for _ in range(SLOTS)]
    rows, over = [[env.reset(seed=slot)[0] for slot, env in enumerate(envs)]], [False] * SLOTS
    for _ in range(steps):
        rows.append([])
        for slot, env in enumerate(envs):
            if over[slot]:
                obs, over[slot] = env.reset()[0], False
            else:
                obs, _, over[slot], _, _ = env.step(0)
                if over[slot] and mode is AutoresetMode.SAME_STEP:
                    obs, over[slot] = env.reset()[0], False
            rows[-1].append(obs)
    return rows


def assert_rows(obs, rows):
    assert list(obs) == list(Errands.observation_space) == list(rows[0])
    assert obs["mission"] == tuple(row["mission"] for row in rows)
    assert obs["inner"]["note"] == tuple(row["inner"]["note"] for row in rows)
    np.testing.assert_array_equal(obs["direction"], [row["direction"] for row in rows])
    np.testing.assert_array_equal(obs["inner"]["view"], [row["inner"]["view"] for row in rows])


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("check", ["nan", "bounds"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_every_text_arrives_as_it_was_given(monkeypatch, mode, check, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    expected = expected_rows(mode, 40)
    with closing(ninelives.VectorEnv(Errands, SLOTS, workers=2, autoreset_mode=mode, check=check)) as envs:
        assert_rows(envs.reset(seed=0)[0], expected[0])
        for rows in expected[1:]:
            assert_rows(envs.step(np.zeros(SLOTS, np.int64))[0], rows)


@pytest.mark.parametrize("native", ["1", "0"])
def test_texts_are_healed_with_their_rows(monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    expected = expected_rows(AutoresetMode.NEXT_STEP, 40)
    with closing(ninelives.VectorEnv(Errands, SLOTS, workers=2)) as envs:
        envs.reset(seed=0)
        for step, rows in enumerate(expected[1:]):
            if step % 10 == 5:
                os.kill(envs.pool.worker_pids[step // 10 % 2], signal.SIGKILL)
            assert_rows(envs.step(np.zeros(SLOTS, np.int64))[0], rows)
            assert envs.valid.all()
        assert [event for event in envs.pool.events if isinstance(event, ninelives.events.SlotHealed)]


def test_a_saved_state_brings_its_texts_back():
    actions = np.zeros(SLOTS, np.int64)
    with ninelives.Pool(Errands, SLOTS, workers=2) as pool:
        pool.reset(seed=3)
        saved, kept = pool.save_states(), pool.latest().obs
        later = [pool.step(actions).obs for _ in range(5)]
        assert later[-1]["mission"] != kept["mission"]
        assert pool.load_states(saved).obs["mission"] == kept["mission"]
        assert [pool.step(actions).obs["mission"] for _ in range(5)] == [obs["mission"] for obs in later]


@given(st.text(max_size=TEXT_BYTES))
def test_a_row_holds_a_text_exactly_or_not_at_all(text):
    row = text_row(text)
    if row is None:
        assert len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES - 2 or "\ud800" <= max(text) <= "\udfff"
    else:
        assert (len(row), text_of(row)) == (TEXT_BYTES, text)
