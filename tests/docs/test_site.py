"""The documentation builds as a site without warnings, and its pages load nothing from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from missing import require_module

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"|url\(["']?([^"')]+)""")
"""What a browser fetches by itself when it shows a page."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("material", "mkdocstrings"):
        require_module(module)
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_every_page_is_built(site: Path):
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= {page.stem for page in site.glob("*.html")}


def test_pages_load_nothing_from_the_network(site: Path):
    for file in [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]:
        loaded = [name for names in LOADED.findall(file.read_text()) for name in names if name]
        assert [name for name in loaded if name.startswith(("http:", "https:", "//"))] == [], file.name


def test_search_works_in_pages_that_are_opened_as_files(site: Path):
    index = (site / "search" / "search_index.js").read_text()
    assert "EOFError" in index
    assert "js/iframe-worker.js" in (site / "index.html").read_text()


def test_the_api_reference_has_signatures_and_docstrings(site: Path):
    page = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    for name in (
        "Pool",
        "Batch",
        "VectorEnv",
        "VecEnv",
        "TrainConfig",
        "EmulatorEnv",
        "WorkerCrashedError",
        "SlotHealed",
    ):
        assert name in page
    assert "save_states" in page
