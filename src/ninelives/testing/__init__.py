"""Shipped for tests, ours and yours: environments that break on purpose, honest fakes, checks for environment authors.

::

    counting     an environment whose rows prove themselves, and a referee that checks a stream of them
    faults       ways to break: segfault, hang, exit, bad data ...
    zoo          those ways put into a counting environment: which, when, in which slot, how often
    natural      true native crashes and hangs of emulators, in games that otherwise play on
    fakes        a clock that stands still, a sink that remembers
    leftovers    what a program left behind: processes, descriptors, segments, directories
    conformance  ``check_env``: what an environment is like before it is trusted with a training run
    chaos        workers murdered while a pool steps, every row compared with an undisturbed twin's

Nothing else of the package may import this one, except the command line's ``check`` and ``chaos`` verbs.
"""

from ninelives.testing.chaos import Chaos
from ninelives.testing.chaos_report import ChaosReport
from ninelives.testing.conformance import EnvReport, check_env
from ninelives.testing.counting import CountingEnv, Referee
from ninelives.testing.fakes import FakeClock, RecordingSink
from ninelives.testing.zoo import Fragile, When

__all__ = [
    "Chaos",
    "ChaosReport",
    "CountingEnv",
    "EnvReport",
    "FakeClock",
    "Fragile",
    "RecordingSink",
    "Referee",
    "When",
    "check_env",
]
