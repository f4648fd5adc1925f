"""A worker's progress words: what is read from possible ones, and what is said of impossible ones."""

import numpy as np
import pytest

from ninelives.pool.workers.progress_words import Progress, read_progress
from ninelives.spec.phase import Phase, Stage
from ninelives.transport.control import FROM_MESSAGE, FROM_PHASE, FROM_SLOT, FROM_STAGE, WORDS

ROWS, LARGEST = 4, 2**32 - 1


def words(phase=Phase.STEP, slot=2, stage=Stage.READY, message=100):
    line = np.zeros(WORDS, np.uint32)
    line[FROM_PHASE], line[FROM_SLOT], line[FROM_STAGE], line[FROM_MESSAGE] = phase, slot + 1, stage, message
    return line


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("slot", [-1, 0, ROWS - 1])
def test_all_possible_words_are_read(phase, stage, slot):
    read = read_progress(words(phase, slot, stage), ROWS, 5, 5)
    assert read == Progress(phase, None if slot < 0 else slot, stage)


@pytest.mark.parametrize("value", [99, LARGEST])
@pytest.mark.parametrize("field", [FROM_PHASE, FROM_SLOT, FROM_STAGE])
def test_every_impossible_word_is_complained_of_and_none_raises(field, value):
    line = words()
    line[field] = value
    name = {FROM_PHASE: "phase", FROM_SLOT: "slot", FROM_STAGE: "stage"}[field]
    assert read_progress(line, ROWS).complaint.startswith(name)


def test_a_message_longer_than_its_window_and_a_time_in_the_future_are_impossible():
    assert "message" in read_progress(words(message=LARGEST), ROWS).complaint
    assert "future" in read_progress(words(), ROWS, since_ns=2**63, now_ns=5).complaint
