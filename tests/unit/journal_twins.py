"""A journal over a control segment without processes: the test plays the workers."""

import numpy as np
from gymnasium import spaces

from ninelives.pool.recovery import recorder
from ninelives.pool.recovery.journal import Journal
from ninelives.spec.arrays import Leaf, leaves, tree_of
from ninelives.spec.codec import ActionCodec
from ninelives.transport.control import Control, control_layout

TWINS = ("native", "python")


class JournalBench:
    """Slots whose workers answer as the test says."""

    def __init__(self, tmp_path, monkeypatch, twin, space=None, slots=3, next_step=True, seed_episodes=True):
        if twin == "python":
            monkeypatch.setattr(recorder, "native_module", lambda name: None)
        self.space = spaces.Discrete(4) if space is None else space
        node = tree_of(self.space)
        self.codec = ActionCodec.of(node)
        self.control = Control(bytearray(control_layout(1, slots).nbytes), 1, slots)
        self.arrays = {
            f"action:{leaf.name}": np.zeros((slots, *leaf.shape), leaf.dtype) for leaf in leaves(node) if leaf.dtype
        }
        self.lone = self.arrays[f"action:{node.name}"] if isinstance(node, Leaf) else None
        self.journal = Journal(slots, seed_episodes)
        self.journal.open(self.control, self.arrays, self.codec, next_step, True, tmp_path / "journal")

    def begin(self, slot=0, seed=7):
        """The worker begins an episode on request."""
        used = self.journal.begin(slot, seed, None)
        self.answer_reset(slot)
        return used

    def answer_reset(self, slot=0, digest=100):
        self.control.begun[slot] += 1
        self.control.running_length[slot] = self.control.ended[slot] = 0
        self.control.digest[slot] = digest

    def send(self, actions):
        self.lone[...] = actions
        self.journal.recorder.note_all()

    def answer(self, slot=0, over=False):
        self.control.running_length[slot] += 1
        self.control.digest[slot] = 100 + self.control.running_length[slot]
        self.control.ended[slot] = over

    def actions_of(self, order):
        width = self.codec.width
        return [self.codec.decode(order.actions[k * width : (k + 1) * width]) for k in range(order.steps)]


def digests_of(order):
    return np.frombuffer(order.digests, np.uint32).tolist()
