"""The environment of a command: ``ENV`` and ``--env-kwargs`` as an ``EnvSpec``, and an ``EnvSpec`` as code."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec


def env_spec(env: str, pairs: Sequence[str], rom: Path | None = None) -> EnvSpec:
    """From ``"mygame:make"`` and ``("level=3", "mode=fast")``; ``rom`` becomes one more keyword argument.

    Raises:
        ConfigError: not an environment name, a pair without ``=``, or a missing ROM.
    """
    named = EnvSpec.of(env)
    given = dict(_pair(text) for text in pairs)
    if rom is not None:
        if "rom" in given:
            raise ConfigError(f"--rom {rom} and --env-kwargs rom={given['rom']} exclude each other: choose one")
        if not os.path.isfile(rom):
            raise ConfigError(f"--rom {rom}: no such file, or no permission to read it")
        given["rom"] = str(rom)
    return EnvSpec(named.env, given, named.modules)


def as_code(spec: EnvSpec) -> str:
    """The environment as Python code."""
    name = f'"{spec.env}"'
    return name if not spec.kwargs else f"ninelives.EnvSpec({name}, {dict(spec.kwargs)!r})"


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ConfigError(f"--env-kwargs {text!r} is not KEY=VALUE; for example: --env-kwargs level=3 mode=hard")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value
