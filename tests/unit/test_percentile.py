import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives.pool.metrics import percentile
from ninelives.transport.control import HISTOGRAM_BUCKETS

STATED_ERROR = 0.25
"""The middle of half an octave is at most a quarter away from any value in it."""

TIMES_NS = st.lists(st.floats(2, 2**39), min_size=1, max_size=200).map(lambda times: np.floor(times))


def histogram_of(times_ns):
    """Half octaves: from each power of two to one and a half of it, and from there to the next."""
    octaves = np.floor(np.log2(times_ns)).astype(int)
    buckets = 2 * octaves + (times_ns >= 1.5 * 2.0**octaves)
    return np.bincount(buckets, minlength=HISTOGRAM_BUCKETS).astype(np.uint32)


@given(TIMES_NS, st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_are_those_of_the_steps_within_the_stated_error(times, share):
    exact = np.percentile(times, 100 * share, method="inverted_cdf") * 1e-9
    assert percentile(histogram_of(times), share) == pytest.approx(exact, rel=STATED_ERROR)


@given(TIMES_NS)
def test_higher_percentiles_are_never_smaller(times):
    histogram = histogram_of(times)
    found = [percentile(histogram, share) for share in (0.01, 0.5, 0.95, 0.99, 1.0)]
    assert found == sorted(found)


def test_a_slot_that_never_stepped_has_no_step_time():
    assert percentile(np.zeros(HISTOGRAM_BUCKETS, np.uint32), 0.5) == 0.0


def test_steps_beyond_the_last_bucket_count_as_the_longest():
    histogram = np.zeros(HISTOGRAM_BUCKETS, np.uint32)
    histogram[-1] = 1
    assert percentile(histogram, 0.99) > 13 * 60
