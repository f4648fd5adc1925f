"""Counts the faults of a training run, for the last line of its command. Explains nothing: the doctor does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ninelives import events
from ninelives.train import records
from ninelives.train.callbacks import Callback
from ninelives.view.words import plural, slots_in_words


class FaultCount(Callback):
    """Counts faults and what became of them."""

    def __init__(self) -> None:
        self._faults = self._healed = self._cut = 0
        self._quarantined: set[int] = set()
        self._run_dir: Path | None = None
        self._started = False

    def on_start(self, started: records.Started) -> None:
        """Note where the doctor finds the events."""
        self._run_dir, self._started = started.run_dir, True

    def on_event(self, event: events.Event) -> None:
        """Count the event."""
        if isinstance(event, events.FaultSeen):
            self._faults += 1
        elif isinstance(event, events.SlotHealed):
            self._healed += len(event.slots)
        elif isinstance(event, events.HealFailed):
            self._cut += len(event.slots)
        elif isinstance(event, events.SlotQuarantined):
            self._quarantined.update(event.slots)

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """A run that is ended by an error mentions its faults, too: as a note, which is printed below the error."""
        try:
            yield
        except BaseException as error:
            for line in self.lines():
                error.add_note(line)
            raise

    def lines(self) -> list[str]:
        """One line if there were faults; none for a run that never started, whose error says it all."""
        if not (self._faults and self._started):
            return []
        parts = [plural(self._faults, "fault")]
        if self._healed:
            parts.append(f"{plural(self._healed, 'slot')} healed")
        if self._cut:
            parts.append(f"{plural(self._cut, 'episode')} cut")
        if self._quarantined:
            parts.append(f"{slots_in_words(self._quarantined)} quarantined")
        why = "" if self._run_dir is None else f"; what happened: ninelives doctor {self._run_dir}"
        return [f"{', '.join(parts)}{why}"]
