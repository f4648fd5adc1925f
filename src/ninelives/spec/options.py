"""Every setting of a pool, with its default, the reason for it, and what is refused before a process starts."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ninelives.errors import ConfigError
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.observation_mode import ObservationMode

ON_FAULT = ("heal", "cut", "raise")
START_METHODS = ("forkserver", "fork", "spawn")
CHECKS = ("shape", "nan", "bounds")
ON_EXHAUSTED = ("quarantine", "raise")
ALL_INFOS = "all"

_POSITIVE = (
    "import_timeout_s",
    "construct_timeout_s",
    "reset_timeout_s",
    "step_timeout_s",
    "restore_timeout_s",
    "call_timeout_s",
    "close_timeout_s",
    "restart_window_s",
    "backoff_max_s",
    "start_attempts",
)
_NOT_NEGATIVE = ("spares", "start_delay_s", "backoff_s", "restart_wait_s", "max_restarts_per_slot", "max_restarts")
_POSITIVE_OR_NONE = ("start_concurrency", "snapshot_every", "max_steps", "max_age_s", "max_rss_bytes")


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Settings of a pool; every keyword of ``ninelives.Pool`` that is not listed in its signature.

    Attributes:
        start_method: ``forkserver`` starts workers from a clean, preloaded process in about 15 ms; ``fork`` copies the
            user's process (fast, but unsafe once it has threads); ``spawn`` starts a new interpreter each time.
        autoreset: ``next_step`` (Gymnasium's default), ``same_step`` or ``disabled``.
        observation_mode: which observation spaces the slots may have: ``same`` (equal ones), ``different`` (of equal
            shapes and dtypes), or a tuple of a batched and a single space to show instead. As in Gymnasium.
        on_fault: ``heal`` brings a broken slot back to where it was, and cuts its episode where that is impossible;
            ``cut`` masks the row and goes on with a fresh episode; ``raise`` raises the typed error in place of the
            batch that holds the fault, then ``reset()`` to go on.
        seed_episodes: every episode gets a seed of its own, derived from the slot's; False keeps Gymnasium's stream,
            where only the first reset is seeded.
        fresh_env_every_episode: close the environment and build a new one before each episode but its first; for those
            whose ``reset`` leaves something of the episode before, which else cannot be healed exactly.
        snapshot_every: least number of steps between two snapshots of environments that offer them; the interval grows
            where saving is slow. None takes none.
        copy: hand out copies that are safe to keep; False hands out views that the next step overwrites.
        check: what every observation is checked for: ``shape`` (and dtype), ``nan`` (and that), ``bounds`` (and those).
        infos: the keys of infos that are handed out; the others are not even sent. ``"all"`` hands out every key, None
            none. Keys that the pool adds (``fault``, ``final_obs``) are always there.
        info_keys: numeric info keys that always have a certain dtype, names (float64) or a mapping from name to dtype.
        info_types: types beside NumPy's and Python's own that infos may hold, as ``module.name``; an info that holds
            another is bad data. ``"any"`` loads whatever a worker sends, which lets its code run in this process.
        import_timeout_s: importing may read a cold disk and compile caches.
        construct_timeout_s: loading a simulator; scaled by how many start together on how many cores.
        reset_timeout_s: resets of emulators and players can load levels.
        step_timeout_s: long for any simulator, short for a person who waits.
        restore_timeout_s: how long a whole replay may take before the episode is cut instead.
        call_timeout_s: ``call`` may render or save.
        close_timeout_s: how long ``close()`` may take in the worst case; half of it is given to the environments.
        start_concurrency: workers that construct at the same time; None: as many as cores.
        start_delay_s: pause between two starts.
        start_lock: a lock file for simulators that cannot start twice at once on one machine.
        start_attempts: how often a worker's first start is tried before it counts as a configuration error.
        preload: modules the fork server imports once, so that workers start with them.
        spares: processes with built environments that wait to take a dead worker's place; for simulators that start
            slowly. Each costs the memory of a worker.
        pin_workers: where there are exactly as many workers as cores, each keeps to a core of its own: the system may
            else leave two on one core. For loops that do little between two steps; a policy wants a core to itself.
        max_restarts_per_slot: faults of one slot within the window before it is quarantined.
        max_restarts: faults of the whole pool within the window before it gives up.
        restart_window_s: length of the sliding window of both budgets.
        backoff_s: pause before the second restart in a row; doubles each time, with jitter. The first is immediate.
        backoff_max_s: longest pause.
        on_exhausted: what a spent slot budget does: ``quarantine`` the slot, or ``raise``.
        restart_wait_s: how long a synchronous batch waits for a restarting slot before it goes on with masked rows.
        max_steps: recycle a worker after so many steps of its slots together.
        max_age_s: recycle a worker of that age.
        max_rss_bytes: recycle a worker of that size.
        run_dir: where events and logs are kept; None keeps nothing after close.
        overwrite: allow a ``run_dir`` that already holds a run.
        sinks: listeners for events.
    """

    start_method: str = "forkserver"
    autoreset: Autoreset | str = Autoreset.NEXT_STEP
    observation_mode: str | tuple[Any, Any] = "same"
    on_fault: str = "heal"
    seed_episodes: bool = True
    fresh_env_every_episode: bool = False
    snapshot_every: int | None = 20
    copy: bool = True
    check: str = "nan"
    infos: Sequence[str] | str | None = ALL_INFOS
    info_keys: Mapping[str, Any] | Sequence[str] = ()
    info_types: Sequence[str] | str = ()
    import_timeout_s: float = 60.0
    construct_timeout_s: float = 60.0
    reset_timeout_s: float = 60.0
    step_timeout_s: float = 30.0
    restore_timeout_s: float = 600.0
    call_timeout_s: float = 60.0
    close_timeout_s: float = 5.0
    start_concurrency: int | None = None
    start_delay_s: float = 0.0
    start_lock: str | Path | None = None
    start_attempts: int = 3
    preload: Sequence[str] = ()
    spares: int = 0
    pin_workers: bool = False
    max_restarts_per_slot: int = 10
    max_restarts: int = 100
    restart_window_s: float = 300.0
    backoff_s: float = 0.1
    backoff_max_s: float = 30.0
    on_exhausted: str = "quarantine"
    restart_wait_s: float = 1.0
    max_steps: int | None = None
    max_age_s: float | None = None
    max_rss_bytes: int | None = None
    run_dir: str | Path | None = None
    overwrite: bool = False
    sinks: Sequence[Any] = field(default_factory=tuple)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> PoolOptions:
        """Build from keywords; an unknown one is answered with the nearest known name."""
        known = [f.name for f in dataclasses.fields(cls)]
        for key in settings:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; allowed: {', '.join(sorted(known))}"
                raise ConfigError(f"Pool has no setting {key!r}{hint}")
        options = cls(**settings)
        return dataclasses.replace(options, autoreset=Autoreset.parse(options.autoreset))

    def __post_init__(self) -> None:
        _one_of("start_method", self.start_method, START_METHODS)
        _one_of("on_fault", self.on_fault, ON_FAULT)
        _one_of("check", self.check, CHECKS)
        _one_of("on_exhausted", self.on_exhausted, ON_EXHAUSTED)
        for name in _POSITIVE:
            _number(name, getattr(self, name), above_zero=True)
        for name in _NOT_NEGATIVE:
            _number(name, getattr(self, name), above_zero=False)
        for name in _POSITIVE_OR_NONE:
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), above_zero=True)
        if not ObservationMode.parse(self.observation_mode).is_same and self.spares:
            raise ConfigError(
                f"spares={self.spares} does not fit slots with different spaces: a spare is built before it is known "
                "whose place it takes; leave spares out, or use observation_mode='same'"
            )
        if isinstance(self.preload, str):
            raise ConfigError(f"preload={self.preload!r} must be a list of module names, not one string")
        is_text = isinstance(self.infos, str)
        if (is_text and self.infos != ALL_INFOS) or not all(isinstance(key, str) for key in self.infos or ()):
            raise ConfigError(f"infos={self.infos!r} must be 'all', None or a list of keys")
        if isinstance(self.info_types, str) and self.info_types != "any":
            raise ConfigError(f"info_types={self.info_types!r} must be a list of names 'module.name', or 'any'")

    @property
    def wanted_infos(self) -> tuple[str, ...] | None:
        """The keys of infos that are handed out, declared ones included; None: all."""
        if self.infos == ALL_INFOS:
            return None
        return tuple(dict.fromkeys((*(self.infos or ()), *self.info_dtypes)))

    @property
    def info_dtypes(self) -> dict[str, str]:
        """Declared numeric infos with their dtypes; float64 unless said otherwise."""
        if isinstance(self.info_keys, str):
            raise ConfigError(f"info_keys={self.info_keys!r} must be a list of names or a mapping, not one string")
        pairs = self.info_keys.items() if isinstance(self.info_keys, Mapping) else ((k, "f8") for k in self.info_keys)
        out = {}
        for key, dtype in pairs:
            kind = _dtype(dtype)
            if kind is None or kind.kind not in "biuf":
                raise ConfigError(f"info_keys[{key!r}]={dtype!r} is not numeric; allowed: bool, int and float dtypes")
            out[str(key)] = kind.str
        return out


def _one_of(key: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{key}={value!r} is not known; allowed: {', '.join(map(repr, allowed))}")


def _number(key: str, value: object, above_zero: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ConfigError(f"{key}={value!r} must be a number, not {type(value).__name__}")
    if not (value > 0 if above_zero else value >= 0):
        raise ConfigError(f"{key}={value!r} must {'be greater than zero' if above_zero else 'not be negative'}")


def _dtype(value: Any) -> np.dtype[Any] | None:
    try:
        dtype: np.dtype[Any] = np.dtype(value)
        return dtype
    except TypeError:
        return None
