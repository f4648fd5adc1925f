"""``ninelives VERB``: reads the command line, runs one verb, turns errors into one message and an exit code.

Exit codes: 0 good, 1 the thing failed or a problem was found, 2 the command or its settings are wrong. Verbs import
what they need when they run, so that ``ninelives --help`` is quick.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ninelives.errors import ConfigError, NinelivesError, NinelivesWarning, UsageError, WorkerError

GOOD, FAILED, WRONG = 0, 1, 2
INTERRUPTED = 130
"""What shells expect of a program ended by Ctrl-C."""

ABOUT = """Run many copies of a fragile environment at once, and keep going when they break.

For example:
$ ninelives demo
$ ninelives check CartPole-v1
$ ninelives doctor runs/mario"""


class Verb(Protocol):
    """One command with its settings."""

    def run(self) -> int:
        """Do it; the result is the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    missing = [name for name in ("tyro", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"ninelives: the command line needs {' and '.join(missing)}: pip install 'ninelives[cli]'", file=sys.stderr
        )
        return WRONG
    _look_here_first()
    _show_warnings_briefly()
    return _guarded(lambda: _parse(argv).run())


def _parse(argv: Sequence[str] | None) -> Verb:
    import tyro

    from ninelives.cli.benchmark import Benchmark
    from ninelives.cli.chaos import Chaos
    from ninelives.cli.check import Check
    from ninelives.cli.cores import Cores
    from ninelives.cli.demo import Demo
    from ninelives.cli.doctor import Doctor
    from ninelives.cli.games import Games
    from ninelives.cli.info import Info
    from ninelives.cli.play import Play
    from ninelives.cli.record import Record
    from ninelives.cli.replay import Replay
    from ninelives.cli.runs import Runs
    from ninelives.cli.state import State
    from ninelives.cli.test import Test
    from ninelives.cli.train import Train

    verbs: dict[str, Callable[..., Verb]] = {
        "demo": Demo,
        "train": Train,
        "test": Test,
        "runs": Runs,
        "info": Info,
        "doctor": Doctor,
        "check": Check,
        "chaos": Chaos,
        "benchmark": Benchmark,
        "cores": Cores,
        "games": Games,
        "state": State,
        "play": Play,
        "record": Record,
        "replay": Replay,
    }
    verb: Verb = tyro.extras.subcommand_cli_from_dict(verbs, prog="ninelives", description=ABOUT, args=argv)
    return verb


def _guarded(run: Callable[[], int]) -> int:
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()  # here and not at exit, where nobody could hear of a reader that has left
    except (ConfigError, UsageError) as error:
        return _say(error, WRONG)
    except WorkerError as error:
        return _say(_in_short(error), WRONG if error.fault.refusal and error.fault.kind == "start" else FAILED)
    except NinelivesError as error:
        return _say(error, FAILED)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left (`ninelives doctor | head`): there is nobody to tell, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _say(_whose_fault(error), FAILED)


def _say(message: object, code: int) -> int:
    print(f"ninelives: {message}", file=sys.stderr)
    return code


def _whose_fault(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; the system refused it"


def _in_short(error: WorkerError) -> str:
    """The worker's log went with its pool, and its end repeats the traceback: say neither twice.

    What was refused in words for its user needs no more than these.
    """
    if error.fault.refusal:
        return error.fault.refusal
    fault = dataclasses.replace(error.fault, log_path=None)
    return (dataclasses.replace(fault, stderr_tail="") if fault.traceback else fault).describe()


def _show_warnings_briefly() -> None:
    """Where in our code a warning was given is nothing to whoever typed a command."""
    show = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NinelivesWarning):
            print(f"ninelives: warning: {message}", file=sys.stderr)
        else:
            show(message, category, *where, **more)

    warnings.showwarning = say


def _look_here_first() -> None:
    """``mygame:make`` means the module in the directory the command is given in, as with ``python -m``."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
