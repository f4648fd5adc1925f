"""One function for each slot: ``[f, g, ...]`` as a single specification, for views that are given such lists.

Owns which function belongs to which slot. It must never build anything outside a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ninelives.errors import ConfigError
from ninelives.spec.context import current_slot
from ninelives.spec.env import AnyEnv, EnvSpec

EnvFunctions = list[Callable[[], Any]] | tuple[Callable[[], Any], ...]
"""As Gymnasium's and SB3's own vector environments take them."""


class PerSlot:
    """Builds the environment of the slot that is under construction."""

    def __init__(self, functions: EnvFunctions) -> None:
        self._functions = tuple(functions)
        self.__name__ = EnvSpec.of(functions[0]).label

    def __call__(self) -> Any:
        """Call the slot's own function."""
        return self._functions[current_slot().slot]()


def one_spec(
    env: AnyEnv | EnvFunctions, num_envs: int | None, settings: Mapping[str, Any], name: str
) -> tuple[EnvSpec, int]:
    """The specification of all slots and their number; ``env`` is one environment, or one function for each slot.

    Args:
        env: what a view was given.
        num_envs: what it was given as the number of environments; a list needs none.
        settings: settings of the pool, of which a list excludes some.
        name: what the view calls ``num_envs``, for messages.
    """
    if not isinstance(env, list | tuple):
        if num_envs is None:
            raise ConfigError(f"{name} is missing: say how many environments, or give one function for each in a list")
        return EnvSpec.of(env), num_envs
    if not env or not all(map(callable, env)):
        raise ConfigError(f"env={env!r} is not a list of functions that return an environment, one for each slot")
    if num_envs not in (None, len(env)):
        raise ConfigError(f"{name}={num_envs} does not fit the {len(env)} functions of env; leave {name} out")
    if all(one is env[0] for one in env):
        return EnvSpec.of(env[0]), len(env)
    if settings.get("spares"):
        raise ConfigError(
            f"spares={settings['spares']} does not fit a list of different functions: a spare is built before it is "
            "known whose place it takes; leave spares out, or give one function for all slots"
        )
    return EnvSpec(PerSlot(env)), len(env)
