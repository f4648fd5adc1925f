"""Says advice in the flags of ``ninelives train``, for runs that were started by it. Pure: text in, text out.

Advice is written in keywords of ``ninelives.Pool``; a user of the command line has never seen those.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from itertools import pairwise

from ninelives.cli.diagnosis.finding import Finding
from ninelives.spec.options import PoolOptions
from ninelives.train.config.classes import PoolConfig

_FLAGS = {field.name for field in dataclasses.fields(PoolConfig)}
_KEYWORDS = [field.name for field in dataclasses.fields(PoolOptions)]
_VALUE = r"=(?P<value>\[[^\]]*\]|'[^']*'|\w[\w.]*)"
_SETTING = re.compile(rf"(?<![\w.-])(?P<name>{'|'.join(sorted(_KEYWORDS, key=len, reverse=True))})\b(?:{_VALUE})?")
_PHRASES = {
    "batch_size below num_envs": "--pool.ready below --n-envs",
    "run fewer workers": "run fewer workers (--pool.workers)",
    "with more workers,": "with more workers (--pool.workers),",
    "use the pool as a context manager, or call close()": "if it was killed, continue it with --resume",
}


def by_command_line(command: Sequence[object]) -> bool:
    """Whether a run's recorded command is ``ninelives train``."""
    words = [os.path.basename(str(word)) for word in command]
    return ("ninelives", "train") in pairwise(words)


def in_flags(finding: Finding) -> Finding:
    """The finding with settings as flags."""
    details, advice = (tuple(map(_translated, lines)) for lines in (finding.details, finding.advice))
    return dataclasses.replace(finding, details=details, advice=advice)


def _translated(line: str) -> str:
    for keywords, flags in _PHRASES.items():
        line = line.replace(keywords, flags)
    return _SETTING.sub(_flag, line)


def _flag(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if "_" not in name and value is None:
        return found[0]  # an English word: copy, check, spares
    if name not in _FLAGS:
        return f"{found[0]} (of ninelives.Pool; there is no flag for it)"
    flag = f"--pool.{name.replace('_', '-')}"
    return flag if value is None else f"{flag} {value.strip(chr(39))}"
