"""The source distribution and the wheel are complete, and both work in an empty environment.

``make test`` builds and inspects them. ``NINELIVES_FULL=1`` also installs each into an empty virtual environment, with
and without a C compiler, and runs a pool there; that takes minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from missing import require_module, skip_missing

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("NINELIVES_FULL") == "1"
NOT_SOURCE = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
HAS_COMPILER = shutil.which(os.environ.get("CC", "cc")) is not None

A_TINY_POOL = """
import numpy as np
import ninelives
from ninelives.native import native_status

with ninelives.Pool("CartPole-v1", num_envs=2, workers=1) as pool:
    pool.reset(seed=0)
    for _ in range(20):
        assert pool.step(np.zeros(2, dtype=np.int64)).valid.all()
print(ninelives.__file__, ninelives.__version__, native_status().active)
"""


def run(*command: object, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, timeout=280,
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both distributions, built from a clean copy of the sources."""
    require_module("build")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "constraints.txt", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=NOT_SOURCE)
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", cwd=source)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return source / "dist"


def sdist_of(built: Path) -> Path:
    (path,) = built.glob("*.tar.gz")
    return path


def wheel_of(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def sources(*suffixes: str) -> set[str]:
    files = (path for path in (ROOT / "src" / "ninelives").rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT / "src")) for path in files if path.suffix in suffixes}


def test_twine_accepts_both(built: Path):
    require_module("twine")
    done = run(sys.executable, "-m", "twine", "check", "--strict", sdist_of(built), wheel_of(built), cwd=built)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_source_distribution_holds_all_sources_and_nothing_built(built: Path):
    with tarfile.open(sdist_of(built)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"src/{name}" for name in sources(".py", ".c", ".h", ".typed", ".gba", ".nes")}
    assert wanted <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "setup.py", "pyproject.toml"} <= names
    assert [name for name in names if name.endswith((".so", ".pyc"))] == []


def test_the_wheel_holds_all_modules_and_the_games(built: Path):
    names = set(zipfile.ZipFile(wheel_of(built)).namelist())
    assert sources(".py", ".typed", ".gba", ".nes") <= names
    modules = {name.partition(".")[0] for name in names if name.endswith(".so")}
    native = {name.removesuffix(".c") for name in sources(".c")}
    assert modules == (native if HAS_COMPILER else set())


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installation needs, so that only this step may fail for want of a network."""
    place = tmp_path_factory.mktemp("wheelhouse")
    needed = ("setuptools>=77", "numpy>=2.0", "gymnasium>=1.1", "cloudpickle>=3.0")
    done = run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", place, *needed, cwd=place)
    if done.returncode:
        skip_missing(f"pip cannot download what an installation needs: {done.stderr.strip()[-300:]}")
    return place


@pytest.mark.skipif(not FULL, reason="takes minutes; NINELIVES_FULL=1 runs it")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("compiler", [True, False], ids=["compiler", "no compiler"])
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_it_works_in_an_empty_environment(built: Path, wheelhouse: Path, tmp_path: Path, kind: str, compiler: bool):
    if compiler and not HAS_COMPILER:
        skip_missing("a C compiler")
    file = sdist_of(built) if kind == "sdist" else wheel_of(built)
    python = tmp_path / "venv" / "bin" / "python"
    assert run(sys.executable, "-m", "venv", "venv", cwd=tmp_path).returncode == 0
    environ = {} if compiler else {"CC": "/bin/false"}
    offline = ("--quiet", "--no-index", "--find-links", wheelhouse)
    done = run(python, "-m", "pip", "install", *offline, file, cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stderr[-2000:]
    done = run(python, "-c", A_TINY_POOL, cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stderr[-2000:]
    place, version, native = done.stdout.split()
    assert "site-packages" in place
    assert version in file.name
    assert native == str(HAS_COMPILER if kind == "wheel" else compiler)
