"""Chaos without a process: how faults are planned, rows compared, and a run judged."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from gymnasium import spaces

from ninelives.cli.chaos import conclusion, facts
from ninelives.errors import ConfigError
from ninelives.events import FaultSeen, HealFailed, RestartScheduled, SlotHealed
from ninelives.pool.batch import Batch, Episodes
from ninelives.spec.arrays import tree_of
from ninelives.spec.infos import add_info
from ninelives.testing import Chaos, ChaosReport
from ninelives.testing.chaos_report import EventCounts, Percentiles
from ninelives.testing.kill_plan import KillLimiter, plan_kills
from ninelives.testing.paired_run import Comparison, Difference
from ninelives.testing.row_diff import first_mismatch, rows_of

BOX = spaces.Box(-np.inf, np.inf, (2, 2), np.float64)
WANTED = {"kill": 200, "hang": 20, "segfault": 20}


def batch_of(obs=None, infos=(), slots=2, **columns):
    """A batch of ``slots`` rows of zeros, with these columns instead."""
    rows = {
        "reward": np.zeros(slots), "terminated": np.zeros(slots, bool), "truncated": np.zeros(slots, bool),
        "valid": np.ones(slots, bool), "slots": np.arange(slots), **columns,
    }  # fmt: skip
    merged = {}
    for row, info in infos:
        add_info(merged, info, row, slots)
    return Batch(np.zeros((slots, 2, 2)) if obs is None else obs, infos=merged, **rows)


def mismatch(expected, got, row=0, space=BOX, ignored=()):
    node = tree_of(space)
    found = first_mismatch(rows_of(expected, node)[row], rows_of(got, node)[row], ignored)
    return None if found is None else (found.what, found.expected, found.got)


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_every_fault_is_planned_within_the_run_and_the_same_again_with_the_same_seed():
    plan = plan_kills(WANTED, 2500, 4, 0.5, random.Random(1))
    assert {kind: sum(m.kind == kind for m in plan) for kind in WANTED} == WANTED
    assert [m.batch for m in plan] == sorted(m.batch for m in plan)
    assert all(0 <= m.batch < 2500 for m in plan)
    assert {m.worker for m in plan} == {0, 1, 2, 3}
    assert plan == plan_kills(WANTED, 2500, 4, 0.5, random.Random(1))
    assert plan != plan_kills(WANTED, 2500, 4, 0.5, random.Random(2))


def test_some_faults_come_within_microseconds_and_some_hit_a_worker_that_is_being_brought_back():
    plan = plan_kills(WANTED, 2500, 4, 0.5, random.Random(1))
    delays = [m.delay_s for m in plan]
    assert min(delays) < 1e-5
    again = [two for one, two in pairwise(plan) if (one.batch, one.worker) == (two.batch, two.worker)]
    assert len(again) > len(plan) / 5
    assert 0.3 < max(kill.delay_s for kill in again) < 0.5


def test_a_worker_is_hit_three_times_at_most_until_all_its_slots_went_on():
    limiter = KillLimiter([(0, 1), (2,)])
    for _ in range(3):
        assert limiter.allows(0, "kill")
        limiter.hit(0, "kill")
    assert not limiter.allows(0, "kill")
    assert limiter.allows(1, "kill")
    for slots in ([0], [0], [0, 2], [1], [1]):
        limiter.saw(slots)
        assert not limiter.allows(0, "kill")
    limiter.saw([1])
    assert limiter.allows(0, "kill")


@pytest.mark.parametrize("kind", ["hang", "segfault"])
def test_only_one_of_the_blows_may_look_like_the_environments_own_doing(kind):
    limiter = KillLimiter([(0,)])
    limiter.hit(0, kind)
    assert limiter.allows(0, "kill")
    assert not limiter.allows(0, "hang")
    assert not limiter.allows(0, "segfault")


def test_rows_made_before_the_last_blow_do_not_count():
    limiter = KillLimiter([(0,)])
    limiter.hit(0, "hang")
    limiter.saw([0])
    limiter.saw([0])
    limiter.hit(0, "kill")
    limiter.saw([0])
    assert not limiter.allows(0, "hang")


@pytest.mark.parametrize("wrong", [{"kills": -1}, {"hangs": -1}, {"segfaults": -1}, {"steps": 0}])
def test_counts_that_cannot_be_are_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=rf"{next(iter(wrong))}="):
        Chaos("CartPole-v1", **wrong)


def test_finished_slots_that_wait_for_a_reset_need_full_batches():
    with pytest.raises(ConfigError, match="batch_size"):
        Chaos("CartPole-v1", batch_size=2, autoreset="disabled")


# ---- rows -----------------------------------------------------------------------------------------------------------


def test_equal_rows_are_equal_also_where_they_hold_nan():
    obs = np.full((2, 2, 2), np.nan)
    assert mismatch(batch_of(obs), batch_of(obs.copy())) is None


def test_the_first_number_that_differs_is_named_with_its_place():
    got = np.zeros((2, 2, 2))
    got[1, 1, 0] = 3.0
    assert mismatch(batch_of(), batch_of(got), row=0) is None
    assert mismatch(batch_of(), batch_of(got), row=1) == ("obs[1, 0]", 0.0, 3.0)


def test_zero_is_not_minus_zero():
    assert mismatch(batch_of(), batch_of(np.full((2, 2, 2), -0.0)))[0] == "obs[0, 0]"


@pytest.mark.parametrize("column", ["reward", "terminated", "truncated"])
def test_rewards_and_flags_are_compared(column):
    other = batch_of(**{column: np.array([0, 1], batch_of().reward.dtype if column == "reward" else bool)})
    assert mismatch(batch_of(), other, row=0) is None
    assert mismatch(batch_of(), other, row=1) == (column, 0, 1)


def test_observations_of_any_structure_are_compared():
    space = spaces.Dict({"picture": BOX, "words": spaces.Tuple([spaces.Text(5), spaces.Discrete(3)])})

    def batch(word):
        obs = {"picture": np.zeros((2, 2, 2)), "words": (("a", word), np.array([1, 2]))}
        return batch_of(obs)

    assert mismatch(batch("b"), batch("c"), row=0, space=space) is None
    assert mismatch(batch("b"), batch("c"), row=1, space=space) == ("obs.words[0]", "b", "c")


def test_infos_are_compared_row_by_row_and_into_the_depth():
    expected = batch_of(infos=[(0, {"a": {"b": 1}, "lives": 3})])
    assert mismatch(expected, batch_of(infos=[(0, {"a": {"b": 1}, "lives": 3}), (1, {"lives": 2})])) is None
    assert mismatch(expected, batch_of(infos=[(0, {"a": {"b": 2}, "lives": 3})])) == ("info.a.b", 1, 2)
    assert mismatch(expected, batch_of(infos=[(0, {"a": {"b": 1}})])) == ("info.lives", 3, "(missing)")
    assert mismatch(batch_of(), expected)[0] == "info.a"


def test_an_info_is_the_same_in_a_column_of_a_wider_type():
    narrow, wide = [(0, {"score": 3})], [(0, {"score": 3}), (1, {"score": 0.5})]
    assert mismatch(batch_of(infos=narrow), batch_of(infos=wide)) is None


def test_objects_that_know_no_equality_are_compared_by_content():
    one, same, other = (batch_of(infos=[(0, {"thing": Thing(n)})]) for n in (1, 1, 2))
    assert mismatch(one, same) is None
    assert mismatch(one, other)[0] == "info.thing"


class Thing:
    def __init__(self, number):
        self.number = number


def test_measured_times_are_not_compared_nor_infos_that_may_differ():
    one = batch_of(infos=[(0, {"episode": {"r": 1.0, "t": 0.1}, "pid": 7})])
    two = batch_of(infos=[(0, {"episode": {"r": 1.0, "t": 0.2}, "pid": 8})])
    assert mismatch(one, two) == ("info.pid", 7, 8)
    assert mismatch(one, two, ignored=("pid",)) is None


def test_return_and_length_of_an_episode_are_compared_its_duration_is_not():
    def batch(total, seconds):
        ended = Episodes(np.array([1]), np.array([total]), np.array([9]), np.array([seconds]))
        return dataclasses.replace(batch_of(), episodes=ended)

    assert mismatch(batch(5.0, 0.1), batch(5.0, 0.2), row=1) is None
    assert mismatch(batch(5.0, 0.1), batch(6.0, 0.1), row=1) == ("episode.return", 5.0, 6.0)


# ---- the comparison -------------------------------------------------------------------------------------------------


def see(comparison, expected, got):
    node = tree_of(BOX)
    for pair in zip(rows_of(expected, node), rows_of(got, node), strict=True):
        comparison.see(*pair)


def test_a_slot_is_compared_until_its_first_difference_and_the_first_of_all_is_told():
    comparison = Comparison(2, (), broken={0})
    see(comparison, batch_of(), batch_of())
    see(comparison, batch_of(), batch_of(reward=np.array([0.0, 1.0])))
    see(comparison, batch_of(), batch_of(reward=np.array([2.0, 1.0])))
    assert comparison.first_difference == Difference(1, 1, "reward", 0.0, 1.0, after_fault=False)
    assert comparison.compared_rows == 5
    assert not comparison.goes_on


def test_a_masked_row_is_no_difference_but_the_end_of_the_comparison():
    comparison = Comparison(2, (), broken=set())
    see(comparison, batch_of(), batch_of(valid=np.array([False, True])))
    see(comparison, batch_of(), batch_of(reward=np.array([2.0, 0.0])))
    assert comparison.first_difference is None
    assert (comparison.cut_rows, comparison.compared_rows, comparison.goes_on) == (1, 2, True)


def test_the_difference_says_whether_a_fault_came_before_it():
    comparison = Comparison(2, (), broken={0})
    see(comparison, batch_of(), batch_of(reward=np.ones(2)))
    assert comparison.first_difference.after_fault


# ---- the report -----------------------------------------------------------------------------------------------------


def test_faults_are_counted_by_signal_or_kind_and_their_slots_remembered():
    counts = EventCounts()
    crash = FaultSeen(kind="crashed", phase="step", summary="", signal="SIGKILL", slots=(0, 1))
    for event in (crash, crash, FaultSeen(kind="hung", phase="step", summary="", slots=(3,))):
        counts.emit(event)
    counts.emit(RestartScheduled(delay_s=0.0, restarts=1))
    assert counts.faults == {"SIGKILL": 2, "hung": 1}
    assert counts.phases == {"step": 3}
    assert counts.broken == {0, 1, 3}
    assert counts.restarts == 1


def test_healed_slots_and_those_that_were_not_are_counted():
    counts = EventCounts()
    for slot in (0, 1):
        counts.emit(SlotHealed(slots=(slot,), seconds=0.1 + slot, replayed=7, from_step=0))
    for step in (4, 5):
        counts.emit(HealFailed(slots=(2,), reason="diverged", step=step, action=3, detail="it differs"))
    assert (counts.recoveries_s, counts.replayed_steps) == ([0.1, 1.1], 14)
    assert counts.not_healed == {"diverged": 2}
    assert counts.first_not_healed == "diverged: slot 2, step 4, action 3: it differs"


def test_percentiles_of_recoveries():
    assert Percentiles.of([]) is None
    assert Percentiles.of([0.1] * 9 + [5.0]) == Percentiles(10, 0.1, pytest.approx(0.59), 5.0)


GOOD = ChaosReport(
    env="game:make", steps=20_000, seconds=10.0, delivered=WANTED, wanted=WANTED,
    faults={"SIGKILL": 200, "SIGSEGV": 20, "hung": 20}, phases={"idle": 150, "step": 60, "restore": 30}, restarts=240,
    recovery_s=Percentiles(960, 0.03, 0.05, 0.9),
    replayed_steps=4321, compared_rows=20_008, cut_rows=0, not_healed={}, first_not_healed=None, first_difference=None,
)  # fmt: skip
WRONG = Difference(7, 3, "obs[0]", 1.0, 2.0, after_fault=True)


def words(**changes):
    return "\n".join(conclusion(dataclasses.replace(GOOD, **changes)))


def test_exact_means_every_row_is_there_and_equal():
    assert GOOD.is_exact
    assert not dataclasses.replace(GOOD, cut_rows=1).is_exact
    assert not dataclasses.replace(GOOD, first_difference=WRONG).is_exact
    assert GOOD.steps_per_s == 2000.0


def test_the_facts_are_all_told():
    told = "\n".join(f"{fact.name} {fact.found}" for fact in facts(GOOD))
    for fact in (
        "200 of 200 kills",
        "20 SIGSEGV",
        "240 restarts",
        "150 idle, 60 step",
        "median 30.0 ms",
        "longest 0.90 s",
        "4,321 steps",
    ):
        assert fact in told
    assert "20,008 rows compared, all equal" in told


def test_a_good_run_is_called_safe():
    assert words().startswith("safe: after 240 injected faults, all 20,008 rows equal those of the undisturbed run")


def test_a_run_without_faults_proves_nothing_about_healing():
    assert "nothing was healed" in words(delivered=dict.fromkeys(WANTED, 0))


def test_the_first_difference_is_told_with_what_to_do():
    told = words(first_difference=WRONG)
    assert told.startswith("not deterministic: first difference in slot 3 at step 7: obs[0]")
    assert "expected  1.0" in told
    assert "got       2.0" in told
    assert "reset(seed=...)" in told
    assert "two plain runs of the environment differ" not in told


def test_an_environment_that_differs_by_itself_is_told_so():
    untouched = dataclasses.replace(WRONG, after_fault=False)
    assert "two plain runs of the environment differ" in words(first_difference=untouched)


def test_an_info_that_differs_may_be_ignored_by_name():
    told = words(first_difference=dataclasses.replace(WRONG, what="info.timing.step[3]"))
    assert "--ignore-infos timing.step;" in told


def test_cut_rows_are_told_with_the_first_reason():
    told = words(cut_rows=5, not_healed={"diverged": 2}, first_not_healed="diverged: slot 1, step 9 ...")
    assert told.startswith("not deterministic: no wrong row, but 5 rows cut")
    assert "slot 1, step 9" in told
    assert words(cut_rows=5, not_healed={"poison": 1}).startswith("not healed")


@dataclass
class Picture:
    def __str__(self):
        return "0 " * 5000


def test_a_whole_picture_is_not_printed():
    assert len(words(first_difference=dataclasses.replace(WRONG, expected=Picture()))) < 1000
