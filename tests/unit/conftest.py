"""Settings for tests without processes, and what several of them stand on."""

import numpy as np
import pytest
from exchange_twins import WORKER_OF, Exchange
from hypothesis import settings

# Times vary on a shared machine, so no deadline; no database, so that nothing is left beside the sources.
settings.register_profile("ninelives", deadline=None, database=None)
settings.load_profile("ninelives")


@pytest.fixture
def exchange():
    """The native side of the parent, over plain memory."""
    built = Exchange("native")
    yield built
    built.close()


@pytest.fixture
def sent_ns():
    """When each group was asked."""
    return np.zeros(len(WORKER_OF), np.int64)
