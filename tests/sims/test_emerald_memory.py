"""Pokemon Emerald's memory read without the game: on images that are laid out as the public decompilation says."""

import numpy as np
import pytest
from emerald_image import Image, member

from ninelives.sims.emulators.ram import RamReader
from ninelives.sims.games.emerald_memory import MEMORY, PARTS, LastGood
from ninelives.sims.games.emerald_party import read_party


@pytest.fixture
def game():
    return Image().new_game()


class Watcher:
    """Reads an image step by step as the environment does: the map first, then the term that keeps what was good."""

    def __init__(self, image):
        self._reader, self.keeper = RamReader(MEMORY, image), LastGood()
        self._before = self._reader.read()

    def read(self):
        after = self._reader.read()
        assert self.keeper(self._before, after) == 0
        self._before = after
        return after


def now_in(image):
    return Watcher(image).read()


def party_of(*members):
    return read_party(len(members), b"".join(members).ljust(600, b"\0"))


@pytest.mark.parametrize("order", range(24))
def test_every_shuffle_of_the_secret_blocks_is_undone(order):
    party = party_of(member(277, 5, 18, 20, personality=24_000 + order, experience=135, egg=order % 2 == 1))
    assert (party.species[0], party.experience[0], party.egg[0]) == (277, 135, order % 2)
    assert (party.level[0], party.hp[0], party.max_hp[0]) == (5, 18, 20)


def test_a_party_is_read_whole_and_the_places_behind_it_are_zero():
    members = [member(100 + n, 10 + n, 30 + n, 40 + n, personality=0x9E3779B9 * n % 2**32) for n in range(1, 4)]
    party = party_of(*members)
    assert party.count == 3
    assert party.species.tolist() == [101, 102, 103, 0, 0, 0]
    assert party.level.tolist() == [11, 12, 13, 0, 0, 0]
    assert party.max_hp.tolist() == [41, 42, 43, 0, 0, 0]


@pytest.mark.parametrize(
    "broken",
    [
        member(277, 0, 18, 20),
        member(277, 101, 18, 20),
        member(277, 5, 21, 20),
        member(277, 5, 0, 0),
        member(277, 5, 18, 20)[:40] + b"\xff" + member(277, 5, 18, 20)[41:],
    ],
    ids=["no level", "level above 100", "more points than most", "no most points", "checksum"],
)
def test_a_member_that_cannot_be_is_no_party(broken):
    assert party_of(broken) is None


def test_more_than_six_members_are_no_party():
    assert read_party(7, bytes(600)) is None


@pytest.mark.parametrize("moved", [0, 4, 60, 124])
def test_the_save_blocks_are_found_wherever_the_game_moved_them(moved):
    game = Image().new_game(moved=moved, x=11, y=3, group=26, number=59, money=123_456)
    for number in (0x867, 0x869, 0x86E):
        game.flag(number)
    now = now_in(game)
    assert (now["x"], now["y"], now["map_group"], now["map_number"]) == (11, 3, 26, 59)
    assert now["money"] == 123_456
    assert now["badges"] == 0b1000_0101
    assert now["settled"] == 1


def test_events_are_counted_without_trainers_and_without_flags_that_pass(game):
    for number in (0x01, 0x1F, 0x920, 0x95F):  # temporary and daily
        game.flag(number)
    for number in (0x500, 0x501, 0x85F):  # trainers
        game.flag(number)
    for number in (0x20, 0x4FF, 0x864):  # events, one of them the end of the game
        game.flag(number)
    now = now_in(game)
    assert (now["events"], now["trainers"], now["champion"]) == (3, 3, 1)


def test_walls_are_seen_around_the_player(game):
    game.map(20, 18, walls=[(6, 6), (5, 4)])
    game.stand(5, 6)
    now = now_in(game)
    assert (now["map_width"], now["map_height"]) == (20, 18)
    walls = now["walls"]
    assert walls.shape == (11, 15)
    assert walls[5, 7] == 0, "the player stands in the middle"
    assert walls[5, 8] == 1, "a wall to the right"
    assert walls[3, 7] == 1, "a wall two above"
    assert walls[:, :2].all(), "the border of the map is closed"
    assert walls[2:, 2:].sum() == 2


