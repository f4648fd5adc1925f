"""A pool as a Stable-Baselines3 ``VecEnv``.

Owns only the translation: SB3's calls to the pool's, a same-step batch to SB3's four return values, batched infos to
one dictionary per environment. It must supervise nothing. Importing this module imports SB3 and torch; no worker does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import getitem
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ninelives.adapters.monitor_files import with_monitor_files
from ninelives.errors import ActionError, ConfigError, EnvRaisedError, NinelivesError
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.arrays import BadValueError, Leaf, assemble, leaves, split, tree_of
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallRequest
from ninelives.spec.env import AnyEnv
from ninelives.spec.options import ALL_INFOS
from ninelives.spec.per_slot import EnvFunctions, one_spec

try:
    from stable_baselines3.common.vec_env import base_vec_env as sb3
except ImportError as error:
    raise ImportError("ninelives.adapters.sb3 needs Stable-Baselines3: pip install 'ninelives[sb3]'") from error

Info = dict[str, Any]

OWN_INFOS = ("episode", "is_success")
"""What SB3's learners read themselves of the infos that environments and their ``Monitor`` give."""


class VecEnv(sb3.VecEnv):
    """N environments in worker processes that are allowed to die, behind SB3's ``VecEnv``.

    It returns what ``SubprocVecEnv`` returns and, without a ``Monitor``, also the ``info["episode"]`` of a Monitor.

    SB3's learners do not mask rows, so a fault looks like a truncated episode: the row in which the episode was lost
    has ``done``, reward 0, ``info["TimeLimit.truncated"]``, and the last good observation as
    ``info["terminal_observation"]``. Bootstrapping from its value is the smallest error for a step that was not
    observed. ``info["fault"]`` describes what happened. Until the next episode begins, usually one row later, rows have
    reward 0 and are not ``done``, their actions are ignored, and SB3 treats them as steps without reward. All these
    rows have ``info["valid"] = False``, so that callbacks can recognise them. A quarantined slot has only such rows:
    use ``on_exhausted="raise"`` with ``evaluate_policy``, which waits until every environment has finished an episode.

    Args:
        env: a Gymnasium id, ``"module:factory"``, a callable, or an ``EnvSpec``, ours or Gymnasium's; or a list of
            functions, one for each environment; the spaces of all must be equal.
        n_envs: number of environments; not needed for a list.
        **settings: ``workers``, ``groups``, and every option of ``ninelives.PoolOptions``. ``infos`` always includes
            the keys that SB3 reads itself. ``seed_episodes`` is False here, as in SB3; with True every episode can be
            replayed after a crash, whatever generator it uses.

    Attributes:
        pool: the underlying pool, with ``pool.metrics()``, ``pool.events`` and ``pool.worker_pids``.
    """

    def __init__(self, env: AnyEnv | EnvFunctions, n_envs: int | None = None, **settings: Any) -> None:
        spec, n_envs = one_spec(env, n_envs, settings, "n_envs")
        spec = with_monitor_files(spec) if isinstance(env, list | tuple) else spec
        settings = {"autoreset": Autoreset.SAME_STEP, "seed_episodes": False, **settings}
        if not isinstance(settings.get("infos", ALL_INFOS), str):
            settings["infos"] = (*(settings["infos"] or ()), *OWN_INFOS)
        _check(settings["autoreset"], settings.get("copy", True), settings.get("batch_size") or n_envs, n_envs)
        self._attach(Pool(spec, n_envs, **settings))

    @classmethod
    def of(cls, pool: Pool) -> Self:
        """A view of an existing pool with same-step autoreset. Closing the view closes the pool."""
        _check(pool.options.autoreset, pool.options.copy, pool.batch_size, pool.num_envs)
        view = cls.__new__(cls)
        view._attach(pool)
        return view

    def _attach(self, pool: Pool) -> None:
        self.pool, self._tree, self._started_s = pool, tree_of(pool.observation_space), time.monotonic()
        self._obs: Any = None
        self._mask: Any = None
        self._action_tree = tree_of(pool.action_space)
        # Actions that are no arrays go to the pool one by one, as they are.
        self._action_rows = not isinstance(self._action_tree, Leaf) and all(
            leaf.dtype is not None for leaf in leaves(self._action_tree)
        )
        super().__init__(pool.num_envs, pool.observation_space, pool.action_space)
        # A method that only Monitor has: a check by class would make every worker import SB3 and torch.
        self._monitored = self.has_attr("get_episode_rewards")

    def reset(self) -> sb3.VecEnvObs:
        """Start new episodes in all environments, with the seeds and options that were set for this reset."""
        parts: dict[int, list[int]] = {}
        for slot, options in zip(range(self.num_envs), self._options, strict=True):
            parts.setdefault(id(options) if options else 0, []).append(slot)
        if self._obs is None and len(parts) > 1:
            self.pool.reset(seed=self._seeds)  # the first reset of a pool must reset all slots
        batches = [self._reset_slots(slots) for slots in parts.values()]
        order = np.argsort(np.concatenate([batch.slots for batch in batches]))
        self._obs = self._leafwise(lambda *rows: np.concatenate(rows)[order], *(batch.obs for batch in batches))
        self._valid = np.concatenate([batch.valid for batch in batches])[order]
        self._in_episode, self._pids = np.zeros(self.num_envs, np.bool_), self.pool.worker_pids
        self._reset_seeds()
        self._reset_options()
        return self._obs  # type: ignore[no-any-return]

    def _reset_slots(self, slots: list[int]) -> Batch:
        """Reset slots that share their options."""
        seeds, options = [self._seeds[slot] for slot in slots], self._options[slots[0]] or None
        batch = self.pool.reset(seed=seeds, options=options, slots=slots if len(slots) < self.num_envs else None)
        infos = infos_by_row(batch.infos)
        for row, slot in enumerate(slots):
            self.reset_infos[slot] = infos.get(row, {})
        return batch

    def step_async(self, actions: Any) -> None:
        """Send every environment its action; returns at once.

        Actions of a Dict or Tuple space are a list with one action per environment, as SB3 has them, or batched.
        """
        self.pool.send(self._batched(actions) if self._action_rows and isinstance(actions, list) else actions)

    def _batched(self, actions: list[Any]) -> Any:
        """A list of structured actions as one structure of arrays, which is what a pool takes."""
        if len(actions) != self.num_envs:
            raise ActionError(f"{len(actions)} actions for {self.num_envs} environments; give one each")
        rows = [self._leaf_values(slot, action) for slot, action in enumerate(actions)]
        try:
            return assemble(self._action_tree, lambda leaf: np.array([row[leaf.name] for row in rows]))
        except ValueError as error:
            raise ActionError(f"actions of different shapes do not fit {self.action_space}: {error}") from error

    def _leaf_values(self, slot: int, action: Any) -> dict[str, Any]:
        try:
            return {leaf.name: value for leaf, value in split(self._action_tree, action)}
        except BadValueError as error:
            raise ActionError(f"the action of slot {slot} does not fit {self.action_space}: {error}") from error

    def step_wait(self) -> sb3.VecEnvStepReturn:
        """Observations, rewards, dones and infos of the step that ``step_async`` started."""
        batch = self.pool.recv()
        lost = ~batch.valid & (batch.truncated | self._in_episode)
        dones = batch.terminated | batch.truncated | lost
        by_row = infos_by_row(batch.infos)
        infos = [by_row.get(row, {}) for row in range(self.num_envs)]
        for row in np.flatnonzero(dones).tolist():
            infos[row] = self._lost(row, infos[row]) if lost[row] else self._ended(row, infos[row])
        for info, truncated in zip(infos, (dones & ~batch.terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = truncated
        for row in np.flatnonzero(~batch.valid).tolist():
            infos[row]["valid"] = False
        if len(batch.episodes) and not self._monitored:
            self._add_episodes(batch, infos)
        self._obs, self._valid, self._in_episode = batch.obs, batch.valid, batch.valid & ~dones
        self._pids = self.pool.worker_pids
        return batch.obs, batch.reward.astype(np.float32), dones, infos

    def _ended(self, row: int, info: Info) -> Info:
        """The info of the last step; the rest belongs to the reset that followed in the same step."""
        final = {**info.pop("final_info"), "terminal_observation": info.pop("final_obs")}
        self.reset_infos[row] = info
        return final

    def _lost(self, row: int, info: Info) -> Info:
        self.reset_infos[row] = {}
        return {**info, "terminal_observation": self._leafwise(lambda rows: np.copy(rows[row]), self._obs)}

    def _add_episodes(self, batch: Batch, infos: list[Info]) -> None:
        """Add ``info["episode"]`` as Monitor does, with the time since this view was created."""
        ended, now_s = batch.episodes, round(time.monotonic() - self._started_s, 6)
        for slot, total, length in zip(ended.slots, ended.returns, ended.lengths, strict=True):
            infos[slot].setdefault("episode", {"r": round(float(total), 6), "l": int(length), "t": now_s})

    def _leafwise(self, change: Callable[..., Any], *obs: Any) -> Any:
        """Apply ``change`` to each array of observations, keeping the structure of the space."""
        return assemble(self._tree, lambda leaf: change(*(reduce(getitem, leaf.path, one) for one in obs)))

    def has_attr(self, attr_name: str) -> bool:
        """Whether all environments have this attribute. Its value is not sent: it may not be picklable."""
        return all(self.pool.call("has_wrapper_attr", attr_name))

    def get_attr(self, attr_name: str, indices: sb3.VecEnvIndices = None) -> list[Any]:
        """Read an attribute through wrappers."""
        try:
            return self._request("get", attr_name, indices=indices)
        except EnvRaisedError as error:
            if error.fault.summary.startswith("raised AttributeError"):
                raise AttributeError(str(error)) from error
            raise

    def set_attr(self, attr_name: str, value: Any, indices: sb3.VecEnvIndices = None) -> None:
        """Set an attribute where it is defined, else on the outermost wrapper. A restarted worker does not have it."""
        self._request("set", attr_name, value, indices=indices)

    def env_method(self, method_name: str, *method_args: Any, indices: sb3.VecEnvIndices = None, **kwargs: Any) -> Any:
        """Call a method of the environments through wrappers."""
        ask = partial(self._request, "call", method_name, *method_args, **kwargs)
        return self._action_masks(ask, indices) if method_name == "action_masks" else ask(indices=indices)

    def _action_masks(self, ask: Callable[..., list[Any]], indices: sb3.VecEnvIndices) -> list[Any]:
        """Masks are read before every action, so slots that lost their episode need one too: all actions allowed."""
        try:
            masks = ask(indices=indices)
        except NinelivesError:
            masks = [self._mask_of(slot, ask) for slot in self._get_indices(indices)]
        self._mask = masks[0]
        return masks

    def _mask_of(self, slot: int, ask: Callable[..., list[Any]]) -> Any:
        try:
            return ask(indices=slot)[0]
        except NinelivesError:
            is_unaffected = self._valid[slot] and self._pids == self.pool.worker_pids
            if is_unaffected or self._mask is None:
                raise
            return np.ones_like(self._mask)

    def env_is_wrapped(self, wrapper_class: type, indices: sb3.VecEnvIndices = None) -> list[bool]:
        """Whether each environment is wrapped in this class."""
        return self._request("is_wrapped", f"{wrapper_class.__module__}:{wrapper_class.__qualname__}", indices=indices)

    def get_images(self) -> Sequence[npt.NDArray[Any] | None]:
        """A frame of each environment; None for those not created with ``render_mode="rgb_array"``."""
        return self._request("render", "")

    def __len__(self) -> int:
        """The number of environments."""
        return self.num_envs

    def close(self) -> None:
        """Close the pool, within its ``close_timeout_s``."""
        self.pool.close()

    def _request(
        self, verb: str, name: str, /, *args: Any, indices: sb3.VecEnvIndices = None, **kwargs: Any
    ) -> list[Any]:
        slots = [range(self.num_envs)[index] for index in self._get_indices(indices)]
        return list(self.pool.request(CallRequest(verb, name, args, kwargs), slots))


def infos_by_row(infos: Mapping[str, Any]) -> dict[int, Info]:
    """Split Gymnasium's vector infos into one dictionary per row; rows without infos are absent."""
    rows: dict[int, Info] = {}
    for key, column in infos.items():
        if f"_{key}" in infos:  # else it is a mask itself
            values = infos_by_row(column) if isinstance(column, dict) else _values(column)
            for row in np.flatnonzero(infos[f"_{key}"]).tolist():
                value = values.get(row, {}) if isinstance(values, dict) else values[row]
                rows.setdefault(row, {})[key] = value.copy() if isinstance(value, np.ndarray) else value
    return rows


def _values(column: npt.NDArray[Any]) -> Any:
    """Convert columns of plain numbers back to Python's own types; other columns stay as they are."""
    return column.tolist() if column.ndim == 1 and column.dtype in (bool, int, float) else column


def _check(autoreset: Any, copy: bool, batch_size: int, n_envs: int) -> None:
    if Autoreset.parse(autoreset) is not Autoreset.SAME_STEP:
        raise ConfigError(f"autoreset={autoreset!r} does not fit SB3, which resets in the same step; use 'same_step'")
    if not copy:
        raise ConfigError("copy=False does not fit SB3, which keeps an observation while the next step is taken")
    if batch_size != n_envs:
        raise ConfigError(f"batch_size={batch_size} does not fit SB3, which steps all {n_envs} environments together")
