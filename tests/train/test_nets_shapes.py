"""Networks: every kind of space, weights from one generator, recurrent state reset exactly where episodes start."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ninelives.errors import ConfigError
from ninelives.train.config.classes import NetConfig
from ninelives.train.policy.encoders import Encoder, is_image, layout, stored_dtype
from ninelives.train.policy.nets import Policy

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
PICTURE = spaces.Box(0, 255, (40, 44, 3), np.uint8)


def made(space=VECTOR, seed=0, **net):
    return Policy(space, spaces.Discrete(3), NetConfig(**net), torch.Generator().manual_seed(seed))


def leaves(*parts, rows=5):
    return tuple(
        torch.as_tensor(np.stack([part.sample() for _ in range(rows)])).to(stored_dtype(part)) for part in parts
    )


@pytest.mark.parametrize("image", ["nature", "impala", "small", "flat"])
def test_every_encoder_outputs_its_features(image):
    encoder = Encoder(PICTURE, NetConfig(image=image, image_features=32))
    assert encoder(leaves(PICTURE)).shape == (5, 32 if image != "flat" else 40 * 44 * 3)


def test_leaves_of_every_kind_are_concatenated():
    parts = [PICTURE, VECTOR, spaces.Discrete(3, start=5), spaces.MultiDiscrete([2, 4]), spaces.MultiBinary(6)]
    space = spaces.Dict({"a": parts[0], "b": spaces.Tuple(parts[1:3]), "c": parts[3], "d": parts[4]})
    encoder = Encoder(space, NetConfig(image_features=10))
    features = encoder(leaves(*parts))
    assert features.shape == (5, 10 + 4 + 3 + 6 + 6)
    assert (features[:, 14:17].sum(1) == 1).all()


def test_an_unsupported_observation_is_refused_with_those_allowed():
    space = spaces.Dict({"say": spaces.Text(5)})
    with pytest.raises(ConfigError, match=r"/say.*Box, Discrete"):
        Encoder(space, NetConfig())


def test_an_image_too_small_for_nature_is_refused_with_alternatives():
    small = spaces.Box(0, 255, (10, 10, 3), np.uint8)
    with pytest.raises(ConfigError, match=r"10 x 10; use 'small' or 'impala'"):
        Encoder(small, NetConfig(image="nature"))
    assert Encoder(small, NetConfig())(leaves(small)).shape == (5, 512)


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((84, 84), (1, 84, 84)),
        ((4, 84, 80), (4, 84, 80)),
        ((84, 80, 3), (3, 84, 80)),
        ((4, 84, 80, 3), (12, 84, 80)),
        ((4, 3, 84, 80), (12, 84, 80)),
    ],
)
def test_channels_are_found_wherever_they_are(shape, image):
    order, *found = layout(shape)
    assert tuple(found) == image
    assert torch.zeros(2, *shape).permute(order).reshape(2, *image).shape == (2, *image)


def test_a_table_of_numbers_is_not_an_image():
    assert not is_image(spaces.Box(-1, 1, (4, 6), np.float32))
    assert is_image(spaces.Box(0, 255, (84, 84), np.uint8))


def test_equal_seeds_give_equal_weights_and_the_global_generator_is_not_touched():
    before = torch.random.get_rng_state()
    one, two, other = made(seed=1), made(seed=1), made(seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.actor[0].weight, other.actor[0].weight)


def test_initial_weights_are_orthogonal_with_the_gains_of_ppo():
    policy = made()
    for layer, gain in ((policy.critic[1], 2**0.5), (policy.actor[-1], 0.01), (policy.critic[-1], 1.0)):
        weight = layer.weight.detach()
        torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), atol=1e-5, rtol=0)
        assert not layer.bias.any()


def test_actor_and_critic_of_a_vector_share_nothing():
    policy = made()
    features, _ = policy.features(leaves(VECTOR))
    policy.values(features).sum().backward()
    assert all(parameter.grad is None for parameter in policy.actor.parameters())


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_sequence_equals_its_single_steps(kind):
    policy = made(recurrent=kind, recurrent_size=6)
    obs, starts = torch.randn(9, 3, 4), torch.rand(9, 3) < 0.3
    state = torch.randn(3, policy.recurrent.state_size)
    steps, at = [], state
    for now in range(9):
        out, at = policy.features((obs[now],), at, starts[now])
        steps.append(out)
    torch.testing.assert_close(policy.sequences((obs,), state, starts), torch.cat(steps))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_steps_before_an_episode_do_not_affect_it(kind):
    policy = made(recurrent=kind, recurrent_size=6)
    obs, starts = torch.randn(4, 2, 4), torch.tensor([[False] * 2, [False] * 2, [True, False], [False] * 2])
    one, two = (
        policy.sequences((obs,), state, starts).view(4, 2, -1)
        for state in torch.randn(2, 2, policy.recurrent.state_size)
    )
    assert torch.equal(one[2:, 0], two[2:, 0])
    assert not torch.equal(one[2:, 1], two[2:, 1])
