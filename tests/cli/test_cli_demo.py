"""``ninelives demo``: it trains, kills one of its own workers, and reports whether training continued."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ninelives.cli import demo
from ninelives.cli.reporting.demo_report import DemoCallback, DemoReport
from ninelives.events import SlotHealed
from ninelives.train.callbacks import StopTraining

VICTIMS = (4, 5)


@pytest.mark.usefixtures("_fonts_are_open")
def test_the_demo_trains_kills_a_worker_continues_and_draws_what_was_learned(ninelives, here):
    done = ninelives("demo", "--seconds", "2", "--env", "CartPole-v1")
    assert (done.code, done.err) == (0, "")
    assert "CartPole-v1: 16 slots" in done.out
    assert re.search(r"halfway, at step [\d,]+, a worker \(pid \d+\) was killed by SIGKILL", done.out)
    assert re.search(r"its slots [\d-]+ were back in the same state after .*: [\d,]+ steps? replayed", done.out)
    assert re.search(r"training continued: [\d,]+ steps after the kill, 0 rows lost", done.out)
    assert "█" in done.out
    picture = here / re.search(r"curve: (\S+)", done.out)[1]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (picture.parent / "progress.csv").exists()


def test_where_our_game_does_not_start_the_demo_says_why_and_takes_another(monkeypatch, capsys):
    broken = replace(demo.CARTPOLE, env_kwargs={"core": "none"})
    monkeypatch.setattr(demo, "ERRAND", broken)
    assert demo.DemoCommand().chosen() is demo.CARTPOLE
    said = capsys.readouterr().err
    assert said.startswith("CartPole-v1 does not start here, so the demo trains on CartPole-v1: ")
    assert "unexpected keyword argument 'core'" in said


def test_an_environment_that_starts_is_trained_on():
    assert demo.reason_not_to_start(demo.CARTPOLE) is None


def test_a_demo_without_time_is_a_usage_error(ninelives):
    done = ninelives("demo", "--seconds", "0")
    assert done.code == 2
    assert "must be greater than zero" in done.err


def healed(slots, at_s=11.5):
    return [SlotHealed(slots=(slot,), seconds=0.1, replayed=3, from_step=0, at_s=at_s) for slot in slots]


def killed_report():
    report = DemoReport(victims=VICTIMS, killed_pid=7, killed_at=100, killed_s=11.0, step=100)
    report.curve = [(50.0, 1.0), (100.0, 2.0)]
    return report


def note_all(report, events):
    for event in events:
        report.note(event)


def test_slots_that_come_back_while_no_row_is_lost_are_a_run_that_recovered():
    report = killed_report()
    note_all(report, healed(VICTIMS[:1]))
    assert not report.recovered
    note_all(report, healed(VICTIMS))
    report.step = 150
    assert report.recovered
    assert report.back_s == 0.5
    assert (
        "its slots 4-5 were back in the same state after 0.50 s: 6 steps replayed, every row compared" in report.lines()
    )
    assert "training continued: 50 steps after the kill, 0 rows lost" in report.lines()


def test_a_masked_row_is_not_a_run_that_recovered():
    report = killed_report()
    note_all(report, healed(VICTIMS))
    report.step, report.rows_lost = 150, 0.01
    assert not report.recovered
    assert "1.00% of the rows were lost" in report.lines()[-1]


def test_slots_that_never_come_back_are_not_a_run_that_recovered():
    report = killed_report()
    report.step = 150
    assert not report.recovered
    assert "never came back" in report.lines()[-1]


def test_a_slot_healed_before_the_kill_is_not_one_that_came_back():
    report = DemoReport(victims=VICTIMS)
    note_all(report, healed(VICTIMS))
    assert report.back_s is None


def test_the_demo_waits_for_the_killed_slots_but_not_forever():
    now = [0.0]
    callback = DemoCallback(10.0, clock=lambda: now[0])
    callback.on_start(SimpleNamespace(pool=SimpleNamespace(workers=1, worker_pids=(None,))))
    callback.report = killed_report()
    for moment in (5.0, 12.0, 19.0):
        now[0] = moment
        callback.on_update(None)
    now[0] = 20.0
    with pytest.raises(StopTraining):
        callback.on_update(None)
    assert callback.is_over
