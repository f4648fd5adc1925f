"""Where a run comes from: versions, commit, machine, command line. Reads only; what cannot be had is left out."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from typing import Any

import ninelives
from ninelives import host

PACKAGES = ("torch", "numpy", "gymnasium")
GIT_TIMEOUT_S = 5.0
"""A commit is nice to know; a network file system that hangs is no reason not to train."""


def facts_of_start() -> dict[str, Any]:
    """The facts of a start that happens now, in the current directory."""
    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "command": list(sys.orig_argv),
        "ninelives": ninelives.__version__,
        "python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name))},
        **git_facts(),
        "platform": platform.platform(),
        "cores": host.cores(),
        "memory_bytes": host.memory_limit_bytes(),
    }


def git_facts(directory: str | None = None) -> dict[str, Any]:
    """The commit of the working directory and whether files differ from it; empty outside of a repository."""
    commit = _git(directory, "rev-parse", "HEAD")
    if not commit:
        return {}
    return {"git_commit": commit, "git_changed": bool(_git(directory, "status", "--porcelain", "--untracked-files=no"))}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _git(directory: str | None, *args: str) -> str:
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # a trainer must not disturb whoever commits beside it
    try:
        done = subprocess.run(
            ["git", *args], cwd=directory, env=environ, capture_output=True, text=True, timeout=GIT_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
