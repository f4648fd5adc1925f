"""Ways to break, each as one function that really does it.

A break takes the honest answer of the phase (``None`` where a phase has none) and returns what to answer instead; most
never return. They are for processes that may die: never call one in a process you want to keep.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Break = Callable[[Any], Any]

FOREVER_S = 86_400.0
FLOOD_BYTES = 8 << 20
LEAK_BYTES = 8 << 20
NAP_S = 0.3


# ---- the process ends ----------------------------------------------------------------------------------------------


def segfault(answer: Any) -> Any:
    """Read address zero in native code."""
    ctypes.string_at(0)


def abort(answer: Any) -> Any:
    """Native code gives up."""
    os.abort()


def bus_error(answer: Any) -> Any:
    """Touch a mapped file that has become shorter, as happens to a ROM that is rewritten under a simulator."""
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        pages = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        return pages[0]


def exit_zero(answer: Any) -> Any:
    """A library ends the process and says that all is well."""
    os._exit(0)


def sys_exit(answer: Any) -> Any:
    """A library calls ``sys.exit`` with a code of its own."""
    sys.exit(7)


def kill_self(answer: Any) -> Any:
    """As the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


# ---- the process lives and does not answer -------------------------------------------------------------------------


def stop_self(answer: Any) -> Any:
    """Stopped by a signal: alive, and not even able to write its stack."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return answer


def hang_sleeping(answer: Any) -> Any:
    """Wait for something that never comes, without the interpreter's lock."""
    time.sleep(FOREVER_S)


def hang_holding_gil(answer: Any) -> Any:
    """Run a regular expression that takes longer than the universe exists; no other thread gets the lock meanwhile."""
    re.match("(a+)+$", "a" * 64 + "b")


def hang_native(answer: Any) -> Any:
    """Deadlock in native code with the interpreter's lock held; no signal handler of Python's ever runs."""
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)  # zeros: an initialised, unlocked mutex
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def nap(answer: Any) -> Any:
    """Only slow."""
    time.sleep(NAP_S)
    return answer


# ---- the environment breaks, the process need not -------------------------------------------------------------------


def raise_error(answer: Any) -> Any:
    """A bug in the environment."""
    raise RuntimeError("the zoo raised this on purpose")


def wrong_shape(answer: Any) -> Any:
    """One number too many."""
    return (np.append(answer[0], 0.0), *answer[1:])


def wrong_dtype(answer: Any) -> Any:
    """Numbers that the space cannot hold."""
    return (answer[0].astype(np.complex128), *answer[1:])


def nan_observation(answer: Any) -> Any:
    """A simulation that has diverged."""
    return (answer[0] * np.nan, *answer[1:])


def nan_reward(answer: Any) -> Any:
    """The same, told by the reward."""
    return (answer[0], np.nan, *answer[2:])


def info_not_dict(answer: Any) -> Any:
    """An info that is a list."""
    return (*answer[:-1], ["info"])


def wrong_tuple(answer: Any) -> Any:
    """The answer of an older interface: one element short."""
    return answer[:-1]


# ---- nuisances: nothing is wrong yet --------------------------------------------------------------------------------

_hoard: list[bytearray] = []
_brood: list[subprocess.Popen[bytes]] = []


def leak(answer: Any) -> Any:
    """Keep some more memory for ever."""
    _hoard.append(bytearray(os.urandom(4096) * (LEAK_BYTES // 4096)))
    return answer


def have_child(answer: Any) -> Any:
    """Start a process, as simulators with a separate player do."""
    _brood.append(subprocess.Popen(["sleep", str(FOREVER_S)]))
    return answer


def have_daemon(answer: Any) -> Any:
    """Start a process in a session of its own, out of reach of a signal to the group."""
    _brood.append(subprocess.Popen(["sleep", str(FOREVER_S)], start_new_session=True))
    return answer


def have_forked_daemon(answer: Any) -> Any:
    """Fork, without exec, into a session of its own: it looks like the worker itself."""
    if not os.fork():
        os.setsid()
        signal.pause()
    return answer


def close_descriptors(answer: Any) -> Any:
    """Close everything, as daemonising libraries do."""
    os.closerange(0, 4096)
    return answer


def flood(answer: Any) -> Any:
    """Write a great deal to both outputs."""
    line = "x" * 1023
    for _ in range(FLOOD_BYTES // 2048):
        print(line)
        print(line, file=sys.stderr)
    return answer


ENDS: Mapping[str, Break] = {
    "segfault": segfault,
    "abort": abort,
    "bus_error": bus_error,
    "exit_zero": exit_zero,
    "sys_exit": sys_exit,
    "kill_self": kill_self,
}
HANGS: Mapping[str, Break] = {
    "stop_self": stop_self,
    "hang_sleeping": hang_sleeping,
    "hang_holding_gil": hang_holding_gil,
    "hang_native": hang_native,
}
BAD_ANSWERS: Mapping[str, Break] = {
    "wrong_shape": wrong_shape,
    "wrong_dtype": wrong_dtype,
    "nan_observation": nan_observation,
    "nan_reward": nan_reward,
    "info_not_dict": info_not_dict,
    "wrong_tuple": wrong_tuple,
}
NUISANCES: Mapping[str, Break] = {
    "nap": nap,
    "leak": leak,
    "have_child": have_child,
    "have_daemon": have_daemon,
    "have_forked_daemon": have_forked_daemon,
    "close_descriptors": close_descriptors,
    "flood": flood,
}
BREAKS: Mapping[str, Break] = {**ENDS, **HANGS, "raise_error": raise_error, **BAD_ANSWERS, **NUISANCES}
