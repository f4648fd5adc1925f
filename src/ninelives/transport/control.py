"""The control segment: every word that is not an environment's own data, with who writes it.

Its size depends only on the numbers of workers and slots, so it exists before the first worker starts; the data slab
follows once the first worker has reported its spaces.

===============  ========  ==================================================================================
field            written   meaning
===============  ========  ==================================================================================
parent           parent    line: asleep, wake_at; ``completed`` is an atomic counter of the workers
to_worker        parent    a line per worker: stop, go, bytes of the message that came with go, poll, its core + 1
from_worker      worker    a line per worker: asleep, phase, slot + 1, generation, stage, bytes of its message
since_ns         worker    monotonic time the phase was entered
group            both      a line per group: sent (parent), done and attention (worker)
op, seed, ...    parent    the request to a slot; read by the worker after it saw ``sent``
number, base_... parent    which episode an asked reset begins; the slot's seed, and which episode has it itself
restore_...      parent    an order to bring the slot back; bytes is zero when there is none
reward, ...      worker    the answer of a slot; read by the parent after it saw ``done``
begun, digest    worker    episodes begun so far; 32 bits that stand for the row
record           worker    a slot's own words (``RECORD``), each by its name
outcome, ...     worker    what became of an order; read by the parent when the worker is up, or has answered
info_schema      worker    the schema of the slot's infos in the slab; zero when there are none
schema_bytes     worker    the slot's schemas in the mailbox; read by the parent after it saw one that it does not know
state_..., save  worker    a snapshot in the mailbox (bytes is zero when there is none), and when the next is due
rng              worker    generator states with which the last two episodes began, by number modulo 2
===============  ========  ==================================================================================

One writer per field. ``sent`` and ``done`` publish: everything written before them is visible to a process that has
seen them. While a group's worker is dead and reaped, its ``done`` belongs to the parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.spec.layout import Layout, LayoutField

WORDS = 16
"""32-bit words in a line of 64 bytes; bell.h names the same columns."""

PARENT_ASLEEP, PARENT_WAKE_AT, PARENT_COMPLETED = 0, 1, 2
TO_STOP, TO_GO, TO_MESSAGE, TO_POLL, TO_CORE = 0, 1, 2, 3, 4
FROM_ASLEEP, FROM_PHASE, FROM_SLOT, FROM_GENERATION, FROM_STAGE, FROM_MESSAGE = 0, 1, 2, 3, 4, 5
GROUP_SENT, GROUP_DONE, GROUP_ATTENTION = 0, 1, 2

RNG_BYTES, RNG_KNOWN = 48, 40
"""A generator's record, and which of its bytes says whether the ones before it are known."""

HISTOGRAM_BUCKETS = 80
"""Step times by half octaves of nanoseconds: bucket 79 begins at about 13 minutes."""


RECORD_BYTES = 128
RECORD = np.dtype(
    {
        "names": [
            *("running_return", "running_length", "steps", "step_ns", "torn"),
            *("saved_at", "save_every", "state_bytes", "mail_bytes", "episode_began_ns", "status", "info_schema"),
        ],
        "formats": ["f8", "i8", "u8", "u8", "u1", "i8", "i8", "i8", "i8", "u8", "u1", "u8"],
        "offsets": [0, 8, 16, 24, 32, 64, 72, 80, 88, 96, 104, 112],
        "itemsize": RECORD_BYTES,
    }
)
"""What a slot's worker writes and reads in every step and the parent rarely does; worker/_loop.c has the same struct.

Two lines of its own for each slot, the first for what changes with every step: workers whose slots shared a line would
take it from each other all the time.
"""


