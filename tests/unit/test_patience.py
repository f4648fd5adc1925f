"""Time in which the waiting process itself did not run does not count."""

from ninelives.supervise.patience import LONGEST_LOOK_NS, Patience

LIMIT, LOOK = 5_000_000_000, 10_000_000


def looks_until_over(patience, now, each):
    looks = 1
    while not patience.is_over(now):
        now, looks = now + each, looks + 1
    return looks


def test_who_looks_often_waits_as_long_as_the_clock_says():
    assert looks_until_over(Patience(LIMIT), 7, LOOK) == LIMIT // LOOK + 2


def test_a_machine_that_stood_still_counts_as_one_look():
    patience = Patience(LIMIT)
    assert not patience.is_over(0)
    assert not patience.is_over(100 * LIMIT)
    assert looks_until_over(patience, 100 * LIMIT, LOOK) == (LIMIT - LONGEST_LOOK_NS) // LOOK + 2


def test_another_wait_begins_anew():
    patience = Patience(LIMIT)
    looks_until_over(patience, 0, LOOK)
    patience.renew()
    assert looks_until_over(patience, 50 * LIMIT, LOOK) == LIMIT // LOOK + 2
