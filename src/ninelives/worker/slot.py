"""One environment in its seat: construct, reset, step, call, and write the answer into the slot's rows.

Holds the whole meaning of a step; the native loop repeats only the common path of ``_step`` and calls in here for the
rest. An exception of the environment becomes a fault of this slot alone: the worker and its other slots go on.
"""

from __future__ import annotations

import copy
import math
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy.typing as npt

from ninelives.spec.arrays import BadValueError, Leaf, assemble, checked_leaf, leaves, split
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallResult
from ninelives.spec.codec import ActionCodec
from ninelives.spec.context import SlotContext, enter_slot
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Attention, Op, Phase, Status
from ninelives.spec.restore import Outcome, Restore
from ninelives.spec.seeds import episode_seed
from ninelives.transport.control import HISTOGRAM_BUCKETS, Control
from ninelives.transport.mailbox import ORDER, TO_PARENT, TO_WORKER, Mailbox
from ninelives.worker import calls
from ninelives.worker.atari_loads import spare_loads
from ninelives.worker.comeback import bring_back, repeat_calls, watched
from ninelives.worker.error_report import last_words
from ninelives.worker.fingerprint import Trace
from ninelives.worker.progress import Stamp
from ninelives.worker.replay import Replay, flags_of
from ninelives.worker.snapshot_schedule import Saver


