"""What a person sees of a training run: numbers that are right, few lines, a panel on a terminal."""

import io

import pytest
from rich.console import Console
from watched_views import Time, about, in_lines, workers_up

from ninelives.events import (
    FaultSeen,
    HealFailed,
    RestartScheduled,
    SlotHealed,
    SlotQuarantined,
)
from ninelives.view.curve import chart, sparkline
from ninelives.view.live_output import EVENTS_PER_SECOND
from ninelives.view.progress import STATUS_EVERY_S, ProgressView
from ninelives.view.train_model import CURVE_POINTS, TrainModel
from ninelives.view.train_panel import panel, status_line


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def lines(clock):
    return in_lines(ProgressView, clock)


def up(model, workers=2):
    workers_up(model, workers)
    model.begin(0.0, "CartPole-v1", 0, 1000)
    return model


def test_speed_and_time_left_are_those_of_the_last_seconds():
    model = up(TrainModel())
    for second in range(1, 60):
        model.rollout(float(second), 5 * second, None, 1.0)
    for second in range(60, 80):
        model.rollout(float(second), 295 + 10 * (second - 59), None, 1.0)
    assert model.steps_per_s == pytest.approx(10.0)
    assert model.seconds_left == pytest.approx((1000 - 495) / 10)


def test_a_resumed_run_does_not_count_the_steps_of_before_as_speed():
    model = TrainModel()
    model.begin(0.0, "CartPole-v1", 900, 1000)
    model.rollout(1.0, 950, None, 1.0)
    assert model.steps_per_s == pytest.approx(50.0)
    assert model.seconds_left == pytest.approx(1.0)


def test_returns_are_the_mean_that_was_given_and_the_best_episode():
    model = up(TrainModel())
    assert "no return yet" in status_line(model)
    for total in (-5.0, 12.0, 3.0):
        model.episode(total)
    model.rollout(1.0, 100, 3.333, 1.0)
    assert "return 3.33, best 12.00, 3 episodes" in status_line(model)


def test_every_slot_has_its_state():
    model = up(TrainModel())
    assert model.slot_states() == ["running"] * 4
    model.note(SlotQuarantined(slots=(1,), worker=0, restarts=11, window_s=300.0))
    assert model.slot_states() == ["running", "quarantined", "running", "running"]


def test_faults_and_how_they_were_resolved_are_counted():
    model = up(TrainModel())
    model.note(FaultSeen(**about(0), kind="crashed", phase="step", summary="killed by SIGKILL"))
    model.note(RestartScheduled(**about(0), delay_s=0.1, restarts=1))
    for slot in (0, 1):
        model.note(SlotHealed(slots=(slot,), seconds=0.1, replayed=3, from_step=0))
    assert "1 fault, 1 restart, 2 slots healed" in status_line(model)
    model.note(HealFailed(slots=(0,), reason="poison", step=3))
    model.rollout(1.0, 10, None, 0.98)
    assert "2.0% of rows lost" in status_line(model)


def test_idle_shares_are_named():
    model = up(TrainModel())
    model.update(1, {}, {"collector": 0.25, "learner": 0.5})
    assert "idle: collector 25%, learner 50%" in status_line(model)


def test_without_a_terminal_the_state_is_printed_now_and_then(lines, clock):
    lines.begin("CartPole-v1", 0, 1000)
    for step in range(10, 500, 10):
        clock.now += STATUS_EVERY_S / 10
        lines.rollout(step, 1.0, 1.0)
    assert len(lines.written()) == 4
    assert lines.written()[0].startswith("110 of 1,000 steps")
    lines.close()
    assert lines.written()[-1].startswith("490 of 1,000 steps")


def test_a_finished_run_is_reported_once(lines, clock):
    lines.begin("CartPole-v1", 0, 10)
    lines.rollout(5, 1.0, 1.0)
    clock.now += STATUS_EVERY_S
    lines.rollout(10, 1.0, 1.0)
    lines.close()
    assert len(lines.written()) == 1
    assert "left" not in lines.written()[0]


def test_a_flood_of_faults_becomes_a_number(lines, clock):
    for _ in range(100):
        lines.emit(FaultSeen(worker=0, slots=(0,), generation=1, kind="crashed", phase="step", summary="SIGKILL"))
    lines.close()
    assert len(lines.written()) == EVENTS_PER_SECOND + 1
    assert lines.written()[-1] == "... and 95 more events"


def test_a_healed_slot_is_news(lines):
    lines.emit(SlotHealed(slots=(3,), seconds=0.25, replayed=12, from_step=0))
    assert lines.written() == ["slot 3: back in the same state after 0.25 s, 12 steps replayed"]


def drawn(model, news=()):
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    console.print(panel(model, 10.0, news))
    return console.file.getvalue()


def test_the_panel_shows_everything_at_a_glance():
    model = up(TrainModel())
    for second in range(1, 100):
        model.rollout(float(second), second, float(second), 1.0)
    model.episode(99.0)
    model.update(99, {}, {"collector": 0.1, "learner": 0.9})
    text = drawn(model, ["slot 3: back"])
    for part in ("ninelives CartPole-v1", "99 of 1,000 steps", "1 steps/s", "│ ■■■■  4 running",
                 "return 99.00, best 99.00", "idle: collector 10%", "0 faults", "slot 3: back", "▁", "█"):  # fmt: skip
        assert part in text


def test_on_a_terminal_the_panel_is_drawn_in_place(clock):
    stream = io.StringIO()
    view = ProgressView(stream, live=True, clock=clock)
    view.begin("CartPole-v1", 0, 100)
    for step in range(10):
        clock.now += 1.0
        view.rollout(step, None, 1.0)
    view.close()
    assert view.is_live
    assert "\x1b[1A" in stream.getvalue()
    assert "9 of 100 steps" in stream.getvalue()


def test_a_long_curve_is_thinned_and_keeps_its_end():
    model = up(TrainModel())
    for step in range(1000):
        model.rollout(float(step), step, float(step), 1.0)
    thin = model.thin_curve()
    assert len(thin) <= CURVE_POINTS
    assert thin[-1] == (999, 999.0)


def test_a_sparkline_rises_with_its_values():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0, 5.0]) == "▁▁"


def test_a_chart_has_axes_and_rises_where_the_values_do():
    lines = chart([(step, step / 1000) for step in range(0, 100_001, 100)], width=40, height=5)
    assert lines[0].startswith("98.75 ┤")
    assert lines[0].rstrip().endswith("█")
    assert lines[-1].strip().startswith("0")
    assert lines[-1].endswith("100k")
    heights = [sum(column < len(line) and line[column] not in " ┤" for line in lines[:5]) for column in range(7, 47)]
    assert heights == sorted(heights)


def test_an_empty_chart_says_so():
    assert chart([]) == ["nothing to draw yet"]
