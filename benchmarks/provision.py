"""Makes ``.venv-bench``: the peers with pinned versions, and Ninelives as its users install it.

Standard library only: it runs before anything is installed. A peer that does not install is noted and left out.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv-bench"
PYTHON = HOME / "bin" / "python"
STAMP = HOME / "peers.json"
CONSTRAINTS = Path(__file__).with_name("constraints-bench.txt")
PIP_TIMEOUT_S = 900

BASE = ("setuptools", "numpy", "gymnasium", "cloudpickle")
TORCH = "torch==2.13.0"
"""Asked for alone, first and exactly: a resolver free to choose takes a build with gigabytes of GPU libraries."""

PEERS = {
    "stable-baselines3": ("stable-baselines3",),
    "tianshou": ("tianshou",),
    "envpool": ("envpool",),
    "ale-py": ("ale-py", "opencv-python-headless"),
    "stable-retro": ("stable-retro",),
    "nes-py": ("--no-deps", "nes-py", "gym", "gym-notices"),
}
SOURCES = ("src", "pyproject.toml", "setup.py", "README.md", "LICENSE")


class InstallFailedError(Exception):
    """What pip said last."""


def ready() -> dict[str, str]:
    """Make the environment as it should be; returns the peers that did not install, with the reason."""
    wanted = hashlib.sha256(CONSTRAINTS.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    state = json.loads(STAMP.read_text()) if STAMP.exists() else {}
    if state.get("made_from") != wanted:
        state = {"made_from": wanted, "missing": _install_peers()}
        STAMP.write_text(json.dumps(state))
    _install_ninelives()
    missing: dict[str, str] = state["missing"]
    return missing


def _install_peers() -> dict[str, str]:
    _say(f"making {HOME.name} (once; some minutes)")
    venv.create(HOME, clear=True, with_pip=True)
    _pip("install", *BASE)
    missing: dict[str, str] = {}
    for name, packages in {"torch": (TORCH,), **PEERS}.items():
        try:
            _pip("install", *packages)
        except InstallFailedError as failure:
            missing[name] = str(failure)
        _say(f"  {name}: {missing.get(name, 'installed')}")
    return missing


def _install_ninelives() -> None:
    """From a copy of the sources, so that no earlier build and no file of this checkout's own installation leaks in."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "ninelives"
        copy.mkdir()
        for name in SOURCES:
            _copy(ROOT / name, copy / name)
        _pip("install", "--no-build-isolation", "--no-deps", "--force-reinstall", str(copy))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    else:
        shutil.copy(source, target)


def _pip(verb: str, *arguments: str) -> None:
    command = [str(PYTHON), "-m", "pip", verb, "--quiet", "--constraint", str(CONSTRAINTS), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise InstallFailedError(f"pip did not end within {PIP_TIMEOUT_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["ERROR: unknown"]
        raise InstallFailedError(lines[-1].removeprefix("ERROR: "))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
