"""Rook's Errand: it can be won, not by chance, and the same keys give the same game."""

import dataclasses
import os

import numpy as np
import pytest

from ninelives import ConfigError
from ninelives.errors import CheckpointError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.games import errand
from ninelives.sims.games.guide import Guide
from ninelives.sims.games.registry import rom_of

ROM = rom_of("ninelives/Errand-v0")
FULL = os.environ.get("NINELIVES_FULL") == "1"
TO_THE_MEADOW = ["down"] * 4 + ["right"] * 8 + ["up"] * 4 + ["right"] * 2 + ["down"] * 2 + ["right"] * 2
EWRAM, IWRAM = (0x02000000, 0x13000), (0x03000000, 0x6000)


@pytest.fixture
def make():
    """Makes environments that are closed at the end."""
    made = []

    def one(*arguments, **settings):
        made.append(errand.make(*arguments, **settings))
        made[-1].reset(seed=0)
        return made[-1]

    yield one
    for env in made:
        env.close()


@pytest.fixture
def power_on():
    """Machines at power-on, on a given core; closed at the end."""
    made = []

    def one(core, **settings):
        made.append(open_emulator(ROM, core=str(core.path), **settings))
        return made[-1]

    yield one
    for machine in made:
        machine.close()


def press(env, *names):
    """Take actions by name; the last answer."""
    for name in names:
        answer = env.step(errand.ACTIONS.index(name))
    return answer


def go(machine, *names):
    for name in names:
        machine.step(pad_of(name))


def block(machine):
    """Save block 1 as its pointer says now."""
    start = int(machine.memory.view(errand.SAVE_BLOCK_1, 4).view("<u4")[0])
    return start, bytes(machine.memory.view(start, 0x24))


def play_with_guide(env):
    guide, infos = Guide(env), []
    while True:
        _, _, terminated, truncated, info = env.step(guide.action())
        infos.append(info)
        if terminated or truncated:
            return terminated, infos


@pytest.mark.parametrize("goal", errand.SUCCESS)
def test_every_goal_can_be_reached_and_says_so(make, goal):
    terminated, infos = play_with_guide(make(goal))
    assert terminated
    assert [info["success"] for info in infos] == [0] * (len(infos) - 1) + [1]


def test_the_whole_errand_leads_through_every_map_and_leaves_nothing_to_go(make):
    env = make("errand")
    _, infos = play_with_guide(env)
    assert infos[-1]["maps_seen"] == len(errand.MAPS)
    assert infos[-1]["best"] == 0
    assert (env.ram["items"], env.ram["home"]) == (0b1111, 0b1110)


@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("goal", ["key", "errand"] if FULL else ["key"])  # the errand needs the key
def test_random_play_does_not_reach_it(make, goal):
    env, rng = make(goal), np.random.default_rng(0)
    for _ in range(200_000 if FULL else 2_000):
        _, _, terminated, truncated, info = env.step(int(rng.integers(len(errand.ACTIONS))))
        assert not info["success"]
        if terminated or truncated:
            env.reset()


def test_the_same_actions_give_the_same_memory_and_picture(make):
    one, other = make("errand"), make("errand")
    actions = np.random.default_rng(1).integers(len(errand.ACTIONS), size=300)
    for action in actions.tolist():
        here, there = one.step(action), other.step(action)
        assert (here[0] == there[0]).all()
        assert here[1:4] == there[1:4]
    for address, size in (EWRAM, IWRAM):
        assert (one.machine.memory.view(address, size) == other.machine.memory.view(address, size)).all()


def test_when_keys_are_pressed_decides_chance_and_nothing_else_does(power_on, mgba):
    def chance(frames):
        machine = power_on(mgba)
        machine.advance(frames, 0)
        machine.advance(4, pad_of("start"))
        machine.advance(30, 0)
        return int(machine.memory.view(errand.MEMORY.fields["rng"].address, 4).view("<u4")[0])

    assert chance(40) == chance(40)
    assert chance(40) != chance(41)


def test_a_hop_is_a_step_and_what_it_earns_is_lost_by_going_back(make):
    env = make()
    nearer, further, nearer_again = (press(env, name)[1] for name in ("down", "up", "down"))
    assert nearer == nearer_again == pytest.approx(0.1 - 0.005)
    assert further == pytest.approx(-0.1 - 0.005)
    assert (env.ram["x"], env.ram["y"], env.ram["hops"]) == (2, 3, 3)


