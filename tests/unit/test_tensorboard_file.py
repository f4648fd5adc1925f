"""Scalars are where TensorBoard looks for them, and a resumed run does not say a step twice."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ninelives.view.table import ProgressTable, read_table
from ninelives.view.tensorboard import TensorBoardFile


def curve(directory, name):
    accumulator = EventAccumulator(str(directory))
    accumulator.Reload()
    return [(event.step, round(event.value, 6)) for event in accumulator.Scalars(name)]


def write(directory, steps, value, resumed_at=None):
    file = TensorBoardFile(directory, resumed_at)
    for step in steps:
        file.scalars(step, {"rollout/ep_rew_mean": value, "losses/entropy": 0.5})
    file.close()


def test_scalars_are_read_back_by_name_and_step(tmp_path):
    write(tmp_path, [10, 20], 1.5)
    assert curve(tmp_path, "rollout/ep_rew_mean") == [(10, 1.5), (20, 1.5)]
    assert curve(tmp_path, "losses/entropy") == [(10, 0.5), (20, 0.5)]


def test_what_came_after_the_checkpoint_is_forgotten_when_the_run_is_resumed(tmp_path):
    write(tmp_path, [10, 20, 30], 1.0)
    for file in tmp_path.iterdir():
        file.rename(tmp_path / "events.out.tfevents.0000000001.first")  # files are read in the order of their names
    write(tmp_path, [30, 40], 2.0, resumed_at=20)
    assert curve(tmp_path, "rollout/ep_rew_mean") == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]


def test_the_table_has_one_row_an_update_and_is_continued(tmp_path):
    path = tmp_path / "progress.csv"
    for step in (10, 20):
        table = ProgressTable(path)
        table.row({"step": step, "loss": 0.5, "late" if step == 20 else "early": 1})
        table.close()
    assert read_table(path) == [{"step": 10, "loss": 0.5, "early": 1}, {"step": 20, "loss": 0.5}]


def test_an_empty_cell_is_no_number(tmp_path):
    table = ProgressTable(tmp_path / "progress.csv")
    table.row({"step": 1, "return": None})
    table.row({"step": 2, "return": 3.0})
    table.close()
    assert read_table(table.path) == [{"step": 1}, {"step": 2, "return": 3.0}]
