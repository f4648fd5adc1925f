"""Assembles a pool's parts: each is made once, out of what was brought up and the parts made before it.

::

    journal -> healer -> minder -> asker -> calling -> states -> registrar
                                         -> receiver

Owns who is handed to whom, and whether steps may take the short way. Must never ask, wait or decide anything: that is
what the parts are for. None of them may know the pool: one that nobody holds any more is taken down at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ninelives.clock import Clock, SystemClock
from ninelives.pool.data.calls import Calling
from ninelives.pool.data.receive import Receiver
from ninelives.pool.data.requests import Asker
from ninelives.pool.recovery.checkpoint import Registrar
from ninelives.pool.recovery.coordinator import Minder
from ninelives.pool.recovery.healing import Healer
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.recovery.states import StateDesk
from ninelives.pool.startup import Start
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.codec import ActionCodec
from ninelives.spec.options import PoolOptions


class ShortWay(NamedTuple):
    """Native calls that do much at once, and what they take notes with; each is None where there is none.

    ``exchange`` is a whole step of everybody, ``send_some`` sends a first-ready batch back.
    """

    exchange: Any = None
    hook: Any = None
    send_some: Any = None
    note: Any = None


@dataclass(frozen=True)
class Parts:
    """What a pool hands its work to."""

    healer: Healer
    minder: Minder
    asker: Asker
    calling: Calling
    states: StateDesk
    registrar: Registrar
    receiver: Receiver
    short_way: ShortWay


def assemble(start: Start, journal: Journal, options: PoolOptions, clock: Clock) -> Parts:
    """Open the journal and make everything that stands on it."""
    plan, caller, gather, crew, log = start.plan, start.caller, start.gatherer, start.rig.crew, start.rig.log
    control, mail = start.rig.wiring.control, start.rig.wiring.mail
    heals, autoreset = options.on_fault == "heal", Autoreset.parse(options.autoreset)
    _open(journal, start, heals, autoreset)
    healer = Healer(heals, journal, control, mail, clock, log.emit)
    minder = Minder(plan, crew, caller, control, mail, options, clock, log, healer)
    asker = Asker(plan, caller, minder, control, mail, journal, clock)
    calling = Calling(plan, crew, caller, minder, asker, control, mail, journal)
    states = StateDesk(start.data, start.arrays, control, journal, healer, calling, gather, minder.desk)
    registrar = Registrar(control, journal, states, minder.desk, clock)
    receiver = Receiver(plan, caller, minder, asker, gather, control, mail, journal, clock)
    short_way = _short_way(start, journal, autoreset, clock)
    return Parts(healer, minder, asker, calling, states, registrar, receiver, short_way)


def _open(journal: Journal, start: Start, heals: bool, autoreset: Autoreset) -> None:
    journal.last_action = start.writer.last
    codec, next_step = ActionCodec.of(start.data.action), autoreset is Autoreset.NEXT_STEP
    journal.open(start.rig.wiring.control, start.arrays, codec, next_step, heals, start.rig.run_dir / "journal")


def _short_way(start: Start, journal: Journal, autoreset: Autoreset, clock: Clock) -> ShortWay:
    # The native exchange reads the machine's own clock, and needs actions that are rows of one array.
    can = isinstance(clock, SystemClock) and start.writer.plain is not None and autoreset is not Autoreset.DISABLED
    name = "exchange_all" if start.plan.is_synchronous else "send_some"
    call = getattr(start.caller, name, None) if can else None
    notes = journal.notes
    if not start.plan.is_synchronous:
        return ShortWay(send_some=call, note=notes and notes.note)
    hook = notes and notes.hook()
    return ShortWay() if notes and hook is None else ShortWay(exchange=call, hook=hook)
