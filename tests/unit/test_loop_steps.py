"""What one request does to a slot's row, over both twins of the worker's loop: steps, resets, infos, calls."""

import collections
import itertools
import time

import numpy as np
import pytest
from exchange_twins import LONG, PATIENCE_S
from gymnasium import spaces
from loop_twins import BOX, CUT, FIRST, MODES, ON, OVER, SECOND, TWINS, Worker, answer, obs, scripted

from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallRequest
from ninelives.spec.info_schema import InfoSchema
from ninelives.spec.phase import Attention, Phase, Status


@pytest.fixture(params=TWINS)
def twin(request):
    return request.param


def test_a_step_writes_its_row_in_place_and_counts(twin, tmp_path):
    make, made = scripted([FIRST], [answer(1, 2, 0.5), answer(3, 4, 0.25)])
    with Worker(twin, tmp_path, [make, make]) as worker:
        worker.reset()
        worker.step(7)
        rows = worker.step(8)
    for row in rows:
        assert row["obs:."] == [3, 4]
        assert (row["reward"], row["terminated"], row["truncated"]) == (0.25, False, False)
        assert (row["running_return"], row["running_length"]) == (0.75, 2)
        assert (row["steps"], row["in_histogram"], row["episodes"]) == (2, 2, 0)
        assert (row["status"], row["torn"], row["message"], row["attention"]) == (Status.OK, 0, None, 0)
    for env in made:
        assert env.actions == [7, 8]
        assert all(type(action) is int for action in env.actions)
    assert worker.progress.phase is Phase.IDLE


@pytest.mark.parametrize("size", [2047, 2048, 2049, 7056])
def test_rows_of_every_size_are_written_whole(twin, tmp_path, size):
    first, second = np.random.default_rng(size).integers(0, 255, (2, size), np.uint8)
    make, _ = scripted([(first, {})], [(second, 0.0, *ON, {})])
    with Worker(twin, tmp_path, [make, make], spaces.Box(0, 255, (size,), np.uint8)) as worker:
        assert [row["obs:."] for row in worker.reset()] == [first.tolist()] * 2
        assert [row["obs:."] for row in worker.step()] == [second.tolist()] * 2


def test_slots_without_a_request_are_left_alone(twin, tmp_path):
    make, made = scripted([FIRST], [answer(1, 2), answer(3, 4)])
    with Worker(twin, tmp_path, [make, make]) as worker:
        worker.reset()
        rows = worker.step(5, slots=[1])
    assert [row["obs:."] for row in rows] == [[0, 0], [1, 2]]
    assert [env.actions for env in made] == [[], [5]]


def test_every_group_is_served_with_its_own_slots(twin, tmp_path):
    make, made = scripted([FIRST], [answer(1, 2)])
    with Worker(twin, tmp_path, [make] * 3, groups={0: (0, 2), 1: (1,)}) as worker:
        worker.reset()
        assert [row["obs:."] for row in worker.step(6)] == [[1, 2]] * 3
    assert [env.actions for env in made] == [[6]] * 3


def test_groups_are_served_in_turn_however_often_one_of_them_asks(twin, tmp_path):
    served = []

    def eager(_):
        served.append("eager")
        if len(served) < 5:
            worker.ask_again(0)  # while its request is still being served
        return answer(1, 2)

    def patient(_):
        served.append("patient")
        return answer(1, 2)

    makes = [scripted([FIRST], [eager] * 9)[0], scripted([FIRST], [patient])[0]]
    with Worker(twin, tmp_path, makes, groups={0: (0,), 1: (1,)}) as worker:
        worker.reset()
        worker.step()
    assert served[:2] == ["eager", "patient"]
    assert served.count("eager") == 4


