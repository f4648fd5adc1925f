"""Events in, findings out: what a user reads about a run, without any process."""

import itertools

import pytest

from ninelives.cli.diagnosis import diagnose
from ninelives.cli.diagnosis.finding import Severity
from ninelives.events import (
    EpisodeStarted,
    FaultSeen,
    KeeperLost,
    MetricsSampled,
    PoolClosed,
    PoolStarted,
    RestartScheduled,
    SlotQuarantined,
    WorkerExited,
    WorkerReady,
    WorkerRecycled,
)
from ninelives.view.words import bytes_in_words, seconds_in_words, slots_in_words

STACK = 'Current thread 0x1 (most recent call first):\n  File "/me/game.py", line 13 in wait\n'
MB = 1_000_000


def started(**changes):
    facts = {
        "at_s": 100.0, "env": "game:make", "num_envs": 4, "workers": 2, "groups": 2, "batch_size": 4, "native": True,
        "start_method": "forkserver", "on_fault": "cut", "seconds": 0.5, "workers_because": "2 cores",
    }  # fmt: skip
    return PoolStarted(**{**facts, **changes})


def fault(at_s, kind="hung", phase="step", worker=0, slots=(0, 1), culprit=1, **more):
    summary = more.pop("summary", "hung in step for 0.5 s (limit 0.5 s)")
    return FaultSeen(
        at_s=at_s, kind=kind, phase=phase, worker=worker, slots=slots, culprit=culprit, summary=summary, **more
    )


def closed(at_s=200.0, killed=0):
    return PoolClosed(at_s=at_s, seconds=0.1, killed=killed, steps=5000, faults=0)


