"""Advantages and value targets against their definitions, written out row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ninelives.train.ppo import advantages_and_returns, explained_variance

NUMBERS = st.floats(-10, 10, width=32)


@st.composite
def rollouts(draw):
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 3)))

    def numbers(of=shape):
        return draw(arrays.arrays(np.float64, of, elements=NUMBERS))

    def flags():
        return draw(arrays.arrays(np.bool_, shape))

    return {
        "rewards": numbers(),
        "values": numbers((shape[0] + 1, shape[1])),
        "final_values": numbers(),
        "terminated": flags(),
        "truncated": flags(),
        "learned": flags(),
        "gamma": draw(st.floats(0, 1)),
        "gae_lambda": draw(st.floats(0, 1)),
    }


def slow_targets(rollout, ratios=None):
    """V-trace with lambda by its definition: sums over future rows, no recursion. With ratios of 1 it is GAE."""
    r = rollout
    steps, slots = r["rewards"].shape
    ratios = np.ones((steps, slots)) if ratios is None else ratios
    advantages, returns = np.zeros((steps, slots)), np.zeros((steps, slots))

    def delta(t, n):
        if r["terminated"][t, n]:
            then = 0.0
        elif r["truncated"][t, n]:
            then = r["final_values"][t, n]
        else:
            then = r["values"][t + 1, n]
        return r["rewards"][t, n] + r["gamma"] * then - r["values"][t, n]

    def continues(t, n):
        if t + 1 == steps or r["terminated"][t, n] or r["truncated"][t, n]:
            return False
        return r["learned"][t, n] and r["learned"][t + 1, n]

    def correction(t, n):
        """What V-trace adds to the value at t."""
        total, weight, k = 0.0, 1.0, t
        while True:
            rho = min(1.0, ratios[k, n])
            total += weight * rho * delta(k, n)
            if not continues(k, n):
                return total
            weight *= r["gamma"] * r["gae_lambda"] * rho
            k += 1

    for t in range(steps):
        for n in range(slots):
            returns[t, n] = r["values"][t, n]
            if r["learned"][t, n]:
                ahead = r["gamma"] * r["gae_lambda"] * correction(t + 1, n) if continues(t, n) else 0.0
                advantages[t, n] = delta(t, n) + ahead
                returns[t, n] += correction(t, n)
    return advantages, returns


@given(rollouts())
def test_gae_matches_its_definition(rollout):
    advantages, returns = slow_targets(rollout)
    found = advantages_and_returns(**rollout)
    np.testing.assert_allclose(found.advantages, advantages, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.returns, returns, rtol=1e-4, atol=1e-3)


@given(rollouts(), st.data())
def test_vtrace_matches_its_definition(rollout, data):
    ratios = data.draw(arrays.arrays(np.float64, rollout["rewards"].shape, elements=st.floats(0, 3)))
    advantages, returns = slow_targets(rollout, ratios)
    found = advantages_and_returns(**rollout, ratios=ratios)
    np.testing.assert_allclose(found.advantages, advantages, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.returns, returns, rtol=1e-4, atol=1e-3)


@given(rollouts())
def test_vtrace_of_the_policy_that_acted_is_gae(rollout):
    plain, corrected = (
        advantages_and_returns(**rollout),
        advantages_and_returns(**rollout, ratios=np.ones(rollout["rewards"].shape)),
    )
    np.testing.assert_allclose(corrected.advantages, plain.advantages, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(corrected.returns, plain.returns, rtol=1e-4, atol=1e-4)


@given(rollouts(), st.data())
def test_rows_that_are_not_learned_from_do_not_affect_the_others(rollout, data):
    noise = data.draw(arrays.arrays(np.float64, rollout["rewards"].shape, elements=NUMBERS))
    other = {**rollout, "rewards": np.where(rollout["learned"], rollout["rewards"], noise)}
    np.testing.assert_array_equal(
        advantages_and_returns(**rollout).advantages, advantages_and_returns(**other).advantages
    )


@pytest.mark.parametrize(("ending", "worth"), [("terminated", 1.0), ("truncated", 1.0 + 0.5 * 7.0)])
def test_termination_bootstraps_zero_and_truncation_the_final_value(ending, worth):
    no = np.zeros((1, 1), np.bool_)
    flags = {"terminated": no, "truncated": no, ending: ~no}
    values = np.array([[0.0], [99.0]])  # the next observation is of another episode
    found = advantages_and_returns(
        np.ones((1, 1)), values, np.full((1, 1), 7.0), **flags, learned=~no, gamma=0.5, gae_lambda=0.9
    )
    assert found.returns.item() == pytest.approx(worth)


def test_explained_variance_is_one_for_perfect_values_and_zero_for_a_constant():
    returns = np.array([1.0, 2.0, 5.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(np.full(3, 2.0), returns) == pytest.approx(0.0)
    assert np.isnan(explained_variance(returns, np.ones(3)))