MATRIX = np.array([[1, 2], [3, 4]], np.float32)
LAYOUTS = {
    "as declared": MATRIX,
    "read only": np.frombuffer(MATRIX.tobytes(), np.float32).reshape(2, 2),
    "strided": np.repeat(MATRIX, 2, axis=1)[:, ::2],
    "transposed": np.ascontiguousarray(MATRIX.T).T,
    "backwards": np.ascontiguousarray(MATRIX[::-1])[::-1],
    "other byte order": MATRIX.astype(">f4"),
    "double": MATRIX.astype(np.float64),
    "whole numbers": MATRIX.astype(np.int16),
    "unaligned": np.frombuffer(b"x" + MATRIX.tobytes(), np.float32, offset=1).reshape(2, 2),
    "masked": np.ma.array(MATRIX),
    "lists": MATRIX.tolist(),
}


@pytest.mark.parametrize("mode", MODES)
def test_an_observation_arrives_however_its_memory_is_laid_out(twin, tmp_path, mode):
    makes = [
        scripted([(MATRIX, {}), (value, {})], [(value, 1.0, *ON, {}), (value, 1.0, *OVER, {})])[0]
        for value in LAYOUTS.values()
    ]
    with Worker(twin, tmp_path, makes, spaces.Box(-9, 9, (2, 2), np.float32), autoreset=mode) as worker:
        worker.reset()
        for _ in range(3 if mode is Autoreset.NEXT_STEP else 2):
            for kind, row in zip(LAYOUTS, worker.step(), strict=True):
                assert (row["status"], row["obs:."]) == (Status.OK, MATRIX.tolist()), kind


def test_no_wake_up_is_lost_between_parent_and_loop(twin, tmp_path):
    make, _ = scripted([FIRST], itertools.repeat(answer(1, 2)))
    groups = {0: (0,), 1: (1,), 2: (2,)}
    with Worker(twin, tmp_path, [make] * 3, groups=groups, rounds=1, tick=LONG) as worker:
        worker.reset()
        until = time.monotonic() + PATIENCE_S
        for _ in range(200):
            worker.step()
        assert time.monotonic() < until


def test_an_action_the_environment_keeps_is_not_overwritten_by_the_next(twin, tmp_path):
    make, made = scripted([FIRST], [answer(1, 2), answer(3, 4)])
    with Worker(twin, tmp_path, [make], action=spaces.Box(-9, 9, (2,), np.float64)) as worker:
        worker.reset()
        worker.step(1.0)
        worker.step(2.0)
    assert [action.tolist() for action in made[0].actions] == [[1, 1], [2, 2]]


def test_actions_keep_the_structure_of_their_space(twin, tmp_path):
    make, made = scripted([FIRST], [answer(1, 2)])
    space = spaces.Dict({"turn": spaces.Discrete(9), "push": spaces.Tuple([spaces.Box(0, 9, (1,), np.float32)])})
    with Worker(twin, tmp_path, [make], action=space) as worker:
        worker.reset()
        worker.step(3)
    (action,) = made[0].actions
    assert type(action["turn"]) is int
    assert action["turn"] == 3
    assert action["push"][0].tolist() == [3.0]


# ---- resets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_requested_reset_passes_seed_and_options_to_the_environment(twin, tmp_path, mode):
    make, made = scripted([FIRST, SECOND], [])
    with Worker(twin, tmp_path, [make, make], autoreset=mode) as worker:
        rows = worker.reset(seeds=[5, 6], options={"level": 3})
        assert [row["obs:."] for row in rows] == [[0, 0], [0, 0]]
        rows = worker.reset(slots=[0])
    assert [env.reset_calls for env in made] == [[(5, {"level": 3}), (None, None)], [(6, {"level": 3})]]
    assert [row["obs:."] for row in rows] == [[9, 9], [0, 0]]