def sample(*per_slot, at_s=150.0):
    facts = {"steps": 5000, "step_p50_s": 1e-3, "step_p99_s": 2e-3, "rss_bytes": 40 * MB, "share_step": 0.4}
    slots = tuple({**facts, "slot": i, "worker": i // 2, **numbers} for i, numbers in enumerate(per_slot))
    return MetricsSampled(at_s=at_s, steps_per_s=100.0, per_slot=slots)


def findings_of(*events):
    return diagnose(events)[1]


def text_of(*events):
    overview, findings = diagnose(events)
    return "\n".join([*overview, *itertools.chain(*((f.title, *f.details, *f.advice) for f in findings))])


def only(*events):
    findings = findings_of(started(), *events, closed())
    assert len(findings) == 1, [f.title for f in findings]
    return findings[0]


def test_a_good_run_has_no_findings_and_a_summary():
    overview, findings = diagnose([started(), sample({}, {}, {}, {}), closed()])
    assert findings == []
    assert overview == [
        "game:make: 4 slots, 2 workers (2 cores), forkserver, native path, on_fault='cut', up after 0.50 s",
        "1 min 40 s, 5,000 steps, 0 faults, 0 restarts, closed in 0.10 s",
    ]


def test_a_hang_tells_slot_phase_count_line_and_the_timeout_to_raise():
    found = only(fault(110.0, stderr_tail=STACK, seed=7, last_action=3), fault(120.0, stderr_tail=STACK))
    assert found.severity is Severity.PROBLEM
    assert found.title == "slot 1 hung in step, twice"
    assert "first 10.0 s, last 20.0 s after the start" in found.details
    assert "at /me/game.py:13 in wait" in found.details
    assert "4 episodes lost" in found.details
    assert "if it is only slow, raise step_timeout_s above 0.5 s" in found.advice


def test_the_seed_and_action_of_the_last_fault_are_shown_for_replaying_it():
    assert "with seed 7, action 3" in only(fault(110.0, seed=7, last_action=3)).details
    assert "most recently with seed 9" in only(fault(110.0, seed=7), fault(111.0, seed=9)).details


def test_faults_with_different_causes_are_different_findings_and_the_most_frequent_comes_first():
    other = fault(115.0, kind="crashed", summary="killed by SIGSEGV during step", signal="SIGSEGV")
    titles = [f.title for f in findings_of(started(), other, fault(110.0), fault(120.0), closed())]
    assert titles == ["slot 1 hung in step, twice", "slot 1 was killed by SIGSEGV during step, once"]


def test_one_cause_in_several_slots_is_one_finding_with_the_count_of_each():
    found = only(fault(110.0, culprit=0), fault(120.0, culprit=1), fault(130.0, culprit=1))
    assert found.title == "slots 0-1 hung in step, 3 times"
    assert "slot 0: once, slot 1: twice" in found.details


def test_a_fault_without_a_culprit_is_reported_of_all_slots_of_its_worker():
    killed = fault(110.0, kind="crashed", phase="idle", culprit=None, signal="SIGKILL", summary="killed by SIGKILL")
    assert only(killed).title == "slots 0-1 were killed by SIGKILL, once"


def test_a_kill_suggests_memory_and_fewer_workers():
    events = [
        WorkerReady(at_s=100.5, worker=0, pid=7, rss_bytes=100 * MB, seconds=0.1, ready=1, total=1),
        WorkerExited(at_s=110.0, worker=0, pid=7, rss_bytes=900 * MB, cause="killed", expected=False),
        fault(110.1, kind="crashed", pid=7, signal="SIGKILL", summary="killed by SIGKILL"),
    ]
    advice = " ".join(only(*events).advice)
    assert "out of memory (it held 900 MB): run fewer workers" in advice
    assert "it grew from 100 MB to 900 MB: max_rss_bytes=720_000_000" in advice


def test_the_time_until_a_slot_was_back_with_a_fresh_episode_is_reported():
    others = EpisodeStarted(at_s=110.5, slots=(3,), seconds=0.5)
    back = EpisodeStarted(at_s=112.0, slots=(0,), seconds=1.9)
    assert "back after 1.90 s" in only(fault(110.1), others, back).details


def test_a_slot_that_never_came_back_has_no_time_of_return():
    before = EpisodeStarted(at_s=105.0, slots=(0, 1), seconds=0.1)
    assert not any("back after" in detail for detail in only(before, fault(110.0)).details)


def test_an_exception_is_reported_with_its_line():
    traceback = 'Traceback (most recent call last):\n  File "/me/game.py", line 9, in step\nValueError: boom\n'
    found = only(fault(110.0, kind="raised", summary="raised ValueError: boom in step", traceback=traceback))
    assert found.title == "slot 1 raised ValueError: boom in step, once"
    assert "at /me/game.py:9 in step" in found.details


@pytest.mark.parametrize(
    ("phase", "advice"),
    [
        ("construct", "start_concurrency=1"),
        ("import", "preload=["),
        ("reset", "raise reset_timeout_s"),
        ("idle", "it was stopped (SIGSTOP"),
    ],
)
def test_each_phase_of_a_hang_has_its_own_remedy(phase, advice):
    assert advice in " ".join(only(fault(110.0, phase=phase)).advice)


def test_several_workers_hanging_at_once_point_to_the_machine():
    together = fault(110.0, worker=0), fault(110.2, worker=1, slots=(2, 3), culprit=3)
    assert "run fewer workers" in " ".join(only(*together).advice)
    apart = fault(110.0, worker=0), fault(130.0, worker=1, slots=(2, 3), culprit=3)
    assert "run fewer workers" not in " ".join(only(*apart).advice)


def test_a_poison_action_and_a_cursed_slot_are_noticed():
    advice = " ".join(only(*(fault(110.0 + i, last_action=5) for i in range(3))).advice)
    assert "always slot 1" in advice
    assert "always action 5" in advice


def test_neighbours_that_lost_their_episode_are_a_reason_for_more_workers():
    assert "lost their episodes too: with more workers" in " ".join(only(fault(110.0, slots=(0, 1))).advice)
    assert "more workers" not in " ".join(only(fault(110.0, slots=(1,))).advice)


def test_a_pool_that_never_started_says_so_with_the_reason_of_its_worker():
    traceback = "Traceback (most recent call last):\n  File \"/me/game.py\", line 3, in make\nKeyError: 'rom'\n"
    text = text_of(
        fault(100.0, kind="start", phase="construct", culprit=None, during_start=True, traceback=traceback,
              summary="never started: KeyError: 'rom' during construct"),
        closed(),
    )  # fmt: skip
    assert "the pool never started" in text
    assert "never started: KeyError: 'rom' during construct" in text
    assert "at /me/game.py:3 in make" in text
    assert "mistake in the environment's settings" in text
    assert "episodes lost" not in text


def test_quarantine_is_a_problem_of_its_own():
    found = only(SlotQuarantined(at_s=150.0, slots=(3,), worker=1, restarts=11, window_s=300.0))
    assert found.severity is Severity.PROBLEM
    assert found.title == "slot 3 quarantined after 11 faults"


def test_a_lost_keeper_is_a_problem():
    assert only(KeeperLost(at_s=150.0, cause="gone")).severity is Severity.PROBLEM


def test_a_run_without_an_end_is_distinguished_from_a_closed_one():
    assert "the run has no recorded end" in text_of(started(), sample({}))
    assert "the run has no recorded end" not in text_of(started(), sample({}), closed())


def test_workers_killed_at_close_point_to_the_closing_time():
    found = findings_of(started(), closed(killed=2))
    assert [f.title for f in found] == ["2 workers did not close in time and had to be killed"]
    assert "close_timeout_s" in " ".join(found[0].advice)


def test_a_growing_worker_is_suspected_of_a_leak():
    ready = WorkerReady(at_s=100.0, worker=0, rss_bytes=100 * MB, seconds=0.1, ready=1, total=1)
    grown = only(ready, sample({"rss_bytes": 300 * MB}))
    assert grown.title == "worker 0 grew from 100 MB to 300 MB"
    assert grown.advice == ("if it keeps growing, max_rss_bytes=240_000_000 replaces it before it gets that large",)
    assert findings_of(started(), ready, sample({"rss_bytes": 120 * MB}), closed()) == []


def test_stragglers_are_named_with_their_times():
    found = only(sample({}, {}, {"straggler": True, "step_p50_s": 4e-3}, {}))
    assert found.title.startswith("slot 2 lags behind")
    assert "4.0 ms in slot 2, and 1.0 ms in the whole pool" in found.details[0]
    assert "batch_size" in found.advice[0]


def test_a_slot_that_is_slow_by_microseconds_or_for_a_few_steps_only_is_not_worth_a_word():
    assert findings_of(started(), sample({"straggler": True, "step_p50_s": 5e-6, "step_p99_s": 9e-6}), closed()) == []
    assert findings_of(started(), sample({"straggler": True, "steps": 20}), closed()) == []


def test_a_heavy_tail_suggests_first_ready_batches():
    found = only(sample({"step_p99_s": 0.05}, {"step_p99_s": 0.05}))
    assert found.severity is Severity.NOTE
    assert "one step in a hundred takes 50.0 ms, the median 1.0 ms" in found.title


def test_workers_that_mostly_wait_or_mostly_reset_are_noted():
    assert "inside their environments 2% of the time" in only(sample({"share_step": 0.01}, {"share_step": 0.01})).title
    assert "resets take 80%" in only(sample({"share_reset": 0.8, "share_step": 0.1})).title


def test_shares_of_slots_that_take_turns_in_one_worker_add_up():
    busy_together = [{"share_step": 0.06, "worker": 0} for _ in range(8)]
    assert findings_of(started(), sample(*busy_together), closed()) == []


def test_recycling_and_the_slow_path_are_notes_only():
    found = findings_of(started(native=False), WorkerRecycled(at_s=120.0, worker=1, reason="300 s old"), closed())
    assert {f.severity for f in found} == {Severity.NOTE}
    assert len(found) == 2


def test_restarts_are_counted_in_the_overview():
    restart = RestartScheduled(at_s=111.0, worker=0, delay_s=0.1, restarts=1)
    assert "1 fault, 1 restart," in text_of(started(), fault(110.0), restart, closed())


def test_problems_come_before_warnings_and_notes():
    found = findings_of(started(native=False), fault(110.0), closed(killed=1))
    assert [f.severity for f in found] == [Severity.PROBLEM, Severity.WARNING, Severity.NOTE]


def test_numbers_of_a_damaged_sample_do_not_stop_the_diagnosis():
    damaged = MetricsSampled(
        at_s=150.0, steps_per_s=1.0, per_slot=({"slot": "x", "steps": None, "straggler": True}, {})
    )
    assert findings_of(started(), damaged, closed()) == []


def test_no_events_at_all_is_a_pool_that_never_started():
    assert [f.title for f in findings_of()] == ["the pool never started"]


def test_words_for_slots_times_and_sizes():
    assert slots_in_words([5]) == "slot 5"
    assert slots_in_words([2, 0, 1, 5]) == "slots 0-2, 5"
    assert [seconds_in_words(s) for s in (35e-6, 0.0012, 0.35, 59.94, 125, 3780)] == [
        "35 us", "1.2 ms", "0.35 s", "59.9 s", "2 min 5 s", "1 h 3 min",
    ]  # fmt: skip
    assert [bytes_in_words(n) for n in (33 * MB, 1500 * MB)] == ["33 MB", "1.5 GB"]
