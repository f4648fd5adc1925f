"""Both sides of the exchange over plain memory, for either twin of the parent's side."""

import threading

import numpy as np

from missing import require_module
from ninelives.transport.bell import Bell
from ninelives.transport.control import FROM_ASLEEP, GROUP_DONE, GROUP_SENT, TO_STOP, Control, control_layout
from ninelives.transport.exchange import PARENT_ROUNDS, WORKER_ROUNDS, Answerer, PyCaller

SECOND = 1_000_000_000
LONG = 60 * SECOND
"""Nobody waits that long: a test that does has lost a wake-up, and its own limit says so."""

PATIENCE_S = 30.0
WORKER_OF = (0, 0, 1, 1)


def native_caller():
    """The native twin, where it is built."""
    return require_module("ninelives.transport._exchange").Caller


CALLERS = {"native": native_caller, "python": lambda: PyCaller}


class Exchange:
    """Four groups, two each of two workers; sequence numbers may begin anywhere."""

    def __init__(self, twin, first=0, rounds=PARENT_ROUNDS, extra_fd=-1):
        workers, slots = max(WORKER_OF) + 1, len(WORKER_OF)
        self.control = Control(bytearray(control_layout(workers, slots).nbytes), workers, slots)
        self.control.group[:, [GROUP_SENT, GROUP_DONE]] = first % 2**32
        self.parent_bell = Bell.create()
        self.bells = [Bell.create() for _ in range(workers)]
        self.caller = CALLERS[twin]()(
            parent=self.control.parent,
            from_worker=self.control.from_worker,
            group=self.control.group,
            bells=np.array([bell.ring_fd for bell in self.bells], np.int32),
            worker_of=np.array(WORKER_OF, np.int32),
            own_fd=self.parent_bell.wait_fd,
            extra_fd=extra_fd,
            rounds=rounds,
        )

    def answerer(self, worker, rounds=WORKER_ROUNDS):
        groups = [g for g, w in enumerate(WORKER_OF) if w == worker]
        return Answerer(self.control, worker, groups, self.bells[worker], self.parent_bell, rounds)

    def answer(self, worker, attention=0):
        """One worker answers everything it was asked, in one go."""
        answerer = self.answerer(worker)
        groups = [g for g, w in enumerate(WORKER_OF) if w == worker]
        while any(self.caller.is_open(g) for g in groups):
            answerer.publish(answerer.next_group(), attention)

    def is_asleep(self, worker):
        return bool(self.control.from_worker[worker, FROM_ASLEEP])

    def stop(self):
        self.control.to_worker[:, TO_STOP] = 1
        for bell in self.bells:
            bell.ring()

    def close(self):
        for bell in (self.parent_bell, *self.bells):
            bell.close()


class Service:
    """Serves in a thread until it is stopped; an exception in the thread is raised at the end."""

    def __init__(self, run, stop):
        self._run, self._stop, self._error = run, stop, None
        self._thread = threading.Thread(target=self._guard, daemon=True)

    def _guard(self):
        try:
            self._run()
        except BaseException as error:
            self._error = error

    @property
    def is_alive(self):
        return self._thread.is_alive()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the worker's side did not stop"
        if self._error is not None:
            raise self._error
