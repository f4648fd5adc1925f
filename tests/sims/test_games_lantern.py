"""Lantern: no time before START, three nights that can be won, and the same on every NES emulator."""

import re

import numpy as np
import pytest
from nes_games import require_nes_py

from ninelives import ConfigError
from ninelives.errors import CheckpointError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.games import lantern
from ninelives.sims.games.registry import rom_of

ROM = rom_of("ninelives/Lantern-v0")
TIME, MODE, X, LIVES = slice(0x10, 0x13), 0x04, 0x08, 0x06
WON_BY = (
    "1x17 4x5 3 4 0x2 4x5 1x4 2 1x11 2 1x3 0 1x11 2 1x10 0x19 1x8 2 1x5 0x3 2 0x5 1x2 4x4 3 4 1x15 2 1x8 2 "
    "1x25 0x18 1x6 2 1x7 0 2 1x7 0 2 0 1x10 2 1x9 2 1x4 0x4 1x6 2 1x7 0x3 2 1x11 4 0x18 "
)
"""Numbers of actions, and how often each is repeated: found by search on fceumm, wins all three nights."""


def script():
    for action, times in re.findall(r"(\d)(?:x(\d+))?", WON_BY):
        yield from [int(action)] * int(times or 1)


@pytest.fixture
def make():
    made = []

    def one(*arguments, **settings):
        made.append(lantern.make(*arguments, core="fceumm", **settings))
        made[-1].reset(seed=0)
        return made[-1]

    yield one
    for env in made:
        env.close()


@pytest.fixture(params=["fceumm", "cynes"])
def machine(request):
    emulator = open_emulator(ROM, core=request.param)
    yield emulator
    emulator.close()


def test_the_title_has_no_time_until_start_is_pressed(machine):
    page = machine.memory.view(0, 0x40)
    for _ in range(5):
        machine.advance(60, pad_of("a", "right", "select"))
        assert page[TIME].tolist() == [0, 0, 0]
        assert page[MODE] == lantern.MODES.index("title")
    machine.advance(4, pad_of("start"))
    machine.advance(10, 0)
    assert page[MODE] == lantern.MODES.index("play")
    assert page[TIME].tolist() in ([2, 0, 0], [1, 9, 9])
    assert page[LIVES] == 3


def test_walking_on_without_a_leap_ends_in_the_first_pit(machine):
    page = machine.memory.view(0, 0x40)
    machine.advance(60, 0)
    machine.advance(4, pad_of("start"))
    machine.advance(10, 0)
    machine.advance(90, pad_of("right"))
    assert page[MODE] == lantern.MODES.index("dying")
    assert 8 * 16 - 16 < page[X] < 9 * 16
    machine.advance(60, 0)
    assert page[LIVES] == 2
    assert page[MODE] == lantern.MODES.index("play")


def test_it_runs_in_nes_py():
    require_nes_py()
    from nes_py import NESEnv

    env = NESEnv(str(ROM))
    try:
        env.reset()
        for _ in range(60):
            env.step(0)
        assert env.ram[MODE] == lantern.MODES.index("title")
        for pad in [0b1000] * 4 + [0] * 10 + [0b10000000] * 40:
            env.step(pad)
        assert env.ram[MODE] == lantern.MODES.index("play")
        assert env.ram[X] > 60
    finally:
        env.close()


def test_all_three_nights_can_be_won(make):
    env, nights = make("coast"), set()
    for action in script():
        _, _, terminated, truncated, info = env.step(action)
        nights.add(env.ram["night"])
        if terminated or truncated:
            break
    assert terminated
    assert info["success"]
    assert {0, 1, 2} <= nights
    assert env.ram["lives"] == 3


def test_the_first_lighthouse_ends_the_short_goal_with_success(make):
    env, total = make("lighthouse"), 0.0
    for action in script():
        _, reward, terminated, _, info = env.step(action)
        total += reward
        if terminated:
            break
    assert info["success"]
    assert total > 0.02 * 440 + 5 - 1


def test_one_life_is_all_the_short_goal_gives(make):
    env = make("lighthouse")
    for _ in range(40):
        _, _, terminated, _, info = env.step(lantern.ACTIONS.index("right"))
        if terminated:
            break
    assert terminated
    assert not info["success"]


def test_the_same_actions_give_the_same_game(make):
    one, other = make("coast"), make("coast")
    for action in np.random.default_rng(2).integers(len(lantern.ACTIONS), size=300).tolist():
        here, there = one.step(action), other.step(action)
        assert (here[0] == there[0]).all()
        assert here[1:4] == there[1:4]
    assert (one.machine.memory.view(0, 0x800) == other.machine.memory.view(0, 0x800)).all()


@pytest.mark.parametrize("settings", [{"goal": "moon"}, {"observe": "smell"}])
def test_what_is_not_known_is_refused_with_what_is(settings):
    with pytest.raises(ConfigError, match=r"allowed: (lighthouse, coast|screen, ram)"):
        lantern.make(**settings)


@pytest.mark.parametrize("max_steps", [0, False, -1])
def test_an_episode_without_steps_is_refused(max_steps):
    with pytest.raises(ConfigError, match=f"max_steps={max_steps} must be a whole number above zero"):
        lantern.make(max_steps=max_steps)


def test_a_screen_may_be_given_by_the_names_of_its_fields(make):
    assert make(screen={"stack": 4}).observation_space.shape == (4, 84, 84)
    with pytest.raises(ConfigError, match="screen: no key 'stak'; did you mean 'stack'"):
        make(screen={"stak": 4})


def test_the_state_of_another_goal_is_refused(make):
    state = make("lighthouse", max_steps=50).save_state()
    with pytest.raises(CheckpointError, match=r"with ends=\['lighthouse', .*this one has \['coast'"):
        make("coast", max_steps=50).load_state(state)
