"""Turns a fresh process into a child of the keeper, then calls its entry point by name.

A child has its own process group, dies with its keeper however that dies, writes to a log instead of the terminal,
holds no descriptor it was not given, works in its own scratch directory, and writes its stack on request.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninelives.supervise.descent import CHILD_TAG

DUMP_SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""Requests a stack from a child; a real-time signal, because simulators use SIGUSR1 and SIGUSR2 themselves."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True)
class ChildSpec:
    """How to start one child.

    Attributes:
        key: number of the child.
        entry: ``"module:function"``, called with ``args``; its return value is the exit code.
        args: keyword arguments, as JSON can carry them.
        keep_fds: descriptors the child may hold beside its standard ones.
        scratch: working directory and ``TMPDIR``, made empty first.
        log: file for standard output and error.
        tag: value of ``CHILD_TAG``.
        name: process name in ``ps``; descendants that fork without exec keep it.
        env: further environment variables.
    """

    key: int
    entry: str
    args: Mapping[str, Any]
    keep_fds: Sequence[int]
    scratch: str
    log: str
    tag: str
    name: str
    env: Mapping[str, str] = field(default_factory=dict)


def prctl(option: int, value: int) -> None:
    """Set a property of this process; does nothing where the system has no such call."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def set_name(name: str) -> None:
    """Name this process as ``ps`` shows it (15 characters at most)."""
    try:
        with open("/proc/self/comm", "w") as comm:
            comm.write(name[:15])
    except OSError:
        pass


def live(spec: ChildSpec, keeper_pid: int, payload: Any = None) -> int:
    """Prepare this process and run the entry point; returns the exit code, with which the caller must exit at once."""
    # A group, not a session: the kernel gives each session a scheduling group of its own, and the sched_yield in the
    # doorbell has no effect between those (measured: half the speed on two cores).
    os.setpgid(0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper_pid:
        return 0  # the keeper died between the fork and the line above
    _reset_signals()
    set_name(spec.name)
    _set_up_files(spec)
    close_all_but(spec.keep_fds)
    _register_stack_dumps()
    try:
        module, _, name = spec.entry.partition(":")
        code = getattr(importlib.import_module(module), name)(spec.args, payload)
        return int(code or 0)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return int(stop.code or 0)
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _reset_signals() -> None:
    """Ignore Ctrl-C, which the parent handles; everything else is as in a new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)


def _set_up_files(spec: ChildSpec) -> None:
    shutil.rmtree(spec.scratch, ignore_errors=True)
    os.makedirs(spec.scratch, mode=0o700, exist_ok=True)
    os.chdir(spec.scratch)
    os.environ.update(spec.env)
    os.environ["TMPDIR"] = spec.scratch
    os.environ[CHILD_TAG] = spec.tag
    tempfile.tempdir = None
    log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # Line by line, so that the log is complete up to the moment a child is killed.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def close_all_but(keep: Sequence[int]) -> None:
    """Close all other descriptors: a process that holds a sibling's end would hide the death of that sibling."""
    edges = sorted({0, 1, 2, *keep})
    top = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for low, high in zip(edges, [*edges[1:], max(top, edges[-1] + 1)], strict=True):
        os.closerange(low + 1, high)


def _register_stack_dumps() -> None:
    """Write Python's stack on a crash and on request; an entry point may register a native dump of its own."""
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(DUMP_SIGNAL, file=2, all_threads=True)


def main(argv: Sequence[str]) -> int:
    """Entry point of the spawn start method, in a new interpreter: the specification as JSON."""
    request = json.loads(argv[0])
    return live(ChildSpec(**request["spec"]), request["keeper_pid"])
