"""``python -m ninelives`` is the same as ``ninelives``."""

from __future__ import annotations

import sys

from ninelives.cli.main import main

sys.exit(main())
