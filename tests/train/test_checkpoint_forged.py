"""A forged checkpoint, whose hash is right, gives a ``CheckpointError`` or the right values, whatever it holds."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import random
import shutil

import pytest

from ninelives.cli.main import main
from ninelives.errors import CheckpointError
from ninelives.pool.recovery.checkpoint import PoolState
from ninelives.train import NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig, train
from ninelives.train.export import to_torchscript
from ninelives.train.saving import checkpoint, container, resume
from ninelives.train.saving.checkpoint import Checkpoints

FILES = 3000 if os.environ.get("NINELIVES_FULL") == "1" else 300
ODD = [
    None, True, -1, 2**70, float("nan"), "", "Box", [], {}, [[]], ["map"], ["map", [[[], 1]]], ["bytes", -1],
    ["bytes", 2**62], ["array", "O", [1], 8], ["array", "<f4", [-1], 0], ["tensor", "float32", [2**40], 0],
    ["tensor", "load", [0], 0],
]  # fmt: skip
CONFIG = TrainConfig(
    env="CartPole-v1",
    timesteps=32,
    n_envs=2,
    device="cpu",
    threads=1,
    overlap="off",
    checkpoint_every=32,
    ppo=PpoConfig(n_steps=16, epochs=1, minibatches=1),
    net=NetConfig(hidden=(4,)),
    normalise=NormaliseConfig(obs=True, reward=True),
    pool=PoolConfig(workers=1),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("forged") / "run"
    train(dataclasses.replace(CONFIG, run_dir=run_dir))
    return run_dir


@pytest.fixture
def run_dir(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def only(run_dir):
    return Checkpoints(run_dir / "checkpoints").newest()


def opened(path):
    metadata, tree, blobs = container._parts(path)
    return json.loads(metadata), json.loads(tree), blobs


def sign(path, metadata, tree, blobs):
    """Write the parts with the hash that belongs to them; ``metadata`` and ``tree`` are JSON, or bytes."""
    parts = [part if isinstance(part, bytes) else container._json(part) for part in (metadata, tree, blobs)]
    head = container._HEAD.pack(container.MAGIC, container.FORMAT)
    path.write_bytes(head + container._REST.pack(*map(len, parts), container._sha256(parts).digest()) + b"".join(parts))


def places(node):
    """Every container in a JSON tree that can be mutated."""
    if isinstance(node, list | dict) and node:
        yield node
        for item in node.values() if isinstance(node, dict) else node:
            yield from places(item)


def mutate(tree, rng):
    node = rng.choice(list(places(tree)))
    at = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
    if rng.random() < 0.3:
        del node[at]
    elif isinstance(node, list) and rng.random() < 0.2:
        rng.shuffle(node)
    else:
        node[at] = copy.deepcopy(rng.choice(ODD))


def test_every_mutated_checkpoint_is_read_or_refused(run_dir, tmp_path):
    rng, refused = random.Random(5), 0
    path = only(run_dir)
    metadata, tree, blobs = opened(path)
    for _ in range(FILES):
        forged = copy.deepcopy([metadata, tree])
        mutate(forged[rng.random() < 0.8], rng)
        sign(path, *forged, blobs)
        for use in (checkpoint.load, checkpoint.weights_sha256, lambda path: to_torchscript(path, tmp_path / "policy")):
            try:
                use(path)
            except CheckpointError as error:
                assert str(path) in str(error)  # noqa: PT017
                refused += 1
    assert refused > FILES / 2


@pytest.mark.parametrize("depth", [1_000, 200_000])
@pytest.mark.parametrize("part", [0, 1])
def test_deep_nesting_is_refused(run_dir, depth, part):
    path = only(run_dir)
    parts = list(opened(path))
    parts[part] = b'["list",[' * depth + b"]]" * depth
    sign(path, *parts)
    with pytest.raises(CheckpointError, match="is damaged: its SHA-256 is right, but"):
        checkpoint.load(path)


def test_resume_previous_passes_over_forged_ones(run_dir):
    good = only(run_dir)
    parts = opened(good)
    forged = [good.with_name(f"step-{step:012d}.ckpt") for step in (50, 60)]
    sign(forged[0], [], *parts[1:])
    sign(forged[1], parts[0], ["map", []], b"")
    found = resume.chosen(Checkpoints(good.parent), previous=True)
    assert found.path == good
    assert sorted(path.name for path in good.parent.glob("*.damaged")) == [f"{path.name}.damaged" for path in forged]


def changed(value, keys, new):
    """The tree with the value at these keys replaced."""
    key, *rest = keys
    return {**value, key: changed(value[key], rest, new) if rest else new}


WRONG = {
    "weights": (("weights",), {}),
    "a weight": (("weights",), {"x": "text"}),
    "learner": (("learner",), None),
    "generator": (("learner", "shuffle"), b"abc"),
    "version": (("learner", "version"), "new"),
    "rows": (("collector", "obs"), [[1.0, 2.0]]),
    "flags": (("collector", "ended"), None),
    "statistics": (
        ("collector", "normaliser"),
        {"leaves": [{"count": 3, "mean": [1.0], "squares": [1.0]}], "clip": None},
    ),
    "returns": (("progress", "returns"), ["a", {}]),
    "overlap": (("overlap",), "maybe"),
}


@pytest.mark.parametrize(("keys", "new"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("how", ["resume", "resume_previous"])
def test_a_state_of_other_values_is_refused_at_the_resume(run_dir, keys, new, how):
    found = checkpoint.load(only(run_dir))
    Checkpoints(found.path.parent).write(
        changed(found.state, keys, new), step=found.step, config=found.config, pool=found.pool()
    )
    with pytest.raises(CheckpointError, match=r"the checkpoint's weights do not fit|is damaged: its SHA-256 is right"):
        train(dataclasses.replace(CONFIG, run_dir=run_dir, timesteps=64, **{how: True}))
    assert only(run_dir) == found.path


class Lost:
    """Cannot be unpickled."""

    def __reduce__(self):
        return int, ("x",)


@pytest.mark.parametrize("pool", [3, PoolState((1, 2), "next_step", True), Lost()])
def test_a_pool_of_other_values_is_refused_at_the_resume(run_dir, pool):
    found = checkpoint.load(only(run_dir))
    Checkpoints(found.path.parent).write(found.state, step=found.step, config=found.config, pool=pool)
    with pytest.raises(CheckpointError):
        train(dataclasses.replace(CONFIG, run_dir=run_dir, timesteps=64, resume=True))


@pytest.mark.parametrize("config", [{}, {"n_envs": "x"}, {"env": 3, "ppo": 1, "n_envs": 2}])
def test_a_configuration_of_other_values_is_refused_in_words(run_dir, config, capsys):
    found = checkpoint.load(only(run_dir))
    Checkpoints(found.path.parent).write(found.state, step=found.step, config=config, pool=pickle.loads(found._pool))
    assert main(["test", str(run_dir)]) != 0
    assert "Traceback" not in capsys.readouterr().err
