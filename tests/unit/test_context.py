import pytest

from ninelives import UsageError, current_slot
from ninelives.spec.context import SlotContext, enter_slot


def test_an_environment_under_construction_knows_its_own_place(tmp_path):
    context = SlotContext(slot=3, generation=2, scratch=tmp_path / "slot-3", launch_dir=tmp_path)
    enter_slot(context)
    try:
        assert current_slot() is context
    finally:
        enter_slot(None)


def test_outside_a_worker_there_is_no_slot():
    with pytest.raises(UsageError, match="only while a Ninelives worker constructs an environment"):
        current_slot()
