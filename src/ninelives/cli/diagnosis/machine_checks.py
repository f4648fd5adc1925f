"""What this machine supports: ``check_machine`` reads the facts, pure functions judge them.

A verdict is good, a warning (works, but slower or with less information), or a problem (pools will not start).
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ninelives import host
from ninelives.cli.diagnosis.finding import Severity
from ninelives.cli.reporting.verdict_table import GOOD, Verdict
from ninelives.errors import TransportError
from ninelives.native import native_status
from ninelives.pool.pool import Pool
from ninelives.spec.options import START_METHODS
from ninelives.transport.segment import Segment, memory_file
from ninelives.view.words import bytes_in_words, seconds_in_words

TINY_ENV = "CartPole-v1"
SHARED_BYTES = 64 << 20
"""As much as 500 slots of stacked Atari frames."""

FDS_PER_WORKER = 2
"""Descriptors that one more worker costs the parent."""

MANY_WORKERS = 256
LITTLE_MEMORY = 500_000_000
LITTLE_DISK = 100_000_000


def check_machine() -> Iterator[Verdict]:
    """All checks; each verdict is yielded as soon as it is known."""
    for method in START_METHODS:
        yield check_start(method)
    yield check_shared_memory()
    yield judge_descriptors(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield judge_cores(os.cpu_count() or 1, _affinity(), host.cores())
    yield judge_memory(_physical_bytes(), host.memory_limit_bytes(), host.free_bytes())
    native = native_status()
    yield judge_native(native.active, native.reason)
    yield judge_stacks(native.active, shutil.which("gdb") is not None, _proc("kernel/yama/ptrace_scope"))
    yield check_temp_dir(Path(tempfile.gettempdir()))
    yield judge_autogroup(_proc("kernel/sched_autogroup_enabled"))


def check_start(method: str) -> Verdict:
    """Start two workers and step them."""
    name, began = f"start: {method}", time.monotonic()
    try:
        with Pool(TINY_ENV, 2, workers=2, start_method=method, start_attempts=1) as pool:
            up = time.monotonic() - began
            pool.reset(seed=0)
            pool.step([0, 1])
    except Exception as error:
        others = " or ".join(repr(other) for other in START_METHODS if other != method)
        reason = str(error).partition("\n")[0]
        return Verdict(name, Severity.PROBLEM, f"does not work: {reason}", f"use start_method={others} instead")
    return Verdict(name, GOOD, f"two workers up in {seconds_in_words(up)}")


def check_shared_memory() -> Verdict:
    """Create, map and fill an anonymous segment, as a pool does."""
    name = "shared memory"
    fd = -1
    try:
        fd = memory_file("doctor")
        Segment.sized(fd, SHARED_BYTES).buffer[:] = b"\1" * SHARED_BYTES
    except (TransportError, MemoryError) as error:
        return Verdict(name, Severity.PROBLEM, str(error), "raise the container's memory limit, or free memory")
    finally:
        if fd >= 0:
            os.close(fd)
    if not hasattr(os, "memfd_create"):
        return Verdict(name, Severity.WARNING, "no memfd here: segments are unlinked files in the temporary directory")
    return Verdict(name, GOOD, f"memfd, {bytes_in_words(SHARED_BYTES)} mapped and filled (no /dev/shm needed)")


def check_temp_dir(path: Path) -> Verdict:
    """Scratch directories are created here: it must be writable and have space."""
    name = "TMPDIR"
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"ninelives")
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Verdict(
            name, Severity.PROBLEM, f"{path} is not writable: {error.strerror}", "set TMPDIR to a writable directory"
        )
    if free < LITTLE_DISK:
        return Verdict(name, Severity.WARNING, f"{path} has {bytes_in_words(free)} left", "free space, or set TMPDIR")
    return Verdict(name, GOOD, f"{path} is writable, {bytes_in_words(free)} free")


def judge_descriptors(soft: int, hard: int) -> Verdict:
    """The limit of open files; a pool raises it by itself up to the hard limit."""
    if hard == resource.RLIM_INFINITY:
        return Verdict("open files", GOOD, "unlimited")
    room = max(0, hard - 128) // FDS_PER_WORKER
    found = f"limit {soft}, can be raised to {hard}: room for about {room} workers"
    if room < MANY_WORKERS:
        return Verdict("open files", Severity.WARNING, found, "for more workers, raise the hard limit as root")
    return Verdict("open files", GOOD, found)


def judge_cores(present: int, allowed: int, usable: int) -> Verdict:
    """Cores of the machine, of this process (affinity), and within the container's quota."""
    if usable == present:
        return Verdict("cores", GOOD, f"{usable}")
    reason = f"affinity allows {allowed}" if allowed < present else "the container's quota"
    if allowed < present and usable < allowed:
        reason += f", the container's quota {usable}"
    found = f"{usable} of {present} may be used ({reason})"
    return Verdict("cores", Severity.WARNING, found, "unless intended, lift the limit (taskset, cpuset, cpu.max)")


def judge_memory(physical: int, limit: int, free: int) -> Verdict:
    """Memory of the machine, of the container, and free memory."""
    found = f"{bytes_in_words(free)} free of {bytes_in_words(physical)}"
    if limit < physical:
        found += f"; this container may use {bytes_in_words(limit)}"
    if min(free, limit) < LITTLE_MEMORY:
        return Verdict("memory", Severity.WARNING, found, "run fewer workers, or close other programs")
    return Verdict("memory", GOOD, found)


def judge_native(active: bool, reason: str) -> Verdict:
    """Whether the native code is in use."""
    if active:
        return Verdict("native path", GOOD, f"active: {reason}")
    return Verdict("native path", Severity.WARNING, f"not active: {reason}", "pure Python is correct, but slower")


def judge_stacks(native: bool, gdb: bool, ptrace_scope: str) -> Verdict:
    """What a hang will show: a worker dumps its own stacks; a debugger is for manual inspection."""
    debugger = "gdb is not installed"
    if gdb:
        allowed = ptrace_scope in ("", "0") or os.geteuid() == 0
        debugger = "gdb may attach" if allowed else f"gdb may not attach (ptrace_scope={ptrace_scope})"
    if native:
        return Verdict("stacks", GOOD, f"a hung worker dumps its Python and native stack; {debugger}")
    found = f"a hung worker dumps its Python stack only; {debugger}"
    return Verdict("stacks", Severity.WARNING, found, "the native path would dump the native stack too")


def judge_autogroup(enabled: str) -> Verdict:
    """Whether the kernel schedules each session as one group; a yield then has no effect across sessions."""
    if enabled == "1":
        found = "autogroup is on: workers share the group of your session; other sessions compete as one group each"
        return Verdict("scheduler", GOOD, found)
    return Verdict("scheduler", GOOD, "autogroup is off" if enabled == "0" else "autogroup: unknown")


def _affinity() -> int:
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _proc(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""
