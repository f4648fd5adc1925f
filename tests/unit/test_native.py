"""Native code is used or not, as a whole, and says why."""

import pytest

from ninelives import native
from ninelives.native import native_library, native_module, native_status


def test_the_pure_python_path_can_be_chosen_and_says_why(monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")
    status = native_status()
    assert not status.active
    assert "NINELIVES_NATIVE=0" in status.reason
    assert native_module("ninelives.worker._loop") is None


@pytest.fixture
def looked_anew():
    native._complaint.cache_clear()
    yield
    native._complaint.cache_clear()


@pytest.mark.parametrize("kind", ["MODULES", "LIBRARIES"])
@pytest.mark.usefixtures("looked_anew")
def test_native_code_is_used_as_a_whole_or_not_at_all(monkeypatch, kind):
    monkeypatch.setattr(native, kind, (*getattr(native, kind), "ninelives.sims._never_built"))
    status = native_status()
    assert not status.active
    assert "ninelives.sims._never_built" in status.reason
    assert "compiler" in status.reason
    assert native_module("ninelives.worker._loop") is None
    assert native_library("ninelives.sims.libretro._frames") is None
