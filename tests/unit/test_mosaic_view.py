"""All slots in one picture: any number of them, any kind of image, on any terminal."""

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ninelives.view.half_blocks import half_block_lines
from ninelives.view.mosaic import Mosaic, layout, mosaic, picture_of


def image(*shape, value=7):
    return np.full(shape, value, np.uint8)


@pytest.mark.parametrize(
    ("observation", "shape"),
    [
        (image(84, 96), (84, 96, 3)),
        (image(84, 96, 1), (84, 96, 3)),
        (image(84, 96, 3), (84, 96, 3)),
        (image(3, 84, 96), (84, 96, 3)),
        (image(4, 84, 96), (84, 96, 3)),
        (image(84, 96, 4), (84, 96, 3)),
        (image(84, 96, 12), (84, 96, 3)),
        ({"ram": np.zeros(4), "screen": image(84, 96)}, (84, 96, 3)),
        ((np.zeros(4), image(84, 96)), (84, 96, 3)),
    ],
)
def test_a_picture_is_found_in_whatever_holds_one(observation, shape):
    assert picture_of(observation).shape == shape


@pytest.mark.parametrize("observation", [np.zeros(4, np.float32), image(4), image(2, 3), {"a": 1.0}, 3])
def test_where_there_is_no_picture_none_is_found(observation):
    assert picture_of(observation) is None


def test_of_stacked_frames_the_newest_is_shown():
    frames = np.stack([image(10, 10, value=v) for v in (1, 2, 3, 4)])
    assert picture_of(frames).max() == picture_of(frames).min() == 4


@given(count=st.integers(1, 300), columns=st.integers(4, 200), lines=st.integers(2, 60))
def test_any_number_of_slots_fits_any_terminal(count, columns, lines):
    across, down = layout(count, columns, lines, 1.0)
    assert across * down >= count
    picture = mosaic([image(16, 16, 3)] * count, columns, lines)
    assert picture.shape[0] <= 2 * lines
    assert picture.shape[1] <= columns
    assert picture.shape[0] % 2 == 0


def test_every_slot_has_its_own_tile():
    picture = mosaic([image(8, 8, 3, value=value) for value in (50, 100, 150, 200)], 21, 11)
    assert {50, 100, 150, 200} <= set(np.unique(picture).tolist())


def test_a_slot_without_a_picture_stays_dark_and_the_others_are_shown():
    picture = mosaic([image(8, 8, 3, value=200), None], 21, 11)
    assert set(np.unique(picture).tolist()) == {0, 40, 200}


def test_two_pixels_become_one_cell():
    picture = np.array([[[255, 0, 0]], [[0, 0, 255]]], np.uint8)
    assert half_block_lines(picture, true_color=True) == ["\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m"]
    assert half_block_lines(picture, true_color=False) == ["\x1b[38;5;196;48;5;21m▀\x1b[0m"]


def test_rich_writes_as_many_lines_as_it_counts():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=40, height=24)
    drawn = Mosaic([image(16, 16, 3)] * 6, lines_below=14)
    lines = console.render_lines(drawn, pad=False)
    console.print(drawn)
    assert len(lines) == stream.getvalue().count("\n") <= 10
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert {len(line) for line in plain.splitlines()} <= set(range(1, 41))
