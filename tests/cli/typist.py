"""A user at a real terminal: keys are typed into a pty, and the output is what a person would see."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

PATIENCE_S = 40
HALF_BLOCK = "\N{UPPER HALF BLOCK}".encode()


class Typist:
    """A user at a terminal of 100 by 40 cells."""

    def __init__(self, directory, *args, verb="play", **environ):
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ninelives", verb, *args],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, cwd=directory, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLORTERM": "truecolor", **environ},
            preexec_fn=self._take_terminal,
        )  # fmt: skip

    @staticmethod
    def _take_terminal():
        """Make it the controlling terminal: otherwise Ctrl-C would be an ordinary key."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def type(self, keys):
        os.write(self._master, keys)

    def wait_for(self, pattern):
        """Read until this is seen behind what was waited for last."""
        end = time.monotonic() + PATIENCE_S
        while not (match := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"{pattern!r} never came; seen: {self.words()[-1000:]}"
            self._look(0.1)
        self.seen = self.seen[match.end() :]
        return match

    def _look(self, wait_s):
        ready, _, _ = select.select([self._master], [], [], wait_s)
        if ready:
            self.seen += os.read(self._master, 1 << 16)

    def words(self):
        return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", self.seen).replace(HALF_BLOCK, b"").decode(errors="replace")

    def code(self):
        """How it ended; what it still wrote is read, or it could not end."""
        end = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:
            assert time.monotonic() < end, f"it does not end; seen: {self.words()[-1000:]}"
            self._look(0.1)
        while select.select([self._master], [], [], 0)[0]:
            self._look(0)
        return self._process.returncode

    def send(self, number):
        """A signal to the program."""
        self._process.send_signal(number)

    def hang_up(self):
        """Close the terminal, and wait for the program's end."""
        os.close(self._master)
        self._master = None
        self._process.wait(PATIENCE_S)

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._master is not None:
            os.close(self._master)
        os.close(self.slave)
