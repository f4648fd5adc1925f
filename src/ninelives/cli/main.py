"""``ninelives VERB``: parses the command line, runs one verb, turns errors into one message and an exit code.

Verbs import what they need when they run, so that ``ninelives --help`` is fast.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ninelives import host
from ninelives.cli.exit_codes import FAILURE, INTERRUPTED, USAGE_ERROR
from ninelives.errors import ConfigError, NinelivesError, NinelivesWarning, UsageError, WorkerError

ABOUT = """Run many copies of a fragile environment at once, and keep training when they break.

For example:
$ ninelives demo
$ ninelives check CartPole-v1
$ ninelives doctor runs/mario"""


class CliCommand(Protocol):
    """One verb with its settings."""

    def run(self) -> int:
        """Execute it and return the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    missing = [name for name in ("tyro", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"ninelives: the command line needs {' and '.join(missing)}: pip install 'ninelives[cli]'", file=sys.stderr
        )
        return USAGE_ERROR
    _shorten_warnings()
    return _guarded(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    _import_from_here_first()
    return _parse(argv).run()


def _parse(argv: Sequence[str] | None) -> CliCommand:
    import tyro

    from ninelives.cli.benchmark import BenchmarkCommand
    from ninelives.cli.chaos import ChaosCommand
    from ninelives.cli.check import CheckCommand
    from ninelives.cli.cores import CoresCommand
    from ninelives.cli.demo import DemoCommand
    from ninelives.cli.doctor import DoctorCommand
    from ninelives.cli.games import GamesCommand
    from ninelives.cli.info import InfoCommand
    from ninelives.cli.play import PlayCommand
    from ninelives.cli.record import RecordCommand
    from ninelives.cli.replay import ReplayCommand
    from ninelives.cli.runs import RunsCommand
    from ninelives.cli.state import StateCommand
    from ninelives.cli.test import TestCommand
    from ninelives.cli.train import TrainCommand

    commands: dict[str, Callable[..., CliCommand]] = {
        "demo": DemoCommand,
        "train": TrainCommand,
        "test": TestCommand,
        "runs": RunsCommand,
        "info": InfoCommand,
        "doctor": DoctorCommand,
        "check": CheckCommand,
        "chaos": ChaosCommand,
        "benchmark": BenchmarkCommand,
        "cores": CoresCommand,
        "games": GamesCommand,
        "state": StateCommand,
        "play": PlayCommand,
        "record": RecordCommand,
        "replay": ReplayCommand,
    }
    command: CliCommand = tyro.extras.subcommand_cli_from_dict(commands, prog="ninelives", description=ABOUT, args=argv)
    return command


def _guarded(run: Callable[[], int]) -> int:
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()  # here, because at exit a closed pipe could no longer be handled
    except (ConfigError, UsageError) as error:
        return _say(error, USAGE_ERROR)
    except WorkerError as error:
        return _say(_in_short(error), USAGE_ERROR if error.fault.refusal and error.fault.kind == "start" else FAILURE)
    except NinelivesError as error:
        return _say(error, FAILURE)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has exited (`ninelives doctor | head`): print no error, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except OSError as error:
        return _say(_in_words(error), FAILURE)


def _say(message: object, code: int) -> int:
    """Print the message and the notes of the exception that is being handled."""
    print(f"ninelives: {message}", file=sys.stderr)
    for note in getattr(sys.exc_info()[1], "__notes__", ()):
        print(note, file=sys.stderr)
    return code


def _in_words(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error} (reported by the operating system)"


def _in_short(error: WorkerError) -> str:
    """The fault without what would only repeat: a refusal is complete, a deleted log needs no path.

    The end of the worker's log repeats its traceback.
    """
    if error.fault.refusal:
        return error.fault.refusal
    fault = dataclasses.replace(error.fault, log_path=None)
    return (dataclasses.replace(fault, stderr_tail="") if fault.traceback else fault).describe()


def _shorten_warnings() -> None:
    """Print our own warnings as one line: their place in our code means nothing to a user of the command line."""
    show = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NinelivesWarning):
            print(f"ninelives: warning: {message}", file=sys.stderr)
        else:
            show(message, category, *where, **more)

    warnings.showwarning = say


def _import_from_here_first() -> None:
    """Find ``mygame:make`` in the current directory, as ``python -m`` does."""
    here = host.current_directory()
    if here not in sys.path:
        sys.path.insert(0, here)
