"""EnvSpec: which environment, by name, so that the parent never has to build it.

Five ways to say it, all picklable and all resolved inside the worker: a Gymnasium id (``"CartPole-v1"``, or
``"ale_py:ALE/Pong-v5"`` to import the registering module first), a ``"module:factory"`` path, a callable, Gymnasium's
own ``EnvSpec``, or an ``EnvSpec`` of this module, with keyword arguments.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec as Registration

from ninelives.errors import ConfigError
from ninelives.spec.registrations import (
    check_registered,
    foreign_registrations,
    portable,
    register_missing,
    registration_of,
)

_GYM_ID = re.compile(r"^(?:(?P<module>[\w.]+):)?(?P<id>(?:[\w.-]+/)?[\w.:-]+-v\d+)$")
_FACTORY = re.compile(r"^(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_][\w.]*)$")

_FORKED_SAFELY = ("ale_py",)
"""Modules named by ids that start no threads and hold no devices when they are imported."""

OUR_GAMES = "ninelives/"
"""What the ids of the package's own games begin with."""

OUR_MODULES = ("ninelives.sims.emulators.env", "cv2")
"""What those need."""


@dataclass(frozen=True)
class EnvSpec:
    """An environment by name or by factory.

    Attributes:
        env: a Gymnasium id, ``"module:factory"``, or a callable that returns an environment.
        kwargs: keyword arguments for ``gymnasium.make`` or the factory.
        modules: modules to import first in the worker (for ids that a package registers).
        registrations: Gymnasium's registrations that the worker needs, that of the id if ``env`` is one. Left empty,
            they are read from the registry of the process that sends the specification.
    """

    env: str | Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    registrations: tuple[Registration, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, env: AnyEnv) -> EnvSpec:
        """Accept any of the five forms; refuse the rest before a process starts."""
        if isinstance(env, EnvSpec):
            return env
        if isinstance(env, Registration):
            return cls(env.id, registrations=(portable(env),))
        if callable(env):
            return cls(env)
        if isinstance(env, str) and (_GYM_ID.match(env) or _FACTORY.match(env) or env in gymnasium.registry):
            return cls(env)
        raise ConfigError(
            f"env={env!r} is not an environment; allowed: a Gymnasium id like 'CartPole-v1', a path like "
            "'package.module:factory', a callable that returns an environment, or an EnvSpec"
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to a worker: the registrations of this process travel with the name."""
        return {**self.__dict__, "registrations": self.registrations or self._registrations_here()}

    def _registrations_here(self) -> tuple[Registration, ...]:
        if callable(self.env):
            return foreign_registrations()
        found = registration_of(self.env)
        return () if found is None else (found,)

    @property
    def label(self) -> str:
        """A short name for messages and events."""
        return self.env if isinstance(self.env, str) else getattr(self.env, "__name__", type(self.env).__name__)

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules to import once, before workers are forked: what known games need, so that one is back sooner."""
        match = _GYM_ID.match(self.env) if isinstance(self.env, str) else None
        if match is None:
            return ()
        is_ours = match["id"].startswith(OUR_GAMES)
        wanted = OUR_MODULES if is_ours else [name for name in _FORKED_SAFELY if name == match["module"]]
        return tuple(name for name in wanted if importlib.util.find_spec(name))

    def load(self) -> Callable[[], Any]:
        """Import what is needed and return a constructor. Runs in the worker only."""
        for module in self.modules:
            importlib.import_module(module)
        register_missing(self.registrations)
        if callable(self.env):
            factory = self.env
            return lambda: factory(**self.kwargs)
        match = _GYM_ID.match(self.env)
        if match is not None and match["module"]:
            importlib.import_module(match["module"])
        if match is not None or self.env in gymnasium.registry:
            return self._load_gymnasium(match["id"] if match is not None else self.env)
        return self._load_factory()

    def _load_gymnasium(self, env_id: str) -> Callable[[], Any]:
        # What the sender knew by this id, also where this process knows another environment by it.
        target = self.registrations[0] if self.registrations else env_id
        if not self.registrations:
            check_registered(env_id)
        # The passive checker warns and asserts on the first step of every new environment; `ninelives check` is its
        # better place, and its cost would be paid again after every restart.
        kwargs = {"disable_env_checker": True, **self.kwargs}
        return lambda: gymnasium.make(target, **kwargs)

    def _load_factory(self) -> Callable[[], Any]:
        assert isinstance(self.env, str)
        module_name, _, path = self.env.partition(":")
        target: Any = importlib.import_module(module_name)
        for part in path.split("."):
            target = getattr(target, part)
        return lambda: target(**self.kwargs)


AnyEnv = EnvSpec | Registration | str | Callable[..., Any]
"""Everything that names an environment."""
