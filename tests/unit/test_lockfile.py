import pytest

from ninelives import ConfigError
from ninelives.supervise.lockfile import LockFile


@pytest.fixture
def locks(tmp_path):
    made = [LockFile(tmp_path / "simulator.lock") for _ in range(2)]
    yield made
    for lock in made:
        lock.release()


def test_two_holders_exclude_each_other_until_one_lets_go(locks):
    ours, theirs = locks
    assert ours.take()
    assert not theirs.take()
    ours.release()
    assert theirs.take()
    assert not ours.take()


def test_taking_twice_is_holding_once(locks):
    ours, theirs = locks
    assert ours.take()
    assert ours.take()
    ours.release()
    assert theirs.take()


def test_letting_go_of_nothing_changes_nothing(locks):
    ours, theirs = locks
    assert theirs.take()
    ours.release()
    assert not ours.take()


def test_locks_on_different_files_do_not_meet(tmp_path):
    one, other = LockFile(str(tmp_path / "one")), LockFile(tmp_path / "other")
    assert one.take()
    assert other.take()
    one.release()
    other.release()


def test_a_lock_in_a_directory_that_does_not_exist_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"start_lock=.*no-such-place.*directory does not exist"):
        LockFile(tmp_path / "no-such-place" / "lock")


def test_a_lock_that_cannot_be_opened_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"start_lock=.*cannot be opened"):
        LockFile(tmp_path).take()