class EnvSlot:
    """One environment and its rows."""

    def __init__(
        self, context: SlotContext, make: Callable[[], Any], control: Control, mail: Mailbox, stamp: Stamp
    ) -> None:
        self.index = context.slot
        self.env: Any = None
        self._context, self._make = context, make
        self._control, self._mail, self._stamp = control, mail, stamp
        self._broken = False
        self._order_done = 0
        self.rebound: Callable[[int, Any, Any, Any], None] | None = None
        self.write_fast: Callable[[int, Any], bool] | None = None

    def construct(self) -> None:
        """Build the environment in the slot's own scratch directory."""
        began = time.monotonic_ns()
        self._stamp.enter(Phase.CONSTRUCT, self.index)
        enter_slot(self._context)
        try:
            shutil.rmtree(self._context.scratch, ignore_errors=True)
            self._context.scratch.mkdir(mode=0o700, parents=True)
            self.env = self._make()
            self.innermost = getattr(self.env, "unwrapped", self.env)
        finally:
            enter_slot(None)
        self._broken = False
        self._saver: Saver | None = None
        self._control.construct_ns[self.index] += time.monotonic_ns() - began
        if self.rebound is not None:
            self.rebound(self.index, self.env.step, self.env.reset, self.innermost)

    def attach(
        self,
        data: DataSpec,
        arrays: Mapping[str, npt.NDArray[Any]],
        check: str,
        autoreset: Autoreset,
        seed_episodes: bool = False,
        heals: bool = False,
        snapshot_every: int = 0,
        restore_timeout_s: float = math.inf,
    ) -> None:
        """Take this slot's rows of the data slab."""
        self._data, self._check, self._autoreset = data, check, autoreset
        self._infos = {key: (arrays[f"info:{key}"], arrays[f"has:{key}"]) for key in data.infos}
        self._obs_rows = self._rows(data.observation, arrays, "obs")
        self._final_rows = self._rows(data.observation, arrays, "final") if autoreset is Autoreset.SAME_STEP else {}
        self._action_rows = self._rows(data.action, arrays, "action")
        self._action_objects = any(leaf.dtype is None for leaf in leaves(data.action))
        self._objects: dict[str, Any] = {}
        self._seed_episodes, self._snapshot_every = seed_episodes, snapshot_every
        self._restore_timeout_s = restore_timeout_s
        self._codec = ActionCodec.of(data.action)
        self._trace = Trace(self.index, self._control, self._mail, data, self._obs_rows) if heals else None
        self._get_ready()

    def _get_ready(self) -> None:
        """What a new environment needs before its first reset."""
        if self._seed_episodes:
            spare_loads(self.innermost)
        self._control.save_every[self.index] = self._watch_states()

    def _watch_states(self) -> int:
        """Look once whether the environment can be saved; steps until its first snapshot, zero for never."""
        if self._trace is None or not self._snapshot_every:
            return 0
        self._saver = Saver(self.env, self._snapshot_every)
        return self._saver.first_interval

    def _rows(self, node: Any, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
        # A slice keeps zero-dimensional rows writable views: array[i] of a 1-d array would be a scalar copy.
        return {
            leaf.name: arrays[f"{prefix}:{leaf.name}"][self.index : self.index + 1].reshape(leaf.shape)
            for leaf in leaves(node)
            if leaf.dtype
        }

    # ---- requests -------------------------------------------------------------------------------------------------

    def serve(self, op: int) -> int:
        """Do what the parent asks of this slot; returns attention bits. Never raises an environment's exception."""
        self._control.mail_bytes[self.index] = self._control.state_bytes[self.index] = 0
        try:
            if self._control.restore_bytes[self.index] and not self.is_restored() and op != Op.RESET:
                return self._refuse()
            if op == Op.CALL:
                return self._call()
            if op == Op.RESET or (self._autoreset is Autoreset.NEXT_STEP and self._control.ended[self.index]):
                return self._reset(asked=op == Op.RESET)
            return self._step()
        except Exception as error:
            return self.fail(error)

    def _reset(self, asked: bool) -> int:
        seed = int(self._control.seed[self.index]) if asked and self._control.seeded[self.index] else None
        options = None
        if asked and self._control.ask_bytes[self.index]:
            options = self._mail.get(self.index, TO_WORKER, int(self._control.ask_bytes[self.index]))
        if self._broken:
            self._rebuild()
        # An asked reset says which episode it begins: served twice, by two generations, it still begins the same one.
        number = int(self._control.number[self.index]) if asked else int(self._control.begun[self.index]) + 1
        obs, info = self._reset_env(seed, options, number)
        self.put_obs(obs)
        self._control.reward[self.index] = 0.0
        self._control.terminated[self.index] = self._control.truncated[self.index] = False
        self.put_digest(0.0, 0)
        return self.put_info(info)

    def _reset_env(self, seed: int | None, options: Any, number: int) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and the slot's episode counters."""
        began = time.monotonic_ns()
        self._stamp.enter(Phase.RESET, self.index)
        answer = self.begin_episode(seed, options)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise BadValueError("env.reset() must return (obs, info)")
        now = time.monotonic_ns()
        control, i = self._control, self.index
        control.status[i] = Status.OK
        control.ended[i] = 0
        control.running_return[i] = 0.0
        control.running_length[i] = control.saved_at[i] = 0
        control.episode_began_ns[i] = now
        control.reset_ns[i] += now - began
        control.begun[i] = number
        return answer[0], answer[1]

    def begin_episode(self, seed: int | None = None, options: Any = None) -> Any:
        """The environment's own reset, with the episode's seed where episodes have one."""
        if seed is None and self._seed_episodes:
            control, i = self._control, self.index
            seed = episode_seed(int(control.base_seed[i]), i, int(control.begun[i]) + 1 - int(control.base_episode[i]))
        if seed is None and self._trace is not None:
            self._trace.record_rng(self.innermost)
        # An autoreset without a seed says nothing at all, as Gymnasium's do: some environments take no arguments then.
        asked = seed is not None or options is not None
        return self.env.reset(seed=seed, options=options) if asked else self.env.reset()

    def put_digest(self, reward: float, flags: int) -> None:
        """Leave the digest of the row that was just written."""
        if self._trace is not None:
            self._trace.seal(self._objects, reward, flags)

    def save_state(self) -> int:
        """Take the snapshot that is due; returns attention bits."""
        if self._trace is None or self._saver is None:
            return Attention.NONE
        return self._trace.save(self._saver)

    def _step(self) -> int:
        """The pure-Python step; ``take_answer`` in the native loop is its twin."""
        control, i = self._control, self.index
        began = time.monotonic_ns()
        self._stamp.enter(Phase.STEP, i)
        answer = self.env.step(self.read_action())
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise BadValueError("env.step() must return (obs, reward, terminated, truncated, info)")
        obs, reward, terminated, truncated, info = answer
        reward = _number(reward)
        terminated, truncated = bool(terminated), bool(truncated)
        over = terminated or truncated
        same_step = over and self._autoreset is Autoreset.SAME_STEP
        if not same_step:
            self.put_obs(obs)
        control.reward[i] = reward
        control.terminated[i], control.truncated[i] = terminated, truncated
        control.running_return[i] += reward
        control.running_length[i] += 1
        bits = Attention.NONE
        if over:
            bits |= self._end_episode()
        if not same_step:
            self.put_digest(reward, flags_of(terminated, truncated))
        bits |= self.end_same_step(obs, info) if same_step else self.put_info(info)
        self._count_step(time.monotonic_ns() - began)
        every = control.save_every[i]
        if every and not over and control.running_length[i] - control.saved_at[i] >= every:
            bits |= self.save_state()
        return bits

    def _end_episode(self) -> int:
        control, i = self._control, self.index
        control.ended[i] = 1
        control.episode_return[i] = control.running_return[i]
        control.episode_length[i] = control.running_length[i]
        control.episode_time_s[i] = (time.monotonic_ns() - int(control.episode_began_ns[i])) * 1e-9
        control.episodes[i] += 1
        return Attention.ENDED

    def _count_step(self, took: int) -> None:
        self._control.steps[self.index] += 1
        self._control.step_ns[self.index] += took
        octave = max(took, 2).bit_length() - 1
        bucket = 2 * octave + ((max(took, 2) >> (octave - 1)) & 1)
        self._control.step_histogram[self.index, min(bucket, HISTOGRAM_BUCKETS - 1)] += 1

    def end_same_step(self, obs: Any, info: Any) -> int:
        """Same-step autoreset: keep the terminal observation, then reset into the same row.

        The copy comes before the reset: many simulators return one buffer again and again, and the reset overwrites it.
        """
        if not isinstance(info, Mapping):
            raise BadValueError(f"info must be a dict, got {type(info).__name__}")
        # The rows are copies; what travels by mail is still the environment's own and may be used again by its reset.
        final_objects, final_info = copy.deepcopy((self._write(self._final_rows, obs), dict(info)))
        reset_obs, reset_info = self._reset_env(None, None, int(self._control.begun[self.index]) + 1)
        self.put_obs(reset_obs)
        self.put_digest(0.0, 0)
        return self.put_info(reset_info, final_objects=final_objects, final_info=final_info)

    def _call(self) -> int:
        request = self._mail.get(self.index, TO_WORKER, int(self._control.ask_bytes[self.index]))
        self._stamp.enter(Phase.CALL, self.index)
        if request.verb == "save":
            result = CallResult((self._saver or Saver(self.env, 0)).save(), is_read=True)
        else:
            result = calls.answer(self.env, request)
        self._control.mail_bytes[self.index] = self._mail.put(self.index, TO_PARENT, result)
        return Attention.MAIL

    # ---- rows -----------------------------------------------------------------------------------------------------

    def read_action(self) -> Any:
        """The action in the space's own structure. Arrays are copies: an environment may keep its last action."""
        if self._action_objects:
            return self._mail.get(self.index, TO_WORKER, int(self._control.ask_bytes[self.index]))
        return assemble(self._data.action, self._action_leaf)

    def _action_leaf(self, leaf: Leaf) -> Any:
        row = self._action_rows[leaf.name]
        return int(row) if leaf.is_scalar_int else row.copy()

    def put_obs(self, obs: Any) -> None:
        """Write an observation into the slot's row; ``torn`` tells the parent if death came in between."""
        if self.write_fast is not None and self.write_fast(self.index, obs):
            return
        self._objects = self._write(self._obs_rows, obs)

    def _write(self, rows: Mapping[str, npt.NDArray[Any]], obs: Any) -> dict[str, Any]:
        """Write array leaves into ``rows``; returns the leaves that must travel by mail.

        Everything is checked before anything is written: bad data leaves the last good row as it was.
        """
        objects: dict[str, Any] = {}
        arrays: dict[str, npt.NDArray[Any]] = {}
        for leaf, value in split(self._data.observation, obs):
            if leaf.dtype is None:
                objects[leaf.name] = value
            else:
                arrays[leaf.name] = checked_leaf(leaf, value, self._check)
        self._control.torn[self.index] = 1
        for name, array in arrays.items():
            rows[name][...] = array
        self._control.torn[self.index] = 0
        return objects

    def put_info(
        self, info: Any, final_objects: dict[str, Any] | None = None, final_info: dict[str, Any] | None = None
    ) -> int:
        """Declared numbers go to the slab, the rest by mail; nothing is pickled when there is nothing to say."""
        if not isinstance(info, Mapping):
            raise BadValueError(f"info must be a dict, got {type(info).__name__}")
        rest = dict(info)
        for key, (values, has) in self._infos.items():
            has[self.index] = key in rest
            if key in rest:
                values[self.index] = rest.pop(key)
        if not rest and not self._objects and final_info is None:
            return Attention.MAIL if self._infos else 0
        letter: dict[str, Any] = {"info": rest, "objects": self._objects}
        if final_info is not None:
            letter |= {"final_info": final_info, "final_objects": final_objects}
        self._control.mail_bytes[self.index] = self._mail.put(self.index, TO_PARENT, letter)
        return Attention.MAIL

    # ---- coming back ----------------------------------------------------------------------------------------------

    def is_restored(self, fresh: bool = False) -> bool:
        """Carry out the order to come back, once; ``fresh``: the environment is just built. False: it did not work."""
        control, i = self._control, self.index
        if self._order_done != control.restore_number[i]:
            self._order_done = int(control.restore_number[i])
            order: Restore = self._mail.get(i, ORDER, int(control.restore_bytes[i]))
            self._stamp.enter(Phase.RESTORE, i)
            if not fresh:
                self._rebuild()
                self._stamp.enter(Phase.RESTORE, i)
            control.outcome[i] = self._carry_out(order)
        return bool(control.outcome[i] == Outcome.RESTORED)

    def _carry_out(self, order: Restore) -> Outcome:
        if order.beginning is None:
            repeat_calls(self.env, order)
            return Outcome.RESTORED
        if self._codec is None or self._trace is None:
            return Outcome.FAILED
        saver = self._saver or Saver(self.env, 0)
        digest_of = partial(self._trace.digest_of, check=self._check)
        progress = watched(self.index, self._control, self._stamp, self._restore_timeout_s)
        replay = Replay(self.env, self._codec, saver.snapshotter, digest_of, progress)
        outcome = bring_back(self.index, self._control, replay, order, order.beginning)
        self._broken = outcome is not Outcome.RESTORED
        return outcome

    def _refuse(self) -> int:
        """The episode could not be brought back: nothing is stepped, the parent cuts it."""
        self._control.status[self.index] = Status.NOT_RESTORED
        return Attention.FAULT

    # ---- faults ---------------------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> int:
        """The environment broke: leave the traceback in the mailbox and mark the row."""
        self._broken = True
        kind = Status.BAD_DATA if isinstance(error, BadValueError) else Status.RAISED
        control, i = self._control, self.index
        control.mail_bytes[i] = self._mail.put(i, TO_PARENT, last_words(error, self._stamp.phase))
        control.status[i] = kind
        control.ended[i] = 0
        return Attention.FAULT

    def _rebuild(self) -> None:
        """Replace a broken environment by a new one in the same process."""
        self.close()
        self.construct()
        self._get_ready()

    def close(self) -> None:
        """Close the environment; its own errors no longer matter."""
        try:
            if self.env is not None:
                self.env.close()
        except Exception:
            traceback.print_exc()
        self.env = None


def _number(reward: Any) -> float:
    """A reward as a float; text is no number, though Python would read it."""
    if isinstance(reward, str | bytes):
        raise BadValueError(f"reward: {type(reward).__name__} is not a number")
    try:
        value = float(reward)
    except (TypeError, ValueError):
        raise BadValueError(f"reward: {type(reward).__name__} is not a number") from None
    if math.isnan(value):
        raise BadValueError("reward: holds NaN")
    return value
