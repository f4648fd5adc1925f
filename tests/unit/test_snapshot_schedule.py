"""How often snapshots are taken, from what they cost."""

from ninelives.worker.snapshot_schedule import GROWTH, SHARE, SnapshotSchedule, interval

EVERY = 20
STEP_NS = 1_000_000


class Savable:
    """An environment that can be saved."""

    def save_state(self):
        return b"all of it"

    def load_state(self, state):
        pass


def intervals(costs_ns):
    """The intervals after saves that cost so much."""
    schedule, found = SnapshotSchedule(Savable(), EVERY), []
    for steps, cost in enumerate(costs_ns, start=1):
        schedule.add_cost(cost)
        found.append(schedule.next_interval(steps, steps * STEP_NS))
    return found


def test_cheap_snapshots_are_taken_as_often_as_asked():
    assert intervals([1000] * 5) == [EVERY] * 5


def test_dear_snapshots_come_to_cost_no_more_than_their_share():
    cost = 5 * STEP_NS
    *_, last = intervals([cost] * 8)
    assert cost / (last * STEP_NS) <= SHARE
    assert last == cost / STEP_NS / SHARE


def test_one_slow_save_does_not_keep_the_next_one_away_for_long():
    first, *rest = intervals([1000 * STEP_NS, *[1000] * 40])
    assert first == GROWTH * EVERY
    assert rest[-1] == EVERY


def test_an_interval_is_never_shorter_than_asked():
    assert interval(EVERY, 0.0, 0.0, EVERY) == EVERY
