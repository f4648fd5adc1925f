"""However a game that is played ends, the terminal is as it was and nothing that was made is lost."""

from rookery.cli.gameslot import GameSlot, find_game
from rookery.cli.playing import Player
from rookery.cli.playing import play as play_on

LANTERN = "rookery/Lantern-v0"


class Late:
    """A clock on a machine that is slower than any game: whenever it is looked at, the next picture is overdue."""

    def __init__(self):
        self._now = 0

    def now_ns(self):
        self._now += 60_000_000_000
        return self._now


class Impatient:
    """A face at which somebody quits after the third picture."""

    pictures_per_s = 20

    def __init__(self):
        self.shown = 0

    def commands(self, wait_s):
        return iter(["quit"] if self.shown >= 3 else [])

    def held(self):
        return ()

    def show(self, image, line):
        self.shown += 1
        assert self.shown < 20, "nobody looks at the keyboard"


def test_keys_are_read_also_on_a_machine_that_is_slower_than_the_game(tmp_path):
    face = Impatient()
    with GameSlot(find_game(LANTERN, None)) as slot:
        play_on(Player(slot, tmp_path / "night.rook"), face, Late(), slot.frames_per_s)
    assert face.shown == 3, "whoever quits waits for nothing more"
