import signal

import pytest

from ninelives.supervise.exits import NEAR_LIMIT, Ending

GB = 1 << 30
CORE_DUMPED = 0x80


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("core", [0, CORE_DUMPED])
def test_signals_are_named(number, core):
    ending = Ending.of(int(number) | core)
    assert ending == Ending(number.name, None)
    assert number.name in ending.describe()
    assert ending.advice


def test_a_signal_without_a_name_is_given_by_number():
    ending = Ending.of(int(signal.SIGRTMIN) + 3)
    assert ending.signal == f"signal {int(signal.SIGRTMIN) + 3}"
    assert ending.signal in ending.describe()


@pytest.mark.parametrize("code", [0, 1, 3, 70, 255])
def test_an_exit_code_is_reported_even_if_it_means_success(code):
    ending = Ending.of(code << 8)
    assert ending == Ending(None, code)
    assert ending.describe() == f"exited by itself with code {code}"
    assert "exit" in ending.advice


def test_a_kill_near_the_memory_limit_is_suspected_to_be_the_systems():
    killed = Ending.of(int(signal.SIGKILL))
    text = killed.describe(rss_bytes=int(3.9 * GB), limit_bytes=4 * GB)
    assert "out of memory?" in text
    assert "4188 MB of 4295 MB" in text


def test_a_kill_far_from_the_limit_does_not_claim_a_size():
    killed = Ending.of(int(signal.SIGKILL))
    for text in (killed.describe(int(NEAR_LIMIT * 4 * GB) - 1, 4 * GB), killed.describe()):
        assert "MB" not in text
        assert "by another process" in text


def test_only_a_kill_is_blamed_on_memory():
    assert "memory" not in Ending.of(int(signal.SIGSEGV)).describe(4 * GB, 4 * GB)


def test_advice_is_about_the_signal():
    assert "memory it does not own" in Ending("SIGSEGV", None).advice
    assert "a different processor" in Ending("SIGILL", None).advice
    assert "dmesg" in Ending("SIGKILL", None).advice
