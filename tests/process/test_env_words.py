"""Warnings and refusals that an environment addresses to its user reach the user from the worker."""

from __future__ import annotations

import warnings

import pytest

import ninelives
from ninelives.testing import CountingEnv


class Wordy(CountingEnv):
    def __init__(self):
        super().__init__()
        warnings.warn("the ROM is another revision", ninelives.NinelivesWarning, stacklevel=2)
        warnings.warn("of no interest", UserWarning, stacklevel=2)


class Refusing(CountingEnv):
    def __init__(self, error):
        super().__init__()
        raise error


class Answering(CountingEnv):
    def load(self):
        raise ninelives.CheckpointError("the state is of another game")


@pytest.mark.parametrize("workers", [1, 2, None])
def test_a_warning_of_ours_is_given_again_in_the_parent_once_and_no_other_is(workers):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with ninelives.Pool(Wordy, 2, workers=workers) as pool:
            texts = [event.text for event in pool.events if isinstance(event, ninelives.events.EnvWarned)]
    assert [str(warning.message) for warning in given] == texts == ["the ROM is another revision"]
    assert given[0].filename == __file__


@pytest.mark.parametrize(
    ("error", "refusal"), [(ninelives.ConfigError("rom: there is none"), "rom: there is none"), (KeyError("rom"), "")]
)
def test_a_start_that_was_refused_in_words_has_them_apart(error, refusal):
    with pytest.raises(ninelives.WorkerStartError) as failed:
        ninelives.Pool(ninelives.EnvSpec(Refusing, {"error": error}), 1, start_attempts=1)
    assert failed.value.fault.refusal == refusal


def test_a_call_that_was_refused_in_words_has_them_apart():
    with ninelives.Pool(Answering, 1) as pool:
        pool.reset(seed=0)
        with pytest.raises(ninelives.EnvRaisedError) as failed:
            pool.call("load")
    assert failed.value.fault.refusal == "the state is of another game"