def test_the_corners_of_a_map_can_be_stood_on(game):
    for place in ((0, 0), (19, 0), (0, 17), (19, 17)):
        game.stand(*place)
        assert now_in(game)["walls"].shape == (11, 15)


def test_before_a_game_is_loaded_nothing_is_known_and_nothing_breaks():
    now = now_in(Image())
    assert now["settled"] == 0
    assert (now["party_count"], now["money"], now["x"], now["map_width"]) == (0, 0, 0, 0)
    assert now["known"] == 0
    assert not now["walls"].any()
    assert not now["party_level"].any()


TRANSITIONS = {
    "the blocks are being moved": lambda game: game.write(0x030022C0 + 0x0C, "<I", 0),
    "pointers moved unequally": lambda game: game.write(0x03005D8C, "<I", 0x02025A00 + 64),
    "no save block": lambda game: game.write(0x03005D8C, "<II", 0, 0),
    "pointer outside memory": lambda game: game.write(0x03005D8C, "<II", 0xFFFFFFFF, 0xFFFFFFFF),
    "the key is new and the money not": lambda game: game.write(game.block2 + 0xAC, "<I", 0x12345678),
    "a map without a size": lambda game: game.write(0x03005DC0, "<iiI", 0, 0, 0x02032318),
    "a map too big": lambda game: game.write(0x03005DC0, "<iiI", 200, 200, 0x02032318),
    "a map of negative size": lambda game: game.write(0x03005DC0, "<iiI", -35, -34, 0x02032318),
    "a map in no memory": lambda game: game.write(0x03005DC0, "<iiI", 35, 32, 0x0203FFF0),
    "the map is being filled": lambda game: game.map_is_being_filled(),
    "a place on no map": lambda game: game.stand(500, 500),
    "a party half written": lambda game: game.write(0x020244EC + 40, "<I", 0xDEADBEEF),
}


@pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS.keys())
def test_a_transition_is_no_corruption_the_last_good_values_stay(game, transition):
    game.party(member(277, 5, 18, 20))
    game.map(20, 18, walls=[(6, 6)])
    reader = Watcher(game)
    good = reader.read()
    assert good["settled"] == 1
    transition(game)
    now = reader.read()
    assert now["settled"] == 0
    kept = {"money": 3000, "map_width": 20, "map_height": 18, "party_count": 1, "map_number": 9}
    assert {name: now[name] for name in kept} == kept
    assert np.array_equal(now["walls"], good["walls"])
    assert np.array_equal(now["party_species"], good["party_species"])


def test_a_transition_ends_and_the_new_place_is_read(game):
    reader = Watcher(game)
    reader.read()
    game.map_is_being_filled()
    assert reader.read()["settled"] == 0
    game.new_game(moved=32, x=2, y=2, number=10)
    game.map(11, 9)
    now = reader.read()
    assert (now["settled"], now["x"], now["map_number"], now["map_width"]) == (1, 2, 10, 11)


def test_what_is_remembered_can_be_saved_and_loaded(game):
    game.party(member(277, 5, 18, 20))
    first = Watcher(game)
    first.read()
    game.write(0x03005D8C, "<II", 0, 0)
    second = Watcher(game)
    second.keeper.load(first.keeper.save())
    one, other = first.read(), second.read()
    assert (one["money"], one["known"]) == (3000, 1)
    assert all(np.array_equal(one[name], other[name]) for names in PARTS.values() for name in names)
    second.keeper.reset()
    assert second.read()["money"] == 0


@pytest.mark.parametrize("trainer", [False, True])
def test_a_battle_and_its_kind_are_seen(game, trainer):
    assert now_in(game)["in_battle"] == 0
    game.battle(trainer=trainer)
    now = now_in(game)
    assert (now["in_battle"], now["trainer_battle"]) == (1, int(trainer))