def control_layout(workers: int, slots: int) -> Layout:
    """The byte map of the control segment. There are never more groups than slots."""
    per_slot = [
        ("op", "u1"),
        ("seeded", "u1"),
        ("seed", "i8"),
        ("number", "i8"),
        ("ask_bytes", "i8"),
        ("base_seed", "i8"),
        ("base_episode", "i8"),
        ("restore_bytes", "i8"),
        ("restore_number", "i8"),
        ("ended", "u1"),
        ("terminated", "?"),
        ("truncated", "?"),
        ("reward", "f8"),
        ("begun", "i8"),
        ("digest", "u4"),
        ("outcome", "u1"),
        ("restored_steps", "i8"),
        ("state_length", "i8"),
        ("state_total", "f8"),
        ("episode_return", "f8"),
        ("episode_length", "i8"),
        ("episode_time_s", "f8"),
        ("episodes", "u8"),
        ("reset_ns", "u8"),
        ("construct_ns", "u8"),
        ("schema_bytes", "i8"),
    ]
    return Layout.of(
        [
            LayoutField("parent", (WORDS,), "u4"),
            LayoutField("to_worker", (workers, WORDS), "u4"),
            LayoutField("from_worker", (workers, WORDS), "u4"),
            LayoutField("since_ns", (workers, 8), "u8"),
            LayoutField("group", (slots, WORDS), "u4"),
            *(LayoutField(name, (slots,), dtype) for name, dtype in per_slot),
            LayoutField("record", (slots, RECORD_BYTES), "u1"),
            LayoutField("rng", (slots, 2, RNG_BYTES), "u1"),
            LayoutField("step_histogram", (slots, HISTOGRAM_BUCKETS), "u4"),
        ]
    )


class Control:
    """Named numpy views over a control segment; attributes are the fields of the table above."""

    parent: npt.NDArray[np.uint32]
    to_worker: npt.NDArray[np.uint32]
    from_worker: npt.NDArray[np.uint32]
    since_ns: npt.NDArray[np.uint64]
    group: npt.NDArray[np.uint32]
    op: npt.NDArray[np.uint8]
    seeded: npt.NDArray[np.uint8]
    seed: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    ask_bytes: npt.NDArray[np.int64]
    base_seed: npt.NDArray[np.int64]
    base_episode: npt.NDArray[np.int64]
    restore_bytes: npt.NDArray[np.int64]
    restore_number: npt.NDArray[np.int64]
    status: npt.NDArray[np.uint8]
    torn: npt.NDArray[np.uint8]
    ended: npt.NDArray[np.uint8]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    reward: npt.NDArray[np.float64]
    mail_bytes: npt.NDArray[np.int64]
    info_schema: npt.NDArray[np.uint64]
    schema_bytes: npt.NDArray[np.int64]
    begun: npt.NDArray[np.int64]
    record: npt.NDArray[np.uint8]
    digest: npt.NDArray[np.uint32]
    outcome: npt.NDArray[np.uint8]
    restored_steps: npt.NDArray[np.int64]
    state_bytes: npt.NDArray[np.int64]
    state_length: npt.NDArray[np.int64]
    state_total: npt.NDArray[np.float64]
    saved_at: npt.NDArray[np.int64]
    save_every: npt.NDArray[np.int64]
    rng: npt.NDArray[np.uint8]
    running_return: npt.NDArray[np.float64]
    running_length: npt.NDArray[np.int64]
    episode_began_ns: npt.NDArray[np.uint64]
    episode_return: npt.NDArray[np.float64]
    episode_length: npt.NDArray[np.int64]
    episode_time_s: npt.NDArray[np.float64]
    steps: npt.NDArray[np.uint64]
    episodes: npt.NDArray[np.uint64]
    step_ns: npt.NDArray[np.uint64]
    reset_ns: npt.NDArray[np.uint64]
    construct_ns: npt.NDArray[np.uint64]
    step_histogram: npt.NDArray[np.uint32]

    def __init__(self, buffer: Any, workers: int, rows: int, slots: int | None = None) -> None:
        """Look at a segment of so many workers and rows; ``slots``: only at the first so many rows."""
        views: Mapping[str, npt.NDArray[Any]] = control_layout(workers, rows).views(buffer)
        per_worker = ("parent", "to_worker", "from_worker", "since_ns")
        record = views["record"].view(RECORD)[:slots, 0]
        self.__dict__.update({name: record[name] for name in RECORD.names or ()})
        self.__dict__.update({name: view if name in per_worker else view[:slots] for name, view in views.items()})
