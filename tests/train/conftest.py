"""One torch thread, and fast garbage collections, for all tests of the trainer."""

from __future__ import annotations

import gc

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _fast_collections():
    """The leak check may collect garbage after each test, and would walk all of torch's objects every time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks are small here: more threads would only wait for each other."""
    torch.set_num_threads(1)
