"""One seed per episode, derived from the slot's seed: any episode can be begun again alone. Pure.

The mixing is fixed for ever: a seed written down today must give the same episode in every later version.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1


def episode_seed(seed: int, slot: int, episode: int) -> int:
    """The seed of a slot's ``episode``-th episode since it was given ``seed``; the first one has that seed itself.

    Derived seeds have 31 bits: old generators and emulators take no more.
    """
    if episode == 0:
        return seed
    return _mix(_mix(_mix(seed & _MASK) ^ slot) ^ episode) >> 33


def _mix(number: int) -> int:
    """The finaliser of SplitMix64: every bit of the input moves about half of the output's."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)
