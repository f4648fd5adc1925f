"""The parent's side of the keeper: starts it, sends it commands, and receives its reports about children.

Must stay thin: every decision about restarts is made elsewhere.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninelives.errors import ConfigError, TransportError
from ninelives.host import above_standard
from ninelives.supervise.child import ChildSpec
from ninelives.supervise.descent import CHILD_TAG, end_tagged, kill
from ninelives.supervise.exits import Ending

KEEPER_START_S = 120.0
"""A keeper only imports modules; one that needs two minutes waits for a disk that does not respond."""

THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of libraries that would start a thread per core in every worker; set to 1 unless the user has set them."""


@dataclass(frozen=True)
class Report:
    """One line from the keeper: ``spawned``, ``spawn_failed``, ``exited`` or ``lost`` (the keeper itself is gone)."""

    event: str
    key: int = -1
    pid: int = 0
    status: int = 0
    max_rss: int = 0
    error: str = ""


class Children:
    """A keeper process and its children."""

    def __init__(self, mode: str, keep_fds: Sequence[int], preload: Sequence[str], payload: Any) -> None:
        self.tag = f"{os.getpid()}:{secrets.token_hex(4)}"
        self._mode, self._keep_fds, self._preload, self._payload = mode, list(keep_fds), list(preload), payload
        self._inbox = b""
        self._popen: subprocess.Popen[bytes] | None = None
        self._start()

    @property
    def fileno(self) -> int:
        """Descriptor that is readable when there are reports."""
        return self._channel.fileno()

    def _start(self) -> None:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours, theirs = (socket.socket(fileno=above_standard(end.detach())) for end in pair)
        self._channel = ours
        settings = {
            "channel_fd": theirs.fileno(),
            "parent_pid": os.getpid(),
            "keep_fds": self._keep_fds,
            "preload": self._preload if self._mode != "spawn" else [],
            "mode": self._mode,
        }
        if self._mode == "fork":
            self._fork(settings)
        else:
            self._exec(settings)
        theirs.close()
        self._channel.setblocking(False)

    def _fork(self, settings: Mapping[str, Any]) -> None:
        pid = os.fork()
        if not pid:
            from ninelives.supervise.keeper import keep

            keep(**settings, payload=self._payload)
        self._pid = pid

    def _exec(self, settings: Mapping[str, Any]) -> None:
        path = [os.path.abspath(entry) for entry in sys.path]
        code = f"import sys; sys.path[:] = {path!r}; from ninelives.supervise.keeper import main; main(sys.argv[1:])"
        environ = {**dict.fromkeys(THREAD_LIMITS, "1"), **os.environ, CHILD_TAG: self.tag}
        self._popen = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(settings)],
            pass_fds=[settings["channel_fd"], *self._keep_fds],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._pid = self._popen.pid

    def await_up(self) -> None:
        """Block until the keeper has finished its imports.

        Raises:
            ConfigError: a module to preload cannot be imported, with its traceback.
        """
        deadline = time.monotonic() + KEEPER_START_S
        while True:
            for line in self._lines(max(0.0, deadline - time.monotonic())):
                if line["event"] == "up":
                    return
                if line["event"] == "preload_failed":
                    self.kill_keeper()
                    raise ConfigError(f"preload: module {line['module']!r} cannot be imported:\n{line['traceback']}")
                if line["event"] == "lost":
                    how = Ending.of(self._wait_keeper(5.0) or 0).describe()
                    raise ConfigError(f"the fork server ended while importing preload={self._preload}: {how}")
            if time.monotonic() > deadline:
                self.kill_keeper()
                raise TransportError(
                    f"the keeper process did not start within {KEEPER_START_S:.0f} s; run `ninelives doctor`"
                )

    def spawn(self, spec: ChildSpec) -> None:
        """Start a child; a ``spawned`` report follows."""
        self._command(do="spawn", spec=vars(spec))

    def signal(self, key: int, number: int, group: bool = False) -> None:
        """Send a signal to a child, or to its whole process group."""
        self._command(do="signal", key=key, signal=int(number), group=group)

    def kill(self, key: int) -> None:
        """Kill a child and its process group; an ``exited`` report follows (``lost`` if the keeper is gone)."""
        try:
            self.signal(key, signal.SIGKILL, group=True)
        except TransportError:
            pass

    def tidy(self, path: str) -> None:
        """Create a private directory that the keeper removes at the end, however the parent ends."""
        self._command(do="tidy", path=path)

    def reports(self, timeout_s: float = 0.0) -> list[Report]:
        """Reports since the last call; waits up to ``timeout_s`` for the first one."""
        known = Report.__dataclass_fields__
        return [Report(**{k: v for k, v in line.items() if k in known}) for line in self._lines(timeout_s)]

    def close(self, timeout_s: float) -> None:
        """Let the keeper end everything; after the timeout, kill it (its children die with it)."""
        try:
            self._command(do="quit")
        except TransportError:
            pass
        status = self._wait_keeper(timeout_s)
        if status is None:
            self.kill_keeper()
        elif os.WIFSIGNALED(status):
            end_tagged(self.tag)  # it was killed before it could clean up
        self._channel.close()

    def kill_keeper(self) -> None:
        """Kill the keeper, as a last resort. Its children die with it; their descendants are killed by tag."""
        kill(self._pid, signal.SIGKILL, group=False)
        self._wait_keeper(5.0)
        end_tagged(self.tag)

    def restart(self) -> None:
        """Start a new keeper after the old one was lost."""
        self.kill_keeper()
        self._channel.close()
        self._inbox = b""
        self._start()
        self.await_up()

    def _command(self, **command: Any) -> None:
        try:
            self._channel.setblocking(True)
            self._channel.sendall(json.dumps(command).encode() + b"\n")
            self._channel.setblocking(False)
        except OSError as error:
            raise TransportError(f"the keeper process of the workers is gone: {error}") from error

    def _lines(self, timeout_s: float) -> list[dict[str, Any]]:
        self._channel.settimeout(timeout_s)
        try:
            data = self._channel.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            data = b""
        if not data:
            return [{"event": "lost"}]
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _wait_keeper(self, timeout_s: float) -> int | None:
        """The keeper's wait status, or None if it still runs after the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid:
                if self._popen is not None:
                    self._popen.returncode = os.waitstatus_to_exitcode(status)
                return status
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.002)
