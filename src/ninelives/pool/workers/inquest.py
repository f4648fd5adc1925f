"""What is known of a worker's end: reads its last phase, its last words and its log, and makes a fault of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Set
from typing import Any

from ninelives import host
from ninelives.errors import Fault
from ninelives.pool.workers import postmortem
from ninelives.pool.workers.launcher import Launcher
from ninelives.pool.workers.worker import Member
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.exits import Ending
from ninelives.supervise.machine import NS
from ninelives.transport.control import FROM_LETTER, FROM_PHASE, FROM_SLOT, FROM_STAGE
from ninelives.transport.mailbox import TO_PARENT
from ninelives.transport.shared_memory import Wiring


class Inquest:
    """Looks at workers that ended, or whose environments failed. Changes nothing."""

    def __init__(
        self,
        wiring: Wiring,
        launcher: Launcher,
        describe: Callable[[int], tuple[int | None, Any]],
        quarantined: Set[int],
        log_stays: bool,
    ) -> None:
        self._wiring, self._launcher, self._describe = wiring, launcher, describe
        self._quarantined, self._log_stays = quarantined, log_stays

    def fault_of(self, member: Member, ending: Ending, rss: int) -> Fault:
        """Why a process ended that nobody had asked to."""
        scene, machine = self.scene(member), member.machine
        if machine.hung is not None:
            late_in = Phase.STEP if machine.hung.phase is Phase.IDLE else machine.hung.phase
            cause = postmortem.hung(scene, machine.late_ns / NS, machine.deadlines.limits_ns[late_in] / NS)
        else:
            cause = postmortem.crashed(scene, ending, rss, host.memory_limit_bytes())
        if member.booted:
            words = self.last_words(member)
            return postmortem.raised("raised", scene, words) if words else cause
        return postmortem.never_started(scene, self.last_words(member), cause, member.attempts + 1)

    def last_words(self, member: Member) -> Any:
        """What the worker said before it failed at its start, or None."""
        stage = Stage(int(self._wiring.control.from_worker[member.line, FROM_STAGE]))
        return self.letter(member) if stage is Stage.FAILED else None

    def letter(self, member: Member) -> Any:
        """The newest letter of a worker."""
        nbytes = int(self._wiring.control.from_worker[member.line, FROM_LETTER])
        return self._wiring.mail.get(self._wiring.mail.worker_window(member.line), TO_PARENT, nbytes)

    def scene(self, member: Member) -> postmortem.Scene:
        """What the worker was doing, to whom."""
        line = self._wiring.control.from_worker[member.line]
        hung = member.machine.hung
        if hung is not None:
            phase, culprit = hung.phase, hung.slot
        else:
            phase, culprit = Phase(int(line[FROM_PHASE])), int(line[FROM_SLOT]) - 1 if line[FROM_SLOT] else None
        if culprit is not None and culprit >= self._wiring.slots:
            culprit = None  # a spare that had not taken its seat
        seed, action = self._describe(culprit) if culprit is not None else (None, None)
        slots = tuple(s for s in member.slots if s not in self._quarantined)
        return postmortem.Scene(
            member.index,
            member.machine.generation,
            member.pid,
            slots,
            culprit,
            phase,
            seed,
            action if phase is Phase.STEP else None,
            self._launcher.log_of(member.line),
            member.log_from,
            self._log_stays,
        )

    def slot_scene(self, member: Member, slot: int) -> postmortem.Scene:
        """The scene of a fault that the worker survived."""
        seed, action = self._describe(slot)
        return dataclasses.replace(self.scene(member), slots=(slot,), culprit=slot, seed=seed, last_action=action)
