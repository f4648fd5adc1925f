"""The keeper: one small process per pool that starts and reaps the children, and cleans up when the parent dies.

::

    parent --(socketpair: commands, events)--> keeper --(fork or exec)--> child, child, child ...
                                               is the subreaper of all their descendants

It exists for four reasons. Forking from a small, preloaded process is fast and safe, whatever threads the user's
program has. It outlives the parent briefly, so a parent killed by SIGKILL leaves no process and no directory behind.
As the subreaper it inherits every orphan of a dead child, including those that left its process group. And it alone
knows which process numbers are still in use by the pool, so a signal never hits an unrelated process.

It must run no environment code (except modules the user asks to preload) and must never block on anything but its poll.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from ninelives.supervise.child import PR_SET_CHILD_SUBREAPER, ChildSpec, close_all_but, live, prctl
from ninelives.supervise.descent import CHILD_TAG, children_of_self, kill, name_of, tag_of

SWEEP_LIMIT_S = 2.0
"""How long the keeper tries to end all descendants before it exits; SIGKILL normally takes milliseconds."""

SWEEP_LEAST = 200
"""The least number of tries: on a machine that was suspended, the time limit may pass before the first one."""


class Keeper:
    """The whole state of the keeper: children by pid, tags of dead ones, directories to remove."""

    def __init__(self, channel: socket.socket, parent_pid: int, mode: str, payload: Any) -> None:
        self._channel, self._parent_pid = channel, parent_pid
        self._exec, self._forked, self._payload = mode == "spawn", mode == "fork", payload
        self._children: dict[int, ChildSpec] = {}
        self._dead: set[str] = set()  # tags and names of children that are gone
        self._tidy: set[str] = set()
        self._inbox = b""

    def run(self, preload: Sequence[str]) -> None:
        """Serve until the parent sends ``quit`` or is gone."""
        if not self._preload(preload):
            return
        self._report("up", pid=os.getpid())
        wake_r, wake_w = os.pipe()
        os.set_blocking(wake_w, False)
        os.set_blocking(wake_r, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(wake_r, selectors.EVENT_READ)
            with contextlib.suppress(OSError, AttributeError):
                # Processes forked by the user's program may hold the channel open: watch the parent itself as well.
                selector.register(os.pidfd_open(self._parent_pid), selectors.EVENT_READ)
            self._loop(selector, wake_r)

    def _loop(self, selector: selectors.BaseSelector, wake_r: int) -> None:
        while os.getppid() == self._parent_pid:
            ready = [key.fd for key, _ in selector.select(timeout=5.0)]
            if wake_r in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake_r, 4096)
                self._reap()
            if self._channel.fileno() in ready and not self._read():
                return

    def _preload(self, names: Sequence[str]) -> bool:
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException:
                self._report("preload_failed", module=name, traceback=traceback.format_exc())
                return False
        if not self._forked:
            gc.collect()  # not in a fork of the user's program: finalizers of its garbage must run there, not here
        gc.freeze()  # children then share these pages instead of copying them at their first collection
        return True

    # ---- commands -------------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Carry out commands; False when the parent closed the channel or sent ``quit``."""
        try:
            data = self._channel.recv(1 << 16)
        except ConnectionError:
            return False
        if not data:
            return False
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        return all(self._execute(json.loads(line)) for line in lines)

    def _execute(self, command: Mapping[str, Any]) -> bool:
        match command["do"]:
            case "spawn":
                self._spawn(ChildSpec(**command["spec"]))
            case "signal":
                self._signal(command["key"], command["signal"], command["group"])
            case "tidy":
                self._tidy.add(command["path"])
                os.makedirs(command["path"], mode=0o700, exist_ok=True)
            case "quit":
                return False
        return True

    def _spawn(self, spec: ChildSpec) -> None:
        try:
            pid = self._exec_child(spec) if self._exec else self._fork_child(spec)
        except OSError as error:
            self._report("spawn_failed", key=spec.key, error=str(error))
            return
        self._children[pid] = spec
        self._report("spawned", key=spec.key, pid=pid)

    def _fork_child(self, spec: ChildSpec) -> int:
        keeper_pid = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = 70
        try:
            code = live(spec, keeper_pid, self._payload)
        except BaseException:
            traceback.print_exc()
        os._exit(code)

    def _exec_child(self, spec: ChildSpec) -> int:
        request = json.dumps({"spec": vars(spec), "keeper_pid": os.getpid()})
        code = f"import sys; sys.path[:] = {sys.path!r}; from ninelives.supervise.child import main; "
        process = subprocess.Popen(
            [sys.executable, "-c", code + "sys.exit(main(sys.argv[1:]))", request],
            pass_fds=spec.keep_fds,
            env={**os.environ, **spec.env, CHILD_TAG: spec.tag},
        )
        process.returncode = 0  # reaped by _reap, not by Popen
        return process.pid

    def _signal(self, key: int, number: int, group: bool) -> None:
        for pid, spec in self._children.items():
            if spec.key == key:
                kill(pid, number, group)

    # ---- exits ----------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Report every child that has exited.

        Its group is killed while the leader is still a zombie, so that its number cannot belong to another process.
        """
        while (found := self._peek()) is not None:
            if found not in self._children:
                os.waitpid(found, 0)  # an adopted orphan
                continue
            kill(found, signal.SIGKILL, group=True)
            _, status, usage = os.wait4(found, 0)
            spec = self._children.pop(found)
            self._dead |= {spec.tag, spec.name}
            self._report("exited", key=spec.key, pid=found, status=status, max_rss=usage.ru_maxrss * 1024)
        self._end_orphans()

    @staticmethod
    def _peek() -> int | None:
        try:
            result = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        return result.si_pid if result is not None else None

    def _end_orphans(self) -> None:
        """Kill descendants of dead children that this process has adopted, including those that left their group.

        A program they started has the tag in its environment; a fork without exec has the child's name.
        """
        adopted = [pid for pid in children_of_self() if pid not in self._children] if self._dead else []
        for pid in adopted:
            if not self._dead.isdisjoint({tag_of(pid), name_of(pid)}):
                kill(pid, signal.SIGKILL, group=False)
        if not adopted:
            self._dead.clear()  # what a dead child leaves is adopted here at once: there is nothing more of it to find

    def sweep(self) -> None:
        """Kill all descendants of this process, then remove the registered directories."""
        deadline, left = time.monotonic() + SWEEP_LIMIT_S, SWEEP_LEAST
        while left > 0 or time.monotonic() < deadline:
            left -= 1
            for pid in [*self._children, *children_of_self()]:
                kill(pid, signal.SIGKILL, group=pid in self._children)
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            self._children.pop(pid, None)
            if not pid:
                time.sleep(0.002)
        for path in self._tidy:
            shutil.rmtree(path, ignore_errors=True)

    def _report(self, event: str, **facts: Any) -> None:
        try:
            self._channel.sendall(json.dumps({"event": event, **facts}).encode() + b"\n")
        except OSError:
            pass  # the parent is gone, which the poll will report


def keep(
    channel_fd: int, parent_pid: int, keep_fds: Sequence[int], preload: Sequence[str], mode: str, payload: Any
) -> None:
    """Run a keeper in this process; never returns."""
    try:
        os.setpgid(0, 0)  # Ctrl-C in the terminal is for the parent
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        _detach_stdio()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        close_all_but([channel_fd, *keep_fds])
        keeper = Keeper(socket.socket(fileno=channel_fd), parent_pid, mode, payload)
        try:
            keeper.run(preload)
        finally:
            keeper.sweep()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _detach_stdio() -> None:
    """Hold no terminal or pipe of the user's program open; everything that matters is sent over the channel."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def main(argv: Sequence[str]) -> None:
    """Entry point of a keeper in a new interpreter: its settings as JSON."""
    settings = json.loads(argv[0])
    keep(**settings, payload=None)
