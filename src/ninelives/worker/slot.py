"""One environment and its slot: construct, reset, step, call, restore, and write the answer into the slot's rows.

Holds the whole meaning of a step; the native loop repeats only the common path of ``_step`` and calls in here for the
rest. An exception of the environment becomes a fault of this slot alone: the worker and its other slots go on.
"""

from __future__ import annotations

import math
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy.typing as npt

from ninelives.spec.arrays import BadValueError
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallRequest, CallResult
from ninelives.spec.codec import ActionCodec
from ninelives.spec.context import SlotContext, enter_slot
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Attention, Op, Phase, Status
from ninelives.spec.restore import Outcome, Restore
from ninelives.spec.seeds import episode_seed
from ninelives.transport.control import HISTOGRAM_BUCKETS, Control
from ninelives.transport.mailbox import ORDER, TO_PARENT, TO_WORKER, Mailbox
from ninelives.worker import calls, rng
from ninelives.worker.error_report import error_report
from ninelives.worker.fingerprint import Fingerprint, flags_of
from ninelives.worker.progress import ProgressWords
from ninelives.worker.replay import EpisodeReplay, repeat_calls, replay_reporter, restore_episode
from ninelives.worker.reuse import EpisodePlayer, ReuseCheck, Rows
from ninelives.worker.rows import SlotRows
from ninelives.worker.snapshot_schedule import SnapshotSchedule
from ninelives.worker.support import support_for


@dataclass(frozen=True)
class SlotSettings:
    """How the slots of a pool are served; the same for all of them."""

    check: str = "nan"
    autoreset: Autoreset = Autoreset.NEXT_STEP
    seed_episodes: bool = False
    heals: bool = False
    snapshot_every: int = 0
    restore_timeout_s: float = math.inf
    fresh_env_every_episode: bool = False


