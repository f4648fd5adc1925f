"""The run that nothing disturbed, to compare the others with."""

from __future__ import annotations

import pytest
from scenes import film, pool_of

from rookery.testing import CountingEnv


@pytest.fixture(scope="session")
def undisturbed():
    with pool_of(CountingEnv, start_method="fork") as pool:
        return film(pool)


@pytest.fixture(params=["fork", "forkserver"])
def method(request):
    """The quick start methods; spawn has tests of its own."""
    return request.param
