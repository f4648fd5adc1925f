import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ninelives.spec.layout import CACHE_LINE, Layout, LayoutField

DTYPES = st.sampled_from(["u1", "?", "<i4", "<f4", "<f8", "<i8"])
SHAPES = st.lists(st.integers(0, 9), max_size=3).map(tuple)
FIELDS = st.lists(st.tuples(SHAPES, DTYPES), max_size=8).map(
    lambda parts: [LayoutField(f"field{i}", shape, dtype) for i, (shape, dtype) in enumerate(parts)]
)


def lines_of(layout):
    """The cache lines each field touches."""
    for field, offset in zip(layout.fields, layout.offsets, strict=True):
        yield set(range(offset // CACHE_LINE, -(-(offset + field.nbytes) // CACHE_LINE))) if field.nbytes else set()


@given(FIELDS)
def test_every_array_starts_on_a_cache_line_and_shares_none(fields):
    layout = Layout.of(fields)
    assert all(offset % CACHE_LINE == 0 for offset in layout.offsets)
    touched = [line for lines in lines_of(layout) for line in lines]
    assert len(touched) == len(set(touched))


@given(FIELDS)
def test_every_array_ends_inside_the_announced_size(fields):
    layout = Layout.of(fields)
    assert layout.nbytes >= CACHE_LINE, "an empty file cannot be mapped"
    for field, offset in zip(layout.fields, layout.offsets, strict=True):
        assert offset + field.nbytes <= layout.nbytes


@given(FIELDS)
def test_writing_one_array_never_changes_another(fields):
    layout = Layout.of(fields)
    views = layout.views(bytearray(layout.nbytes))
    for number, view in enumerate(views.values()):
        view[...] = number % 2 if view.dtype == bool else number
    for number, (field, view) in enumerate(zip(fields, views.values(), strict=True)):
        assert view.shape == field.shape
        assert (view == (number % 2 if view.dtype == bool else number)).all()


def test_views_are_the_buffer_itself_not_copies():
    layout = Layout.of([LayoutField("a", (2,), "u1"), LayoutField("b", (2,), "u1")])
    buffer = bytearray(layout.nbytes)
    layout.views(buffer)["b"][:] = 7
    assert np.array_equal(layout.views(buffer)["b"], [7, 7])
    assert buffer[layout.offsets[1]] == 7


@given(FIELDS)
def test_equal_fields_prove_themselves_by_equal_digests(fields):
    assert Layout.of(fields).digest == Layout.of(list(fields)).digest


def test_any_difference_between_parent_and_worker_shows_in_the_digest():
    base = [LayoutField("obs", (4, 3), "<f4"), LayoutField("action", (4,), "<i8")]
    others = [
        [LayoutField("obs", (4, 4), "<f4"), base[1]],
        [LayoutField("obs", (4, 3), "<i4"), base[1]],
        [LayoutField("OBS", (4, 3), "<f4"), base[1]],
        base[::-1],
        base[:1],
    ]
    digests = {Layout.of(fields).digest for fields in [base, *others]}
    assert len(digests) == 1 + len(others)
