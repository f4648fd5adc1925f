"""Super Mario Bros. as an environment, on memory that tests write and on a ROM of our own laid out like the game's."""

import json
import warnings
from itertools import pairwise

import numpy as np
import pytest
from stand_in_roms import mario_stand_in

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.ram import RamReader
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.emulators.state_files import write_snapshot
from ninelives.sims.games import mario

ACTIONS = ("noop", "right", "left", "down")
FRAMES = 4
SPEED = 2 * FRAMES


class Ram:
    """Two kilobytes of a NES that tests write; a ``Memory`` like an emulator's."""

    def __init__(self):
        self.cells = np.zeros(0x800, np.uint8)
        self.reader = RamReader(mario.MEMORY, self)

    def view(self, address, size):
        return self.cells[address : address + size]

    def regions(self):
        return (("ram", 0, 0x800),)

    def now(self, **at):
        for name, value in at.items():
            address = int(name.removeprefix("at_"), 16)
            self.cells[address] = value
        return self.reader.read()


@pytest.fixture(scope="module")
def rom(tmp_path_factory):
    path = tmp_path_factory.mktemp("roms") / "stand_in.nes"
    path.write_bytes(mario_stand_in())
    return path


def made(rom, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return mario.make(rom, actions=ACTIONS, **settings)


@pytest.fixture
def env(rom):
    env = made(rom, info=(*mario.INFO, *(f"reward/{name}" for name in mario.WEIGHTS)))
    yield env
    env.close()


def act(env, name):
    return env.step(ACTIONS.index(name))


def test_where_the_player_is_and_what_the_clock_says():
    now = Ram().now(at_6d=3, at_86=0x21, at_ce=176, at_75f=1, at_75c=2, at_75a=2, at_7f8=3, at_7f9=9, at_7fa=7)
    assert (now["x"], now["y"], now["world"], now["stage"]) == (0x321, 176, 2, 3)
    assert (now["lives"], now["time"], now["over"]) == (2, 397, 0)


def test_the_score_is_read_as_it_is_shown():
    ram = Ram()
    ram.cells[0x7DD:0x7E3] = [0, 1, 2, 3, 4, 5]
    assert ram.now()["score"] == 12345


def test_the_way_goes_on_from_stage_to_stage():
    ram = Ram()
    end_of_first = ram.now(at_6d=12, at_86=200)["way"]
    assert ram.now(at_6d=0, at_86=40, at_75c=1)["way"] > end_of_first


def test_every_area_of_every_stage_is_a_ground_of_its_own():
    here = Ram().now()["ground"]
    others = [Ram().now(**{cell: 1})["ground"] for cell in ("at_74e", "at_74f", "at_75c", "at_75f")]
    assert len({here, *others}) == 5
    assert Ram().now(at_86=99, at_6d=3)["ground"] == here


@pytest.mark.parametrize(
    ("cells", "flag", "dying", "playing"),
    [
        ({"at_770": 1, "at_e": 8}, 0, 0, 1),
        ({"at_770": 1, "at_e": 4, "at_1d": 3}, 1, 0, 0),
        ({"at_770": 1, "at_e": 5}, 1, 0, 0),
        ({"at_770": 2, "at_e": 8}, 1, 0, 0),
        ({"at_770": 1, "at_e": 0x0B}, 0, 1, 0),
        ({"at_770": 1, "at_e": 6}, 0, 1, 0),
        ({"at_770": 1, "at_e": 8, "at_b5": 2}, 0, 1, 1),
        ({"at_770": 1, "at_e": 8, "at_b5": 2, "at_743": 1}, 0, 0, 1),
        ({"at_770": 1, "at_e": 0x0B, "at_b5": 2, "at_743": 1}, 0, 1, 0),
        ({"at_770": 1, "at_e": 7}, 0, 0, 0),
        ({"at_770": 0, "at_e": 8}, 0, 0, 0),
        ({"at_770": 1, "at_e": 8, "at_7f8": 0}, 0, 0, 0),
    ],
    ids=[
        "playing",
        "flagpole",
        "walks off",
        "castle",
        "hit",
        "dead",
        "hole",
        "out of a coin heaven",
        "hit in a coin heaven",
        "enters",
        "title demo",
        "no clock yet",
    ],
)
def test_what_happens_to_the_player_is_known(cells, flag, dying, playing):
    now = Ram().now(at_7f8=4, **cells) if "at_7f8" not in cells else Ram().now(**cells)
    assert (now["flag"], now["dying"], now["playing"]) == (flag, dying, playing)


def test_the_last_life_lost_ends_the_game():
    assert Ram().now(at_75a=255)["over"] == 1


def test_only_the_last_castle_wins_the_game():
    ram = Ram()
    assert [ram.now(at_770=mode, at_75f=world)["won"] for mode, world in ((2, 6), (1, 7), (2, 7))] == [0, 0, 1]


def test_the_start_screen_is_skipped(env):
    _, info = env.reset(seed=0)
    assert (info["x"], info["time"], info["world"], info["stage"], info["lives"]) == (40, 400, 1, 1, 2)
    assert act(env, "right")[-1]["x"] == 40 + SPEED


def test_getting_further_is_rewarded_once(env):
    for _ in range(2):
        env.reset(seed=0)
        assert act(env, "right")[1] == pytest.approx(0.1 * SPEED)
        assert [act(env, name)[1] for name in ("left", "noop", "right")] == [0.0, 0.0, 0.0]
        assert act(env, "right")[1] == pytest.approx(0.1 * SPEED)


def test_the_flag_is_rewarded_and_ends_the_episode(env):
    env.reset(seed=0)
    rows = [act(env, "right") for _ in range(60)]
    ends = [row[2] for row in rows].index(True)
    assert rows[ends][-1]["reward/flag"] == 15.0
    assert rows[ends][-1]["flag"] == 1
    assert sum(row[-1]["reward/flag"] for row in rows) == 15.0


def test_a_death_costs_and_ends_the_episode(env):
    env.reset(seed=0)
    _, reward, terminated, truncated, info = act(env, "down")
    assert (terminated, truncated) == (True, False)
    assert info["reward/death"] == -5.0
    assert reward == pytest.approx(-5.0)


def test_with_more_lives_and_stages_a_flag_does_not_end_it(rom):
    env = made(rom, one_stage=False, one_life=False)
    env.reset(seed=0)
    assert not any(act(env, "right")[2] for _ in range(60))
    env.close()


def test_standing_still_costs_after_a_while_and_is_cut_in_the_end(rom):
    env = made(rom, patience=60, info=("reward/stagnation",))
    env.reset(seed=0)
    rows = [act(env, "noop") for _ in range(60)]
    costs = [row[-1]["reward/stagnation"] for row in rows]
    assert costs[:49] == [0.0] * 49
    assert costs[50:] == [-0.1] * 10
    assert [row[3] for row in rows].index(True) == 59
    env.close()


# ---- lives, stages, loops -------------------------------------------------------------------------------------------


def moment(x=0, *, playing=1, stage=0, area=0, lives=2, time=300):
    return {"x": x, "playing": playing, "ground": stage << 16 | area, "lives": lives, "time": time}


def told(term, moments):
    return [float(term(before, after)) for before, after in pairwise(moments)]


def walk(first, last, step=16, **more):
    return [moment(x, **more) for x in range(first, last + 1, step)]


DEATH = [moment(x, playing=0) for x in (3000, 3008, 3012)] + [moment(40, playing=0, lives=1)] * 60
"""Thrown off, a black screen, and put back."""


def test_a_jump_to_another_area_is_no_way():
    way = mario.NewDistance(furthest=16)
    assert told(way, [moment(2000), moment(40), moment(52), moment(2000), moment(2012)]) == [0, 0, 0, 12]
    pipe = [moment(900), moment(900, playing=0), moment(40, playing=0, area=2), moment(40, area=2), moment(52, area=2)]
    assert told(mario.NewDistance(16), [*pipe, moment(2600), moment(2610)]) == [0, 0, 0, 12, 0, 10]


def test_after_a_death_the_same_ground_does_not_pay_again():
    lives = [*walk(2984, 3000), *DEATH, *walk(1280, 3040, lives=1)]
    assert sum(told(mario.NewDistance(16), lives)) == 3040 - 2984


def test_a_castle_that_leads_back_does_not_pay_again():
    rounds = [*walk(1000, 2024), *walk(1000, 2024), *walk(1000, 2056)]
    assert sum(told(mario.NewDistance(16), rounds)) == 2056 - 1000


def test_every_stage_pays_from_its_begin():
    loading = [moment(3200, playing=0), moment(3200, playing=0, stage=1), moment(40, playing=0, stage=1)]
    stages = [*walk(3184, 3200), *loading, *walk(40, 200, stage=1)]
    assert sum(told(mario.NewDistance(16), stages)) == 16 + 160


def test_only_steps_in_which_mario_can_be_moved_are_waited():
    standing = [moment(100)] * 40
    asleep = [moment(100, playing=0)] * 500
    assert sum(told(mario.Standstill(50), [moment(100), *standing, *asleep])) == 0
    assert told(mario.Standstill(50), [moment(100), *standing, *asleep, *standing])[-32:] == [0.0] + [1.0] * 31


def test_after_a_death_it_is_enough_to_get_further_than_where_one_was_put_back():
    stand = mario.Standstill(50)
    lives = [moment(3000)] * 45 + [*DEATH, *walk(1280, 2992, lives=1)]
    assert not any(told(stand, lives))
    assert told(stand, [moment(2992, lives=1)] * 51)[-2:] == [0.0, 1.0]


def test_a_new_stage_is_a_new_beginning():
    loading = [moment(3200, playing=0), moment(40, playing=0, stage=1)]
    stages = [moment(3200)] * 45 + loading + [moment(40, stage=1)] * 45
    assert not any(told(mario.Standstill(50), stages))


@pytest.mark.parametrize("make", [lambda: mario.NewDistance(16), lambda: mario.Standstill(50)])
def test_what_was_reached_is_part_of_a_snapshot(make):
    term, other = make(), make()
    told(term, [*walk(2984, 3000), moment(3000), *DEATH, *walk(1280, 1400, lives=1)])
    told(other, [moment(9999)] * 40)
    other.load(json.loads(json.dumps(term.save())))
    ahead = [moment(1400, lives=1)] * 60 + walk(1400, 3080, lives=1)
    assert told(other, ahead) == told(term, ahead)


def test_a_clock_that_is_set_again_is_worth_nothing():
    assert told(mario.TimeLost(), [moment(time=time) for time in (300, 299, 400, 399)]) == [-1, 0, -1]


def test_the_bonus_that_is_counted_behind_the_flag_costs_nothing():
    bonus = [moment(playing=0, time=time) for time in range(350, 0, -4)]
    assert told(mario.TimeLost(), [moment(time=350), *bonus, moment(playing=0, time=0)]) == [0] * (len(bonus) + 1)


# ---- starting -------------------------------------------------------------------------------------------------------


def test_a_start_screen_that_never_ends_is_named_within_a_bound(tmp_path):
    path = tmp_path / "stuck.nes"
    path.write_bytes(mario_stand_in(title_ends=False))
    with pytest.raises(EmulatorError, match=r"start screen has not ended after 18\d\d frames .*mode 0.*state=FILE"):
        made(path)


@pytest.fixture
def states(rom, tmp_path):
    """Two files: the title, and a moment five steps to the right of the begin."""
    machine = open_emulator(rom, system="nes")
    machine.advance(20, 0)
    write_snapshot(tmp_path / "title.rook", Snapshot(machine.identity, machine.save()))
    machine.close()
    env = made(rom)
    env.reset(seed=0)
    for _ in range(5):
        act(env, "right")
    write_snapshot(tmp_path / "later.rook", Snapshot(env.machine.identity, env.machine.save()))
    env.close()
    return tmp_path / "title.rook", tmp_path / "later.rook"


@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0)], ids=["alone", "first", "second"])
def test_a_state_in_which_nobody_plays_is_refused_by_name_wherever_it_stands(rom, states, order):
    with pytest.raises(ConfigError, match=r"title\.rook Mario cannot be moved"):
        made(rom, state=[states[number] for number in order])


