from hypothesis import given
from hypothesis import strategies as st

from ninelives.spec.seeds import episode_seed

SEEDS = st.integers(0, 2**63 - 1)


@given(SEEDS, st.integers(0, 1000))
def test_the_first_episode_has_the_seed_itself(seed, slot):
    assert episode_seed(seed, slot, 0) == seed


@given(SEEDS, st.integers(0, 1000), st.integers(1, 2**40))
def test_derived_seeds_suit_every_generator(seed, slot, episode):
    assert 0 <= episode_seed(seed, slot, episode) < 2**31


def test_episodes_slots_and_seeds_do_not_meet():
    derived = {
        episode_seed(seed, slot, episode) for seed in range(5) for slot in range(20) for episode in range(1, 200)
    }
    assert len(derived) > 0.999 * 5 * 20 * 199  # 31 bits: a handful of birthdays is chance


def test_the_derivation_is_fixed_for_ever():
    assert [episode_seed(7, 3, episode) for episode in (1, 2, 1000)] == [136610216, 77831476, 786176213]
