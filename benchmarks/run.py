"""``make bench``: one command that installs the peers if needed, runs everything and writes ``RESULTS.md``.

Runs with any Python that Ninelives supports and nothing installed; the measurements run inside ``.venv-bench``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import provision


def main() -> None:
    try:
        missing = provision.ready()
    except provision.InstallFailedError as failure:
        sys.exit(f"benchmarks: {provision.HOME.name} cannot be made: {failure}; remove it and try again")
    suite = str(Path(__file__).with_name("suite.py"))
    python = str(provision.PYTHON)
    os.execv(python, [python, suite, "--missing", json.dumps(missing), *sys.argv[1:]])


if __name__ == "__main__":
    main()
