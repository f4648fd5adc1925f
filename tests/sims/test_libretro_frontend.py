"""What a core is told when it asks: the defaults of its own options in all forms, one directory, a log, no more.

Everything holds for both twins of what a core calls: the one in Python and the native one.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, cast

import pytest

from ninelives.sims.libretro import api
from ninelives.sims.libretro.api import EnvironmentCommand
from ninelives.sims.libretro.frames import NativeFrames, PyFrames
from ninelives.sims.libretro.frontend import Frontend

EXPERIMENTAL = 0x10000


@pytest.fixture(params=["python", "native"])
def frontend(tmp_path, request, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "1" if request.param == "native" else "0")
    frontend = Frontend(tmp_path, {})
    assert type(frontend.frames) is (NativeFrames if request.param == "native" else PyFrames)
    return frontend


def ask(frontend, what, value=None):
    return frontend.frames.callbacks[0](int(what), cast(byref(value), ctypes.c_void_p) if value is not None else None)


def answer(frontend, key):
    variable = api.Variable(key, None)
    known = ask(frontend, EnvironmentCommand.GET_VARIABLE, variable)
    return variable.value if known else None


def old_options():
    return EnvironmentCommand.SET_VARIABLES, (api.Variable * 3)(
        (b"speed", b"How fast; slow|fast"), (b"odd", b"No choice"), (None, None)
    )


def filled(kind):
    options = (kind * 3)()
    options[0].key, options[0].default_value = b"speed", b"slow"
    options[0].values[0].value, options[0].values[1].value = b"fast", b"slow"
    options[1].key = b"odd"
    options[1].values[0].value = b"first"
    return options


def options_1():
    return EnvironmentCommand.SET_CORE_OPTIONS, filled(api.OptionDefinition)


def options_1_in_languages():
    return EnvironmentCommand.SET_CORE_OPTIONS_INTL, api.OptionsIntl(
        cast(filled(api.OptionDefinition), ctypes.POINTER(api.OptionDefinition))
    )


def options_2():
    definitions = cast(filled(api.OptionV2Definition), ctypes.POINTER(api.OptionV2Definition))
    return EnvironmentCommand.SET_CORE_OPTIONS_V2, api.OptionsV2(None, definitions)


def options_2_in_languages():
    return EnvironmentCommand.SET_CORE_OPTIONS_V2_INTL, api.OptionsV2Intl(ctypes.pointer(options_2()[1]), None)


@pytest.mark.parametrize("declare", [old_options, options_1, options_1_in_languages, options_2, options_2_in_languages])
def test_an_option_has_its_declared_default_in_every_form(frontend, declare):
    what, declaration = declare()
    assert ask(frontend, what, declaration)
    assert answer(frontend, b"speed") == b"slow"
    assert answer(frontend, b"odd") == (b"" if declare is old_options else b"first")
    assert answer(frontend, b"unheard of") is None


def test_what_the_host_fixed_is_not_undone_by_a_declaration(tmp_path):
    frontend = Frontend(tmp_path, {b"speed": b"fixed"})
    ask(frontend, *old_options())
    assert answer(frontend, b"speed") == b"fixed"


def test_a_changed_option_is_told_once(frontend):
    ask(frontend, *old_options())
    changed = ctypes.c_bool(True)
    assert ask(frontend, EnvironmentCommand.GET_VARIABLE_UPDATE, changed)
    assert not changed
    frontend.set(b"speed", b"fast")
    seen = [ask(frontend, EnvironmentCommand.GET_VARIABLE_UPDATE, changed) and changed.value for _ in range(2)]
    assert seen == [True, False]
    assert answer(frontend, b"speed") == b"fast"


def test_the_newest_form_of_options_is_offered(frontend):
    version = ctypes.c_uint(0)
    assert ask(frontend, EnvironmentCommand.GET_CORE_OPTIONS_VERSION, version)
    assert version.value == 2


def test_saves_and_system_files_are_looked_for_in_the_machines_own_directory(frontend, tmp_path):
    for what in (EnvironmentCommand.GET_SAVE_DIRECTORY, EnvironmentCommand.GET_SYSTEM_DIRECTORY):
        path = ctypes.c_char_p()
        assert ask(frontend, what, path)
        assert path.value == str(tmp_path).encode()


def test_the_log_can_be_called(frontend):
    log = ctypes.c_void_p()
    assert ask(frontend, EnvironmentCommand.GET_LOG_INTERFACE, log)
    api.Log(log.value)(3, b"something about %s and %d")


def test_a_core_that_can_do_without_a_log_gets_none(tmp_path):
    assert not ask(Frontend(tmp_path, {}, is_silent=True), EnvironmentCommand.GET_LOG_INTERFACE, ctypes.c_void_p())


def test_the_pad_can_be_asked_as_a_whole_or_button_by_button(frontend):
    state = frontend.frames.callbacks[5]
    frontend.frames.pad = 0b1000_0001
    assert frontend.frames.pad == 0b1000_0001
    assert ask(frontend, EnvironmentCommand.GET_INPUT_BITMASKS | EXPERIMENTAL)
    assert state(0, api.DEVICE_JOYPAD, 0, api.ID_JOYPAD_MASK) == 0b1000_0001
    assert [state(0, api.DEVICE_JOYPAD, 0, button) for button in range(8)] == [1, 0, 0, 0, 0, 0, 0, 1]
    assert state(1, api.DEVICE_JOYPAD, 0, 0) == 0, "there is one player"
    assert state(0, 2, 0, 0) == 0, "there is no mouse"


def test_a_picture_that_did_not_change_stays(frontend):
    assert frontend.frames.video is None
    frontend.frames.callbacks[1](4096, 240, 160, 512)
    frontend.frames.callbacks[1](None, 240, 160, 512)
    assert frontend.frames.video == (4096, 240, 160, 512)


def test_a_picture_in_another_place_or_size_is_told(frontend):
    places = [(4096, 240, 160, 512), (8192, 240, 160, 512), (8192, 256, 160, 512), (8192, 256, 160, 1024)]
    for moves, place in enumerate(places, 1):
        frontend.frames.callbacks[1](*place)
        frontend.frames.callbacks[1](*place)
        assert (frontend.frames.moves, frontend.frames.video) == (moves, place)


def test_sound_is_taken_and_not_heard(frontend):
    _, _, sample, batch, poll, _ = frontend.frames.callbacks
    sample(1, -1)
    poll()
    assert batch(None, 546) == 546, "a core may offer again what was not taken"


def test_a_frame_is_run_as_often_as_asked(frontend):
    frames = []
    run = frontend.frames.runner(api.InputPoll(lambda: frames.append(frontend.frames.pad)))
    frontend.frames.pad = 3
    run(12)
    run(0)
    assert frames == [3] * 12


def test_machines_do_not_share_a_pad_or_a_picture(frontend, tmp_path):
    other = Frontend(tmp_path, {})
    frontend.frames.pad, other.frames.pad = 1, 2
    frontend.frames.callbacks[1](4096, 240, 160, 512)
    frontend.set(b"speed", b"fast")
    changed = ctypes.c_bool(True)
    assert ask(other, EnvironmentCommand.GET_VARIABLE_UPDATE, changed)
    assert (frontend.frames.pad, other.frames.pad, other.frames.video, changed.value) == (1, 2, None, False)


@pytest.mark.parametrize(("number", "layout"), [(0, "rgb555"), (1, "bgrx8888"), (2, "rgb565")])
def test_every_pixel_format_is_known(frontend, number, layout):
    assert ask(frontend, EnvironmentCommand.SET_PIXEL_FORMAT, ctypes.c_int(number))
    assert frontend.layout == layout


def test_what_is_not_known_is_refused(frontend):
    assert not ask(frontend, EnvironmentCommand.SET_PIXEL_FORMAT, ctypes.c_int(9))
    assert frontend.layout == "rgb555"
    assert not ask(frontend, 14)
    assert not ask(frontend, 999 | EXPERIMENTAL)