def test_save_blocks_move_with_the_map_and_are_still_found(make):
    env = make("errand")
    start, _ = block(env.machine)
    press(env, *TO_THE_MEADOW, "noop", "noop")
    moved, _ = block(env.machine)
    assert moved != start
    assert (env.ram["map"], env.ram["x"], env.ram["y"]) == (1, 1, 7)
    assert env.ram["hops"] == len(TO_THE_MEADOW)


def test_the_map_buffer_has_its_size_before_its_cells(make):
    env = make()
    assert (env.ram["width"], env.ram["height"]) == (15, 9)
    cells = env.machine.memory.view(errand.MAP + 8, 2 * 15 * 9).view("<u2").reshape(9, 15)
    walls = cells >> 12 == 1
    assert walls[0].all()
    assert walls[-1].all()
    assert (cells[walls] & 0x0C00).all()
    assert not walls[env.ram["y"], env.ram["x"]]


def test_a_fox_sends_the_rook_back_and_costs_daylight(make):
    env = make("errand")
    press(env, *TO_THE_MEADOW, "noop", "noop", "right", "right", "right", "right", "up", "up")
    for _ in range(60):
        before = env.ram["daylight"]
        press(env, "noop")
        if env.ram["caught"]:
            break
    assert before - env.ram["daylight"] >= 600
    press(env, "noop", "noop", "noop")
    assert (env.ram["x"], env.ram["y"]) == (1, 7)


def test_a_caw_holds_everybody_for_a_while(make):
    env = make("errand")
    press(env, *TO_THE_MEADOW, "noop", "noop", "a")
    held = env.ram["movers"].copy()
    for _ in range(6):
        press(env, "noop")
        assert (env.ram["movers"] == held).all()
    press(env, *["noop"] * 6)
    assert (env.ram["movers"] != held).any()


def test_night_ends_the_episode_without_success(make):
    env, steps, terminated = make("errand", max_steps=100_000), 0, False
    while not terminated:
        _, _, terminated, _, info = press(env, "noop")
        steps += 1
    assert not info["success"]
    assert env.ram["mode"] == errand.MODES.index("night")
    assert steps == pytest.approx(1_500, abs=5)


def test_a_rest_is_kept_in_the_cartridge_through_a_power_cycle(power_on, old_mgba):
    # This core hands out the cartridge on its own, as a frontend keeps it in a file while the console is off.
    def place_after_start(machine):
        machine.advance(4, pad_of("start"))
        machine.advance(30, 0)
        return tuple(np.frombuffer(block(machine)[1][:4], "<i2").tolist())

    def at_title():
        machine = power_on(old_mgba, frame_skip=12)
        machine.advance(30, 0)
        return machine

    first = at_title()
    assert place_after_start(first) == (2, 2)
    go(first, "up", "left")  # to the perch
    saved, cartridge = block(first)[1], first.save().cartridge
    go(first, "down", "down")

    second = at_title()
    second.load(dataclasses.replace(second.save(), cartridge=cartridge))
    assert place_after_start(second) == (1, 1)
    assert block(second)[1][0x1C:0x24] == saved[0x1C:0x24]  # hops, caught, caws, rests

    damaged = at_title()
    damaged.load(dataclasses.replace(damaged.save(), cartridge=cartridge[:8] + b"?" + cartridge[9:]))
    assert place_after_start(damaged) == (2, 2)


@pytest.mark.parametrize("settings", [{"goal": "moon"}, {"observe": "smell"}])
def test_what_is_not_known_is_refused_with_what_is(settings):
    with pytest.raises(ConfigError, match=r"allowed: (meadow, key|screen, ram)"):
        errand.make(**settings)


@pytest.mark.parametrize("max_steps", [0, False, -1])
def test_an_episode_without_steps_is_refused(max_steps):
    with pytest.raises(ConfigError, match=f"max_steps={max_steps} must be a whole number above zero"):
        errand.make(max_steps=max_steps)


def test_a_screen_may_be_given_by_the_names_of_its_fields(make):
    assert make(screen={"stack": 4}).observation_space.shape == (4, 84, 84)
    with pytest.raises(ConfigError, match="screen: no key 'stak'; did you mean 'stack'"):
        make(screen={"stak": 4})


def test_the_state_of_another_goal_is_refused(make):
    state = make("key", max_steps=50).save_state()
    with pytest.raises(CheckpointError, match=r"with ends=\['key', .*this one has \['ring'"):
        make("ring", max_steps=50).load_state(state)
