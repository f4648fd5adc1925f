"""What play draws and understands, without a terminal: pictures, keys, and files that are never overwritten."""

import re

import numpy as np
import pytest

from ninelives.console.keys import BUTTON_OF, COMMAND_OF, key_names
from ninelives.console.playing import write_numbered
from ninelives.sims.emulators.emulator import BUTTONS
from ninelives.view.half_blocks import UPPER_HALF, HalfBlockScreen, fit

TOKEN = re.compile(rf"\x1b\[(?P<place>\d+;\d+)H|\x1b\[(?P<color>[\d;]+)m|(?P<cell>{UPPER_HALF})")


class Screen:
    """A terminal that understands just enough: where the cursor goes, two colours, and the half block."""

    def __init__(self, rows, columns):
        self.pixels = np.zeros((2 * rows, columns, 3), np.uint8)
        self.cells_written = 0

    def write(self, text):
        row = column = 0
        colors = [0] * 6
        for token in TOKEN.finditer(text):
            if token["place"]:
                row, column = (int(number) - 1 for number in token["place"].split(";"))
            elif token["color"] not in (None, "0"):
                numbers = [int(number) for number in token["color"].split(";")]
                assert (numbers[:2], numbers[5:7]) == ([38, 2], [48, 2])
                colors = numbers[2:5] + numbers[7:10]
            elif token["cell"]:
                self.pixels[2 * row, column], self.pixels[2 * row + 1, column] = colors[:3], colors[3:]
                column += 1
                self.cells_written += 1


@pytest.fixture
def picture():
    return np.random.default_rng(0).integers(0, 256, (16, 12, 3), np.uint8)


def test_a_terminal_shows_the_picture_to_the_pixel(picture):
    screen = Screen(8, 12)
    screen.write(HalfBlockScreen(true_color=True).draw(picture))
    assert np.array_equal(screen.pixels, picture)


def test_only_what_changed_is_written(picture):
    canvas, screen = HalfBlockScreen(true_color=True), Screen(8, 12)
    screen.write(canvas.draw(picture))
    assert canvas.draw(picture) == ""
    after = picture.copy()
    after[5, 7] += 1
    after[6, 0] += 1
    screen.cells_written = 0
    screen.write(canvas.draw(after))
    assert screen.cells_written == 2
    assert np.array_equal(screen.pixels, after)


def test_everything_is_written_again_after_the_terminal_was_cleared(picture):
    canvas, screen = HalfBlockScreen(true_color=True), Screen(8, 12)
    canvas.draw(picture)
    canvas.forget()
    screen.write(canvas.draw(picture))
    assert np.array_equal(screen.pixels, picture)


def test_a_terminal_of_256_colours_gets_the_nearest():
    image = np.zeros((2, 1, 3), np.uint8)
    image[0], image[1] = (255, 0, 0), (0, 0, 255)
    assert "\x1b[38;5;196;48;5;21m" in HalfBlockScreen(true_color=False).draw(image)


@pytest.mark.parametrize(
    ("shape", "room", "fitted"),
    [
        ((160, 240), (240, 80), (160, 240)),
        ((160, 240), (500, 200), (320, 480)),
        ((160, 240), (120, 100), (80, 120)),
        ((160, 240), (1000, 20), (40, 60)),
        ((240, 256), (80, 23), (46, 49)),
        ((160, 240), (1, 1), (2, 1)),
    ],
)
def test_a_picture_fits_its_room_and_keeps_its_proportions(shape, room, fitted):
    assert fit(np.zeros((*shape, 3), np.uint8), *room).shape[:2] == fitted


def test_a_smaller_picture_is_the_mean_of_what_it_covers():
    image = np.zeros((4, 4, 3), np.uint8)
    image[:2, :2] = [[[0] * 3, [100] * 3], [[100] * 3, [200] * 3]]
    assert fit(image, 2, 1)[0, 0].tolist() == [100, 100, 100]


def test_keys_are_understood_however_they_arrive():
    assert key_names(b"\x1b[A\x1bOB\x1b[1;5Cxq\r ")[0] == ["up", "down", "right", "x", "q", "enter", "space"]
    assert key_names(b"x\x1b[") == (["x"], b"\x1b[")
    assert key_names(b"\x1b") == ([], b"\x1b")
    assert key_names(b"\x1b[3~?") == (["?"], b"")
    assert key_names("é".encode())[1] == b""


def test_every_button_has_a_key_and_no_key_has_two_meanings():
    assert set(BUTTON_OF.values()) == set(BUTTONS)
    assert not set(BUTTON_OF) & set(COMMAND_OF)


def test_files_are_numbered_and_never_overwritten(tmp_path):
    path = tmp_path / "start.rook"
    names = [write_numbered(path, bytes([n])).name for n in range(3)]
    assert names == ["start.rook", "start-2.rook", "start-3.rook"]
    assert [(tmp_path / name).read_bytes() for name in names] == [b"\0", b"\1", b"\2"]
