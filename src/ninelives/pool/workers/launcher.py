"""Starting one generation of a worker: its control line, its letter, its process."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from pathlib import Path

from ninelives.pool.workers.worker import Member
from ninelives.spec.handshake import WorkerSpec
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.child import ChildSpec
from ninelives.supervise.children import Children
from ninelives.transport.control import FROM_PHASE, TO_CORE, TO_GO, TO_POLL
from ninelives.transport.mailbox import TO_WORKER
from ninelives.transport.shared_memory import Wiring

WORKER_ENTRY = "ninelives.worker.main:run"
"""The worker's code is known by name only: it is never imported here."""


class Launcher:
    """Starts generations.

    Attributes:
        spec: what every letter has in common.
        may_poll: there are no more workers than cores.
        cores: the core of each worker; empty: wherever the system puts them.
    """

    def __init__(self, wiring: Wiring, children: Children, run_dir: Path, spec: WorkerSpec) -> None:
        self._wiring, self._children, self._run_dir = wiring, children, run_dir
        self.spec = spec
        self.may_poll = False
        self.cores: tuple[int, ...] = ()

    def log_of(self, line: int) -> Path:
        """Where a process's output goes."""
        return self._run_dir / f"worker-{line}.log"

    def launch(self, member: Member, now_ns: int, quarantined: Set[int]) -> None:
        """Start the member's present generation, without its quarantined slots."""
        log = self.log_of(member.line)
        member.stage, member.phase, member.pid = Stage.NONE, Phase.IDLE, None
        member.spawned_ns = member.went_ns = now_ns
        member.log_from = log.stat().st_size if log.exists() else 0
        self._wipe(member, now_ns)
        slots = tuple(slot for slot in member.slots if slot not in quarantined)
        letter = dataclasses.replace(self.spec, slots=slots, groups=member.groups, spare=member.is_spare)
        window = self._wiring.mail.worker_window(member.line)
        self._children.spawn(self._child(member, log, self._wiring.mail.put(window, TO_WORKER, letter)))

    def _wipe(self, member: Member, now_ns: int) -> None:
        """A clean line for a new generation; nobody else writes here now, the last one is reaped."""
        control, line = self._wiring.control, member.line
        control.from_worker[line] = 0
        control.to_worker[line] = 0
        control.to_worker[line, TO_GO] = bool(self.spec.digest) and not member.is_spare
        control.to_worker[line, TO_POLL] = self.may_poll
        self.give_core(member)
        control.since_ns[line, 0] = now_ns
        control.from_worker[line, FROM_PHASE] = int(Phase.IMPORT)

    def give_core(self, member: Member) -> None:
        """Say which core the member's process shall keep to once it serves; a spare has none until it steps in."""
        core = self.cores[member.index] + 1 if self.cores and not member.is_spare else 0
        self._wiring.control.to_worker[member.line, TO_CORE] = core

    def _child(self, member: Member, log: Path, letter_bytes: int) -> ChildSpec:
        worker, generation = member.line, member.machine.generation
        scratch = str(self._run_dir / "scratch" / f"worker-{worker}")
        return ChildSpec(
            key=worker,
            entry=WORKER_ENTRY,
            args=self._wiring.seat(worker, generation, scratch, letter_bytes),
            keep_fds=self._wiring.fds_of(worker),
            scratch=scratch,
            log=str(log),
            tag=f"{self._children.tag}:{worker}:{generation}",
            name=f"ninelives-{worker}.{generation}",
        )
