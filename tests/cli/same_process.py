"""The command line in the test's own process: importing torch anew each time would take longer than the training."""

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ninelives.cli.main import main
from ninelives.testing import leftovers


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


def commands(here, monkeypatch, capsys) -> Callable[..., Finished]:
    """Runs ``ninelives ARGS`` in a directory; the directory's modules are imported anew by each test."""
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)
    for name in ("game", "wandb"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*args: str) -> Finished:
        code = main(args)
        return Finished(code, *capsys.readouterr())

    return run


def reap_orphans():
    """Workers of a killed trainer fall to the test process (see the session fixture): wait for them as init would."""

    def left():
        for process in leftovers.descendants():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        return leftovers.descendants()

    assert leftovers.await_none(left, within_s=20.0) == []
