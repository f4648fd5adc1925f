"""Ways to fail, each as one function that really does it.

A function takes the correct result of the phase (``None`` if the phase has none) and returns the result to use instead;
most never return. Never call one in a process that must survive.
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
    """Abort in native code."""
    os.abort()


def bus_error(answer: Any) -> Any:
    """Read a mapped file after it was truncated, as happens when a ROM is rewritten while a simulator runs."""
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        pages = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        return pages[0]


def exit_zero(answer: Any) -> Any:
    """Exit with code 0, as a library that ends the process does."""
    os._exit(0)


def sys_exit(answer: Any) -> Any:
    """Call ``sys.exit`` with an exit code, as a library may do."""
    sys.exit(7)


def kill_self(answer: Any) -> Any:
    """Send SIGKILL, as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


# ---- the process lives and does not answer -------------------------------------------------------------------------


def stop_self(answer: Any) -> Any:
    """Send SIGSTOP: the process is alive, and cannot even write its stack."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return answer


def hang_sleeping(answer: Any) -> Any:
    """Sleep for a day, without the GIL."""
    time.sleep(FOREVER_S)


def hang_holding_gil(answer: Any) -> Any:
    """Run a regular expression that practically never ends; no other thread gets the GIL meanwhile."""
    re.match("(a+)+$", "a" * 64 + "b")


def hang_native(answer: Any) -> Any:
    """Deadlock in native code while the GIL is held; no Python signal handler ever runs."""
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)  # zeros: an initialised, unlocked mutex
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def nap(answer: Any) -> Any:
    """Be slow, nothing else."""
    time.sleep(NAP_S)
    return answer


# ---- the environment fails, the process may survive -----------------------------------------------------------------


def raise_error(answer: Any) -> Any:
    """Raise an exception, as a bug in the environment does."""
    raise RuntimeError("the zoo raised this on purpose")


def wrong_shape(answer: Any) -> Any:
    """Return one number too many."""
    return (np.append(answer[0], 0.0), *answer[1:])


def wrong_dtype(answer: Any) -> Any:
    """Return numbers of a type that the space cannot hold."""
    return (answer[0].astype(np.complex128), *answer[1:])


def nan_observation(answer: Any) -> Any:
    """Return NaN observations, as a diverged simulation does."""
    return (answer[0] * np.nan, *answer[1:])


def nan_reward(answer: Any) -> Any:
    """Return a NaN reward."""
    return (answer[0], np.nan, *answer[2:])


def info_not_dict(answer: Any) -> Any:
    """Return a list as info."""
    return (*answer[:-1], ["info"])


def wrong_tuple(answer: Any) -> Any:
    """Return one element too few, like an older interface."""
    return answer[:-1]


# ---- side effects: the result is correct ----------------------------------------------------------------------------

_leaked: list[bytearray] = []
_children: list[subprocess.Popen[bytes]] = []


def leak(answer: Any) -> Any:
    """Leak some memory."""
    _leaked.append(bytearray(os.urandom(4096) * (LEAK_BYTES // 4096)))
    return answer


def have_child(answer: Any) -> Any:
    """Start a process, as simulators with a separate player do."""
    _children.append(subprocess.Popen(["sleep", str(FOREVER_S)]))
    return answer


def have_daemon(answer: Any) -> Any:
    """Start a process in its own session, which a signal to the process group does not reach."""
    _children.append(subprocess.Popen(["sleep", str(FOREVER_S)], start_new_session=True))
    return answer


def have_forked_daemon(answer: Any) -> Any:
    """Fork into a new session without exec: the process looks like the worker itself."""
    if not os.fork():
        os.setsid()
        signal.pause()
    return answer


def close_descriptors(answer: Any) -> Any:
    """Close all descriptors, as daemonising libraries do."""
    os.closerange(0, 4096)
    return answer


def flood(answer: Any) -> Any:
    """Write a lot to standard output and standard error."""
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
