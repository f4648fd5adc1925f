"""What tests of views share: time that passes when they say so, workers that come up, and what a view wrote."""

import io

from ninelives.events import WorkerReady, WorkerSpawned


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def about(worker, generation=1, at_s=1000.0):
    return {"worker": worker, "slots": (2 * worker, 2 * worker + 1), "generation": generation, "at_s": at_s}


def ready(worker, generation=1, at_s=1000.0, total=2):
    return WorkerReady(**about(worker, generation, at_s), seconds=0.25, ready=1, total=total)


def workers_up(model, workers):
    for worker in range(workers):
        model.note(WorkerSpawned(**about(worker), started=1, total=workers))
        model.note(ready(worker))


def in_lines(kind, clock):
    """A view without a terminal, that can be asked what it wrote."""
    stream = io.StringIO()
    view = kind(stream, clock=clock)
    view.written = lambda: stream.getvalue().splitlines()
    return view
