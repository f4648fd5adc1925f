"""A leak is told from a process that warms up, whether it is fast or slow."""

import pytest

from ninelives.view.memory_growth import MOST, SizeHistory, memory_limit

MB = 1_000_000


def history(*sizes_mb):
    """The sizes of a process, one every second, as far as they were wanted."""
    noted = SizeHistory(1.0)
    for second, size in enumerate(sizes_mb):
        if noted.is_due(second):
            noted.note(second, size * MB)
    return noted


@pytest.mark.parametrize(
    "sizes",
    [
        range(100, 300, 20),
        [100, 130, 160, 155, 190, 220, 250, 280],  # freed something once
        [100 + second // 10 for second in range(1000)],  # 100 kB/s
    ],
)
def test_steady_growth_is_noticed(sizes):
    assert history(*sizes).grows_steadily


@pytest.mark.parametrize(
    "sizes",
    [
        [100, 300],  # too few to judge
        [100] * 50,
        [100, 250, 300, 305, 306, 307, 308, 309, 310, 311],  # loaded its assets
        [10, 20, 30, 40, 45, 50, 55],  # small
        [1000 + second for second in range(300)],  # not yet much for its size
        [100, 300] * 20,  # allocates and frees
    ],
)
def test_other_growth_is_not(sizes):
    assert not history(*sizes).grows_steadily


def test_few_sizes_are_kept_however_long_the_run():
    assert len(history(*range(10_000)).sizes) <= MOST


def test_the_limit_is_below_what_was_reached():
    assert memory_limit(300 * MB) == 240 * MB
