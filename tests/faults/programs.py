"""Whole programs of a user, each with its own temporary directory and its own mark."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys

from ninelives.testing import leftovers

MARK = "NINELIVES_TEST_MARK"


class Program:
    """A running program in a process group of its own."""

    def __init__(self, command, tmpdir, cwd=None):
        self._mark, self._tmpdir = secrets.token_hex(8), tmpdir
        environ = {**os.environ, MARK: self._mark, "TMPDIR": str(tmpdir)}
        self._popen = subprocess.Popen(
            [sys.executable, *map(str, command)],
            env=environ,
            cwd=cwd,
            process_group=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_line(self, line):
        """Wait until the program prints this line."""
        said = self._popen.stdout.readline()
        assert said == line + "\n", f"said {said!r}\n{self._popen.stderr.read()}"

    def interrupt(self):
        """Ctrl-C in its terminal: the whole foreground group gets it."""
        os.killpg(self._popen.pid, signal.SIGINT)

    def end(self, timeout_s=20.0):
        """Wait for its end; returns exit code, output and errors."""
        out, err = self._popen.communicate(timeout=timeout_s)
        return self._popen.returncode, out, err

    def kill(self):
        """Kill the program itself, not its group."""
        with self._popen:
            self._popen.kill()

    def left(self):
        """Its processes and directories that are still there."""
        return [*map(str, leftovers.marked(MARK, self._mark)), *sorted(os.listdir(self._tmpdir))]


def reap_orphans():
    """The test process adopts orphans of a killed program (see the session fixture): reap them as init would."""
    for process in leftovers.descendants():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