class EnvSlot:
    """One environment and its rows."""

    def __init__(
        self, context: SlotContext, make: Callable[[], Any], control: Control, mail: Mailbox, progress: ProgressWords
    ) -> None:
        self.index = context.slot
        self.env: Any = None
        self._context, self._make = context, make
        self._control, self._mail, self._progress = control, mail, progress
        self._broken = self._is_used = False
        self._calls: list[CallRequest] = []
        self._order_done = 0
        self._rebound: Callable[[int, Any, Any, Any], None] | None = None

    def construct(self) -> None:
        """Build the environment in the slot's own scratch directory."""
        began = time.monotonic_ns()
        self._progress.enter(Phase.CONSTRUCT, self.index)
        enter_slot(replace(self._context, episodes=int(self._control.begun[self.index])))
        try:
            shutil.rmtree(self._context.scratch, ignore_errors=True)
            self._context.scratch.mkdir(mode=0o700, parents=True)
            self.env = self._make()
            self.innermost = getattr(self.env, "unwrapped", self.env)
        finally:
            enter_slot(None)
        self._broken = self._is_used = False
        self._schedule: SnapshotSchedule | None = None
        self._control.construct_ns[self.index] += time.monotonic_ns() - began
        if self._rebound is not None:
            self._rebound(self.index, self.env.step, self.env.reset, self.innermost)

    def attach(
        self,
        data: DataSpec,
        arrays: Mapping[str, npt.NDArray[Any]],
        settings: SlotSettings,
        reuse: ReuseCheck | None = None,
    ) -> None:
        """Take this slot's rows of the data slab; ``reuse`` is shared by the slots of a worker."""
        self._settings, self._reuse = settings, reuse or ReuseCheck()
        self._rows = SlotRows(self.index, self._control, self._mail, data, arrays, settings.check)
        self._codec = ActionCodec.of(data.action)
        self._fingerprint = Fingerprint(self.index, self._control, data) if settings.heals else None
        self._prepare()

    @property
    def pack_info(self) -> Callable[[Any], int]:
        """Write an info of numbers; see ``Packer.pack``."""
        return self._rows.infos.pack

    def use_native(self, rebound: Callable[[int, Any, Any, Any], None], write_row: Callable[[int, Any], bool]) -> None:
        """The native loop serves this slot: report every new environment to it, and let it write plain rows."""
        self._rebound, self._rows.write_native = rebound, write_row

    def _prepare(self) -> None:
        """What a new environment needs before its first reset."""
        support = support_for(self.innermost) if self._settings.seed_episodes else None
        if support is not None:
            support.prepare(self.innermost)
        if self._fingerprint is not None and self._settings.snapshot_every:
            self._schedule = SnapshotSchedule(self.env, self._settings.snapshot_every)
        self._control.save_every[self.index] = self._schedule.first_interval if self._schedule is not None else 0

    # ---- requests -------------------------------------------------------------------------------------------------

    def serve(self, op: int) -> int:
        """Do what the parent requests of this slot; returns attention bits. Never raises an environment's exception."""
        control, i = self._control, self.index
        control.mail_bytes[i] = control.state_bytes[i] = control.info_schema[i] = 0
        try:
            if self._control.restore_bytes[self.index] and not self.restore() and op != Op.RESET:
                return self._not_restored()
            if op == Op.CALL:
                return self._call()
            if op == Op.RESET or (self._settings.autoreset is Autoreset.NEXT_STEP and self._control.ended[self.index]):
                return self._reset(requested=op == Op.RESET)
            return self._step()
        except Exception as error:
            return self.fail(error)

    def _reset(self, requested: bool) -> int:
        control, i = self._control, self.index
        seed = int(control.seed[i]) if requested and control.seeded[i] else None
        options = None
        if requested and control.ask_bytes[i]:
            options = self._mail.get(i, TO_WORKER, int(control.ask_bytes[i]))
        if self._broken:
            self._rebuild()
        # A requested reset names the episode that it begins: served twice, by two generations, it begins the same one.
        number = int(control.number[i]) if requested else int(control.begun[i]) + 1
        obs, info = self._reset_env(seed, options, number)
        self.put_obs(obs)
        control.reward[i] = 0.0
        control.terminated[i] = control.truncated[i] = False
        self.put_digest(0.0, 0)
        return self.put_info(info)

    def _reset_env(self, seed: int | None, options: Any, number: int) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and the slot's episode counters."""
        began = time.monotonic_ns()
        self._progress.enter(Phase.RESET, self.index)
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
        if seed is None and self._settings.seed_episodes:
            control, i = self._control, self.index
            seed = episode_seed(int(control.base_seed[i]), i, int(control.begun[i]) + 1 - int(control.base_episode[i]))
        if self._is_used and self._settings.fresh_env_every_episode:
            self._renew()
        self._is_used = True
        if seed is None and self._fingerprint is not None:
            self._fingerprint.record_rng(self.innermost)
        # An autoreset without a seed passes no arguments, as Gymnasium's own: some environments take none then.
        has_arguments = seed is not None or options is not None
        return self.env.reset(seed=seed, options=options) if has_arguments else self.env.reset()

    def _renew(self) -> None:
        """A new environment for a new episode: what was called and set is repeated, the generator goes on."""
        construct_ns, generator = int(self._control.construct_ns[self.index]), rng.state_of(self.innermost)
        self._rebuild()
        repeat_calls(self.env, self._calls)
        if generator is not None:
            rng.restore(self.env, generator)
        self._control.construct_ns[self.index] = construct_ns  # this time is counted as the reset's
        self._progress.enter(Phase.RESET, self.index)

    def put_digest(self, reward: float, flags: int) -> None:
        """Publish the digest of the row that was just written."""
        if self._fingerprint is not None:
            rows = (*self._rows.observation.values(), *self._rows.texts.values())
            self._fingerprint.put_digest(rows, self._rows.objects, reward, flags)

    def save_state(self) -> int:
        """Take the snapshot that is due; returns attention bits."""
        if self._schedule is None:
            return Attention.NONE
        return self._schedule.publish(self.index, self._control, self._mail)

    def _step(self) -> int:
        """The pure-Python step; ``take_answer`` in the native loop is its twin."""
        control, i = self._control, self.index
        began = time.monotonic_ns()
        self._progress.enter(Phase.STEP, i)
        answer = self.env.step(self.read_action())
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise BadValueError("env.step() must return (obs, reward, terminated, truncated, info)")
        obs, reward, terminated, truncated, info = answer
        reward = _number(reward)
        terminated, truncated = bool(terminated), bool(truncated)
        over = terminated or truncated
        same_step = over and self._settings.autoreset is Autoreset.SAME_STEP
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
        wanted = self._rows.wanted(info)
        # The rows are copies; what travels by mail is still the environment's own, and its reset may use it again.
        final_objects, final_info = self._rows.copied(self._rows.put_final(obs), wanted)
        reset_obs, reset_info = self._reset_env(None, None, int(self._control.begun[self.index]) + 1)
        self.put_obs(reset_obs)
        self.put_digest(0.0, 0)
        return self.put_info(reset_info, final_objects=final_objects, final_info=final_info)

    def _call(self) -> int:
        request = self._mail.get(self.index, TO_WORKER, int(self._control.ask_bytes[self.index]))
        self._progress.enter(Phase.CALL, self.index)
        if request.verb == "save":
            result = CallResult((self._schedule or SnapshotSchedule(self.env, 0)).save(), is_read=True)
        else:
            result = calls.answer(self.env, request)
            if self._settings.fresh_env_every_episode and not result.is_read:
                self._calls.append(request)
        self._control.mail_bytes[self.index] = self._mail.put(self.index, TO_PARENT, result)
        return Attention.MAIL

    # ---- rows -----------------------------------------------------------------------------------------------------

    def read_action(self) -> Any:
        """The action of the present request."""
        return self._rows.read_action()

    def put_obs(self, obs: Any) -> None:
        """Write an observation into the slot's row."""
        self._rows.put_obs(obs)

    def put_info(self, info: Any, **final: Any) -> int:
        """Write an info; returns attention bits."""
        return self._rows.put_info(info, **final)

    # ---- restoring ------------------------------------------------------------------------------------------------

    def restore(self, fresh: bool = False) -> bool:
        """Carry out the order to restore this slot, once; returns whether it worked.

        ``fresh``: the environment was just built.
        """
        control, i = self._control, self.index
        if self._order_done != control.restore_number[i]:
            self._order_done = int(control.restore_number[i])
            order: Restore = self._mail.get(i, ORDER, int(control.restore_bytes[i]))
            self._progress.enter(Phase.RESTORE, i)
            if not fresh:
                self._rebuild()
                self._progress.enter(Phase.RESTORE, i)
            control.outcome[i] = self._carry_out(order)
        return bool(control.outcome[i] == Outcome.RESTORED)

    def _carry_out(self, order: Restore) -> Outcome:
        self._calls = [request for _, request in order.calls]
        if order.episodes and self._used_differs(order.episodes):
            self._broken = True
            return Outcome.USED_DIFFERS
        if order.beginning is None:
            repeat_calls(self.env, self._calls)
            return Outcome.RESTORED
        if self._codec is None or self._fingerprint is None:
            return Outcome.FAILED
        schedule = self._schedule or SnapshotSchedule(self.env, 0)
        on_step = replay_reporter(self.index, self._control, self._progress, self._settings.restore_timeout_s)
        replay = EpisodeReplay(self.env, self._codec, schedule.snapshotter, self._digest_of, on_step)
        outcome = restore_episode(self.index, self._control, replay, order, order.beginning)
        self._broken, self._is_used = outcome is not Outcome.RESTORED, True
        return outcome

    def _digest_of(self, obs: Any, reward: float, flags: int) -> int:
        assert self._fingerprint is not None
        return self._fingerprint.digest_of(obs, reward, flags, self._settings.check)

    def _used_differs(self, episodes: tuple[Restore, ...]) -> bool:
        """Whether used environments differ from new ones. Leaves a new environment."""
        differs = self._reuse.used_differs(episodes, self._play)
        if self._is_used:
            self._rebuild()
            self._progress.enter(Phase.RESTORE, self.index)
        return differs

    def _play(self, episode: Restore, variant: int, in_new: bool) -> Rows:
        if self._is_used and in_new:
            self._rebuild()
        self._is_used = True
        self._progress.enter(Phase.RESTORE, self.index)
        assert self._codec is not None, "its actions were recorded"
        assert episode.beginning is not None, "it was played from its reset on"
        on_step = partial(self._progress.enter, Phase.RESTORE, self.index)
        player = EpisodePlayer(self.env, self._codec, self._digest_of, on_step)
        return player.play(episode, episode.beginning, variant)

    def _not_restored(self) -> int:
        """The episode could not be restored: nothing is stepped, and the parent cuts it."""
        self._control.status[self.index] = Status.NOT_RESTORED
        return Attention.FAULT

    # ---- faults ---------------------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> int:
        """The environment failed: put the error report into the mailbox and mark the row."""
        self._broken = True
        kind = Status.BAD_DATA if isinstance(error, BadValueError) else Status.RAISED
        control, i = self._control, self.index
        control.mail_bytes[i] = self._mail.put_plain(i, TO_PARENT, error_report(error, self._progress.phase))
        control.status[i] = kind
        control.ended[i] = control.info_schema[i] = 0
        return Attention.FAULT

    def _rebuild(self) -> None:
        """Replace a broken environment by a new one in the same process."""
        self.close()
        self.construct()
        self._prepare()

    def close(self) -> None:
        """Close the environment; its errors are only logged."""
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