def test_next_step_resets_on_the_following_step_without_playing_its_action(twin, tmp_path):
    make, made = scripted([FIRST, SECOND], [answer(1, 2, 1.0), answer(3, 4, 2.0, OVER), answer(5, 6, 4.0)])
    with Worker(twin, tmp_path, [make]) as worker:
        worker.reset(seeds=[1])
        worker.step(1)
        (last,) = worker.step(2)
        (fresh,) = worker.step(3)
        (after,) = worker.step(4)
    assert (last["obs:."], last["reward"], last["terminated"], last["attention"]) == (
        [3, 4],
        2.0,
        True,
        Attention.ENDED,
    )
    assert (last["episode_return"], last["episode_length"], last["episodes"]) == (3.0, 2, 1)
    assert (fresh["obs:."], fresh["reward"], fresh["terminated"], fresh["attention"]) == ([9, 9], 0.0, False, 0)
    assert (fresh["running_return"], fresh["running_length"]) == (0.0, 0)
    assert (after["obs:."], after["running_return"], after["steps"]) == ([5, 6], 4.0, 3)
    assert made[0].actions == [1, 2, 4]
    assert made[0].reset_calls == [(1, None), (None, None)]


def test_same_step_returns_the_first_observation_and_keeps_the_last(twin, tmp_path):
    steps = [answer(3, 4, 2.0, CUT, {"why": "time"}), answer(5, 6, 4.0)]
    make, made = scripted([FIRST, (obs(9, 9), {"level": 2})], steps)
    with Worker(twin, tmp_path, [make], autoreset=Autoreset.SAME_STEP) as worker:
        worker.reset()
        (last,) = worker.step(1)
        (after,) = worker.step(2)
    assert (last["obs:."], last["final:."]) == ([9, 9], [3, 4])
    assert (last["reward"], last["terminated"], last["truncated"]) == (2.0, False, True)
    assert last["message"]["info"] == {"level": 2}
    assert last["message"]["final_info"] == {"why": "time"}
    assert last["attention"] == Attention.ENDED | Attention.MAIL
    assert (last["episode_return"], last["running_length"], last["ended"]) == (2.0, 0, 0)
    assert (after["obs:."], after["running_return"], after["message"]) == ([5, 6], 4.0, None)
    assert made[0].actions == [1, 2]


def test_disabled_resets_nothing(twin, tmp_path):
    make, made = scripted([FIRST, SECOND], [answer(3, 4, 2.0, OVER), answer(5, 6, 4.0, OVER)])
    with Worker(twin, tmp_path, [make], autoreset=Autoreset.DISABLED) as worker:
        worker.reset()
        (last,) = worker.step(1)
        assert (last["obs:."], last["ended"]) == ([3, 4], 1)
        (further,) = worker.step(2)
        assert (further["obs:."], further["running_return"]) == ([5, 6], 6.0)
        (again,) = worker.reset()
        assert (again["obs:."], again["ended"]) == ([9, 9], 0)
    assert made[0].actions == [1, 2]


@pytest.mark.parametrize("observation", [BOX, spaces.Dict({"plane": BOX})], ids=["plain", "nested"])
def test_the_last_observation_survives_an_environment_that_reuses_its_buffer(twin, tmp_path, observation):
    buffer = obs(0, 0)

    def put(a, b):
        buffer[:] = a, b
        return buffer if observation is BOX else {"plane": buffer}

    resets = [lambda _: (put(0, 0), {}), lambda _: (put(9, 9), {})]
    make, _ = scripted(resets, [lambda _: (put(3, 4), 1.0, True, False, {})])
    name = "." if observation is BOX else "plane"
    with Worker(twin, tmp_path, [make], observation, autoreset=Autoreset.SAME_STEP) as worker:
        worker.reset()
        (row,) = worker.step()
    assert (row[f"final:{name}"], row[f"obs:{name}"]) == ([3, 4], [9, 9])


def test_last_objects_and_infos_survive_an_environment_that_reuses_them(twin, tmp_path):
    words, place = ["first"], np.zeros(1)

    def say(word, number):
        words[0], place[0] = word, number
        return {"said": words}

    resets = [lambda _: (say("first", 0), {}), lambda _: (say("fresh", 9), {"at": place})]
    make, _ = scripted(resets, [lambda _: (say("last", 4), 1.0, True, False, {"at": place})])
    observation = spaces.Dict({"said": spaces.Sequence(spaces.Text(9))})
    with Worker(twin, tmp_path, [make], observation, autoreset=Autoreset.SAME_STEP) as worker:
        worker.reset()
        (row,) = worker.step()
    assert row["message"]["objects"] == {"said": ["fresh"]}
    assert row["message"]["final_objects"] == {"said": ["last"]}
    assert (row["message"]["info"]["at"].tolist(), row["message"]["final_info"]["at"].tolist()) == ([9], [4])


