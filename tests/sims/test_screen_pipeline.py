"""What an agent sees of a picture: the right colours, the right part, the right size, the last few."""

import sys

import cv2
import numpy as np
import pytest

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.machine import Picture
from ninelives.sims.emulators.screen import Screen, ScreenPipeline, rgb_of

ALL_16_BITS = np.arange(65536, dtype=np.uint16).reshape(256, 256)
LAYOUTS = ("rgb565", "rgb555", "bgrx8888", "rgb888")


def picture(layout, seed=0, height=160, width=240):
    rng = np.random.default_rng(seed)
    if layout in ("rgb565", "rgb555"):
        return Picture(rng.integers(0, 65536, (height, width)).astype(np.uint16), layout)
    return Picture(rng.integers(0, 256, (height, width, 4 if layout == "bgrx8888" else 3)).astype(np.uint8), layout)


def in_wider_rows(shown):
    """The same picture as a core keeps it: rows longer than what is shown, and not writable."""
    pixels = shown.pixels
    wide = np.zeros((pixels.shape[0], pixels.shape[1] + 16, *pixels.shape[2:]), pixels.dtype)
    view = wide[:, : pixels.shape[1]]
    view[:] = pixels
    view.flags.writeable = False
    return Picture(view, shown.layout)


def slow_rgb(shown):
    """Colour by colour, as the layouts are defined."""
    pixels = shown.pixels.astype(int)
    if shown.layout == "rgb565":
        return np.stack([(pixels >> 11) * 8, (pixels >> 5 & 63) * 4, (pixels & 31) * 8], -1)
    if shown.layout == "rgb555":
        return np.stack([(pixels >> 10 & 31) * 8, (pixels >> 5 & 31) * 8, (pixels & 31) * 8], -1)
    return pixels[..., [2, 1, 0]] if shown.layout == "bgrx8888" else pixels


