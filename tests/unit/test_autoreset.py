import pytest
from gymnasium.vector import AutoresetMode

from ninelives import ConfigError
from ninelives.spec.autoreset import Autoreset


@pytest.mark.parametrize("mode", list(Autoreset))
def test_all_spellings_of_a_mode_are_understood(mode):
    theirs = AutoresetMode(mode.gymnasium_value)
    spellings = [mode, mode.name, mode.name.lower(), mode.name.replace("_", "-"), theirs, theirs.value]
    assert {Autoreset.parse(spelling) for spelling in spellings} == {mode}


def test_modes_have_the_names_gymnasium_gives_them():
    assert {mode.gymnasium_value for mode in Autoreset} == {mode.value for mode in AutoresetMode}
    assert all(AutoresetMode(mode.gymnasium_value).name == mode.name for mode in Autoreset)


@pytest.mark.parametrize("value", ["sometimes", "", None, 7, "next"])
def test_an_unknown_mode_is_refused_with_all_that_are_allowed(value):
    with pytest.raises(ConfigError) as refusal:
        Autoreset.parse(value)
    message = str(refusal.value)
    assert f"autoreset={value!r}" in message
    assert all(repr(mode.name.lower()) in message for mode in Autoreset)
