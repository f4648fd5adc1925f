"""Terms say what a step was worth; those that remember can be saved in mid-episode and go on the same."""

import functools
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninelives.errors import CheckpointError, ConfigError
from ninelives.sims.emulators import rewards as r
from ninelives.sims.emulators.packing import pack, split, unpack
from ninelives.sims.emulators.term_scorer import TermScorer


def value(term, before, after):
    return float(term({"x": before}, {"x": after}))


@pytest.mark.parametrize(
    ("term", "before", "after", "expected"),
    [
        (r.delta("x"), 3, 8, 5),
        (r.delta("x"), 8, 3, -5),
        (r.delta("x", wrap=256), 250, 4, 10),
        (r.delta("x", wrap=256), 4, 250, -10),
        (r.gained("x"), 3, 8, 5),
        (r.gained("x"), 8, 3, 0),
        (r.lost("x"), 8, 3, 5),
        (r.lost("x"), 3, 8, 0),
        (r.changed("x"), 3, 3, 0),
        (r.changed("x"), 3, 4, 1),
        (r.reached("x", 5), 4, 5, 1),
        (r.reached("x", 5), 4, 9, 1),
        (r.reached("x", 5), 5, 9, 0),
        (r.equals("x", 0, 7), 0, 7, 1),
        (r.equals("x", 0, 7), 7, 6, 0),
        (r.flag("x"), 0, 4, 1),
        (r.flag("x"), 4, 6, 0),
        (r.flag("x", bit=1), 4, 6, 1),
        (r.flag("x", bit=1), 6, 6, 0),
        (r.per_step(-0.5), 1, 1, -0.5),
        (0.5 * r.delta("x"), 0, 8, 4),
        (r.delta("x") * 0.5, 0, 8, 4),
        (-r.delta("x"), 0, 8, -8),
        (r.delta("x") + r.per_step(), 0, 8, 9),
        (r.delta("x").clipped(-1, 3), 0, 8, 3),
        (r.clipped(r.delta("x"), -1, 3), 8, 0, -1),
        (r.scaled(r.lost("x"), -2), 8, 5, -6),
        (r.total(r.gained("x"), r.lost("x"), r.per_step(0.25)), 5, 3, 2.25),
        (r.gained("x") - r.per_step(2), 0, 8, 6),
        (r.gained("x") / 4, 0, 8, 2),
        (sum([r.gained("x"), r.per_step(), r.lost("x")]), 0, 8, 9),
        (r.gained("x") + (lambda before, after: 7), 0, 8, 15),
        ((lambda before, after: 7) + r.gained("x"), 0, 8, 15),
        (r.gained("x") - (lambda before, after: 7), 0, 8, 1),
        (r.total(lambda before, after: 7, lambda before, after: 1), 0, 8, 8),
    ],
)
def test_what_a_step_is_worth(term, before, after, expected):
    assert value(term, before, after) == expected


def played(term, places, start=(0, 0)):
    path = [start, *places]
    rams = [{"x": x, "y": y} for x, y in path]
    return [float(term(before, after)) for before, after in pairwise(rams)]


def test_a_place_is_new_once_an_episode_and_the_first_is_known():
    term = r.explored("x", "y")
    places = [(0, 0), (1, 0), (1, 0), (0, 0), (1, 1), (1, 0)]
    assert played(term, places) == [0, 1, 0, 0, 1, 0]
    term.reset()
    assert played(term, places) == [0, 1, 0, 0, 1, 0]


def test_progress_pays_every_part_of_the_way_once():
    assert played(r.progress("x"), [(2, 0), (1, 0), (2, 0), (5, 0)], start=(1, 0)) == [1, 0, 0, 3]


def test_stagnation_begins_after_steps_without_a_new_best_and_ends_with_one():
    xs = [1, 1, 0, 1, 1, 2, 2, 2, 2]
    assert played(r.stagnation("x", 3), [(x, 0) for x in xs]) == [0, 0, 0, 1, 1, 0, 0, 0, 1]


REMEMBERING = {
    "explored": lambda: r.explored("x", "y"),
    "progress": lambda: r.progress("x"),
    "stagnation": lambda: r.stagnation("x", 2),
    "nested": lambda: 0.5 * (r.explored("x") + r.progress("y") + r.gained("x")).clipped(0, 2),
}


@pytest.mark.parametrize("name", REMEMBERING)
@given(places=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2**31)), min_size=2, max_size=30), data=st.data())
@settings(deadline=None, database=None, max_examples=60)
def test_a_term_that_was_saved_goes_on_the_same_elsewhere(name, places, data):
    half = data.draw(st.integers(0, len(places) - 1))
    term = REMEMBERING[name]()
    first = places[half - 1] if half else (0, 0)
    played(term, places[:half])
    saved = as_in_a_file(term.save())
    other = REMEMBERING[name]()
    played(other, [(9, 9)])
    other.load(saved)
    assert played(other, places[half:], first) == played(term, places[half:], first)


