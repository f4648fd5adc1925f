import itertools
import mmap
import os
import threading
import time

import pytest

from ninelives import TransportError
from ninelives.transport.bell import Bell
from ninelives.transport.segment import Segment, memory_file

PATIENCE_S = 30.0


@pytest.fixture
def fd():
    number = memory_file("test")
    yield number
    os.close(number)


@pytest.fixture
def bell():
    made = Bell.create()
    yield made
    made.close()


@pytest.fixture
def pipe_bell():
    """What a system without eventfd has."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    made = Bell(read_end, write_end)
    yield made
    made.close()


def test_two_mappings_of_a_segment_are_the_same_memory(fd):
    ours, theirs = Segment.sized(fd, 4096), Segment(fd, 4096)
    ours.buffer[10:13] = b"egg"
    assert theirs.buffer[10:13] == b"egg"


def test_a_new_segment_is_all_zeros(fd):
    assert not any(Segment.sized(fd, 4096).buffer[:])


def test_a_segment_has_no_name_that_anybody_could_open(fd):
    assert os.fstat(fd).st_nlink == 0
    assert not os.get_inheritable(fd)


def test_a_segment_that_has_no_size_yet_cannot_be_mapped(fd):
    with pytest.raises(TransportError, match="cannot map 4096 bytes"):
        Segment(fd, 4096)


def test_an_impossible_size_is_refused_with_a_message(fd):
    with pytest.raises(TransportError, match="cannot reserve"):
        Segment.sized(fd, -1)


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTFORK"), reason="only where the system can keep memory from forks")
def test_processes_an_environment_forks_cannot_reach_the_segment(fd):
    segment = Segment.sized(fd, 4096)
    segment.keep_from_children()
    assert "dc" in flags_of_mapping("memfd:ninelives-test"), "dc is how the system says: do not copy on fork"


def flags_of_mapping(name):
    """What the system notes about a mapped file of this process."""
    with open("/proc/self/smaps") as lines:
        mapping = itertools.dropwhile(lambda line: name not in line, lines)
        return next(line for line in mapping if line.startswith("VmFlags")).split()[1:]


@pytest.mark.parametrize("kind", ["bell", "pipe_bell"])
class TestBell:
    def test_a_ring_before_the_wait_is_not_lost(self, kind, request):
        bell = request.getfixturevalue(kind)
        bell.ring()
        began = time.monotonic()
        bell.wait(PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S

    def test_a_ring_wakes_a_sleeper(self, kind, request):
        bell = request.getfixturevalue(kind)
        sleeper = threading.Thread(target=bell.wait, args=(None,), daemon=True)
        sleeper.start()
        bell.ring()
        sleeper.join(PATIENCE_S)
        assert not sleeper.is_alive()

    def test_many_rings_wake_once(self, kind, request):
        bell = request.getfixturevalue(kind)
        for _ in range(3):
            bell.ring()
        bell.wait(PATIENCE_S)
        began = time.monotonic()
        bell.wait(0.01)
        assert time.monotonic() - began >= 0.01, "the rings before were heard already"

    def test_a_wait_ends_with_its_time(self, kind, request):
        bell = request.getfixturevalue(kind)
        bell.wait(0.0)
        began = time.monotonic()
        bell.wait(0.01)
        assert 0.01 <= time.monotonic() - began < PATIENCE_S

    def test_news_on_another_descriptor_end_the_wait_and_stay_to_be_read(self, kind, request):
        bell, other = request.getfixturevalue(kind), Bell.create()
        other.ring()
        began = time.monotonic()
        bell.wait(PATIENCE_S, other.wait_fd)
        assert time.monotonic() - began < PATIENCE_S
        assert os.read(other.wait_fd, 8)
        other.close()


def test_ringing_never_blocks_even_without_a_listener(pipe_bell):
    for _ in range(20_000):  # more than any pipe holds
        pipe_bell.ring()
    pipe_bell.wait(PATIENCE_S)
