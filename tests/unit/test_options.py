import dataclasses

import numpy as np
import pytest

from ninelives import Autoreset, ConfigError, PoolOptions


def refusal_of(**settings):
    with pytest.raises(ConfigError) as refusal:
        PoolOptions.of(settings).info_dtypes  # noqa: B018 - declared infos are read here
    return str(refusal.value)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("step_timeout", "step_timeout_s"),
        ("auto_reset", "autoreset"),
        ("onfault", "on_fault"),
        ("max_restart", "max_restarts"),
    ],
)
def test_an_unknown_setting_is_answered_with_the_nearest_name(typo, meant):
    message = refusal_of(**{typo: 1})
    assert repr(typo) in message
    assert f"did you mean {meant!r}?" in message


def test_a_setting_like_no_other_is_answered_with_all_names():
    message = refusal_of(zzz=1)
    assert all(field.name in message for field in dataclasses.fields(PoolOptions))


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("start_method", ["forkserver", "fork", "spawn"]),
        ("on_fault", ["cut", "raise"]),
        ("check", ["shape", "nan", "bounds"]),
        ("on_exhausted", ["quarantine", "raise"]),
        ("autoreset", ["next_step", "same_step", "disabled"]),
    ],
)
@pytest.mark.parametrize("value", ["never", None, 3])
def test_a_choice_outside_the_list_is_refused_with_key_value_and_list(key, allowed, value):
    message = refusal_of(**{key: value})
    assert f"{key}={value!r}" in message
    assert all(repr(word) in message for word in allowed)


TIMEOUTS = [f"{phase}_timeout_s" for phase in ("import", "construct", "reset", "step", "call", "close")]
OPTIONAL = ["start_concurrency", "max_steps", "max_age_s", "max_rss_bytes"]
POSITIVE = [*TIMEOUTS, *OPTIONAL, "restart_window_s", "backoff_max_s", "start_attempts"]
NOT_NEGATIVE = ["start_delay_s", "backoff_s", "restart_wait_s", "max_restarts_per_slot", "max_restarts"]


@pytest.mark.parametrize("key", POSITIVE)
def test_times_and_counts_that_must_be_positive_are_refused_otherwise(key):
    for value in (0, -1, -0.5, float("nan")):
        message = refusal_of(**{key: value})
        assert f"{key}={value!r}" in message
        assert "greater than zero" in message


@pytest.mark.parametrize("key", NOT_NEGATIVE)
def test_zero_is_fine_where_only_a_negative_number_makes_no_sense(key):
    PoolOptions.of({key: 0})
    message = refusal_of(**{key: -1})
    assert f"{key}=-1" in message
    assert "negative" in message


@pytest.mark.parametrize("key", [*POSITIVE, *NOT_NEGATIVE])
def test_what_is_no_number_is_refused_by_name(key):
    for value in ("5", True, [1]):
        assert f"{key}={value!r} must be a number" in refusal_of(**{key: value})


@pytest.mark.parametrize("key", OPTIONAL)
def test_limits_can_be_left_out(key):
    assert getattr(PoolOptions.of({key: None}), key) is None


@pytest.mark.parametrize("value", ["reward", {"name": "U5"}, {"name": object}, {"name": "no such dtype"}])
def test_infos_that_cannot_live_in_shared_memory_are_refused(value):
    assert "info_keys" in refusal_of(info_keys=value)


def test_one_module_name_is_not_taken_letter_by_letter():
    assert "preload='numpy' must be a list" in refusal_of(preload="numpy")


def test_declared_infos_are_float64_by_default():
    assert PoolOptions(info_keys=["speed", "fuel"]).info_dtypes == {"speed": "<f8", "fuel": "<f8"}
    wanted = PoolOptions(info_keys={"lives": np.int32, "alive": bool, "x": "f4"}).info_dtypes
    assert {key: np.dtype(dtype) for key, dtype in wanted.items()} == {"lives": "i4", "alive": "?", "x": "f4"}


def test_defaults_are_allowed_and_the_autoreset_mode_is_parsed():
    assert PoolOptions.of({}) == PoolOptions()
    assert PoolOptions.of({"autoreset": "same_step"}).autoreset is Autoreset.SAME_STEP


def test_every_setting_is_explained_in_the_documentation_of_the_class():
    explained = PoolOptions.__doc__
    missing = [field.name for field in dataclasses.fields(PoolOptions) if f"        {field.name}: " not in explained]
    assert missing == []


def test_options_cannot_be_changed_behind_the_pools_back():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PoolOptions().copy = False


@pytest.mark.parametrize("value", ["x", ("x", 3)])
def test_infos_that_are_no_keys_are_refused(value):
    assert "must be 'all', None or a list of keys" in refusal_of(infos=value)


def test_declared_infos_are_wanted_whatever_else_is():
    assert PoolOptions().wanted_infos is None
    assert PoolOptions(infos=None, info_keys=["fuel"]).wanted_infos == ("fuel",)
    assert PoolOptions(infos=["x", "fuel"], info_keys=["fuel"]).wanted_infos == ("x", "fuel")
