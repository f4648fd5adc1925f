"""What the journal writes down, and what it makes of it when a slot must come back. Over both twins of the notes."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from journal_twins import TWINS, Desk, digests_of

from ninelives.pool.recovery.journal import CALLS_LIMIT, Journal
from ninelives.pool.recovery.recorder import CHUNK
from ninelives.pool.recovery.spill import LEAST_BYTES, MEMORY_BYTES, share_bytes
from ninelives.spec.call import CallRequest
from ninelives.spec.seeds import episode_seed
from ninelives.transport.control import Control, control_layout

ENTRY_BYTES = 1 + 4
"""One step of a Discrete(4) in the journal: its action and the digest of its row."""

SPREAD = 2654435761
"""Odd, so that every bit of a digest differs from step to step."""


@pytest.fixture(params=TWINS)
def twin(request):
    return request.param


@pytest.fixture
def desk(tmp_path, monkeypatch, twin):
    return Desk(tmp_path, monkeypatch, twin)


def play(desk, actions, slot=0):
    """Send and answer; the other slots get zeros and are answered too."""
    for action in actions:
        row = np.zeros(len(desk.control.op), np.int64)
        row[slot] = action
        desk.send(row)
        for other in range(len(row)):
            desk.answer(other)


def test_a_slot_whose_step_was_interrupted_is_brought_to_where_that_step_began(desk):
    for slot in range(3):
        desk.begin(slot, 7 + slot)
    play(desk, [3, 1, 2], slot=1)
    desk.send([0, 3, 0])
    desk.control.digest[1] = 999  # the dead worker may have written anything
    order = desk.journal.order(1, is_open=True)
    assert (order.beginning.seed, order.steps, desk.actions_of(order)) == (8, 3, [3, 1, 2])
    assert digests_of(order) == [100, 101, 102, 103]


def test_an_idle_slot_is_brought_to_its_newest_row(desk):
    desk.begin()
    play(desk, [3, 1])
    order = desk.journal.order(0, is_open=False)
    assert (desk.actions_of(order), digests_of(order)) == ([3, 1], [100, 101, 102])


def test_a_slot_that_was_just_reset_has_nothing_to_replay(desk):
    desk.begin()
    play(desk, [3, 1])
    desk.answer_reset(digest=55)
    order = desk.journal.order(0, is_open=False)
    assert (order.steps, digests_of(order)) == (0, [55])
    assert order.beginning.seed == episode_seed(7, 0, 1)


def test_the_next_episode_is_noted_from_its_own_beginning(desk):
    desk.begin()
    play(desk, [3, 1])
    desk.control.ended[0] = 1
    desk.send([2, 0, 0])
    assert desk.journal.is_autoreset(0)
    desk.answer_reset()
    play(desk, [2, 2])
    order = desk.journal.order(0, is_open=False)
    assert (order.beginning.seed, desk.actions_of(order)) == (episode_seed(7, 0, 1), [2, 2])


def test_a_same_step_ending_needs_no_request_of_its_own(tmp_path, monkeypatch, twin):
    desk = Desk(tmp_path, monkeypatch, twin, next_step=False)
    desk.begin()
    play(desk, [3])
    desk.send([1, 0, 0])
    desk.answer_reset()  # ended and begun anew in one answer
    play(desk, [2])
    order = desk.journal.order(0, is_open=False)
    assert desk.actions_of(order) == [2]


def test_an_ending_under_way_is_undone_with_its_episode(tmp_path, monkeypatch, twin):
    desk = Desk(tmp_path, monkeypatch, twin, next_step=False)
    desk.begin()
    play(desk, [3])
    desk.send([1, 0, 0])
    desk.answer_reset()  # by a worker that died before it could say so
    order = desk.journal.order(0, is_open=True)
    assert (order.beginning.seed, desk.actions_of(order), digests_of(order)) == (7, [3], [100, 101])


@pytest.mark.parametrize("steps", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1000])
def test_long_episodes_are_kept_whole(tmp_path, monkeypatch, twin, steps):
    """Of many slots at once: their chunks are full at the same moment."""
    desk = Desk(tmp_path, monkeypatch, twin, slots=37)
    table = np.random.default_rng(1).integers(0, 4, (steps, 37))
    for slot in range(37):
        desk.begin(slot)
    for row in table:
        desk.send(row)
        desk.control.running_length += 1
        desk.control.digest[:] = SPREAD * desk.control.running_length
    assert desk.actions_of(desk.journal.order(36, is_open=False)) == table[:, 36].tolist()
    order = desk.journal.order(0, is_open=False)
    assert desk.actions_of(order) == table[:, 0].tolist()
    assert digests_of(order) == [100, *(SPREAD * step % 2**32 for step in range(1, steps + 1))]


def test_a_hundred_thousand_steps_of_one_discrete_action_cost_less_than_a_megabyte(tmp_path, monkeypatch):
    desk = Desk(tmp_path, monkeypatch, "native", slots=1)
    desk.begin()
    for _ in range(100_000):
        desk.journal.notes.note_all()
    sheets, (shelf,) = desk.journal._sheets, desk.journal._shelves
    assert len(desk.journal.order(0, is_open=False).actions) == 100_000
    assert shelf.memory_bytes + sheets.actions.nbytes + sheets.digests.nbytes < 1_000_000


@pytest.mark.parametrize("slots", [1, 8, 10_000])
def test_the_memory_of_all_journals_together_is_bounded(slots):
    assert slots * share_bytes(slots) <= max(MEMORY_BYTES, slots * LEAST_BYTES)


def test_very_long_episodes_go_to_a_file_and_come_back_whole(tmp_path, monkeypatch, twin):
    monkeypatch.setattr("ninelives.pool.recovery.journal.share_bytes", lambda slots: CHUNK * ENTRY_BYTES)
    desk = Desk(tmp_path, monkeypatch, twin)
    desk.begin()
    actions = np.random.default_rng(2).integers(0, 4, 2 * CHUNK + 500).tolist()
    play(desk, actions)
    (spilled,) = [path for path in (tmp_path / "journal").iterdir() if path.name == "slot-0.journal"]
    assert spilled.stat().st_size == 2 * CHUNK * ENTRY_BYTES
    assert desk.actions_of(desk.journal.order(0, is_open=False)) == actions
    desk.answer_reset()
    play(desk, [1] * (CHUNK + 100))
    assert desk.actions_of(desk.journal.order(0, is_open=False)) == [1] * (CHUNK + 100)


SPACES = {
    "negative start": (spaces.Discrete(5, start=-2), [-2, 0, 2]),
    "many choices": (spaces.Discrete(70_000), [0, 65_535, 69_999]),
    "box": (spaces.Box(-1, 1, (2,), np.float32), [[0.25, -1], [1, 0.5]]),
    "multi": (spaces.MultiDiscrete([3, 300]), [[2, 299], [0, 1]]),
    "binary": (spaces.MultiBinary(3), [[1, 0, 1], [0, 0, 1]]),
}


@pytest.mark.parametrize("name", SPACES)
def test_actions_of_any_array_space_come_back_as_they_were(tmp_path, monkeypatch, twin, name):
    space, actions = SPACES[name]
    desk = Desk(tmp_path, monkeypatch, twin, space)
    desk.begin()
    for action in actions:
        desk.send(np.array([action] * 3))
        desk.answer(0)
    back = desk.actions_of(desk.journal.order(0, is_open=False))
    assert [np.asarray(one).tolist() for one in back] == actions
    assert all(np.asarray(one).dtype == desk.lone.dtype or isinstance(one, int) for one in back)


def test_nested_actions_come_back_as_they_were(tmp_path, monkeypatch):
    space = spaces.Dict({"stick": spaces.Box(-1, 1, (2,), np.float32), "button": spaces.Discrete(3)})
    desk = Desk(tmp_path, monkeypatch, "python", space)
    desk.begin()
    desk.arrays["action:stick"][:] = [0.5, -0.5]
    desk.arrays["action:button"][:] = 2
    desk.journal.notes.note_all()
    desk.answer(0)
    (action,) = desk.actions_of(desk.journal.order(0, is_open=False))
    assert action["stick"].tolist() == [0.5, -0.5]
    assert action["button"] == 2


def test_an_action_that_nobody_carries_out_may_be_anything(desk):
    desk.begin()
    play(desk, [3])
    desk.control.ended[0] = 1
    desk.send([99, 0, 0])
    assert desk.journal.is_autoreset(0)
    assert not desk.journal.cannot(0)
    order = desk.journal.order(0, is_open=True)
    assert (desk.actions_of(order), digests_of(order)) == ([3], [100, 101])


def test_an_action_outside_of_its_space_makes_the_episode_unhealable_and_only_that_one(desk):
    desk.begin()
    play(desk, [900])
    assert "outside of its action space" in desk.journal.cannot(0)
    desk.answer_reset()
    play(desk, [1])
    assert desk.journal.cannot(0) == ""


def test_object_actions_are_not_written_down():
    journal = Journal(1, True)
    control = Control(bytearray(control_layout(1, 1).nbytes), 1, 1)
    journal.open(control, {}, None, True, True, None)
    assert "objects" in journal.cannot(0)


# ---- snapshots -------------------------------------------------------------------------------------------------------


def snapshot(desk, state, slot=0):
    control = desk.control
    control.state_length[slot], control.state_total[slot] = control.running_length[slot], 0.5
    desk.journal.keep_snapshot(slot, state)


def test_the_newest_snapshot_is_used_that_leaves_something_to_compare(desk):
    desk.begin()
    play(desk, [1, 2])
    snapshot(desk, b"two")
    play(desk, [3])
    snapshot(desk, b"three")
    order = desk.journal.order(0, is_open=False)
    assert (order.beginning.state, order.beginning.length, desk.actions_of(order)) == (b"two", 2, [3])
    play(desk, [1])
    order = desk.journal.order(0, is_open=False)
    assert (order.beginning.state, desk.actions_of(order), digests_of(order)) == (b"three", [1], [103, 104])


def test_a_snapshot_that_did_not_help_gives_way_to_the_one_before_and_then_to_the_beginning(desk):
    desk.begin()
    for state in (b"one", b"two"):
        play(desk, [1])
        snapshot(desk, state)
    play(desk, [2])
    tried = [desk.journal.order(0, False, skip).beginning for skip in range(3)]
    assert [(one.state, one.seed) for one in tried] == [(b"two", None), (b"one", None), (None, 7)]


def test_only_two_snapshots_and_the_actions_since_the_older_are_kept(desk):
    desk.begin()
    for _ in range(5):
        play(desk, [1] * CHUNK)
        snapshot(desk, b"s")
    assert desk.journal._shelves[0].memory_bytes <= 2 * CHUNK * ENTRY_BYTES
    assert desk.journal.order(0, False, 1).steps == CHUNK


def test_a_snapshot_of_an_earlier_episode_is_never_used(desk):
    desk.begin()
    play(desk, [1])
    snapshot(desk, b"old")
    desk.answer_reset()
    play(desk, [1, 2])
    assert desk.journal.order(0, is_open=False).beginning.state is None


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_calls_are_repeated_where_they_were_made(desk):
    first, second, third = (CallRequest("set", name, (1,)) for name in "abc")
    desk.journal.remember_call(0, first)
    desk.begin()
    desk.journal.remember_call(0, second)
    play(desk, [1, 2])
    desk.journal.remember_call(0, third)
    assert desk.journal.order(0, is_open=False).calls == ((-1, first), (0, second), (2, third))
    desk.answer_reset()
    assert [step for step, _ in desk.journal.order(0, is_open=False).calls] == [-1, -1, -1]


def test_too_many_calls_make_a_slot_unhealable(desk):
    desk.begin()
    for _ in range(CALLS_LIMIT + 1):
        desk.journal.remember_call(0, CallRequest("call", "tick"))
    assert "calls were made" in desk.journal.cannot(0)


# ---- seeds -----------------------------------------------------------------------------------------------------------

SLOTS = 4


def unopened(seed_episodes=False):
    journal = Journal(SLOTS, seed_episodes)
    journal.open(Control(bytearray(control_layout(1, SLOTS).nbytes), 1, SLOTS), {}, None, True, False, None)
    return journal


def begun(seed=7):
    journal = unopened()
    for slot in range(SLOTS):
        journal.begin(slot, seed + slot, None)
    return journal


def seeds_by_slot(journal, order):
    seeds = {slot: [] for slot in range(SLOTS)}
    for slot in order:
        seeds[slot].append(journal.begin_again(slot))
    return seeds


@given(st.lists(st.integers(0, SLOTS - 1), max_size=20), st.randoms())
def test_the_seeds_of_a_slot_do_not_depend_on_who_broke_before(order, rng):
    shuffled = list(order)
    rng.shuffle(shuffled)
    assert seeds_by_slot(begun(), order) == seeds_by_slot(begun(), shuffled)


def test_no_restart_ever_repeats_a_seed():
    journal = begun()
    seeds = [journal.begin_again(slot) for _ in range(50) for slot in range(SLOTS)]
    seeds += [7 + slot for slot in range(SLOTS)]
    assert len(set(seeds)) == len(seeds)


def test_slots_that_were_given_the_same_seed_go_different_ways_after_a_restart():
    journal = unopened()
    for slot in range(SLOTS):
        journal.begin(slot, 7, None)
    assert len({journal.begin_again(slot) for slot in range(SLOTS)}) == SLOTS


def test_an_explicit_reset_begins_the_sequence_anew():
    journal = begun()
    first = [journal.begin_again(0) for _ in range(3)]
    journal.begin(0, 7, None)
    assert [journal.begin_again(0) for _ in range(3)] == first
    journal.begin(0, 8, None)
    assert journal.begin_again(0) != first[0]


def test_restarts_do_not_change_the_seed_that_reports_name():
    journal = begun()
    journal.begin_again(2)
    assert journal.describe(2) == (9, None)


def test_an_unseeded_stream_stays_unseeded():
    journal = unopened()
    assert journal.begin(0, None, None) is None
    assert journal.begin_again(0) is None


def test_where_every_episode_has_a_seed_a_run_without_one_draws_it():
    first, second = unopened(seed_episodes=True), unopened(seed_episodes=True)
    drawn = first.begin(0, None, None), second.begin(0, None, None)
    assert None not in drawn
    assert drawn[0] != drawn[1]


def test_an_unseeded_reset_of_a_seeded_run_is_the_next_episode_of_that_run(desk):
    assert desk.begin(0, 7) == 7
    assert desk.begin(0, None) == episode_seed(7, 0, 1)
    assert desk.begin(0, None) == episode_seed(7, 0, 2)
    assert desk.begin(0, 9) == 9
    assert desk.begin(0, None) == episode_seed(9, 0, 1)


def test_notes_taken_while_workers_work_are_those_from_before(desk):
    desk.begin()
    play(desk, [3])
    desk.lone[...] = [2, 0, 0]
    desk.journal.notes.hold_all()
    desk.answer(0)  # a quick worker
    desk.journal.notes.note_held()
    order = desk.journal.order(0, is_open=True)
    assert (desk.actions_of(order), digests_of(order)) == ([3], [100, 101])


@pytest.mark.parametrize("next_step", [True, False])
@pytest.mark.parametrize(("seed", "rare"), [(0, 0.04), (1, 0.04), (2, 0.04), (3, 0.002), (4, 0.002)])
@pytest.mark.parametrize("slots", [5, 37])
def test_whoever_looks_at_whatever_moment_finds_every_action(tmp_path, monkeypatch, twin, next_step, slots, seed, rare):
    """Batches of all and of some, noted before or while workers work, ends of episodes, looks in between."""
    desk, draw = Desk(tmp_path, monkeypatch, twin, slots=slots, next_step=next_step), np.random.default_rng(seed)
    for slot in range(slots):
        desk.begin(slot, 7 + slot)
    done, numbers = [[] for _ in range(slots)], iter(range(1000, 10**6))
    seen = [[100] for _ in range(slots)]

    def answer(slot, action):
        digest = next(numbers)
        if next_step and desk.control.ended[slot]:
            desk.answer_reset(slot, digest)
            done[slot], seen[slot] = [], [digest]
            return
        done[slot].append(action)
        seen[slot].append(digest)
        desk.answer(slot, over=next_step and draw.random() < 0.01)
        desk.control.digest[slot] = digest

    for _ in range(1200):
        kind = draw.choice(["all", "held", "some", "look"], p=[0.2, 0.8 - 2 * rare, rare, rare])
        actions = draw.integers(0, 4, slots)
        chosen = np.sort(draw.choice(slots, 2, replace=False)) if kind == "some" else np.arange(slots)
        desk.lone[chosen] = actions[chosen]
        notes = desk.journal.notes
        if kind == "look":
            slot = int(draw.integers(slots))
            order = desk.journal.order(slot, is_open=False)
            assert (desk.actions_of(order), digests_of(order)) == (done[slot], seen[slot])
            continue
        {"all": notes.note_all, "held": notes.hold_all, "some": lambda: notes.note(chosen)}[kind]()  # noqa: B023
        if kind != "held" and draw.random() < rare:  # a worker is dead, its neighbours go on
            dead = int(chosen[0])
            order = desk.journal.order(dead, is_open=True)
            assert (desk.actions_of(order), digests_of(order)) == (done[dead], seen[dead])
        for slot in chosen.tolist():
            answer(slot, int(actions[slot]))
        if kind == "held":
            notes.note_held()
