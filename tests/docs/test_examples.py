"""Every Python block of the documentation runs, page by page, as a reader would run it: top to bottom, one program."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ON_PURPOSE = ("-W", "ignore:slot ")
"""Pages about faults lose episodes on purpose; the pool's warning of it is part of what they show."""

NOT_RUN = "<!-- not run:"
"""Before a block that is only to be read; the reason follows."""


def program(page: Path) -> str:
    """The page's Python blocks, each line at its own line number, so that a traceback points into the page."""
    out: list[str] = []
    inside, skip_next = False, False
    for line in page.read_text().splitlines():
        if inside:
            inside = line != "```"
            out.append(line if inside else "")
            continue
        inside = line == "```python" and not skip_next
        if line.strip():
            skip_next = line.startswith(NOT_RUN)
        out.append("")
    return "\n".join(out)


@pytest.mark.parametrize("page", [page for page in PAGES if program(page).strip()], ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path):
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program(page))
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-W", "error", *ON_PURPOSE, str(script)],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, f"{page.name} (line numbers are the page's):\n{result.stderr[-4000:]}"
    assert not list(tmp_path.glob("ninelives-*")), "an example left its directory behind"


def test_a_block_is_skipped_only_with_a_reason():
    for page in PAGES:
        for mark in re.findall(re.escape(NOT_RUN) + r"(.*)", page.read_text()):
            assert len(mark.removesuffix("-->").split()) >= 3, f"{page.name}: say why in words"


def test_a_broken_example_would_be_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n```python\nx = 1\n```\n\n<!-- not run: only a sketch here -->\n```python\ny = 2\n```\n```\nz\n```\n"
    )
    assert program(page).split() == ["x", "=", "1"]
    assert program(page).splitlines()[3] == "x = 1"