def test_a_state_is_where_episodes_begin(rom, states):
    env = made(rom, state=states[1])
    assert env.ram["x"] == 40 + 5 * SPEED
    assert env.reset(seed=0)[1]["x"] == 40 + 5 * SPEED
    env.close()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"patience": 0}, "patience=0 must be a whole number of steps above zero"),
        ({"weights": {"dx": "2"}}, "weights: dx='2' must be a number"),
        ({"screen": {"stak": 4}}, "screen: no key 'stak'"),
        *[({key: ()}, f"{key}=(): ninelives/Mario-v0 sets this itself") for key in mario.OWN],
    ],
)
def test_a_mistake_is_refused_with_the_name_of_the_setting(rom, settings, told):
    with pytest.raises(ConfigError) as refused:
        made(rom, **settings)
    assert told in str(refused.value)


def test_an_unknown_rom_is_played_with_a_warning_that_names_both(rom):
    with pytest.warns(UserWarning, match="facee9c577a5262dbe33ac4930bb0b58c8c037f7.*unknown ROM"):
        mario.make(rom).close()
    with pytest.raises(ConfigError, match="any_revision=True"):
        mario.make(rom, any_revision=False)


def test_the_header_of_a_rom_does_not_matter(rom):
    from ninelives.sims.games.revisions import fingerprint

    data = bytearray(rom.read_bytes())
    before = fingerprint(bytes(data), "nes")
    data[8:16] = b"DiskDude"
    assert fingerprint(bytes(data), "nes") == before


def test_weights_are_chosen_by_name():
    assert [term.name for term in mario.rewards({"time": 0}, 4)] == ["dx", "stagnation", "flag", "death"]
    with pytest.raises(ConfigError, match="no 'speed'"):
        mario.rewards({"speed": 1}, 4)
