"""A run's curve as a PNG: whatever the numbers are, a picture comes out, and the curve is where it belongs."""

import cv2
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ninelives.view.curve import chart
from ninelives.view.plot import CURVE, FONT, HEIGHT, MARK, WIDTH, curve_image, png, ticks, write

numbers = st.floats(-1e6, 1e6)
points = st.lists(st.tuples(st.integers(0, 10**9).map(float), numbers), max_size=30).map(sorted)


def has(image, color):
    return (image == np.array(color, np.uint8)).all(axis=2)


@example(episodes=[], mean=[(0.0, 5e-324)], marks=[])
@given(episodes=points, mean=points, marks=st.lists(st.integers(0, 10**9).map(float), max_size=2))
def test_any_numbers_make_a_picture(episodes, mean, marks):
    image = curve_image(episodes, mean, "a title", [(mark, "killed") for mark in marks])
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert has(image, MARK).any() == bool(marks)


@given(curve=points)
def test_any_numbers_make_a_chart(curve):
    lines = chart(curve, width=20, height=4)
    assert len(lines) == (6 if curve else 1)


def test_the_picture_is_a_png_that_others_read_pixel_for_pixel():
    image = curve_image([(0.0, 1.0), (50.0, 3.0)], [(0.0, 1.0), (100.0, 5.0)], "rising")
    seen = cv2.imdecode(np.frombuffer(png(image), np.uint8), cv2.IMREAD_COLOR)
    assert (seen[..., ::-1] == image).all()


def test_a_rising_curve_rises():
    mask = has(curve_image([], [(float(x), float(x)) for x in range(0, 1000, 10)], "rising"), CURVE)
    columns = np.flatnonzero(mask.any(axis=0))
    heights = [np.flatnonzero(mask[:, column]).mean() for column in columns[2:]]  # the axis lies over the first ones
    assert heights[0] - heights[-1] > HEIGHT / 2
    assert heights == sorted(heights, reverse=True)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 500), (-500, 0), (0, 1e6), (-0.1, 0.2), (0, 0)])
def test_marks_of_an_axis_are_few_and_round(low, high):
    marks = ticks(low, high)
    assert 1 <= len(marks) <= 7
    assert all(low - 1e-9 <= mark <= high + 1e-9 for mark in marks)


def test_letters_are_drawn_and_unknown_ones_left_blank():
    image = np.full((20, 60, 3), 255, np.uint8)
    write(image, 2, 2, "?")
    assert (image == 255).all()
    write(image, 2, 2, "A0")
    assert not (image == 255).all()
    assert all(len(rows) == 5 for rows in FONT.values())
