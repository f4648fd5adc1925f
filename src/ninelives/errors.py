"""Every error Ninelives raises.

::

    NinelivesError
      ConfigError          refused before any process starts: key, value, what is allowed
      UsageError           calls in the wrong order
        ClosedError          used after close(); also Gymnasium's ClosedEnvironmentError
        PendingError         an answer is under way; also Gymnasium's AlreadyPendingCallError
        NotPendingError      no answer is under way; also Gymnasium's NoAsyncCallError
        ActionError          actions that do not fit the slots or their space; also a ValueError
      WorkerError          a fault: slots, generation, pid, phase, cause, last action, seed, stderr tail, traceback
        WorkerStartError     never reached its first observation
          SpacesError          slots have different spaces; also a RuntimeError, as in Gymnasium
        WorkerCrashedError   killed by a signal, or exited
        WorkerHungError      missed a deadline; its stack is attached
        EnvRaisedError       the environment's own exception, its traceback as text
        BadDataError         shape, dtype or bounds outside the declared space, or NaN
      PoolExhaustedError   restart budget spent; lists the last WorkerError of each slot
      TransportError       shared memory or doorbell gone
      CheckpointError      a saved state cannot be used
      EmulatorError        an emulator is missing, or refuses what it was given
    NinelivesWarning         unusual, but the program continues

"You closed it" (``ClosedError``) and "it broke" (``WorkerError``) are different types on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium import error as gymnasium_error


class NinelivesError(Exception):
    """Base of every error of this package."""


class NinelivesWarning(UserWarning):
    """Something is unusual, but the program continues. One raised by an environment in a worker is repeated here."""


class ConfigError(NinelivesError, ValueError):
    """A setting is invalid; raised before any process starts.

    The message names the key, the value and what is allowed.
    """


class UsageError(NinelivesError, RuntimeError):
    """Calls were made in the wrong order; the message names the missing call."""


class ClosedError(UsageError, gymnasium_error.ClosedEnvironmentError):
    """The pool has been closed by its user; create a new one."""


class PendingError(UsageError, gymnasium_error.AlreadyPendingCallError):
    """An answer is under way and must be received first; ``name`` is the call that it answers."""

    def __init__(self, message: str, name: str = "step") -> None:
        RuntimeError.__init__(self, message)
        self.name = name


class NotPendingError(UsageError, gymnasium_error.NoAsyncCallError):
    """An answer was waited for that nobody had asked for; ``name`` is the call that is missing."""

    def __init__(self, message: str, name: str = "step") -> None:
        RuntimeError.__init__(self, message)
        self.name = name


class ActionError(UsageError, ValueError):
    """Actions do not fit: too many, too few, or outside what their space can hold."""


class TransportError(NinelivesError):
    """Shared memory or a doorbell is gone, or the system refuses to provide it."""


class CheckpointError(NinelivesError):
    """A saved state is truncated, belongs to something else, or is newer than this version."""


class EmulatorError(NinelivesError):
    """An emulator is missing, or refuses what it was given; the message says what to do."""


@dataclass(frozen=True)
class Fault:
    """What is known about one fault; carried by the error, the event and ``info["fault"]``.

    ``slots`` are all slots that lost their episode; ``culprit`` is the one being served at the time, if any.
    ``refusal`` is the message of the environment's exception if it is addressed to the user and needs no traceback.
    """

    kind: str
    summary: str
    slots: tuple[int, ...]
    worker: int
    generation: int
    phase: str
    culprit: int | None = None
    pid: int | None = None
    signal: str | None = None
    exit_code: int | None = None
    seed: int | None = None
    last_action: Any = None
    stderr_tail: str = ""
    traceback: str = ""
    log_path: str | None = None
    advice: str = ""
    tried: str = ""
    refusal: str = ""

    def describe(self) -> str:
        """The full message: what happened, to which slots, what was tried, what to do next."""
        where = f"slot {self.culprit}" if self.culprit is not None else f"slots {_ranges(self.slots)}"
        head = f"{where} (worker {self.worker}, generation {self.generation}, pid {self.pid}): {self.summary}"
        facts = [f"phase: {self.phase}"]
        if self.culprit is not None and len(self.slots) > 1 and self.kind not in ("start", "spaces"):
            facts.append(f"episodes lost in slots {_ranges(self.slots)}")
        if self.seed is not None:
            facts.append(f"seed: {self.seed}")
        if self.last_action is not None:
            facts.append(f"last action: {self.last_action}")
        lines = [head, "  " + ", ".join(facts)]
        if self.tried:
            lines.append(f"  tried: {self.tried}")
        if self.advice:
            lines.append(f"  next: {self.advice}")
        if self.log_path:
            lines.append(f"  log: {self.log_path}")
        if self.traceback:
            lines += ["  traceback in the worker:", _indent(self.traceback)]
        if self.stderr_tail:
            lines += ["  end of the worker's output:", _indent(self.stderr_tail)]
        return "\n".join(lines)


class WorkerError(NinelivesError):
    """A worker or one of its environments failed. ``fault`` holds everything that is known."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.describe())
        self.fault = fault

    def __reduce__(self) -> tuple[type[WorkerError], tuple[Fault]]:
        return type(self), (self.fault,)


class WorkerStartError(WorkerError):
    """A worker never reached its first observation: usually the environment is configured wrongly."""


class SpacesError(WorkerStartError, RuntimeError):
    """The environments of a pool have different spaces; those of all slots must be equal."""


class WorkerCrashedError(WorkerError):
    """A worker was killed by a signal, or exited by itself."""


class WorkerHungError(WorkerError):
    """A worker missed the deadline of its phase; its Python stack is in ``fault.stderr_tail``."""


class EnvRaisedError(WorkerError):
    """The environment raised an exception; ``fault.traceback`` is its traceback as text."""


class BadDataError(WorkerError):
    """The environment returned data outside its declared space."""


class PoolExhaustedError(NinelivesError):
    """The restart budget is spent. ``faults`` maps each slot to its last fault."""

    def __init__(self, reason: str, faults: dict[int, Fault] | None = None) -> None:
        self.reason = reason
        self.faults = dict(faults or {})
        last = [f"  slot {slot}: {fault.summary} (phase {fault.phase})" for slot, fault in sorted(self.faults.items())]
        super().__init__("\n".join([reason, *last]))

    def __reduce__(self) -> tuple[type[PoolExhaustedError], tuple[str, dict[int, Fault]]]:
        return type(self), (self.reason, self.faults)


ERROR_OF_KIND: dict[str, type[WorkerError]] = {
    "start": WorkerStartError,
    "spaces": SpacesError,
    "crashed": WorkerCrashedError,
    "hung": WorkerHungError,
    "raised": EnvRaisedError,
    "bad_data": BadDataError,
}


def error_for(fault: Fault) -> WorkerError:
    """The exception for this fault."""
    return ERROR_OF_KIND[fault.kind](fault)


def _ranges(slots: tuple[int, ...]) -> str:
    """``(0, 1, 2, 5)`` as ``0-2, 5``."""
    parts: list[str] = []
    start = end = None
    for slot in sorted(slots):
        if end is not None and slot == end + 1:
            end = slot
            continue
        if start is not None:
            parts.append(f"{start}" if start == end else f"{start}-{end}")
        start = end = slot
    if start is not None:
        parts.append(f"{start}" if start == end else f"{start}-{end}")
    return ", ".join(parts)


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.rstrip().splitlines())
