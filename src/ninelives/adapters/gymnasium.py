"""A pool as a ``gymnasium.vector.VectorEnv``.

Owns only the translation: Gymnasium's arguments to the pool's, a ``Batch`` to Gymnasium's five return values. It must
supervise nothing. A fault shows in the infos of its step and nowhere else: ``infos["fault"]`` describes it, and
``infos["valid"]`` is False for rows that are not true transitions and must be masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import VectorizeMode
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from ninelives.errors import ActionError, ClosedError, ConfigError, NotPendingError, PendingError
from ninelives.pool.batch import NO_EPISODES, Batch, Episodes
from ninelives.pool.data.checks import seeds_for
from ninelives.pool.pool import Pool
from ninelives.spec.arrays import assemble, leaves, split, tree_of
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.call import CallRequest
from ninelives.spec.env import AnyEnv, EnvSpec
from ninelives.spec.infos import add_info
from ninelives.spec.observation_mode import ObservationMode
from ninelives.spec.per_slot import EnvFunctions, one_spec

Flags = npt.NDArray[np.bool_]
Step = tuple[Any, npt.NDArray[np.float64], Flags, Flags, dict[str, Any]]


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, npt.NDArray[Any]]):
    """N environments in worker processes that are allowed to die, behind Gymnasium's vector interface.

    Args:
        env: a Gymnasium id, ``"module:factory"``, a callable, or an ``EnvSpec``, ours or Gymnasium's; or a list of
            functions, one for each environment; the spaces of all must be equal, or fit the ``observation_mode``.
        num_envs: number of environments; not needed for a list.
        workers: number of worker processes; None measures one environment and chooses.
        groups: number of groups per worker.
        copy: return copies of the observations, which you may keep; False returns views that the next step overwrites.
        autoreset_mode: Gymnasium's ``AutoresetMode`` or its value; the pool's own option ``autoreset`` works as well.
        observation_mode: ``"same"``, ``"different"`` or a tuple of a batched and a single space, as in Gymnasium.
        **settings: every other option of ``ninelives.PoolOptions``, such as ``infos``, the keys of infos that you read;
            ``seed_episodes`` is False here, as in Gymnasium.

    Attributes:
        pool: the underlying pool, with ``pool.metrics()``, ``pool.events`` and ``pool.worker_pids``.
        valid: False for rows of the last step that are not true transitions.
        episodes: return, length and time of the episodes that ended in the last step, as counted by the workers.
        autoreset_mode: Gymnasium's ``AutoresetMode``, also in ``metadata``.
    """

    pool: Pool
    valid: Flags
    episodes: Episodes
    autoreset_mode: AutoresetMode

    def __init__(
        self,
        env: AnyEnv | EnvFunctions,
        num_envs: int | None = None,
        *,
        workers: int | None = None,
        groups: int | None = None,
        copy: bool = True,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        observation_mode: str | tuple[gymnasium.Space[Any], gymnasium.Space[Any]] = "same",
        **settings: Any,
    ) -> None:
        spec, num_envs = one_spec(env, num_envs, settings, "num_envs")
        _check_whole(settings.get("batch_size") or num_envs, num_envs)
        settings = {"autoreset": autoreset_mode, "seed_episodes": False, **settings}
        settings["observation_mode"] = observation_mode
        self._attach(Pool(spec, num_envs, workers=workers, groups=groups, copy=copy, **settings))

    @classmethod
    def of(cls, pool: Pool) -> Self:
        """A view of an existing pool. Closing the view closes the pool."""
        _check_whole(pool.batch_size, pool.num_envs)
        view = cls.__new__(cls)
        view._attach(pool)
        return view

    def _attach(self, pool: Pool) -> None:
        self.pool, self.num_envs = pool, pool.num_envs
        self.spec, self.render_mode = pool.env_spec, pool.render_mode
        autoreset = Autoreset.parse(pool.options.autoreset)
        self.autoreset_mode = AutoresetMode(autoreset.gymnasium_value)
        self.metadata = {**pool.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = pool.observation_space, pool.action_space
        self.observation_space = _batched_observations(pool)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.valid, self.episodes = np.ones(self.num_envs, np.bool_), NO_EPISODES
        self._same_step = autoreset is Autoreset.SAME_STEP
        self._pending: str | None = None
        self._prepared_reset: Callable[[], Batch] | None = None
        # Actions that are not arrays go to the pool one by one; Gymnasium batches them leaf by leaf.
        self._unbatch = any(leaf.dtype is None for leaf in leaves(tree_of(self.single_action_space)))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all environments, or where ``options["reset_mask"]`` is True; other rows do not change.

        Args:
            seed: one number (environment ``i`` gets ``seed + i``), one per environment, or None.
            options: passed to every environment that is reset, without the mask; the dictionary is not modified.
        """
        self.reset_async(seed=seed, options=options)
        return self.reset_wait()

    def reset_async(
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Check the arguments of a reset, which ``reset_wait`` carries out."""
        self._check_idle("reset_async")
        if options is None or "reset_mask" not in options:
            seeds = seeds_for(seed, np.arange(self.num_envs))
            self._prepared_reset = partial(self.pool.reset, seed=seeds, options=options)
        else:
            mask = _checked_mask(options["reset_mask"], self.num_envs)
            rest = {key: value for key, value in options.items() if key != "reset_mask"}
            seeds = seeds_for(_seeds_where(mask, seed), np.flatnonzero(mask))
            self._prepared_reset = partial(self._reset_some, seeds, rest, np.flatnonzero(mask).tolist())
        self._pending = "reset"

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Observations and infos of the reset that ``reset_async`` prepared."""
        self._check_pending("reset", timeout)
        assert self._prepared_reset is not None
        prepared, self._prepared_reset = self._prepared_reset, None
        return self._output(prepared())

    def step(self, actions: Any) -> Step:
        """Step all environments with one action each, batched as ``action_space`` defines."""
        if self._unbatch:
            actions = _rows(self.single_action_space, actions, self.num_envs)
        if self._pending is not None:
            self._check_idle("step")
        return self._step_output(self.pool.step(actions))

    def step_async(self, actions: Any) -> None:
        """Send every environment its action; returns at once, and the workers step meanwhile."""
        self._check_idle("step_async")
        self.pool.send(_rows(self.single_action_space, actions, self.num_envs) if self._unbatch else actions)
        self._pending = "step"

    def step_wait(self, timeout: float | None = None) -> Step:
        """The five values of the step that ``step_async`` started."""
        self._check_pending("step", timeout)
        return self._step_output(self.pool.recv())

    def _check_idle(self, asked: str) -> None:
        if self._pending is not None and not self.closed:
            pending = self._pending
            raise PendingError(f"{asked}() while a {pending} is under way: call {pending}_wait() first", pending)

    def _check_pending(self, wanted: str, timeout: float | None) -> None:
        """Whether that is under way; from here on it is no longer, however it ends."""
        if self.closed:
            raise ClosedError("this vector environment was closed; make a new one")
        if self._pending != wanted:
            raise NotPendingError(f"no {wanted} is under way: call {wanted}_async() before {wanted}_wait()", wanted)
        if timeout is not None:
            raise ConfigError(
                f"timeout={timeout!r} does not fit: slots that take too long are healed instead of given up; set "
                f"{wanted}_timeout_s of the pool, and leave timeout out"
            )
        self._pending = None

    def _step_output(self, batch: Batch) -> Step:
        obs, infos = self._output(batch)
        if self._same_step and "valid" in infos:
            self._add_final_obs(batch)
        return obs, batch.reward, batch.terminated, batch.truncated, infos

    def render(self) -> tuple[Any, ...]:
        """One frame per environment."""
        return self.pool.request(CallRequest("render"))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment; an attribute that is not callable is read."""
        return self.pool.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every environment; as in Gymnasium, a callable one is called."""
        return self.pool.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute: a list or tuple holds one value per environment, any other value is set everywhere."""
        each = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"{name!r} got {len(each)} values for {self.num_envs} environments; give one each")
        self.pool.request([CallRequest("set", name, (value,)) for value in each])

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of the random generator of each environment."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each environment."""
        return self.get_attr("np_random_seed")

    def __len__(self) -> int:
        """The number of environments."""
        return self.num_envs

    def close_extras(self, **kwargs: Any) -> None:
        """Close the pool, within its ``close_timeout_s``; the arguments of other vector environments are ignored."""
        self.pool.close()

    def _output(self, batch: Batch) -> tuple[Any, dict[str, Any]]:
        self.valid, self.episodes = batch.valid, batch.episodes
        if not batch.valid.all():
            batch.infos["valid"], batch.infos["_valid"] = batch.valid.copy(), np.ones(len(batch), np.bool_)
        return batch.obs, batch.infos

    def _add_final_obs(self, batch: Batch) -> None:
        """Learners read ``final_obs`` of every truncated row: for a cut episode it is the last known observation."""
        cut = np.flatnonzero(batch.truncated & ~batch.valid).tolist()
        last = _rows(self.single_observation_space, batch.obs, len(batch)) if cut else ()
        for row in cut:
            add_info(batch.infos, {"final_obs": deepcopy(last[row]), "final_info": {}}, row, len(batch))

    def _reset_some(self, seeds: list[int | None], options: dict[str, Any], slots: list[int]) -> Batch:
        return self._widen(self.pool.reset(seed=seeds, options=options, slots=slots))

    def _widen(self, part: Batch) -> Batch:
        """Extend a batch of some slots to all: the other rows show their latest observation."""
        latest = self.pool.latest()
        valid = self.valid.copy()
        valid[part.slots] = part.valid
        return replace(latest, valid=valid, infos=_spread(part.infos, part.slots, self.num_envs))


def make_vec(
    env: AnyEnv,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str | None = None,
    vector_kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[Callable[[Any], Any]] | None = None,
    *,
    workers: int | None = None,
    groups: int | None = None,
    **kwargs: Any,
) -> VectorEnv:
    """``gymnasium.make_vec`` with supervised workers: the same arguments in the same order.

    Args:
        env: a Gymnasium id, ``"module:factory"``, a callable, or an ``EnvSpec``, ours or Gymnasium's.
        num_envs: number of environments.
        vectorization_mode: ``"sync"`` and ``"async"`` are accepted and mean the same, environments in workers;
            ``"vector_entry_point"`` is refused.
        vector_kwargs: everything else ``VectorEnv`` accepts: ``copy``, ``autoreset_mode``, ``infos``, timeouts, ...
        wrappers: applied to each environment in its worker, the first one innermost.
        workers: number of worker processes; None measures one environment and chooses.
        groups: number of groups per worker.
        **kwargs: passed to the environment (``gymnasium.make`` or the factory), as in ``gymnasium.make_vec``.
    """
    _check_mode(vectorization_mode)
    spec = EnvSpec.of(env)
    spec = replace(spec, kwargs={**spec.kwargs, **kwargs})
    if wrappers:
        spec = EnvSpec(_wrapped(spec, tuple(wrappers)), modules=spec.modules)
    return VectorEnv(spec, num_envs, workers=workers, groups=groups, **(vector_kwargs or {}))


def _wrapped(spec: EnvSpec, wrappers: tuple[Callable[[Any], Any], ...]) -> Callable[[], Any]:
    """A constructor that is sent to the worker and applies the wrappers there."""

    def build() -> Any:
        env = spec.load()()
        for wrapper in wrappers:
            env = wrapper(env)
        return env

    build.__name__ = spec.label
    return build


def _batched_observations(pool: Pool) -> gymnasium.Space[Any]:
    """The space of a batch, as the pool's ``observation_mode`` defines it."""
    mode = ObservationMode.parse(pool.options.observation_mode)
    if mode.batched is not None:
        return mode.batched  # type: ignore[no-any-return]
    if mode.is_same:
        return batch_space(pool.observation_space, pool.num_envs)
    return batch_differing_spaces(pool.request(CallRequest("get", "observation_space")))


def _rows(space: gymnasium.Space[Any], batched: Any, size: int) -> tuple[Any, ...]:
    """Split a value that is batched leaf by leaf into one value per environment."""
    tree = tree_of(space)
    parts = {leaf.name: part for leaf, part in split(tree, batched)}
    for name, part in parts.items():
        if len(part) != size:
            raise ActionError(f"{len(part)} actions in {name!r} for {size} environments; give one each")

    def at(row: int) -> Any:
        return assemble(tree, lambda leaf: parts[leaf.name][row])

    return tuple(map(at, range(size)))


def _spread(infos: Mapping[str, Any], slots: npt.NDArray[np.int64], size: int) -> dict[str, Any]:
    """Extend infos of some slots to all; the other rows are empty, and their masks are False."""
    wide: dict[str, Any] = {}
    for key, value in infos.items():
        if isinstance(value, dict):
            wide[key] = _spread(value, slots, size)
        else:
            empty = None if value.dtype.hasobject and value.ndim == 1 else 0
            wide[key] = np.full((size, *value.shape[1:]), empty, value.dtype)
            wide[key][slots] = value
    return wide


def _checked_mask(mask: Any, size: int) -> Flags:
    """Apply Gymnasium's own conditions and types of error."""
    rule = "options['reset_mask'] must be"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{rule} a numpy array, got {type(mask).__name__}")
    if mask.shape != (size,):
        raise ValueError(f"{rule} of shape ({size},), one flag per environment, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"{rule} of dtype bool, got {mask.dtype}")
    if not mask.any():
        raise ValueError(f"{rule} True somewhere: nothing to reset in {mask}")
    return mask


def _seeds_where(mask: Flags, seed: Any) -> Any:
    """A sequence of seeds has one per environment, even when only some of them are reset."""
    if seed is None or isinstance(seed, int | np.integer):
        return seed
    if len(seed) != len(mask):
        raise ConfigError(f"seed has {len(seed)} entries for {len(mask)} environments; give one number or one each")
    return [one for one, wanted in zip(seed, mask, strict=True) if wanted]


def _check_mode(mode: VectorizeMode | str | None) -> None:
    value = mode.value if isinstance(mode, VectorizeMode) else mode
    if value not in (None, "sync", "async"):
        raise ConfigError(
            f"vectorization_mode={value!r} does not fit: environments always run in workers of this package; leave it "
            "out, or use 'async' or 'sync', or gymnasium.make_vec for an environment that is a vector itself"
        )


def _check_whole(batch_size: int, num_envs: int) -> None:
    if batch_size != num_envs:
        raise ConfigError(
            f"batch_size={batch_size} is less than num_envs={num_envs}, but a VectorEnv always returns all rows; "
            "omit batch_size, or use ninelives.Pool with send() and recv() for first-ready batches"
        )
