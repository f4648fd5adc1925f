"""Heads against torch's own distributions, masks, and the actions that reach the environment."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import Bernoulli, Categorical, Normal

from ninelives.errors import ConfigError
from ninelives.train.policy.heads import make_head

ROWS = 7


def params_of(head, seed=0):
    return torch.randn(ROWS, head.outputs, generator=torch.Generator().manual_seed(seed))


def drawn(head, params, seed=1):
    return head.sample(params, head.noise(params.shape[:-1], torch.Generator().manual_seed(seed)))


def as_torch(space, head, params):
    """Log-probability and entropy by torch.distributions."""
    if isinstance(space, spaces.Discrete):
        law = Categorical(logits=params)
        return lambda actions: (law.log_prob(actions), law.entropy())
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.reshape(-1)
        parts = params.view(ROWS, len(sizes), -1).unbind(1)
        laws = [Categorical(logits=part[..., :n]) for part, n in zip(parts, sizes, strict=True)]
        return lambda actions: (
            sum(law.log_prob(a) for law, a in zip(laws, actions.view(ROWS, -1).unbind(1), strict=True)),
            sum(law.entropy() for law in laws),
        )
    if isinstance(space, spaces.MultiBinary):
        law = Bernoulli(logits=params)
        return lambda actions: (law.log_prob(actions.view(ROWS, -1).float()).sum(-1), law.entropy().sum(-1))
    law = Normal(params, head.log_std.exp().expand_as(params))
    return lambda actions: (law.log_prob(actions.view(ROWS, -1)).sum(-1), law.entropy().sum(-1))


SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([3, 2, 5]),
    spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[1, 1], [0, -1]]),
    spaces.MultiBinary(6),
    spaces.MultiBinary([2, 3]),
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(-2, 2, (2, 2), np.float64),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_probabilities_are_those_of_torchs_distributions(space):
    head = make_head(space, log_std=-0.3)
    params = params_of(head)
    actions = drawn(head, params)
    log_probs, entropies = head.log_prob_and_entropy(params, actions)
    expected = as_torch(space, head, params)(actions)
    torch.testing.assert_close(log_probs, expected[0])
    torch.testing.assert_close(entropies, expected[1])
    torch.testing.assert_close(head.log_prob(params, actions), log_probs)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_action_fits_the_space(space):
    head = make_head(space, log_std=1.0)
    for actions in (drawn(head, params_of(head)), head.greedy(params_of(head))):
        for action in head.to_env(actions.detach().numpy()):
            wanted = action if isinstance(space, spaces.Discrete) else np.asarray(action)
            assert space.contains(wanted), wanted


def test_samples_follow_the_probabilities():
    head = make_head(spaces.Discrete(3))
    chances = torch.tensor([0.2, 0.5, 0.3])
    actions = drawn(head, chances.log().expand(20_000, 3))
    torch.testing.assert_close(torch.bincount(actions) / 20_000, chances, atol=0.015, rtol=0)
    buttons = make_head(spaces.MultiBinary(1))
    pressed = drawn(buttons, torch.logit(torch.tensor([0.8])).expand(20_000, 1))
    assert pressed.float().mean().item() == pytest.approx(0.8, abs=0.015)


def test_a_slots_action_does_not_depend_on_the_other_slots():
    head = make_head(spaces.Discrete(4))
    params, noise = params_of(head), head.noise((ROWS,), torch.Generator().manual_seed(3))
    alone = torch.cat([head.sample(params[i : i + 1], noise[i : i + 1]) for i in range(ROWS)])
    assert torch.equal(head.sample(params, noise), alone)


@pytest.mark.parametrize(
    ("space", "mask", "allowed"),
    [
        (spaces.Discrete(4), [0, 1, 0, 1], lambda a: a in (1, 3)),
        (spaces.MultiDiscrete([2, 3]), [1, 0, 0, 1, 1], lambda a: a[0] == 0 and a[1] in (1, 2)),
        (spaces.MultiBinary(3), [1, 0, 1], lambda a: a[1] == 0),
    ],
    ids=str,
)
def test_a_masked_action_is_never_taken_and_gets_no_gradient(space, mask, allowed):
    head = make_head(space)
    params = torch.zeros(500, head.outputs, requires_grad=True)
    masked = head.masked(params, torch.from_numpy(head.mask_row(np.array(mask, np.bool_))).expand(500, -1))
    actions = drawn(head, masked.detach())
    assert all(allowed(action) for action in actions.numpy())
    log_probs, entropies = head.log_prob_and_entropy(masked, actions)
    (log_probs + entropies).sum().backward()
    assert torch.isfinite(log_probs).all()
    assert torch.isfinite(entropies).all()
    assert torch.isfinite(params.grad).all()


def test_actions_are_clipped_only_if_configured():
    space = spaces.Box(-1, 1, (1,), np.float32)
    far = np.array([[9.0]], np.float32)
    assert make_head(space, clip=True).to_env(far).item() == 1.0
    assert make_head(space, clip=False).to_env(far).item() == 9.0


def test_an_unsupported_action_space_is_refused_with_those_allowed():
    with pytest.raises(ConfigError, match="Discrete, MultiDiscrete, MultiBinary and Box"):
        make_head(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]))
