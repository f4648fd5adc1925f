"""Games for people run in a slot: a worker that is killed in the middle changes nothing that is seen or recorded."""

import os
import signal

import numpy as np
import pytest

from ninelives.console.game_session import GameSession, find_game
from ninelives.errors import CheckpointError
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.emulators.movies import MovieRecorder

PADS = [0] * 20 + [pad_of("start")] * 2 + [0] * 5 + [pad_of("right")] * 10 + [pad_of("right", "a")] * 8


def filmed(game, kills=()):
    with GameSession(find_game(game, None), frame_skip=2, hashed=True) as slot:
        recorder = MovieRecorder(slot.identity, slot.frame_skip, game, slot.start)
        for step, pad in enumerate(PADS):
            if step in kills:
                os.kill(slot.pid, signal.SIGKILL)
            recorder.note(pad, slot.step(pad))
        return recorder.movie(), slot.picture().copy()


@pytest.mark.parametrize("game", ["ninelives/Lantern-v0", "ninelives/Errand-v0"])
def test_a_killed_worker_leaves_no_trace_in_a_movie(game):
    quiet, last = filmed(game)
    disturbed, seen = filmed(game, kills=(3, 30))
    assert disturbed == quiet
    assert np.array_equal(seen, last)
    assert len({quiet.hash_of(step) for step in range(quiet.steps)}) > 20, "the game moves"


def test_a_moment_is_gone_back_to_also_after_a_kill():
    with GameSession(find_game("ninelives/Lantern-v0", None), hashed=True) as slot:
        for pad in PADS[:25]:
            slot.step(pad)
        moment, here = slot.moment(), slot.picture().copy()
        ahead = [slot.step(pad) for pad in PADS[25:]]
        slot.go_to(moment)
        assert np.array_equal(slot.picture(), here), "the picture of the moment is seen at once"
        again = [slot.step(pad) for pad in PADS[25:35]]
        os.kill(slot.pid, signal.SIGKILL)
        again += [slot.step(pad) for pad in PADS[35:]]
        assert again == ahead


def test_a_moment_of_another_game_is_refused_before_the_worker_sees_it():
    with GameSession(find_game("ninelives/Lantern-v0", None)) as slot:
        moment = slot.moment()
    with GameSession(find_game("ninelives/Errand-v0", None)) as slot:
        with pytest.raises(CheckpointError, match="another ROM"):
            slot.go_to(moment)
        with pytest.raises(CheckpointError, match="not a Ninelives snapshot"):
            slot.go_to(b"nothing")
        slot.step(0)
