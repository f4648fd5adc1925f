"""A run's curve as text and as a PNG: any numbers make a picture, and the curve is where it belongs."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from ninelives.view.curve import chart
from ninelives.view.plot import write_curve

numbers = st.floats(-1e6, 1e6)
points = st.lists(st.tuples(st.integers(0, 10**9).map(float), numbers), max_size=30).map(sorted)

RISING = [(float(x), x / 10) for x in range(0, 1000, 10)]


@pytest.fixture(scope="module", autouse=True)
def _fonts_are_open(tmp_path_factory):
    """matplotlib keeps the fonts it has read open: have it read them before descriptors are counted."""
    write_curve(tmp_path_factory.mktemp("first") / "curve.png", RISING, RISING, "a title", [(1.0, "mark")])


@pytest.fixture
def drawn(tmp_path):
    """Write a curve and read it back as others would: an array of (height, width, RGB)."""

    def draw(*args, **kwargs):
        write_curve(tmp_path / "curve.png", *args, **kwargs)
        picture = cv2.imread(str(tmp_path / "curve.png"), cv2.IMREAD_COLOR)
        assert picture is not None, "not a readable PNG"
        return picture[..., ::-1].astype(int)

    return draw


@pytest.fixture
def words(monkeypatch):
    """All text of the figures that are drawn."""
    found = []
    made = Figure.draw

    def draw(figure, renderer):
        made(figure, renderer)
        found.extend(text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text")))

    monkeypatch.setattr(Figure, "draw", draw)
    return found


def blue(picture):
    """Pixels of the mean's line."""
    return (picture[..., 2] > 150) & (picture[..., 0] < 60)


def red(picture):
    return (picture[..., 0] > 190) & (picture[..., 1:].max(axis=2) < 80)


@given(curve=points)
def test_any_numbers_make_a_chart(curve):
    lines = chart(curve, width=20, height=4)
    assert len(lines) == (6 if curve else 1)


@pytest.mark.parametrize(
    ("episodes", "mean"),
    [([], []), ([], [(0.0, 5e-324)]), ([(5.0, 1.0)], []), ([(0.0, 7.0), (10.0, 7.0)], [(10.0, 7.0)]),
     ([(0.0, -1e6), (1e9, 1e6)], [(1e9, -1e-9)])],
)  # fmt: skip
def test_any_numbers_make_a_picture(drawn, episodes, mean):
    assert drawn(episodes, mean, "a title").shape == (480, 880, 3)


def test_a_rising_curve_rises(drawn):
    mask = blue(drawn([], RISING, "rising"))
    mask[:120, :250] = False  # the legend
    columns = np.flatnonzero(mask.any(axis=0))
    heights = [np.flatnonzero(mask[:, column]).mean() for column in columns]
    assert heights[0] - heights[-1] > 250
    assert np.all(np.diff(heights) < 1.0)


def test_axes_title_and_marks_are_named(drawn, words):
    drawn(RISING, RISING, "ninelives demo", [(500.0, "worker killed")])
    assert {"ninelives demo", "steps", "return", "episode", "mean", "worker killed"} <= set(words)


def test_a_marked_moment_is_a_vertical_line_and_only_where_it_was(drawn):
    unmarked, marked = (red(drawn([], RISING, "a title", marks)) for marks in ([], [(500.0, "worker killed")]))
    assert not unmarked.any()
    column = marked.sum(axis=0).argmax()
    assert marked[:, column].sum() > 150
    assert 400 < column < 520, "half way between the first step and the last"
