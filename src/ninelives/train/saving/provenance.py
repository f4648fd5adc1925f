"""Where a run comes from: versions, commit, machine, command line. Only reads; what is unknown is left out."""

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
"""The commit is optional: a slow network file system must not delay training for longer."""


def provenance() -> dict[str, Any]:
    """What is known about a start that happens now, in the current directory."""
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
    """The commit of the working directory and whether files differ from it; empty outside a repository."""
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
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # must not disturb a commit that happens at the same time
    try:
        done = subprocess.run(
            ["git", *args], cwd=directory, env=environ, capture_output=True, text=True, timeout=GIT_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
