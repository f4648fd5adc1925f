import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives import TransportError
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER, WINDOW_BYTES, Mailbox
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
