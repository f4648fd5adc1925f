"""What a broken environment does to its slot and to no other, over both twins of the worker's loop."""

import numpy as np
import pytest
from gymnasium import spaces
from loop_twins import FIRST, MODES, ON, OVER, SECOND, TWINS, Scripted, Worker, answer, obs, scripted

from ninelives.spec.autoreset import Autoreset
from ninelives.spec.phase import Attention, Phase, Status
from ninelives.transport.control import FROM_PHASE


@pytest.fixture(params=TWINS)
def twin(request):
    return request.param


BAD_DATA = {
    "NaN": (answer(np.nan, 2), ".: holds NaN"),
    "NaN reward": (answer(1, 2, float("nan")), "reward: holds NaN"),
    "shape": ((np.zeros(3, np.float32), 1.0, *ON, {}), "shape (3,) where the space declares (2,)"),
    "dtype": ((np.array(["a", "b"]), 1.0, *ON, {}), "dtype <U1"),
    "four values": (answer(1, 2)[:4], "env.step() must return (obs, reward, terminated, truncated, info)"),
    "a list": (list(answer(1, 2)), "env.step() must return (obs, reward, terminated, truncated, info)"),
    "nothing": (None, "env.step() must return (obs, reward, terminated, truncated, info)"),
    "info": ((obs(1, 2), 1.0, *ON, None), "info must be a dict, got NoneType"),
    "bytes": ((b"ab", 1.0, *ON, {}), "shape ()"),
}


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.parametrize("mode", MODES)
def test_bad_data_is_a_fault_of_its_slot_that_says_what_is_wrong(twin, tmp_path, case, mode):
    bad, words = BAD_DATA[case]
    broken, _ = scripted([FIRST, SECOND], [answer(1, 2), bad])
    healthy, _ = scripted([FIRST], [answer(1, 2), answer(3, 4)])
    with Worker(twin, tmp_path, [broken, healthy], autoreset=mode) as worker:
        worker.reset()
        worker.step()
        row, other = worker.step()
    assert row["status"] == Status.BAD_DATA
    assert words in row["message"]["summary"]
    assert row["message"]["phase"] == "step"
    assert row["attention"] & Attention.FAULT
    assert row["steps"] == row["in_histogram"] == 1, "a step that failed is no step"
    assert (other["status"], other["obs:."]) == (Status.OK, [3, 4])
    assert worker.control.from_worker[0, FROM_PHASE] == Phase.IDLE


@pytest.mark.parametrize("case", ["NaN", "NaN reward", "shape", "dtype", "four values"])
def test_bad_data_leaves_the_last_good_row_as_it_was(twin, tmp_path, case):
    make, _ = scripted([FIRST], [answer(1, 2, 0.5), BAD_DATA[case][0]])
    with Worker(twin, tmp_path, [make]) as worker:
        worker.reset()
        worker.step()
        (row,) = worker.step()
    assert (row["obs:."], row["torn"]) == ([1, 2], 0)


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_is_a_fault_of_its_slot_and_a_reset_rebuilds_the_environment(twin, tmp_path, mode):
    make, made = scripted([FIRST], [answer(1, 2), ValueError("the rook fell")])
    healthy, _ = scripted([FIRST, SECOND], [answer(1, 2), answer(3, 4), answer(5, 6)])
    with Worker(twin, tmp_path, [make, healthy], autoreset=mode) as worker:
        worker.reset(seeds=[3, 4])
        worker.step()
        row, other = worker.step()
        assert (row["status"], other["status"]) == (Status.RAISED, Status.OK)
        assert row["message"] == {"summary": "ValueError: the rook fell", "phase": "step"}
        row, _ = worker.reset(seeds=[8, 0], slots=[0])
        assert (row["status"], row["obs:."], row["running_length"]) == (Status.OK, [0, 0], 0)
        row, other = worker.step(9)
    assert made[0].closed
    assert made[1].reset_calls == [(8, None)]
    assert made[1].actions == [9], "the loop steps the new environment"
    assert (row["obs:."], other["obs:."]) == ([1, 2], [5, 6])


