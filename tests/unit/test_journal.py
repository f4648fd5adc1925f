from hypothesis import given
from hypothesis import strategies as st

from rookery.pool.journal import Journal

SLOTS = 4
ORDERS = st.lists(st.integers(0, SLOTS - 1), max_size=20)


def begun(seed=7):
    journal = Journal(SLOTS)
    for slot in range(SLOTS):
        journal.begin(slot, seed + slot, None)
    return journal


def seeds_by_slot(journal, order):
    seeds = {slot: [] for slot in range(SLOTS)}
    for slot in order:
        seeds[slot].append(journal.begin_again(slot))
    return seeds


@given(ORDERS, st.randoms())
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
    journal = Journal(SLOTS)
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
    assert journal.seed_of(2) == 9


def test_an_unseeded_slot_stays_unseeded():
    journal = Journal(SLOTS)
    assert journal.begin_again(1) is None
    journal.begin(1, None, None)
    assert journal.begin_again(1) is None
    assert journal.seed_of(1) is None


@given(st.integers(0, 2**63 - 1))
def test_derived_seeds_are_numbers_any_environment_accepts(seed):
    journal = Journal(SLOTS)
    journal.begin(0, seed, None)
    assert 0 <= journal.begin_again(0) < 2**32
