"""Advantages and value targets of a rollout: GAE, and V-trace, which is GAE for a policy that has moved on. Pure.

Arrays are (time, slots). ``values`` has one row more than there are steps, for the observation after the last one. What
follows a row decides what it is worth:

====================================  =================================  ===================================
the row ...                           is followed by the value           and by the advantages after it
====================================  =================================  ===================================
is an ordinary step                   of the next observation            yes
terminated                            zero: nothing follows              no
truncated                             of the true last observation       no
comes before a row not learned from   of the next observation            no: nobody knows how it went on
is the last of the rollout            of the next observation            no
is not learned from                   (advantage 0, no target)
====================================  =================================  ===================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating]
Flags = npt.NDArray[np.bool_]


class Targets(NamedTuple):
    """What actor and critic shall learn."""

    advantages: npt.NDArray[np.float32]
    returns: npt.NDArray[np.float32]


def targets(
    rewards: Numbers,
    values: Numbers,
    final_values: Numbers,
    terminated: Flags,
    truncated: Flags,
    learned: Flags,
    gamma: float,
    gae_lambda: float,
    ratios: Numbers | None = None,
) -> Targets:
    """Advantages and value targets.

    Args:
        rewards: of each step.
        values: of each observation, one row more than rewards.
        final_values: of the true last observation, looked at where a row is truncated.
        terminated: the environment ended the episode.
        truncated: the episode was cut.
        learned: the row is a true transition.
        gamma: discount.
        gae_lambda: how far ahead advantages look.
        ratios: how much likelier the newest policy takes each action than the one that took it (V-trace); None: 1.
    """
    now = values[:-1].astype(np.float64)
    following = np.where(terminated, 0.0, np.where(truncated, final_values, values[1:]))
    surprise = np.where(learned, rewards + gamma * following - now, 0.0)
    reach = np.zeros(surprise.shape)
    reach[:-1] = gamma * gae_lambda * (learned[:-1] & learned[1:] & ~(terminated | truncated)[:-1])
    if ratios is None:
        advantages = accumulate(surprise, reach)
        return Targets(advantages.astype(np.float32), (advantages + now).astype(np.float32))
    trust = np.minimum(ratios, 1.0)
    corrections = accumulate(trust * surprise, trust * reach)
    ahead = np.zeros_like(corrections)
    ahead[:-1] = reach[:-1] * corrections[1:]
    return Targets((surprise + ahead).astype(np.float32), (corrections + now).astype(np.float32))


def accumulate(surprise: npt.NDArray[np.float64], reach: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """From the last row backwards: each row's surprise, and the sum after it as far as it reaches."""
    total = surprise.copy()
    for later in range(len(total) - 1, 0, -1):
        total[later - 1] += reach[later - 1] * total[later]
    return total


def explained_variance(values: Numbers, returns: Numbers) -> float:
    """How much of the returns' variance the values foretold: 1 all, 0 nothing, less: worse than a constant."""
    variance = float(np.var(returns))
    return float("nan") if variance == 0.0 else 1.0 - float(np.var(returns - values)) / variance
