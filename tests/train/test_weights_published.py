"""Weights as one vector, and published to readers: never torn, without waiting."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch import nn

from ninelives.train.policy.weights import FlatWeights, PublishedWeights


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def test_a_step_on_the_vector_is_a_step_on_the_network():
    flat, plain = network(), network()
    weights = FlatWeights(flat)
    rows = torch.randn(4, 3)
    for net, parameters in ((flat, [weights.values]), (plain, plain.parameters())):
        optimiser = torch.optim.Adam(parameters, 0.1)
        for _ in range(3):
            optimiser.zero_grad(set_to_none=False)
            net(rows).square().sum().backward()
            optimiser.step()
    for one, two in zip(flat.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, two)


def test_loading_weights_keeps_them_in_the_vector():
    net = network()
    weights = FlatWeights(net)
    net.load_state_dict(network(seed=1).state_dict())
    assert torch.equal(weights.values[:15].detach(), network(seed=1)[0].weight.reshape(-1).detach())


def test_readers_get_the_newest_version():
    published, into = PublishedWeights(3), np.zeros(3, np.float32)
    with pytest.raises(LookupError):
        published.read(into)
    for number in range(1, 5):
        assert published.publish(np.full(3, number, np.float32)) == number
        assert published.read(into) == number
        assert into.tolist() == [number] * 3


def test_the_vector_can_live_in_shared_memory():
    memory = bytearray(PublishedWeights.nbytes(4))
    PublishedWeights(4, memory).publish(np.arange(4, dtype=np.float32))
    into = np.zeros(4, np.float32)
    assert PublishedWeights(4, memory).read(into) == 1
    assert into.tolist() == [0, 1, 2, 3]


def test_a_reader_never_sees_a_mixture_of_two_versions():
    size, rounds = 50_000, 300
    published, torn, done = PublishedWeights(size), [], threading.Event()
    published.publish(np.full(size, 1, np.float32))

    def read():
        into, last = np.zeros(size, np.float32), 0
        while not done.is_set():
            version = published.read(into)
            if into[0] != version or (into != into[0]).any() or version < last:
                torn.append((last, version, into.min(), into.max()))
            last = version

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(2, rounds):
        published.publish(np.full(size, number, np.float32))
    done.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert published.version == rounds - 1
