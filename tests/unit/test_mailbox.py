import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives import TransportError
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER, WINDOW_BYTES, Mailbox
from ninelives.transport.plain_pickle import PlainPickle
from ninelives.transport.segment import memory_file

SLOTS = 3


@pytest.fixture
def mail():
    box = Mailbox(memory_file("mail"), SLOTS)
    yield box
    os.close(box.fd)


def test_letters_of_all_windows_and_directions_stay_apart(mail):
    places = [(window, way) for window in range(mail.worker_window(1) + 1) for way in (TO_WORKER, TO_PARENT)]
    sizes = {place: mail.put(*place, {"for": place}) for place in places}
    for place, size in sizes.items():
        assert mail.get(*place, size) == {"for": place}


def test_workers_have_windows_of_their_own_behind_the_slots(mail):
    assert [mail.worker_window(w) for w in (0, 1)] == [SLOTS, SLOTS + 1]


def test_a_large_letter_does_not_reach_into_the_next_window(mail):
    small = mail.put(0, TO_PARENT, "neighbour")
    large = os.urandom(8 << 20)
    size = mail.put_bytes(0, TO_WORKER, large)
    assert size == len(large)
    assert mail.get_bytes(0, TO_WORKER, size) == large
    assert mail.get(0, TO_PARENT, small) == "neighbour"


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_a_shorter_letter_over_a_longer_one_is_read_alone(letters):
    box = Mailbox(memory_file("mail"), SLOTS)
    try:
        for letter in letters:
            assert box.get_bytes(1, TO_PARENT, box.put_bytes(1, TO_PARENT, letter)) == letter
    finally:
        os.close(box.fd)


def test_functions_and_classes_of_the_users_script_travel_too(mail):
    factor = 3
    size = mail.put(0, TO_WORKER, lambda x: factor * x)
    assert mail.get(0, TO_WORKER, size)(5) == 15


def test_a_letter_larger_than_its_window_is_refused_not_cut(mail):
    class Huge(bytes):
        def __len__(self):
            return WINDOW_BYTES + 1

    with pytest.raises(TransportError, match="larger than the mailbox window of 4 GiB"):
        mail.put_bytes(0, TO_WORKER, Huge())


def test_a_letter_that_was_never_written_is_an_error_not_zeros(mail):
    with pytest.raises(TransportError, match="window 2 is shorter"):
        mail.get_bytes(2, TO_PARENT, 10)


def test_windows_cost_address_space_and_not_memory(mail):
    mail.put(mail.worker_window(100), TO_PARENT, "far away")
    assert os.fstat(mail.fd).st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("forged", [pickle.dumps(os.getcwd), pickle.dumps(Mailbox), b"garbage", b""])
def test_the_parent_loads_no_code_whatever_a_worker_has_written(mail, forged):
    size = mail.put_bytes(1, TO_PARENT, forged)
    with pytest.raises(TransportError, match=r"slot 1: its worker wrote a message .* that was not loaded"):
        mail.get_plain(1, TO_PARENT, size)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(PLAIN)
def test_plain_data_comes_back_equal(value):
    plain = PlainPickle()
    assert plain.loads(plain.dumps(value)) == value


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "g", "c16", "U3", "S3", "M8[s]", "O", "f4,i2"])
def test_arrays_and_scalars_of_numpy_come_back_equal(dtype):
    plain, array = PlainPickle(), np.zeros((2, 3), dtype)
    for value in (array, array[0, 0], array.T, array.dtype):
        found = plain.loads(plain.dumps(value))
        assert type(found) is type(value)
        assert np.array_equal(found, value)
