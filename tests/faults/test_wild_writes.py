"""An environment that writes over its worker's control words: a fault of that worker, like any other."""

from __future__ import annotations

import gc
import time
from functools import partial, partialmethod
from pathlib import Path

import numpy as np
import pytest
from scenes import pool_of

import ninelives
from ninelives.testing import CountingEnv, Referee
from ninelives.testing.counting import STEP
from ninelives.transport.control import FROM_MESSAGE, FROM_PHASE, FROM_SLOT, FROM_STAGE
from ninelives.worker.progress import ProgressWords
from ninelives.worker.slot import EnvSlot

SLOTS, GUILTY, AT = 4, 1, 5
FIELDS = {"phase": FROM_PHASE, "slot": FROM_SLOT, "stage": FROM_STAGE, "message": FROM_MESSAGE}


class Scribbler(CountingEnv):
    """Once, writes an impossible word where its worker reports its progress, and goes on for a while."""

    def __init__(self, field, once):
        super().__init__()
        self._field, self._once = field, Path(once)

    def step(self, action):
        if self.slot == GUILTY and self._row[STEP] == AT and not self._once.exists():
            self._once.touch()
            for words in gc.get_objects():
                if isinstance(words, ProgressWords):
                    words._line[self._field] = 0xFFFF_FFF0
            time.sleep(60)
        return super().step(action)


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("field", FIELDS)
def test_impossible_control_words_are_a_fault_of_their_worker_and_are_healed(tmp_path, monkeypatch, field, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    env, referee, actions = (
        partial(Scribbler, FIELDS[field], tmp_path / "done"),
        Referee(SLOTS),
        np.ones(SLOTS, np.int64),
    )
    with pool_of(env, on_fault="heal", start_method="fork") as pool:
        referee.reset(pool.reset(seed=1))
        for _ in range(20):
            referee.step(actions, pool.step(actions))
        (fault,) = [event for event in pool.events if isinstance(event, ninelives.events.FaultSeen)]
    assert referee.masked_rows == 0
    assert fault.worker == 0
    assert f"impossible control words: {'a message' if field == 'message' else field}" in fault.summary


def test_the_error_names_the_words(tmp_path):
    with pool_of(partial(Scribbler, FROM_PHASE, tmp_path / "done"), on_fault="raise", start_method="fork") as pool:
        pool.reset(seed=1)
        with pytest.raises(ninelives.WorkerCrashedError, match=r"impossible control words: phase \d+ \(0 to 7\)"):
            play(pool)
        assert pool.reset(seed=1).valid.all()


class Misreported(CountingEnv):
    """Raises once, with a status that does not exist and an error report of an impossible length."""

    def __init__(self, nbytes, once):
        super().__init__()
        self._nbytes, self._once = nbytes, Path(once)

    def step(self, action):
        if self.slot == GUILTY and self._row[STEP] == AT and not self._once.exists():
            self._once.touch()
            EnvSlot.fail = partialmethod(fail_wildly, self._nbytes)
            raise RuntimeError("of no interest")
        return super().step(action)


FAIL = EnvSlot.fail


def fail_wildly(slot, nbytes, error):
    attention = FAIL(slot, error)
    EnvSlot.fail = FAIL
    slot._control.status[slot.index], slot._control.mail_bytes[slot.index] = 200, nbytes
    return attention


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("nbytes", [0, -5, 3, 1 << 62])
def test_an_error_report_that_cannot_be_read_is_a_fault_too(tmp_path, monkeypatch, nbytes, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    with pool_of(partial(Misreported, nbytes, tmp_path / "done"), on_fault="heal", start_method="fork") as pool:
        pool.reset(seed=1)
        assert all(batch.valid.all() for batch in play(pool))
        (fault,) = [event for event in pool.events if isinstance(event, ninelives.events.FaultSeen)]
    assert (fault.kind, fault.culprit) == ("raised", GUILTY)
    assert f"an error report of {nbytes} bytes that cannot be read" in fault.summary


def play(pool):
    return [pool.step(np.ones(SLOTS, np.int64)) for _ in range(20)]


class Garbler(CountingEnv):
    """Gives numbers as infos, and once says that they have a layout which nobody knows."""

    def __init__(self, once):
        super().__init__()
        self._once = Path(once)

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        if self.slot == GUILTY and self._row[STEP] == AT and not self._once.exists():
            self._once.touch()
            EnvSlot._count_step = garble
        return obs, reward, terminated, truncated, {"x": float(self._row[STEP])}


COUNT_STEP = EnvSlot._count_step


def garble(slot, took):
    EnvSlot._count_step = COUNT_STEP
    slot._control.info_schema[slot.index] = 999


def test_infos_in_an_unknown_layout_are_a_fault_of_their_slot(tmp_path, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")
    with pool_of(partial(Garbler, tmp_path / "done"), on_fault="raise", start_method="fork") as pool:
        pool.reset(seed=1)
        with pytest.raises(ninelives.BadDataError, match=r"(?s)slot 1\b.*infos in a layout that it has not announced"):
            play(pool)


def test_infos_in_an_unknown_layout_are_healed(tmp_path, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")
    with pool_of(partial(Garbler, tmp_path / "done"), on_fault="heal", start_method="fork") as pool:
        pool.reset(seed=1)
        batches = play(pool)
        (fault,) = [event for event in pool.events if isinstance(event, ninelives.events.FaultSeen)]
    assert (fault.kind, fault.culprit) == ("bad_data", GUILTY)
    assert all(batch.valid.all() and batch.infos["_x"].all() for batch in batches)
