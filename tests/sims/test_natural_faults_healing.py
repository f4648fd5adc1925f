"""Pools heal through the true crashes and hangs of emulators: the same rows, and an event that names what happened."""

import os
import pickle
import signal
from pathlib import Path

import numpy as np
import pytest

import ninelives
from missing import skip_missing
from ninelives.events import FaultSeen, SlotHealed, StackDumped
from ninelives.testing.natural import FAULTS, Natural, missing
from ninelives.testing.zoo import When

SLOTS, GUILTY, STEPS, FAULT_STEP = 2, 1, 18, 13
STEP_LIMIT_S, CONSTRUCT_LIMIT_S, PATIENCE_S = 1.5, 3.0, 60.0
FULL = os.environ.get("NINELIVES_FULL") == "1"
LONG = () if FULL else ("old_mgba_state_byte", "dropped_picture")
"""Under ``NINELIVES_FULL=1`` too: a hang and a crash like others here, on emulators that others here cover."""
TRIGGERED = [name for name, fault in FAULTS.items() if fault.trigger and name not in LONG]
DOING = {
    "fceumm_state_length": ("in load\n", "(retro_unserialize+"),
    "old_mgba_state_byte": ("in run\n", ""),  # its loop asks for the time, and a stack cannot be followed out of there
    "unread_log": ("in advance\n", "(mLog+"),
}
"""What the stack of a hang shows: our line that called the emulator, and the emulator's own function."""

REPORTS = {"SIGSEGV": "Segmentation fault", "SIGBUS": "Bus error"}


def require(fault):
    """Skip where its emulator is missing."""
    reason = missing(fault)
    if reason:
        skip_missing(reason)


def film(game, disturb=lambda pool, step: None, **settings):
    """Every row of a short run as bytes, and what was told."""
    chosen = {
        "workers": SLOTS, "preload": ("ninelives.testing.natural",), "backoff_s": 0.0, "snapshot_every": 5,
        "construct_timeout_s": PATIENCE_S, "step_timeout_s": PATIENCE_S, **settings,
    }  # fmt: skip
    with ninelives.Pool(game, SLOTS, **chosen) as pool:
        rows = [row_bytes(pool.reset(seed=3))]
        for step, actions in enumerate(np.random.default_rng(0).integers(0, 5, (STEPS, SLOTS)), 1):
            disturb(pool, step)
            rows.append(row_bytes(pool.step(actions)))
        return rows, list(pool.events)


def quiet_rows(name):
    """What a run without the fault gives; the same for all faults of one emulator."""
    machine = FAULTS[name].rom, FAULTS[name].core
    if machine not in _quiet:
        _quiet[machine], _ = film(Natural(name, None))
    return _quiet[machine]


_quiet = {}


def row_bytes(batch):
    obs = batch.obs if isinstance(batch.obs, dict) else {"": batch.obs}
    arrays = [*obs.values(), batch.reward, batch.terminated, batch.truncated, batch.valid]
    assert batch.valid.all()
    return [np.array(array).tobytes() for array in arrays]


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("name", TRIGGERED)
def test_a_pool_heals_through_it_with_the_same_bits(name):
    require(name)
    seen = FAULTS[name].seen
    quiet = quiet_rows(name)
    game = Natural(name, When("step", at=FAULT_STEP, slots=(GUILTY,)))
    rows, events = film(game, step_timeout_s=STEP_LIMIT_S if seen == "hang" else PATIENCE_S)
    assert rows == quiet
    assert len({row[0] for row in rows}) > STEPS // 2, "hardly anything happened in this game"
    [fault], [healed] = of_kind(events, FaultSeen), of_kind(events, SlotHealed)
    assert (fault.phase, fault.culprit, healed.slots) == ("step", GUILTY, (GUILTY,))
    if seen == "hang":
        [dumped] = of_kind(events, StackDumped)
        assert fault.kind == "hung"
        python, _, native = dumped.stack.partition("Native stack")
        line, function = DOING[name]
        assert f" in {name}\n" in python
        assert line in python
        assert native
        assert function in native
    else:
        assert (fault.kind, fault.signal) == ("crashed", seen)
        assert REPORTS[seen] in fault.stderr_tail
        assert f" in {name}\n" in fault.stderr_tail


def test_a_later_generation_whose_constructor_never_ends_is_replaced_by_the_next():
    require("endless_constructor")
    game = Natural("endless_constructor", When("construct", slots=(GUILTY,), generations=(2,)))
    quiet = quiet_rows("endless_constructor")

    def kill(pool, step):
        if step == FAULT_STEP:
            os.kill(pool.worker_pids[GUILTY], signal.SIGKILL)

    rows, events = film(game, kill, construct_timeout_s=CONSTRUCT_LIMIT_S)
    assert rows == quiet
    killed, hung = of_kind(events, FaultSeen)
    assert (killed.signal, hung.kind, hung.phase) == ("SIGKILL", "hung", "construct")
    assert "in _skip_start_screen" in of_kind(events, StackDumped)[0].stack
    assert [event.slots for event in of_kind(events, SlotHealed)] == [(GUILTY,)]


def test_it_may_happen_in_a_reset_too(tmp_path):
    require("run_after_unload")
    quiet = quiet_rows("run_after_unload")
    when = When("reset", slots=(GUILTY,), generations=None, once=str(tmp_path / "done"))
    rows, events = film(Natural("run_after_unload", when))
    assert rows == quiet
    [fault] = of_kind(events, FaultSeen)
    assert (fault.phase, fault.signal) == ("reset", "SIGSEGV")


def test_a_plan_is_checked_when_it_is_made_and_goes_anywhere():
    with pytest.raises(ValueError, match="'fire' is not known; allowed: cynes_state_byte"):
        Natural("fire")
    with pytest.raises(ValueError, match="endless_constructor happens in construct"):
        Natural("endless_constructor", When("step"))
    with pytest.raises(ValueError, match="unread_log happens in step or reset"):
        Natural("unread_log", When("construct"))
    plan = Natural("unread_log", When("step", at=3, slots=(1,)))
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_every_one_is_documented_with_what_is_seen():
    page = (Path(__file__).parents[2] / "docs" / "natural_faults.md").read_text()
    for name, fault in FAULTS.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert fault.seen in row
