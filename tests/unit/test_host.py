import os
import resource
import subprocess

import pytest

from ninelives import ConfigError, host


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
    assert host.resident_bytes(own) >= host.proportional_bytes(own) >= host.private_bytes() > 0


def test_a_process_that_is_gone_has_no_memory():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert host.resident_bytes(gone.pid) == host.proportional_bytes(gone.pid) == 0
