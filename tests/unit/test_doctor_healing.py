"""What a user reads about slots that were brought back, and about those that could not be."""

import pytest

from ninelives.cli.diagnosis import diagnose
from ninelives.cli.diagnosis.finding import Severity
from ninelives.events import (
    EpisodeStarted,
    FaultSeen,
    HealFailed,
    PoolClosed,
    PoolStarted,
    ReplayProgress,
    SlotHealed,
    SlotQuarantined,
    SpareStepped,
    WorkerReady,
)

STARTED = PoolStarted(
    at_s=100.0, env="game:make", num_envs=4, workers=2, groups=2, batch_size=4, native=True, start_method="forkserver",
    on_fault="heal", seconds=0.5, workers_because="2 cores",
)  # fmt: skip
CLOSED = PoolClosed(at_s=200.0, seconds=0.1, killed=0, steps=5000, faults=0)


def fault(at_s, culprit=1, slots=(0, 1), phase="step", **more):
    facts = {"kind": "crashed", "summary": f"killed by SIGSEGV during {phase}", "signal": "SIGSEGV", **more}
    return FaultSeen(at_s=at_s, worker=0, slots=slots, culprit=culprit, phase=phase, **facts)


def healed(at_s, slot, seconds=0.02, replayed=10, from_step=0):
    return SlotHealed(at_s=at_s, slots=(slot,), seconds=seconds, replayed=replayed, from_step=from_step)


def failed(at_s, slot, reason, step, action=3, detail=""):
    return HealFailed(at_s=at_s, slots=(slot,), reason=reason, step=step, action=action, detail=detail)


def diverged(at_s, slot, step):
    return failed(at_s, slot, "diverged", step, detail=f"the replay of 20 steps differs at step {step}")


def findings_of(*events):
    return diagnose([STARTED, *events, CLOSED])[1]


def only(*events):
    findings = findings_of(*events)
    assert len(findings) == 1, [finding.title for finding in findings]
    return findings[0]


def test_a_healed_slot_is_reported_with_count_median_and_replayed_steps():
    found = only(*(healed(110.0 + k, 3, seconds, 100) for k, seconds in enumerate((0.020, 0.024, 0.5))))
    assert found.title == "slot 3 was healed 3 times, median 24.0 ms, 300 steps replayed"
    assert found.severity is Severity.NOTE
    assert only(healed(110.0, 2)).title == "slot 2 was healed once, 20.0 ms, 10 steps replayed"


def test_several_healed_slots_are_reported_together_and_each():
    found = only(healed(110.0, 0), healed(110.0, 1), healed(120.0, 1))
    assert found.title == "slots 0-1 were healed 3 times, median 20.0 ms, 30 steps replayed"
    assert found.details == (
        "slot 0 was healed once, 20.0 ms, 10 steps replayed",
        "slot 1 was healed twice, median 20.0 ms, 20 steps replayed",
    )


def test_a_fault_that_was_healed_is_a_warning_and_lost_nothing():
    story = findings_of(fault(110.0), healed(110.1, 0), healed(110.1, 1))[0]
    assert story.title == "slot 1 was killed by SIGSEGV during step, once"
    assert story.severity is Severity.WARNING
    assert "2 slots healed" in story.details
    assert not any("lost" in line for line in (*story.details, *story.advice))


def test_only_what_was_cut_counts_as_lost():
    events = [fault(110.0), fault(110.1), healed(110.2, 0), failed(110.2, 1, "poison", 40)]
    story = next(f for f in findings_of(*events) if "SIGSEGV" in f.title)
    assert story.severity is Severity.PROBLEM
    assert "1 slot healed" in story.details
    assert "1 episode lost" in story.details


def test_a_slot_that_is_taken_out_loses_its_episode():
    out = SlotQuarantined(at_s=110.0, slots=(1,), worker=0, restarts=11, window_s=300.0)
    assert "1 episode lost" in findings_of(fault(110.0, slots=(1,)), out)[0].details


def test_a_replay_that_differs_points_to_chance_and_to_every_way_out():
    found = only(diverged(110.0, 2, 17))
    assert found.title == "slot 2 diverged at step 17: not deterministic"
    assert found.severity is Severity.PROBLEM
    for remedy in ("`ninelives check ENV`", "`ninelives chaos ENV`", "seed_episodes=True", "on_fault='cut'"):
        assert remedy in " ".join(found.advice)


def test_replays_that_differ_again_and_again_are_one_finding():
    found = only(diverged(110.0, 2, 17), diverged(120.0, 3, 5), diverged(130.0, 2, 8))
    assert found.title == "slot 2 diverged at step 17 (the first of 3 times, in slots 2-3): not deterministic"


@pytest.mark.parametrize("reason", ["diverged", "failed"])
def test_a_replay_that_broke_off_is_not_called_chance(reason):
    found = only(failed(110.0, 2, reason, 17, detail="the replay of 20 steps failed at step 17"))
    assert found.title == "slot 2 could not be replayed beyond step 17"
    assert "restore_timeout_s" in found.advice[0]


