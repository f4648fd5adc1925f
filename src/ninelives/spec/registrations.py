"""Gymnasium registrations that travel to workers, so that an id known in the user's program is known there too.

Owns reading the registry in the user's program and completing it in a worker. Must never import what an entry point
names: the user's program builds no environment.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable

import cloudpickle  # type: ignore[import-untyped, unused-ignore]
import gymnasium
from gymnasium.envs.registration import EnvSpec as Registration

from ninelives.errors import ConfigError

KNOWN_EVERYWHERE = ("gymnasium.", "ninelives.")
"""Entry points of ids that every worker knows: Gymnasium and this package register them on import."""


def registration_of(env_id: str) -> Registration | None:
    """The registration of an id in this process, ready to be sent; None if it has none."""
    found = gymnasium.registry.get(env_id)
    return None if found is None else portable(found)


def foreign_registrations() -> tuple[Registration, ...]:
    """Every registration that a new process would not have, for callables, which may make any id.

    One that cannot be sent is left out: most callables do not need it, and Gymnasium names it to one that does.
    """
    foreign = [one for one in gymnasium.registry.values() if not _is_known_everywhere(one)]
    return tuple(one for one in map(portable, foreign) if _can_be_sent(one))


def portable(registration: Registration) -> Registration:
    """The registration without what another process cannot resolve: its ``__main__`` is another one."""
    entry = registration.entry_point
    if isinstance(entry, str) and entry.startswith("__main__:"):
        entry = getattr(sys.modules["__main__"], entry.partition(":")[2], entry)
    return dataclasses.replace(registration, entry_point=entry, vector_entry_point=None)


def register_missing(registrations: Iterable[Registration]) -> None:
    """Add to this process's registry what it does not know."""
    for one in registrations:
        gymnasium.registry.setdefault(one.id, one)


def check_registered(env_id: str) -> None:
    """Refuse an id that is registered neither in the user's program nor in this worker."""
    try:
        gymnasium.spec(env_id)
    except gymnasium.error.UnregisteredEnv as error:
        raise ConfigError(
            f"env={env_id!r} is registered neither in your program nor in its workers. {error} If a package registers "
            f"it, import that package before you make the pool, or name it in the id: 'package:{env_id}'"
        ) from error


def _is_known_everywhere(registration: Registration) -> bool:
    entry = registration.entry_point
    home = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return home.startswith(KNOWN_EVERYWHERE)


def _can_be_sent(registration: Registration) -> bool:
    try:
        cloudpickle.dumps(registration)
    except Exception:  # whatever its parts raise when they are pickled
        return False
    return True