def as_in_a_file(saved):
    blobs = []
    words = json.loads(json.dumps(pack(saved, blobs, "term")))
    return unpack(words, split(b"".join(blobs), [len(blob) for blob in blobs]))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (r.explored, "explored() needs the names"),
        (r.total, "total() needs at least one term"),
        (lambda: r.stagnation("x", 0), "steps=0 must be a whole number"),
        (lambda: r.stagnation("x", 1.5), "steps=1.5 must be a whole number"),
        (lambda: r.delta("x", wrap=0), "delta: wrap=0 must be a whole number above one"),
        (lambda: r.flag("x", -1), "flag: bit=-1 must be a whole number from 0 to 63"),
        (lambda: r.gained("x") * r.gained("y"), "gained_x * the term gained_y must be a number"),
        (lambda: r.gained("x") * "2", "gained_x * '2' must be a number"),
        (lambda: r.gained("x") / r.gained("y"), "gained_x / the term gained_y must be a number"),
        (lambda: r.gained("x") / 0, "cannot be divided by zero"),
        (lambda: r.gained("x") + 5, "5 is not a term"),
        (lambda: r.weighted({"x": r.gained("x")}, {"x": 1.0}, {"x": "2"}), "weights: x='2' must be a number"),
        (lambda: r.weighted({"x": r.gained("x")}, {"x": 1.0}, 3), "weights=3 must map names to numbers"),
    ],
)
def test_a_term_that_makes_no_sense_is_refused(make, told):
    with pytest.raises(ConfigError) as refused:
        make()
    assert told in str(refused.value)


# ---- the terms of an environment ------------------------------------------------------------------------------------


def bonus(before, after):
    return 7


def times(before, after, factor):
    return factor * after["x"]


class Counter:
    """A term of a user's, with a memory."""

    count = 0

    def __call__(self, before, after):
        self.count += 1
        return self.count

    def reset(self):
        self.count = 0

    def save(self):
        return self.count

    def load(self, saved):
        self.count = saved


def test_any_function_is_a_term_and_every_term_has_a_name():
    terms = [bonus, lambda before, after: 1, Counter(), r.gained("x"), r.gained("x").named("again")]
    scorer = TermScorer("rewards", terms)
    assert scorer.names == ["bonus", "term_1", "Counter", "gained_x", "again"]
    assert scorer.values({"x": 1}, {"x": 3}) == [7, 1, 1, 2, 2]
    assert scorer.fields == {"x"}


def test_a_function_with_a_memory_keeps_it_as_a_part_of_a_sum():
    terms = [r.total(Counter(), bonus, name="both")]
    scorer, other = TermScorer("rewards", terms), TermScorer("rewards", terms)
    assert [scorer.values({}, {}) for _ in range(2)] == [[8], [9]]
    assert other.values({}, {}) == [8], "each has a copy of its own"
    other.load(scorer.save())
    assert other.values({}, {}) == [10]
    other.reset()
    assert other.values({}, {}) == [8]


def test_the_advice_for_two_functions_of_one_name_works():
    one, other = (functools.partial(times, factor=factor) for factor in (2, 3))
    with pytest.raises(ConfigError, match=r"two terms are called 'partial'.*total\(function, name='...'\)"):
        TermScorer("rewards", [one, other])
    scorer = TermScorer("rewards", [one, r.total(other, name="thrice")])
    assert scorer.names == ["partial", "thrice"]
    assert scorer.values({"x": 1}, {"x": 2}) == [4, 6]


def test_two_environments_do_not_share_what_a_term_remembers():
    terms = [Counter(), r.explored("x")]
    one, other = TermScorer("rewards", terms), TermScorer("rewards", terms)
    assert one.values({"x": 0}, {"x": 1}) == [1, 1]
    assert other.values({"x": 0}, {"x": 1}) == [1, 1]


def test_a_scorer_that_was_saved_goes_on_the_same_and_refuses_other_terms():
    scorer = TermScorer("ends", [Counter(), r.explored("x"), bonus])
    scorer.values({"x": 0}, {"x": 1})
    other = TermScorer("ends", [Counter(), r.explored("x"), bonus])
    other.load(scorer.save())
    assert other.values({"x": 1}, {"x": 2}) == scorer.values({"x": 1}, {"x": 2}) == [2, 1, 7]
    with pytest.raises(CheckpointError, match="the snapshot has terms Counter, explored_x, this environment Counter"):
        TermScorer("ends", [Counter()]).load(scorer.save())


def test_an_end_asks_every_term_for_they_may_remember():
    scorer = TermScorer("ends", [bonus, Counter()])
    assert scorer.any({}, {})
    assert scorer.save() == {"Counter": 1}


class HalfTerm:
    """Can be saved but not loaded."""

    def __call__(self, before, after):
        return 0

    def save(self):
        return None


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ([r.gained("x"), r.gained("x")], "two terms are called 'gained_x'"),
        ([5], "5 is not a term"),
        (bonus, "must be a list of terms, not one"),
        (None, "rewards=None must be a list of terms"),
        ({1: bonus}, "must be a list of terms"),
        ([HalfTerm()], "not all of reset(), save() and load()"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, told):
    with pytest.raises(ConfigError) as refused:
        TermScorer("rewards", terms)
    assert told in str(refused.value)
