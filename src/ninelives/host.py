"""What this machine provides and allows: cores, memory, open files; and the memory of a process."""

from __future__ import annotations

import fcntl
import os
import resource

from ninelives.errors import ConfigError

LEAST_ROOM_BYTES, LEAST_ROOM_FILES = 1 << 20, 64
"""What a directory must have left: logs, scratch directories and journals of a small pool."""

_OTHER_PLACE = "free some space, or set TMPDIR or run_dir to another directory"


def cores() -> int:
    """Number of cores this process may use, by its affinity and the container's quota; at least one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup("cpu.max")
    if quota and not quota.startswith("max"):
        limit, period = map(int, quota.split())
        count = min(count, max(1, limit // period))
    return max(1, count)


def one_core_each(workers: int) -> tuple[int, ...]:
    """One core for each worker if there are exactly as many workers as cores; otherwise an empty tuple.

    With fewer workers than cores the system has a choice, and two pools that pin would pick the same cores.
    """
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return tuple(allowed) if 1 < workers == len(allowed) == cores() else ()


def memory_limit_bytes() -> int:
    """Memory of the machine or, if that is smaller, of the container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup("memory.max")
    return min(total, int(limit)) if limit.isdigit() else total


def free_bytes() -> int:
    """Memory that can be allocated without swapping, within the container's limit."""
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    room = int(limit) - int(used) if limit.isdigit() and used.isdigit() else memory_limit_bytes()
    return min(_available_bytes(), max(room, 0))


def _available_bytes() -> int:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return memory_limit_bytes()


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; zero if it no longer exists."""
    try:
        with open(f"/proc/{pid}/statm") as fields:
            return int(fields.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Memory of a process, with shared pages divided among the processes that share them."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return resident_bytes(pid)


def private_bytes() -> int:
    """Memory that this process shares with no other; zero where the system does not report it."""
    try:
        with open("/proc/self/smaps_rollup") as lines:
            return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
    except OSError:
        return 0


def allow_descriptors(needed: int) -> None:
    """Raise the limit on open files if it is too low for ``needed`` more.

    Raises:
        ConfigError: the hard limit is too low as well.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + _open_descriptors() + 64
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise ConfigError(
            f"{needed} descriptors are needed but the hard limit is {hard}; use fewer workers, or raise it with "
            f"`ulimit -n {wanted}` as root or in /etc/security/limits.conf"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 64


def _cgroup(name: str) -> str:
    """A limit of the container this process runs in (cgroup v2), or an empty string."""
    try:
        with open(f"/sys/fs/cgroup/{name}") as value:
            return value.read().strip()
    except OSError:
        return ""


def above_standard(fd: int) -> int:
    """The same file on a descriptor above 2, closed on exec.

    A program whose standard input is closed gets the numbers 0 to 2 for its next files, and every new process puts
    something else there.
    """
    if fd > 2:
        return fd
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def current_directory() -> str:
    """The current directory.

    Raises:
        ConfigError: it was deleted while this process was in it.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        was = os.environ.get("PWD", "")
        raise ConfigError(
            f"the current directory{f' ({was})' if was else ''} was deleted, and relative paths belong to it: go to "
            "another directory and start again"
        ) from None


def check_room(directory: str) -> None:
    """Refuse a directory in which the files of a pool have no room, before a process fails on it without a word.

    Raises:
        ConfigError: it cannot be written, or has fewer than ``LEAST_ROOM_BYTES`` or ``LEAST_ROOM_FILES`` left.
    """
    place = directory
    while not os.path.isdir(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"{place} is not writable, and the pool's files belong there; {_OTHER_PLACE}")
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    if free < LEAST_ROOM_BYTES:
        raise ConfigError(f"{place} is full ({free:,} bytes left), and the pool's files belong there; {_OTHER_PLACE}")
    if found.f_files and found.f_favail < LEAST_ROOM_FILES:  # zero: a file system that does not count them
        raise ConfigError(f"{place} has room for {found.f_favail} more files, which is too few; {_OTHER_PLACE}")
