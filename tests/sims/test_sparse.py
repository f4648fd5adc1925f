"""Bytes come back as they were, empty blocks cost nothing, and what no squeeze has written is refused."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives.sims.emulators.sparse import BLOCK, MOST_PARTS, expand, squeeze, squeeze_in_python

MOST = 1 << 20
SIZES = st.sampled_from([0, 1, 7, 8, BLOCK - 1, BLOCK, BLOCK + 1, 8 * BLOCK, 9 * BLOCK + 5])


def patchy(size, seed):
    """Noise and gaps, of which some end within a block."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, size, np.uint8)
    for start in rng.integers(0, size + 1, 4):
        data[start : start + int(rng.integers(0, 4 * BLOCK))] = 0
    return data.tobytes()


@given(st.lists(st.tuples(SIZES, st.integers(0, 99)), max_size=4))
def test_parts_come_back_as_one(parts):
    blobs = [patchy(size, seed) for size, seed in parts]
    assert expand(squeeze(*blobs), MOST) == b"".join(blobs)


@given(st.lists(st.tuples(SIZES, st.integers(0, 99)), max_size=6))
def test_without_native_code_the_same_is_written(parts):
    blobs = [patchy(size, seed) for size, seed in parts]
    assert squeeze(*blobs) == squeeze_in_python(*blobs)


def test_many_parts_are_no_others():
    blobs = [bytes([number % 3]) * 100 for number in range(MOST_PARTS + 1)]
    assert squeeze(*blobs) == squeeze(b"".join(blobs))


def test_only_blocks_with_something_in_them_are_kept():
    data = bytearray(100 * BLOCK)
    data[3 * BLOCK] = data[50 * BLOCK + 17] = data[-1] = 1
    assert 3 * BLOCK < len(squeeze(bytes(data))) < 3 * BLOCK + 100


@pytest.mark.parametrize("size", [0, 1, 5 * BLOCK, 100 * BLOCK])
def test_nothing_but_zeros_is_next_to_nothing(size):
    assert len(squeeze(bytes(size))) <= 8 + 13
    assert expand(squeeze(bytes(size)), MOST) == bytes(size)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the size is missing"),
        (b"\0" * 7, "the size is missing"),
        (struct.pack("<Q", MOST + 1), "more than"),
        (struct.pack("<Q", 2**63), "more than"),
        (struct.pack("<Q", 9 * BLOCK) + b"\0", "bits of the blocks are missing"),
        (struct.pack("<Q", BLOCK) + b"\x80", "bytes of blocks instead of"),
        (struct.pack("<Q", BLOCK) + b"\0" + bytes(BLOCK), "bytes of blocks instead of"),
        (squeeze(patchy(9 * BLOCK, 1))[:-1], "bytes of blocks instead of"),
        (squeeze(patchy(9 * BLOCK, 1)) + b"\0", "bytes of blocks instead of"),
    ],
)
def test_what_does_not_fit_together_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        expand(data, MOST)
