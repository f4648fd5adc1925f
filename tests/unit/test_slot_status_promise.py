"""The status's promise, against a model of learner, workers and environments:

From the fault row to the fresh row every row is masked, and a valid row always follows a row the learner holds.
"""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ninelives.pool.recovery.slot_status import RowKind, SlotLife, SlotStatus
from ninelives.spec.phase import Op

GROUPS = {0: (0, 1), 1: (2,), 2: (3,)}
WORKER_OF = {0: 0, 1: 0, 2: 1}
GROUPS_OF = {0: (0, 1), 1: (2,)}
SLOTS = range(4)


class Slot:
    """One slot as it truly is, and as the learner knows it."""

    def __init__(self):
        self.episode = None  # (number, steps) of the environment in the present generation; None: not reset, or broken
        self.answer = None  # what the environment truly did for the row under way
        self.held = None  # (episode, steps) of the row the learner holds; None: a row without an observation of its own
        self.in_episode = False  # what the learner believes
        self.may_renew = False  # the learner has seen the end of the episode and no masked row since


class Desks(RuleBasedStateMachine):
    """Plays the pool's part (send, answers, deaths, restarts, hand-outs) around a status."""

    @initialize()
    def begin(self):
        self.status = SlotStatus(len(SLOTS))
        self.slots = [Slot() for _ in SLOTS]
        self.ops = dict.fromkeys(SLOTS, Op.STEP)
        self.up = {0: True, 1: True}
        self.open, self.answered = set(), set()
        self.episodes = 0
        self.reset_everything()

    # ---- what the pool does ------------------------------------------------------------------------------------------

    def send(self, group):
        slots = GROUPS[group]
        ops = self.status.ask(slots) if self.status.troubled else [Op.STEP] * len(slots)
        self.post(group, dict(zip(slots, ops, strict=True)))

    def post(self, group, ops):
        for slot in GROUPS[group]:
            self.ops[slot] = ops.get(slot, Op.NONE)
            self.slots[slot].answer = None
        (self.answered if all(op is Op.NONE for op in ops.values()) else self.open).add(group)

    def serve(self, group, broken=()):
        for slot in GROUPS[group]:
            self.act(slot, slot in broken)
        self.open.remove(group)
        self.answered.add(group)

    def act(self, slot, breaks):
        """What the environment does with its request."""
        state, op = self.slots[slot], self.ops[slot]
        if op is Op.NONE:
            return
        if op is Op.STEP:
            assert state.episode is not None, "a step is asked of an environment that was never reset"
        if breaks:
            state.answer, state.episode = "broke", None
        elif op is Op.RESET:
            self.episodes += 1
            state.episode = (self.episodes, 0)
            state.answer = "reset"
        else:
            state.episode = (state.episode[0], state.episode[1] + 1)
            state.answer = "step"
        if not breaks:
            state.row = state.episode

    def hand_out(self, group, quarantine=False):
        slots = np.array(GROUPS[group])
        broken = [s for s in GROUPS[group] if self.slots[s].answer == "broke"]
        self.answered.remove(group)
        if not self.status.troubled and not broken:
            masked, faulty = [False] * len(slots), set()
        else:
            for slot in broken:
                if self.status.life[slot] == SlotLife.OUT:
                    self.status.never_true(slot)
                elif self.ops[slot] is not Op.NONE:
                    self.status.slot_broke(slot)
                    if quarantine:
                        self.status.quarantine(slot, unanswered=False)
            masked, faulty = self.status.masked(slots).tolist(), set(self.status.faulty(slots).tolist())
            self.status.handed_out(slots, [self.up[WORKER_OF[group]]] * len(slots))
        for slot, is_masked in zip(GROUPS[group], masked, strict=True):
            self.learn(slot, is_masked, slot in faulty)

    # ---- what the learner sees ---------------------------------------------------------------------------------------

    def learn(self, slot, masked, fault):
        state = self.slots[slot]
        if not masked:
            assert state.answer in ("step", "reset"), "a valid row that no environment produced"
            if state.answer == "step":
                episode, steps = state.row
                assert state.held == (episode, steps - 1), "a valid row must follow the row the learner holds"
            else:
                assert state.may_renew, "a reset is no true transition from a masked row"
        else:
            assert state.answer != "step", "a true transition was thrown away"
            if state.in_episode:
                assert fault, "an episode that dies ends with a fault row"
            elif self.status.life[slot] != SlotLife.OUT and state.answer != "broke":
                assert not fault, "one episode has one fault row"
        spoke = state.answer in ("step", "reset")
        state.held = state.row if spoke else None
        state.in_episode = spoke
        state.may_renew = False

    # ---- rules -------------------------------------------------------------------------------------------------------

    def idle(self):
        return sorted(set(GROUPS) - self.open - self.answered)

    def held(self, up):
        return [group for group in sorted(self.open) if self.up[WORKER_OF[group]] is up]

    @precondition(lambda self: self.idle())
    @rule(data=st.data())
    def send_one(self, data):
        self.send(data.draw(st.sampled_from(self.idle())))

    @precondition(lambda self: self.held(up=True))
    @rule(data=st.data(), broken=st.sets(st.sampled_from(SLOTS), max_size=2))
    def serve_one(self, data, broken):
        self.serve(data.draw(st.sampled_from(self.held(up=True))), broken)

    @precondition(lambda self: self.answered)
    @rule(data=st.data(), quarantine=st.booleans())
    def hand_out_one(self, data, quarantine):
        self.hand_out(data.draw(st.sampled_from(sorted(self.answered))), quarantine)

    @rule(worker=st.sampled_from([0, 1]), quarantined=st.none() | st.sampled_from(SLOTS))
    def worker_dies(self, worker, quarantined):
        self.up[worker] = True  # so that every draw kills somebody
        self.take_down(worker)
        group = next((g for g in GROUPS_OF[worker] if quarantined in GROUPS[g]), None)
        broke_renewed = group is not None and self.slots[quarantined].answer == "broke" and self.is_renewed(quarantined)
        if group is not None and self.status.life[quarantined] != SlotLife.OUT and not broke_renewed:
            self.status.quarantine(quarantined, unanswered=group in self.open)
            self.ops[quarantined] = Op.NONE
            for other in self.open & set(GROUPS_OF[worker]):
                if all(self.status.life[slot] == SlotLife.OUT for slot in GROUPS[other]):
                    self.settle(other)

    def is_renewed(self, slot):
        return self.status.row[slot] == RowKind.RENEWED

    def take_down(self, worker):
        self.up[worker] = False
        for group in GROUPS_OF[worker]:
            for slot in GROUPS[group]:
                self.slots[slot].episode = None
            if group not in self.open:
                self.status.worker_died((), (), GROUPS[group])
            elif self.status.worker_died(GROUPS[group], [self.ops[slot] for slot in GROUPS[group]], ()):
                self.settle(group)

    def settle(self, group):
        self.open.remove(group)
        self.answered.add(group)

    @precondition(lambda self: not all(self.up.values()))
    @rule()
    def workers_come_up(self):
        self.up = {0: True, 1: True}

    @precondition(lambda self: self.held(up=False))
    @rule()
    def batch_cannot_wait_longer(self):
        for group in self.held(up=False):
            self.status.wait_longer(GROUPS[group])
            self.settle(group)

    @precondition(lambda self: not self.open and not self.answered)
    @rule(worker=st.sampled_from([0, 1]))
    def recycle_between_episodes(self, worker):
        slots = [slot for group in GROUPS_OF[worker] for slot in GROUPS[group]]
        if not self.up[worker] or any(self.status.life[slot] == SlotLife.LOST for slot in slots):
            return
        for slot in slots:
            if self.status.life[slot] == SlotLife.LIVE:
                self.status.renew([slot], valid=True)
                self.slots[slot].in_episode, self.slots[slot].may_renew = False, True
        self.take_down(worker)

    @precondition(lambda self: not self.open and not self.answered)
    @rule(slot=st.sampled_from(SLOTS))
    def worker_dies_under_a_call(self, slot):
        group = next(g for g, slots in GROUPS.items() if slot in slots)
        if not self.up[WORKER_OF[group]] or self.status.life[slot] == SlotLife.OUT:
            return
        self.post(group, {slot: Op.CALL})
        self.take_down(WORKER_OF[group])
        self.answered.clear()  # no row is handed out: the caller gets an exception
        self.slots[slot].in_episode = self.status.life[slot] == SlotLife.LOST

    @precondition(lambda self: not self.open and not self.answered)
    @rule()
    def reset_everything(self):
        self.up = {0: True, 1: True}
        self.status.renew(SLOTS, valid=True)
        for state in self.slots:
            state.may_renew, state.in_episode = True, False
        for group, slots in GROUPS.items():
            self.post(group, dict(zip(slots, self.status.ask(slots), strict=True)))
            if group in self.open:
                self.serve(group)
            self.hand_out(group)

    @rule()
    def everything_heals(self):
        """Without further trouble all slots are back within a few batches, and stay back."""
        self.up = {0: True, 1: True}
        for _ in range(4):
            for group in GROUPS:
                if group in self.idle():
                    self.send(group)
                if group in self.open:
                    self.serve(group)
                self.hand_out(group)
        out = {slot for slot in SLOTS if self.status.life[slot] == SlotLife.OUT}
        assert all(self.slots[slot].in_episode for slot in SLOTS if slot not in out)
        assert self.status.troubled == bool(out)

    @invariant()
    def the_fast_path_is_taken_only_when_every_slot_lives(self):
        if hasattr(self, "status") and not self.status.troubled:
            assert all(life == SlotLife.LIVE for life in self.status.life)


TestDesks = Desks.TestCase
TestDesks.settings = settings(max_examples=150, stateful_step_count=40)
