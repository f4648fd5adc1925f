import os
import resource
import subprocess
import tempfile
from types import SimpleNamespace

import pytest

from ninelives import ConfigError, Pool, host


@pytest.fixture
def limits():
    """The limit of open files, put back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_machine_has_something_to_offer():
    assert 1 <= host.cores() <= os.cpu_count()
    assert host.free_bytes() > 1 << 20
    assert host.memory_limit_bytes() > 1 << 20


def test_the_memory_of_a_process_is_known_and_that_of_none_is_zero():
    assert host.resident_bytes(os.getpid()) > 1 << 20
    assert host.resident_bytes(2**22 + 1) == 0


def test_a_limit_that_is_high_enough_is_left_alone(limits):
    host.allow_descriptors(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


def test_a_limit_that_is_too_low_is_raised_as_far_as_needed(limits):
    soft, hard = 256, limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    host.allow_descriptors(300)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 300
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard


def test_more_than_the_system_allows_is_refused_with_what_to_do(limits):
    if limits[1] == resource.RLIM_INFINITY:
        pytest.skip("this system allows any number")
    with pytest.raises(ConfigError) as refusal:
        host.allow_descriptors(limits[1])
    for words in (f"{limits[1]} descriptors", f"hard limit is {limits[1]}", "fewer workers", "ulimit -n"):
        assert words in str(refusal.value)


def test_the_memory_of_a_process_is_known_in_three_ways():
    own = os.getpid()
    # The C library, at least, is shared with the process that started this one.
    assert host.resident_bytes(own) > host.proportional_bytes(own) + 100_000 > host.private_bytes() > 0


def test_a_process_that_is_gone_has_no_memory():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert host.resident_bytes(gone.pid) == host.proportional_bytes(gone.pid) == 0


def test_a_directory_that_was_deleted_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("PWD", str(gone))
    gone.rmdir()
    with pytest.raises(ConfigError, match=rf"the current directory \({gone}\) was deleted"):
        host.current_directory()
    with pytest.raises(ConfigError, match="was deleted"):
        Pool("CartPole-v1", 2)
    with pytest.raises(ConfigError, match="was deleted"):
        Pool("CartPole-v1", 2, run_dir="runs/one")


def fake_room(bytes_left, files, files_left):
    return SimpleNamespace(f_bavail=bytes_left, f_frsize=1, f_files=files, f_favail=files_left)


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (fake_room(4096, 100, 100), r"is full \(4,096 bytes left\).*set TMPDIR or run_dir to another directory"),
        (fake_room(1 << 30, 100, 3), "has room for 3 more files, which is too few"),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"run_dir": True}])
def test_a_full_directory_is_named_before_a_process_starts(tmp_path, monkeypatch, room, words, settings):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    with pytest.raises(ConfigError, match=f"^{tmp_path} {words}"):
        Pool("CartPole-v1", 2, **dict.fromkeys(settings, tmp_path / "runs" / "one"))
    assert not list(tmp_path.iterdir())


def test_a_file_system_that_does_not_count_files_is_not_full(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "statvfs", lambda path: fake_room(1 << 30, 0, 0))
    host.check_room(str(tmp_path))


def test_a_machine_without_any_usable_temporary_directory_is_told_which_were_tried(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    with pytest.raises(ConfigError, match=rf"No usable temporary directory found in .*{tmp_path}/none.*set TMPDIR"):
        Pool("CartPole-v1", 2)


def test_a_run_directory_that_cannot_be_made_is_named():
    with pytest.raises(ConfigError, match=r"run_dir='/dev/null/one' cannot be made: Not a directory"):
        Pool("CartPole-v1", 2, run_dir="/dev/null/one")
