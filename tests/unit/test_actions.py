import os

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given
from space_strategies import SEEDS, assert_equal_values, nested_arrays, sample

from ninelives import UsageError
from ninelives.pool.data.actions import ActionWriter
from ninelives.spec.arrays import assemble, fields, tree_of
from ninelives.spec.layout import Layout
from ninelives.transport.control import Control, control_layout
from ninelives.transport.mailbox import TO_WORKER, Mailbox
from ninelives.transport.segment import memory_file

SLOTS = 4


class Slab:
    """A writer and the rows it writes."""

    def __init__(self, space):
        self.node = tree_of(space)
        layout = Layout.of(fields(self.node, "action", SLOTS))
        self.arrays = layout.views(bytearray(layout.nbytes))
        self.control = Control(bytearray(control_layout(1, SLOTS).nbytes), 1, SLOTS)
        self.mail = Mailbox(memory_file("mail"), SLOTS)
        self.writer = ActionWriter(self.node, space, self.arrays, self.control, self.mail, SLOTS)

    def rows(self):
        """All rows in the structure of the space."""
        return assemble(self.node, lambda leaf: self.arrays[f"action:{leaf.name}"])

    def close(self):
        os.close(self.mail.fd)


@pytest.fixture
def writer_of():
    made = []

    def make(space):
        made.append(Slab(space))
        return made[-1]

    yield make
    for slab in made:
        slab.close()


@given(nested_arrays, SEEDS)
def test_a_batch_of_actions_arrives_as_it_was_sampled(space, seed):
    slab = Slab(space)
    actions = sample(batch_space(space, SLOTS), seed)
    slab.writer.write_all(actions)
    assert_equal_values(slab.rows(), actions)
    slab.close()


@pytest.mark.parametrize("space", [spaces.Discrete(9), spaces.Dict({"turn": spaces.Discrete(9)})])
def test_actions_for_some_slots_go_to_those_slots_in_that_order(writer_of, space):
    slab = writer_of(space)
    actions = np.array([7, 5])
    slab.writer.write(actions if isinstance(space, spaces.Discrete) else {"turn": actions}, np.array([3, 1]))
    (rows,) = slab.arrays.values()
    assert rows.tolist() == [0, 5, 0, 7]


@pytest.mark.parametrize("actions", [[1, 2, 3, 4], (1, 2, 3, 4), np.array([1, 2, 3, 4], np.int8), [True] * 4])
def test_any_sequence_of_whole_numbers_is_fine_for_a_discrete_space(writer_of, actions):
    slab = writer_of(spaces.Discrete(9))
    slab.writer.write_all(actions)
    assert slab.rows().tolist() == [int(action) for action in actions]


@pytest.mark.parametrize("actions", [3, [1, 2, 3], [[1], [2], [3], [4]], np.zeros((4, 1), int), []])
def test_a_wrong_shape_is_refused_with_the_expected_one_and_the_space(writer_of, actions):
    slab = writer_of(spaces.Discrete(9))
    with pytest.raises(UsageError) as refusal:
        slab.writer.write_all(actions)
    for words in (str(np.asarray(actions).shape), "expected (4,)", "Discrete(9)"):
        assert words in str(refusal.value)


def test_a_wrong_shape_for_some_slots_names_how_many_were_expected(writer_of):
    slab = writer_of(spaces.Box(-1, 1, (2,), np.float32))
    with pytest.raises(UsageError, match=r"shape \(2,\), expected \(1, 2\)"):
        slab.writer.write(np.zeros(2, np.float32), np.array([0]))


def test_floats_for_whole_numbers_are_refused_not_cut_off(writer_of):
    slab = writer_of(spaces.Discrete(9))
    for write in (lambda a: slab.writer.write_all(a), lambda a: slab.writer.write(a, np.arange(4))):
        with pytest.raises(UsageError, match=r"dtype float64.*Discrete\(9\)"):
            write(np.array([1.7, 2, 3, 4]))
    assert slab.rows().tolist() == [0, 0, 0, 0]


def test_a_nested_action_with_a_wrong_part_names_the_part(writer_of):
    slab = writer_of(spaces.Dict({"turn": spaces.Discrete(9), "push": spaces.Box(-1, 1, (1,), np.float32)}))
    good = {"turn": np.zeros(4, int), "push": np.zeros((4, 1), np.float32)}
    with pytest.raises(UsageError, match=r"'push'.*shape \(4,\), expected \(4, 1\)"):
        slab.writer.write_all({**good, "push": np.zeros(4, np.float32)})
    with pytest.raises(UsageError, match="'push' is missing"):
        slab.writer.write_all({"turn": np.zeros(4, int)})
    slab.writer.write_all(good)


def test_actions_that_are_no_arrays_go_by_mail_one_for_each_slot(writer_of):
    slab = writer_of(spaces.Text(9))
    slab.writer.write(["left", "right"], np.array([2, 0]))
    said = {slot: slab.mail.get(slot, TO_WORKER, int(slab.control.ask_bytes[slot])) for slot in (0, 2)}
    assert said == {0: "right", 2: "left"}
    with pytest.raises(UsageError, match="3 actions for 4 slots"):
        slab.writer.write_all(["a", "b", "c"])


def test_the_last_action_of_a_slot_can_be_described(writer_of):
    slab = writer_of(spaces.Dict({"turn": spaces.Discrete(9), "push": spaces.Box(-1, 1, (1,), np.float32)}))
    slab.writer.write({"turn": [3], "push": [[0.5]]}, np.array([2]))
    assert slab.writer.last(2) == {"turn": 3, "push": [0.5]}
    assert writer_of(spaces.Text(9)).writer.last(0) is None
