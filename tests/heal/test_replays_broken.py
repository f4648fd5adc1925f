"""Faults during a replay, at steps that worked the first time: the replay is repeated, and the rows stay the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from streams import SLOTS, Streams, of_kind, pool_of, undisturbed

from ninelives.events import FaultSeen, HealFailed, SlotHealed
from ninelives.pool.recovery.healing import REPLAY_LIMIT
from ninelives.testing import CountingEnv
from ninelives.testing.counting import STEP
from ninelives.testing.faults import BREAKS

STEPS, GUILTY, LIVE_STEP = 20, 1, 8


class Planned(CountingEnv):
    """Breaks as a directory plans it: its first file names a step and a fault, and is removed when that has come."""

    def __init__(self, plan):
        super().__init__()
        self._plan = Path(plan)

    def step(self, action):
        if self.slot == GUILTY and (left := sorted(self._plan.iterdir())):
            _, step, fault = left[0].name.split("-")
            if int(step) == self._row[STEP]:
                left[0].unlink()
                return BREAKS[fault](None)
        return super().step(action)


def planned(tmp_path, faults):
    """The first fault is met in play; all others are at earlier steps, which come again only in a replay."""
    for number, (step, fault) in enumerate(faults):
        (tmp_path / f"{number}-{step}-{fault}").touch()
    return partial(Planned, str(tmp_path))


PLANS = {
    "crashes": [(LIVE_STEP, "segfault"), (3, "segfault"), (5, "abort"), (3, "segfault")],
    "exceptions": [(LIVE_STEP, "raise_error"), (3, "raise_error"), (5, "raise_error"), (0, "raise_error")],
    "all kinds": [(LIVE_STEP, "raise_error"), (3, "segfault"), (2, "kill_self"), (5, "raise_error"), (1, "exit_zero")],
}


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("plan", PLANS)
def test_faults_in_replays_at_other_steps_change_no_row(tmp_path, monkeypatch, plan, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    calm = undisturbed(CountingEnv, STEPS)
    with pool_of(planned(tmp_path, PLANS[plan])) as pool:
        streams = Streams(pool)
        streams.step(STEPS)
        assert not of_kind(pool, HealFailed)
        assert (GUILTY,) in [event.slots for event in of_kind(pool, SlotHealed)]
        assert of_kind(pool, FaultSeen)
    assert not list(tmp_path.iterdir()), "every planned fault has come"
    assert streams.agree_with(calm)


@pytest.mark.parametrize("fault", ["segfault", "raise_error"])
def test_replays_that_never_get_through_are_cut_and_the_other_slots_go_on(tmp_path, fault):
    calm = undisturbed(CountingEnv, STEPS)
    with pool_of(planned(tmp_path, [(LIVE_STEP, fault), *[(3, fault)] * REPLAY_LIMIT])) as pool:
        streams = Streams(pool)
        streams.step(STEPS)
        (failed,) = of_kind(pool, HealFailed)
    assert (failed.slots, failed.reason, failed.step) == ((GUILTY,), "failed", 3)
    assert f"{REPLAY_LIMIT} replays" in failed.detail
    assert streams.masked(GUILTY) == [LIVE_STEP + 1, LIVE_STEP + 2]
    assert streams.agree_with(calm, [slot for slot in range(SLOTS) if slot != GUILTY])
