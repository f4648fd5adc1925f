"""Whether a used environment is as good as a new one: decided from rows alone, over environments that only count."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ninelives.spec.arrays import tree_of
from ninelives.spec.call import CallRequest
from ninelives.spec.codec import ActionCodec
from ninelives.spec.restore import Beginning, Restore
from ninelives.testing import CountingEnv
from ninelives.worker.reuse import BROKEN, EpisodePlayer, ReuseCheck, differs_in

ROWS = (10, 11, 12)


def episode(rows=ROWS, **more):
    return Restore(Beginning(seed=1), bytes(len(rows) - 1), len(rows) - 1, struct.pack(f"{len(rows)}I", *rows), **more)


class Player:
    """Answers as told, and counts: ``rows(number of the new environment, how often it has played, variant)``."""

    def __init__(self, rows):
        self._rows, self.new, self.plays = rows, 0, 0

    def __call__(self, episode, variant, in_new):
        self.new, self.used = self.new + in_new, 0 if in_new else self.used + 1
        self.plays += 1
        return self._rows(self.new, self.used, variant)


@pytest.mark.parametrize(
    ("rows", "differs"),
    [
        (lambda new, used, variant: ROWS, False),
        (lambda new, used, variant: (*ROWS[:2], 99) if used else ROWS, True),
        (lambda new, used, variant: (*ROWS[:2], 99) if used and variant == 3 else ROWS, True),
        (lambda new, used, variant: (*ROWS[:2], 99), True),
        (lambda new, used, variant: (new, used), False),
    ],
    ids=["equal", "used", "used-in-a-variant", "recorded", "chance"],
)
def test_only_what_new_environments_agree_on_tells_a_used_one_apart(rows, differs):
    assert differs_in(episode(), Player(rows)) is differs


def test_a_fault_that_comes_once_is_no_difference():
    faults = iter([(10, BROKEN)])
    assert not differs_in(episode(), Player(lambda new, used, variant: next(faults, ROWS) if used else ROWS))


def test_faults_at_different_steps_are_no_difference_and_at_the_same_step_they_are():
    faults = iter([(10, BROKEN), (10, 11, BROKEN)])
    assert not differs_in(episode(), Player(lambda new, used, variant: next(faults, ROWS) if used else ROWS))
    assert differs_in(episode(), Player(lambda new, used, variant: (10, BROKEN) if used else ROWS))


def test_an_environment_that_was_called_into_is_played_once():
    player = Player(lambda new, used, variant: ROWS)
    assert not differs_in(episode(calls=((0, CallRequest("call", "touch")),)), player)
    assert player.plays == 1


def test_slots_of_a_worker_share_what_was_found_out():
    player, check = Player(lambda new, used, variant: (used,)), ReuseCheck()
    assert check.used_differs([episode()], player)
    plays = player.plays
    assert check.used_differs([episode((10, 11, 13))], player)
    assert player.plays == plays


def test_nothing_is_begun_when_time_is_up():
    player = Player(lambda new, used, variant: ROWS)
    assert not differs_in(episode(), player, is_late=lambda: True)
    assert not player.plays


def test_a_variant_plays_the_same_actions_in_episodes_with_other_seeds():
    env, seen, steps = CountingEnv(episode_steps=30), [], []
    codec = ActionCodec.of(tree_of(env.action_space))

    def digest_of(obs, reward, flags):
        seen.append(obs.tolist())
        return len(seen)

    player = EpisodePlayer(env, codec, digest_of, lambda: steps.append(1))
    actions = np.array([3, 1, 4], np.uint8).tobytes()
    rows = player.play(Restore(Beginning(seed=5), actions, 3, b""), Beginning(seed=5), variant=2)
    assert rows == tuple(range(1, len(seen) + 1))
    assert len(steps) == 200
    firsts = [row for row in seen if row[3] == 0]
    assert len(firsts) == 7
    assert len({row[1] for row in firsts} - {5}) == 7
    assert [row[4] for row in seen[1:7]] == [3, 1, 4, 3, 1, 4]


def test_an_environment_that_raises_ends_the_rows_with_a_mark():
    env = CountingEnv()
    player = EpisodePlayer(env, ActionCodec.of(tree_of(env.action_space)), lambda *row: 1 // 0, lambda: None)
    assert player.play(episode(), Beginning(seed=1), variant=1) == (BROKEN,)