# ---- infos -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_an_info_travels_by_mail_and_an_empty_one_not_at_all(twin, tmp_path, mode):
    make, _ = scripted(
        [FIRST], [answer(1, 2, info={"a": "x"}), answer(1, 2), answer(1, 2, info=collections.OrderedDict())]
    )
    with Worker(twin, tmp_path, [make], autoreset=mode) as worker:
        worker.reset()
        (row,) = worker.step()
        assert (row["message"], row["attention"]) == ({"info": {"a": "x"}, "objects": {}}, Attention.MAIL)
        for _ in range(2):
            (row,) = worker.step()
            assert (row["message"], row["attention"]) == (None, 0)


@pytest.mark.parametrize("mode", MODES)
def test_an_info_of_numbers_is_written_into_the_slab_and_leaves_no_trace_in_the_next_step(twin, tmp_path, mode):
    infos = [{"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}, {"a": "two"}, {"a": 3, "b": 2.5}, {}]
    make, _ = scripted([FIRST], [answer(1, 2, info=info) for info in infos])
    with Worker(twin, tmp_path, [make], autoreset=mode) as worker:
        worker.reset()
        rows = [worker.step()[0] for _ in infos]
    number = InfoSchema.learned(infos[0]).number
    assert [row["info_schema"] for row in rows] == [number, number, 0, number, 0]
    assert [row["attention"] for row in rows] == [Attention.INFO, Attention.INFO, Attention.MAIL, Attention.INFO, 0]
    assert [bool(row["message"]) for row in rows] == [False, False, True, False, False]
    assert np.array(rows[3]["infos"], np.uint8)[:8].view(np.int64) == 3


def test_an_answer_that_fails_after_one_with_numbers_has_no_info(twin, tmp_path):
    make, _ = scripted([FIRST], [answer(1, 2, info={"a": 1}), RuntimeError("broken")])
    with Worker(twin, tmp_path, [make]) as worker:
        worker.reset()
        assert worker.step()[0]["info_schema"]
        assert worker.step()[0]["info_schema"] == 0


def test_declared_infos_live_in_the_slab_and_are_marked_absent_when_missing(twin, tmp_path):
    make, _ = scripted(
        [FIRST], [answer(1, 2, info={"fuel": 3, "note": "x"}), answer(1, 2, info={"fuel": 4}), answer(1, 2)]
    )
    with Worker(twin, tmp_path, [make], infos={"fuel": "f8"}) as worker:
        worker.reset()
        rows = [worker.step()[0] for _ in range(3)]
    assert [row["has:fuel"] for row in rows] == [True, True, False]
    assert [row["info:fuel"] for row in rows[:2]] == [3.0, 4.0]
    assert [row["message"] and row["message"]["info"] for row in rows] == [{"note": "x"}, None, None]


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_is_answered_by_mail_and_changes_no_row(twin, tmp_path):
    make, _ = scripted([FIRST], [answer(1, 2, info={"a": 1}), answer(3, 4)])
    with Worker(twin, tmp_path, [make]) as worker:
        worker.reset()
        (before,) = worker.step()
        (row,) = worker.call(CallRequest("get", "closed"))
        assert row["message"].value is False
        assert row["attention"] == Attention.MAIL
        (failed,) = worker.call(CallRequest("call", "fly"))
        assert "fly" in failed["message"].error
        assert failed["status"] == Status.OK, "the caller's mistake does not cut the episode"
        for name in ("obs:.", "reward", "running_length", "steps", "status"):
            assert before[name] == row[name] == failed[name]
        assert worker.step()[0]["message"] is None