def test_a_poison_action_is_named_with_its_place():
    found = findings_of(fault(110.0), failed(110.2, 1, "poison", 40), fault(120.0), failed(120.2, 1, "poison", 9))
    titles = [f.title for f in found]
    assert "action 3 breaks the environment every time: slot 1 at step 40, slot 1 at step 9" in titles


def test_a_poison_action_is_named_with_the_environments_line():
    traceback = 'Traceback (most recent call last):\n  File "/home/me/game.py", line 8, in step\nValueError: no'
    raised = fault(110.0, kind="raised", summary="raised ValueError: no in step", signal=None, traceback=traceback)
    found = findings_of(raised, failed(110.2, 1, "poison", 40))
    (poison,) = [finding for finding in found if "every time" in finding.title]
    assert "at /home/me/game.py:8 in step" in poison.details


def test_a_reset_that_breaks_every_time_is_not_blamed_on_an_action():
    titles = [f.title for f in findings_of(fault(110.0, phase="reset"), failed(110.2, 1, "poison", 40))]
    assert "the autoreset breaks the environment every time: slot 1 at step 40" in titles


def test_giving_up_points_to_whoever_kills():
    found = only(failed(110.0, 0, "gave_up", 12, detail="5 replays; each time the worker was killed again"))
    assert found.title == "slot 0 was given up at step 12"
    assert "memory" in found.advice[0]


def test_a_reset_that_leaves_something_is_named_with_the_setting_that_helps():
    found = only(
        *(failed(110.0 + slot, slot, "reset", 3, detail="an episode of a used environment ...") for slot in (0, 1))
    )
    assert found.title == "slots 0-1 could not be healed, twice: reset() leaves something of earlier episodes"
    assert found.advice[0].startswith("fresh_env_every_episode=True")


def test_what_can_never_be_healed_is_reported_in_the_pools_own_words():
    why = "its actions are objects, which are not written down"
    found = only(*(failed(110.0 + slot, slot, "cannot", 3, detail=why) for slot in (0, 1)))
    assert found.title == f"slots 0-1 could not be healed, twice: {why}"


def test_a_replay_under_way_at_the_end_of_the_event_file_is_reported():
    progress = ReplayProgress(at_s=150.0, slots=(2,), done=4000, total=90_000)
    title = "slot 2 was still replaying when the event file ended: 4,000 of 90,000 steps"
    assert [f.title for f in findings_of(progress)] == [title]
    assert title not in [f.title for f in findings_of(progress, healed(160.0, 2))]


def test_slow_healing_suggests_snapshots_or_spares_where_they_help():
    ready = WorkerReady(at_s=100.0, worker=0, generation=1, seconds=8.0, ready=1, total=1)
    slow_start = only(ready, healed(110.0, 0, seconds=8.1, replayed=3))
    assert "the slowest took 8.10 s: slot 0, 3 steps replayed from the episode's beginning" in slow_start.details
    assert [line for line in slow_start.advice if "spares=1" in line] == list(slow_start.advice)
    long_replay = only(healed(110.0, 0, seconds=8.1, replayed=50_000))
    assert ["save_state()" in line for line in long_replay.advice] == [True]
    assert only(healed(110.0, 0, seconds=8.1, replayed=50_000, from_step=900)).advice == ()


def test_spares_that_stepped_in_are_a_note():
    found = only(SpareStepped(at_s=110.0, worker=1), SpareStepped(at_s=120.0, worker=0))
    assert (found.severity, found.title) == (Severity.NOTE, "a spare worker replaced workers 0, 1, twice")


@pytest.mark.parametrize("events", [(fault(110.0),), (fault(110.0), healed(105.0, 0))])
def test_a_fault_without_an_outcome_stays_a_problem(events):
    assert next(f for f in findings_of(*events) if "SIGSEGV" in f.title).severity is Severity.PROBLEM


def test_a_hang_in_a_replay_is_reported_with_the_deadline_that_was_passed():
    hung = fault(110.0, kind="hung", phase="restore", summary="hung in restore for 60.0 s (limit 60 s)", signal=None)
    assert "if it is only slow, raise reset_timeout_s above 60 s" in only(hung).advice


def test_a_run_with_tens_of_thousands_of_faults_is_diagnosed_in_reasonable_time():
    """As many as two full event files hold. If each fault looked through all events, this would take hours."""
    began = [fault(100.0 + k, culprit=k % 4, slots=(k % 4,), pid=k) for k in range(30_000)]
    ended = [failed(100.5 + k, k % 4, "poison", 3) if k % 3 else diverged(100.5 + k, k % 4, k) for k in range(30_000)]
    fresh = [EpisodeStarted(at_s=100.8 + k, slots=(k % 4,), seconds=0.8) for k in range(30_000)]
    findings = findings_of(*(event for three in zip(began, ended, fresh, strict=True) for event in three))
    assert any("30000 times" in finding.title for finding in findings)
    assert any("back after 0.80 s" in finding.details for finding in findings)
