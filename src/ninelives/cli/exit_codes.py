"""Exit codes of ``ninelives``, the same for every verb."""

SUCCESS = 0
FAILURE = 1
"""The command failed, or it found a problem."""

USAGE_ERROR = 2
"""The command line or its settings are wrong; nothing was started."""

INTERRUPTED = 130
"""The code that shells expect of a program ended by Ctrl-C."""
