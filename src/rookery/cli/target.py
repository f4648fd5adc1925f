"""The environment a command is about: ``ENV`` and ``--env-kwargs`` as an ``EnvSpec``, and back as code to paste."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from rookery.errors import ConfigError
from rookery.spec.env import EnvSpec


def env_spec(env: str, pairs: Sequence[str]) -> EnvSpec:
    """``"mygame:make"`` and ``("level=3", "mode=fast")``.

    Raises:
        ConfigError: not an environment's name, or a pair without ``=``.
    """
    named = EnvSpec.of(env)
    return EnvSpec(named.env, dict(_pair(text) for text in pairs), named.modules)


def as_code(spec: EnvSpec) -> str:
    """How a Python program says it."""
    name = f'"{spec.env}"'
    return name if not spec.kwargs else f"rookery.EnvSpec({name}, {dict(spec.kwargs)!r})"


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ConfigError(f"--env-kwargs {text!r} is not KEY=VALUE; for example: --env-kwargs level=3 mode=hard")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value
