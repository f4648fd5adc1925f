"""Testing tools that come with the package: environments that fail on purpose, fakes, checks for environment authors.

::

    counting     an environment whose rows can be verified, and a referee that verifies a stream of them
    faults       ways to fail: segfault, hang, exit, bad data, ...
    zoo          counting environments with one of these faults: which, when, in which slot, how often
    natural      real native crashes and hangs of emulators, in games that otherwise run normally
    fakes        a clock that is set by hand, a sink that records events
    leftovers    what a program left behind: processes, descriptors, segments, directories
    conformance  ``check_env``: examines an environment before it is used for training
    chaos        kills workers while a pool steps and compares every row with an undisturbed pool

No other part of the package may import this one, except the command line's ``check`` and ``chaos`` verbs.
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