@pytest.mark.parametrize("mode", [Autoreset.NEXT_STEP, Autoreset.SAME_STEP])
def test_the_next_episode_of_a_rebuilt_environment_is_its_own(twin, tmp_path, mode):
    make, made = scripted([FIRST, SECOND], [ValueError("broke")])
    with Worker(twin, tmp_path, [make], autoreset=mode) as worker:
        worker.reset()
        worker.step()
        made.clear()
        worker.reset()
        made[0].play_on([answer(1, 2, flags=OVER)])
        (row,) = worker.step()
        if mode is Autoreset.NEXT_STEP:
            (row,) = worker.step()
    assert row["obs:."] == [9, 9]
    assert made[0].reset_calls == [(None, None)] * 2


@pytest.mark.parametrize("mode", [Autoreset.NEXT_STEP, Autoreset.SAME_STEP])
def test_an_exception_in_an_automatic_reset_names_the_reset(twin, tmp_path, mode):
    make, _ = scripted([FIRST, RuntimeError("no more levels")], [answer(1, 2, flags=OVER)])
    with Worker(twin, tmp_path, [make], autoreset=mode) as worker:
        worker.reset()
        (row,) = worker.step()
        if mode is Autoreset.NEXT_STEP:
            (row,) = worker.step()
    assert row["message"] == {"summary": "RuntimeError: no more levels", "phase": "reset"}
    assert (row["status"], row["ended"]) == (Status.RAISED, 0)


def test_an_environment_that_cannot_be_built_again_is_tried_with_every_reset(twin, tmp_path):
    attempts = []

    def make():
        attempts.append(1)
        if len(attempts) == 2:
            raise OSError("the emulator is busy")
        return Scripted([FIRST], [ValueError("broken")])

    with Worker(twin, tmp_path, [make]) as worker:
        worker.reset()
        worker.step()
        (row,) = worker.reset()
        assert row["message"] == {"summary": "OSError: the emulator is busy", "phase": "construct"}
        (row,) = worker.reset()
    assert (row["status"], len(attempts)) == (Status.OK, 3)


def test_a_wrong_answer_to_reset_is_bad_data(twin, tmp_path):
    make, _ = scripted([obs(1, 2)], [])
    with Worker(twin, tmp_path, [make]) as worker:
        (row,) = worker.reset()
    assert row["status"] == Status.BAD_DATA
    assert "env.reset() must return (obs, info)" in row["message"]["summary"]


def test_nan_passes_where_only_shapes_are_checked(twin, tmp_path):
    make, _ = scripted([FIRST], [answer(np.nan, 2)])
    with Worker(twin, tmp_path, [make], check="shape") as worker:
        worker.reset()
        (row,) = worker.step()
    assert row["status"] == Status.OK
    assert np.isnan(row["obs:."][0])


def test_values_out_of_bounds_are_a_fault_where_bounds_are_checked(twin, tmp_path):
    make, _ = scripted([FIRST], [answer(1, 2), answer(1, 11)])
    with Worker(twin, tmp_path, [make], spaces.Box(-9, 9, (2,), np.float32), check="bounds") as worker:
        worker.reset()
        assert worker.step()[0]["status"] == Status.OK
        (row,) = worker.step()
    assert row["status"] == Status.BAD_DATA
    assert "11" in row["message"]["summary"]


def test_a_number_too_large_for_its_row_leaves_the_last_good_one_there(twin, tmp_path):
    make, _ = scripted([(1, {})], [(2, 1.0, *ON, {}), (2**70, 1.0, *ON, {})])
    with Worker(twin, tmp_path, [make], spaces.Discrete(5)) as worker:
        worker.reset()
        worker.step()
        (row,) = worker.step()
    assert (row["status"], row["obs:."]) == (Status.BAD_DATA, 2)


def test_leaving_the_process_is_not_swallowed(twin, tmp_path):
    make, _ = scripted([FIRST], [SystemExit(4)])

    def step_once():
        with Worker(twin, tmp_path, [make]) as worker:
            worker.reset()
            worker.step()

    with pytest.raises(SystemExit):
        step_once()
