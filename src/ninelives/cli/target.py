"""The environment a command is about: ``ENV`` and ``--env-kwargs`` as an ``EnvSpec``, and back as code to paste."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec


def env_spec(env: str, pairs: Sequence[str], rom: Path | None = None) -> EnvSpec:
    """``"mygame:make"`` and ``("level=3", "mode=fast")``; ``rom`` is one more of these.

    Raises:
        ConfigError: not an environment's name, a pair without ``=``, or a ROM that is not there.
    """
    named = EnvSpec.of(env)
    given = dict(_pair(text) for text in pairs)
    if rom is not None:
        if "rom" in given:
            raise ConfigError(f"--rom {rom} and --env-kwargs rom={given['rom']}: give one of them")
        if not os.path.isfile(rom):
            raise ConfigError(f"--rom {rom}: there is no such file, or it is out of reach")
        given["rom"] = str(rom)
    return EnvSpec(named.env, given, named.modules)


def as_code(spec: EnvSpec) -> str:
    """How a Python program says it."""
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
