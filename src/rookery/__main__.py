"""``python -m rookery`` is the same as ``rookery``."""

from __future__ import annotations

import sys

from rookery.cli.main import main

sys.exit(main())