@pytest.mark.parametrize("layout", LAYOUTS)
def test_colours_are_as_the_layout_says(layout):
    shown = Picture(ALL_16_BITS, layout) if layout in ("rgb565", "rgb555") else picture(layout)
    whole = Screen(color="rgb", size=None)
    assert np.array_equal(rgb_of(shown), slow_rgb(shown))
    assert np.array_equal(ScreenPipeline(whole, shown).observation(), slow_rgb(shown).transpose(2, 0, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gray_is_the_brightness_of_the_colours(layout):
    shown = picture(layout)
    gray = ScreenPipeline(Screen(size=None), shown).observation()[0].astype(float)
    assert np.abs(gray - slow_rgb(shown) @ [0.299, 0.587, 0.114]).max() <= 1.0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("color", ["gray", "rgb"])
def test_rows_that_are_longer_than_the_picture_make_no_difference(layout, color):
    shown = picture(layout)
    screen = Screen(color=color, crop=(3, 5, 7, 11))
    wider = in_wider_rows(shown)
    assert np.array_equal(ScreenPipeline(screen, shown).observation(), ScreenPipeline(screen, wider).observation())


def test_a_crop_leaves_out_rows_and_columns_on_each_side():
    whole = ScreenPipeline(Screen(size=None), picture("rgb565")).observation()
    part = ScreenPipeline(Screen(size=None, crop=(1, 2, 3, 4)), picture("rgb565")).observation()
    assert np.array_equal(part, whole[:, 1:-2, 3:-4])


def test_resizing_takes_the_mean_of_what_a_pixel_covers():
    whole = ScreenPipeline(Screen(size=None), picture("rgb565")).observation()[0]
    half = ScreenPipeline(Screen(size=(80, 120)), picture("rgb565")).observation()[0]
    means = whole.reshape(80, 2, 120, 2).mean((1, 3))
    assert np.abs(half - means).max() <= 0.5
    odd = ScreenPipeline(Screen(size=(84, 96)), picture("rgb565"))
    assert odd.space.shape == (1, 84, 96)
    assert np.array_equal(odd.observation()[0], cv2.resize(whole, (96, 84), interpolation=cv2.INTER_AREA))


@pytest.mark.parametrize(("color", "channels"), [("gray", 1), ("rgb", 3)])
def test_the_last_pictures_are_stacked_the_oldest_first(color, channels):
    screen = Screen(color=color, stack=3)
    projector = ScreenPipeline(screen, picture("rgb565", 0))
    one = [ScreenPipeline(Screen(color=color), picture("rgb565", seed)).observation() for seed in range(4)]
    assert projector.space.shape == (3 * channels, 84, 84)
    assert np.array_equal(projector.observation(), np.concatenate([one[0]] * 3))
    for seed in (1, 2, 3):
        projector.push(projector.image(picture("rgb565", seed)))
    assert np.array_equal(projector.observation(), np.concatenate(one[1:]))
    projector.begin(projector.image(picture("rgb565", 0)))
    assert np.array_equal(projector.observation(), np.concatenate([one[0]] * 3))


def test_of_two_pictures_the_brighter_pixels_are_seen():
    projector = ScreenPipeline(Screen(size=None), picture("rgb565", 0))
    first, second = (projector.image(picture("rgb565", seed)) for seed in (0, 1))
    other = projector.seen(picture("rgb565", 0))
    assert np.array_equal(projector.image(picture("rgb565", 1), other), np.maximum(first, second))


def test_every_observation_is_an_array_of_its_own():
    projector = ScreenPipeline(Screen(), picture("rgb565"))
    seen = projector.observation()
    seen[:] = 0
    assert projector.observation().any()


def test_a_core_may_change_its_layout():
    projector = ScreenPipeline(Screen(size=None), picture("rgb565"))
    shown = picture("bgrx8888", 3)
    assert np.array_equal(projector.image(shown), ScreenPipeline(Screen(size=None), shown).image(shown))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"color": "blue"}, "color='blue' is not known; allowed: gray, rgb"),
        ({"size": (84,)}, "size=(84,) must be 2 whole numbers"),
        ({"size": (0, 84)}, "from 1 to 4096"),
        ({"size": 84}, "size=84 must be"),
        ({"crop": (1, 2, 3)}, "crop=(1, 2, 3) must be 4 whole numbers"),
        ({"crop": (-1, 0, 0, 0)}, "from 0 to"),
        ({"stack": 0}, "stack=0 must be a whole number"),
        ({"stack": 1.5}, "stack=1.5 must be"),
        ({"max_of_two": "no"}, "max_of_two='no' must be True or False"),
        ({"max_of_two": 1}, "max_of_two=1 must be True or False"),
    ],
)
def test_a_screen_that_makes_no_sense_is_refused(words, told):
    with pytest.raises(ConfigError) as refused:
        Screen(**words)
    assert told in str(refused.value)


def test_a_screen_of_lists_as_files_have_them_is_the_same_screen():
    assert {Screen(size=[84, 84], crop=[1, 2, 3, 4])} == {Screen(crop=(1, 2, 3, 4))}


def test_a_crop_that_leaves_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"crop=\(80, 80, 0, 0\) removes all of a picture of 160 x 240"):
        ScreenPipeline(Screen(crop=(80, 80, 0, 0)), picture("rgb565"))


def test_without_opencv_the_plain_picture_is_the_same_and_the_rest_is_refused(monkeypatch):
    plain = Screen(color="rgb", size=None)
    expected = ScreenPipeline(plain, picture("rgb565")).observation()
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert np.array_equal(ScreenPipeline(plain, picture("rgb565")).observation(), expected)
    for screen in (Screen(), Screen(size=None), Screen(color="rgb")):
        with pytest.raises(ConfigError, match=r"needs OpenCV: pip install 'ninelives\[emulators\]'"):
            ScreenPipeline(screen, picture("rgb565"))


@pytest.mark.parametrize("color", ["gray", "rgb"])
def test_a_picture_that_changes_its_size_needs_a_screen_with_one(color):
    wide = picture("rgb565", height=160, width=256)
    sized = ScreenPipeline(Screen(color=color), picture("rgb565"))
    sized.push(sized.image(wide))
    assert sized.space.contains(sized.observation())
    whole = ScreenPipeline(Screen(color=color, size=None), picture("rgb565"))
    whole.push(whole.image(wide))
    with pytest.raises(EmulatorError, match=r"from 160 x 240 to 160 x 256.*Screen\(size="):
        whole.observation()
