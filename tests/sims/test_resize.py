"""Pictures are resized as OpenCV does it, to the bit, whichever way is taken."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninelives.native import native_module
from ninelives.sims.emulators import resize
from ninelives.sims.emulators.resize import TRIALS, Resizer

CONSOLES = {"gba": (160, 240), "gb": (144, 160), "nes": (240, 256), "cropped": (224, 240), "atari": (210, 160)}


def opencv(size):
    return lambda image: cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)


def noise(shape, seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


class Trial:
    """OpenCV's way, counted; ``lies`` in one pixel of its n-th answer."""

    def __init__(self, size, lies=None):
        self.resize, self.lies, self.asked = opencv(size), lies, 0

    def __call__(self, image):
        image = self.resize(image)
        if self.asked == self.lies:
            image[-1, -1] ^= 1
        self.asked += 1
        return image


@pytest.mark.parametrize("shape", CONSOLES.values(), ids=CONSOLES)
@pytest.mark.parametrize("size", [(84, 84), (96, 84), (64, 64), (80, 120), (72, 80), (83, 85)])
def test_screens_of_consoles_are_resized_as_by_opencv(shape, size):
    resize, check = Resizer(size, opencv(size)), opencv(size)
    for image in [*(noise(shape, seed) for seed in range(9)), np.full(shape, 255, np.uint8), np.zeros(shape, np.uint8)]:
        assert np.array_equal(resize(image), check(image))


@settings(max_examples=150, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    size=st.tuples(st.integers(1, 130), st.integers(1, 130)),
    seed=st.integers(0, 9),
)
def test_so_is_every_other_size(shape, size, seed):
    image = noise(shape, seed)
    assert np.array_equal(Resizer(size, opencv(size))(image), opencv(size)(image))


def test_after_the_comparison_opencv_is_not_needed_any_more():
    slow = Trial((84, 84))
    resize = Resizer((84, 84), slow)
    for seed in range(10):
        resize(noise((160, 240), seed))
    assert slow.asked == TRIALS


@pytest.mark.parametrize("lies", range(TRIALS))
def test_where_opencv_differs_in_one_pixel_its_way_is_taken(lies):
    slow = Trial((84, 84), lies)
    resize = Resizer((84, 84), slow)
    image = resize(noise((160, 240)))
    asked = slow.asked
    assert np.array_equal(image, opencv((84, 84))(noise((160, 240))))
    resize(noise((160, 240)))
    assert slow.asked == asked + 1


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((160, 240, 3), "in colour"),
        ((60, 240), "lower already"),
        ((160, 84), "as wide already"),
        ((90, 5000), "wider than native code takes"),
    ],
)
def test_what_is_no_gray_picture_to_be_made_smaller_is_left_to_opencv(shape, why):
    slow = Trial((84, 84))
    resize = Resizer((84, 84), slow)
    for _ in range(3):
        assert np.array_equal(resize(noise(shape)), opencv((84, 84))(noise(shape)))
    assert slow.asked == 3, why


def test_without_native_code_it_is_opencvs_way(monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")
    slow = Trial((84, 84))
    resize = Resizer((84, 84), slow)
    assert [resize(noise((160, 240), seed)).shape for seed in range(3)] == [(84, 84)] * 3
    assert slow.asked == 3


def test_pictures_that_are_handed_out_are_not_touched_again():
    resize = Resizer((84, 84), opencv((84, 84)))
    first = resize(noise((160, 240), 1))
    kept = first.copy()
    resize(noise((160, 240), 2))
    assert np.array_equal(first, kept)


def wrong_plans():
    rows, columns = resize.axis(160, 84), resize.axis(240, 84)
    source, target = noise((160, 240)), np.empty((84, 84), np.uint8)
    far = columns[0].copy()
    far[7] = 237
    before = rows[0].copy()
    before[0] = -1
    return {
        "a target that is too small": (source, 240, target[:-1], *rows, *columns),
        "rows of another width": (source, 241, target, *rows, *columns),
        "no width": (source, 0, target, *rows, *columns),
        "a source that is too low": (source[:-1], 240, target, *rows, *columns),
        "columns behind the last": (source, 240, target, *rows, far, columns[1]),
        "rows before the first": (source, 240, target, before, rows[1], *columns),
        "no weights": (source, 240, target, rows[0], rows[1][:0], *columns),
        "no columns": (source, 240, target, *rows, columns[0][:0], columns[1]),
    }


@pytest.mark.parametrize("wrong", wrong_plans())
def test_native_code_reads_nothing_outside_of_a_picture(wrong):
    native = native_module("ninelives.sims.emulators._resize")
    assert native is not None
    with pytest.raises(ValueError, match="do not match the plan"):
        native.resize_area(*wrong_plans()[wrong])
