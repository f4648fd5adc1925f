"""A worker's loop in a thread over scripted environments, for either twin of the loop."""

import os

import numpy as np
import pytest
from exchange_twins import CALLERS, Service
from gymnasium import spaces

from missing import require_module
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.context import SlotContext
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Op, Status
from ninelives.transport.bell import Bell
from ninelives.transport.control import GROUP_ATTENTION, TO_STOP, Control, control_layout
from ninelives.transport.exchange import PARENT_ROUNDS
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER, Mailbox
from ninelives.transport.segment import memory_file
from ninelives.worker.loop import make_loop
from ninelives.worker.progress import ProgressWords
from ninelives.worker.slot import EnvSlot, SlotSettings

TWINS = ("native", "python")
TICK = 50_000_000
ON, OVER, CUT = (False, False), (True, False), (False, True)
MODES = list(Autoreset)
BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Scripted:
    """Does what the script says: each entry is an answer, an exception, or a function of the environment."""

    def __init__(self, resets, steps):
        self._resets, self._steps = iter(resets), iter(steps)
        self.actions, self.reset_calls, self.closed = [], [], False

    def reset(self, seed=None, options=None):
        self.reset_calls.append((seed, options))
        return self._play(next(self._resets))

    def step(self, action):
        self.actions.append(action)
        return self._play(next(self._steps))

    def play_on(self, steps):
        """Other steps from now on."""
        self._steps = iter(steps)

    def close(self):
        self.closed = True

    def _play(self, entry):
        entry = entry(self) if callable(entry) else entry
        if isinstance(entry, BaseException):
            raise entry
        return entry


def scripted(resets, steps):
    """A constructor of environments that all play the same script, and the list of those it made."""
    made = []

    def make():
        made.append(Scripted(resets, steps))
        return made[-1]

    return make, made


def obs(*numbers):
    """An observation exactly as ``BOX`` declares it."""
    return np.array(numbers, np.float32)


def answer(a, b, reward=1.0, flags=ON, info=None):
    """What a step returns."""
    return obs(a, b), reward, *flags, {} if info is None else info


FIRST, SECOND = (obs(0, 0), {}), (obs(9, 9), {})
"""Two answers to resets."""


class Worker:
    """One worker with its slots, some of them in one group, served by one twin of the loop."""

    def __init__(
        self, twin, scratch, makers, observation=BOX, action=None, groups=None, autoreset=Autoreset.NEXT_STEP,
        check="nan", infos=None, rounds=PARENT_ROUNDS, tick=TICK, heals=False,
    ):  # fmt: skip
        slots = len(makers)
        self.slots = range(slots)
        self.control = Control(bytearray(control_layout(1, slots).nbytes), 1, slots)
        self.mail = Mailbox(memory_file("mail"), slots)
        self.bell, self.parent_bell = Bell.create(), Bell.create()
        self.data = DataSpec.of(observation, action or spaces.Discrete(100), infos or {}, autoreset, slots)
        self.arrays = self.data.layout.views(bytearray(self.data.layout.nbytes))
        self.progress = ProgressWords(self.control, 0, 1)
        settings = SlotSettings(check, autoreset, heals=heals)
        self.groups = groups or {0: tuple(self.slots)}
        self.env_slots = [
            EnvSlot(SlotContext(i, 1, scratch / f"slot-{i}", scratch), make, self.control, self.mail, self.progress)
            for i, make in enumerate(makers)
        ]
        for env_slot in self.env_slots:
            env_slot.construct()
            env_slot.attach(self.data, self.arrays, settings)
        self.loop = self._make_loop(twin, settings)
        self._tick = tick
        self._caller = CALLERS[twin]()(
            self.control.parent, self.control.from_worker, self.control.group, np.array([self.bell.ring_fd], np.int32),
            np.zeros(len(self.groups), np.int32), self.parent_bell.wait_fd, -1, rounds,
        )  # fmt: skip

    def _make_loop(self, twin, settings):
        if twin == "native":
            require_module("ninelives.worker._loop")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NINELIVES_NATIVE", "1" if twin == "native" else "0")
            groups = {g: [self.env_slots[s] for s in slots] for g, slots in self.groups.items()}
            loop = make_loop(
                self.control, 0, self.progress, groups, self.data, self.arrays, settings, (self.bell, self.parent_bell)
            )
        assert type(loop).__module__ == ("ninelives.worker._loop" if twin == "native" else "ninelives.worker.loop")
        return loop

    def __enter__(self):
        self._service = Service(self.loop.serve, self._stop)
        self._service.__enter__()
        return self

    def __exit__(self, *error):
        try:
            self._service.__exit__(*error)
        finally:
            self.bell.close()
            self.parent_bell.close()
            os.close(self.mail.fd)

    def _stop(self):
        self.control.to_worker[0, TO_STOP] = 1
        self.bell.ring()

    def ask(self, op, slots=None):
        """Send one request to all groups and wait for the answers; returns what the parent sees."""
        self.control.op[:] = Op.NONE
        self.control.op[list(self.slots) if slots is None else slots] = op
        self._caller.post_all()
        count = len(self.groups)
        while self._caller.wait(count, self._tick) < count:
            assert self._service.is_alive, "the loop ended"
        self._caller.collect_all()
        return [self.row(slot) for slot in self.slots]

    def ask_again(self, group):
        """One more request to a group, whether or not it has answered the last one."""
        self._caller.post([group])

    def reset(self, seeds=None, options=None, slots=None):
        for slot in self.slots if slots is None else slots:
            self.control.seeded[slot] = seeds is not None
            self.control.seed[slot] = 0 if seeds is None else seeds[slot]
            self.control.ask_bytes[slot] = 0 if options is None else self.mail.put(slot, TO_WORKER, options)
        rows = self.ask(Op.RESET, slots)
        self.control.ask_bytes[:] = 0
        return rows

    def step(self, action=0, slots=None):
        for name, array in self.arrays.items():
            if name.startswith("action:"):
                array[...] = action
        return self.ask(Op.STEP, slots)

    def call(self, request, slots=None):
        for slot in self.slots:
            self.control.ask_bytes[slot] = self.mail.put(slot, TO_WORKER, request)
        rows = self.ask(Op.CALL, slots)
        self.control.ask_bytes[:] = 0
        return rows

    def row(self, slot):
        """Everything a slot's answer consists of, except times."""
        control = self.control
        group = next(g for g, slots in self.groups.items() if slot in slots)
        words = ("reward", "terminated", "truncated", "status", "torn", "ended", "info_schema", "steps", "episodes")
        counted = ("running_return", "running_length", "episode_return", "episode_length")
        row = {name: getattr(control, name)[slot].item() for name in (*words, *counted)}
        row |= {name: array[slot].tolist() for name, array in self.arrays.items() if not name.startswith("action:")}
        row["attention"] = int(control.group[group, GROUP_ATTENTION])
        row["in_histogram"] = int(control.step_histogram[slot].sum())
        row["message"] = self.message(slot)
        return row

    def message(self, slot):
        """The slot's message, without the traceback: that names the twin's own lines."""
        size = int(self.control.mail_bytes[slot])
        if not size:
            return None
        message = self.mail.get(slot, TO_PARENT, size)
        if self.control.status[slot] != Status.OK:
            assert message.pop("traceback")
        return message
