"""The digest that a row leaves behind is the one that its replay makes: else nothing could ever be healed."""

import numpy as np
import pytest
from gymnasium import spaces
from loop_twins import ON, TWINS, Worker, scripted

from ninelives.worker.fingerprint import Fingerprint, flags_of

SPACES = {
    "four floats": spaces.Box(-np.inf, np.inf, (4,), np.float32),
    "two doubles": spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "sixteen bytes": spaces.Box(0, 255, (4, 4), np.uint8),
    "five floats": spaces.Box(-np.inf, np.inf, (5,), np.float32),
    "many floats": spaces.Box(-np.inf, np.inf, (100,), np.float32),
    "a picture": spaces.Box(0, 255, (84, 84), np.uint8),
    "parts": spaces.Dict({"a": spaces.Box(0, 255, (9,), np.uint8), "b": spaces.Discrete(7)}),
}


@pytest.fixture
def twin(request, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "1" if request.param == "native" else "0")
    return request.param


@pytest.mark.parametrize("twin", TWINS, indirect=True)
@pytest.mark.parametrize("name", SPACES)
def test_a_row_has_the_digest_that_its_replay_makes(twin, name, tmp_path):
    space = SPACES[name]
    space.seed(3)
    rewards, flags = [0.0, -1.5, 1e300, 2.0], [ON, ON, (False, True), (True, True)]
    rows = [(space.sample(), reward, *ended, {}) for reward, ended in zip(rewards, flags, strict=True)]
    make, _ = scripted([(space.sample(), {})], rows)
    with Worker(twin, tmp_path, [make] * 3, observation=space, heals=True) as worker:
        fingerprint = Fingerprint(1, worker.control, worker.data)
        worker.reset()
        digests = []
        for obs, reward, terminated, truncated, _ in rows:
            worker.control.ended[:] = 0
            worker.step()
            left = int(worker.control.digest[1])
            assert left == fingerprint.digest_of(obs, reward, flags_of(terminated, truncated), "nan")
            digests.append(left)
        assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("twin", TWINS, indirect=True)
def test_every_part_of_a_row_is_in_its_digest(twin, tmp_path):
    """Values, the reward and each flag: whichever is another, the digest is another."""
    space, zeros = SPACES["four floats"], np.zeros(4, np.float32)
    others = [np.eye(4, dtype=np.float32)[k] for k in range(4)]
    rows = [(zeros, 0.0, False, False), *((obs, 0.0, False, False) for obs in others)]
    rows += [(zeros, 1.0, False, False), (zeros, 0.0, True, False), (zeros, 0.0, False, True)]
    make, _ = scripted([(zeros, {})], [(*row, {}) for row in rows])
    with Worker(twin, tmp_path, [make], observation=space, heals=True) as worker:
        worker.reset()
        digests = set()
        for _ in rows:
            worker.control.ended[:] = 0
            worker.step()
            digests.add(int(worker.control.digest[0]))
        assert len(digests) == len(rows)


@pytest.mark.parametrize("twin", TWINS, indirect=True)
@pytest.mark.parametrize("size", [1, 16, 17, 255, 256, 1025, 84 * 84 * 4, 210 * 160 * 3])
def test_every_byte_of_every_row_is_in_its_digest(twin, tmp_path, size):
    """Rows of any size are digested whole, at every step: one other byte anywhere gives another digest."""
    random = np.random.default_rng(size)
    row = random.integers(0, 255, size, np.uint8)
    places = {0, size - 1, *random.integers(0, size, 30).tolist()}
    rows = [row, *(np.where(np.arange(size) == place, row + 1, row) for place in places), row]
    make, _ = scripted([(row, {})], [(obs, 0.0, *ON, {}) for obs in rows])
    with Worker(twin, tmp_path, [make], observation=spaces.Box(0, 255, (size,), np.uint8), heals=True) as worker:
        worker.reset()
        digests = [worker.step() and int(worker.control.digest[0]) for _ in rows]
    assert digests[0] == digests[-1]
    assert len(set(digests)) == len(places) + 1
