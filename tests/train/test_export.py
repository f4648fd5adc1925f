"""An exported policy needs no Ninelives and gives the same actions."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from missing import require_module
from ninelives.errors import CheckpointError, ConfigError, NinelivesError
from ninelives.train import NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig, export, train
from ninelives.train.policy.acting import ActingPolicy
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import ObsNormaliser
from ninelives.train.saving.checkpoint import Checkpoints

ROWS = 5
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
MIXED = spaces.Dict({"at": spaces.Discrete(4), "map": spaces.Box(0, 255, (16, 16, 1), np.uint8), "more": VECTOR})
BOUNDED = spaces.Box(np.array([-0.01, -np.inf]), np.array([0.01, np.inf]), dtype=np.float64)
LSTM = NetConfig(recurrent="lstm", recurrent_size=8)
PAIRS = {
    "discrete": (VECTOR, spaces.Discrete(3, start=-1), NetConfig()),
    "multi discrete": (VECTOR, spaces.MultiDiscrete([2, 3], start=[5, 0]), NetConfig()),
    "multi binary": (VECTOR, spaces.MultiBinary(4), NetConfig()),
    "box": (VECTOR, BOUNDED, NetConfig()),
    "image": (spaces.Box(0, 255, (40, 40, 2), np.uint8), spaces.Discrete(4), NetConfig()),
    "dict": (MIXED, spaces.Discrete(4), NetConfig()),
    "recurrent": (VECTOR, spaces.Discrete(3), LSTM),
    "all at once": (MIXED, BOUNDED, LSTM),
}
FULL = os.environ.get("NINELIVES_FULL") == "1"
IN_TORCHSCRIPT = tuple(PAIRS) if FULL else ("discrete", "multi discrete", "multi binary", "all at once")
IN_ONNX = tuple(PAIRS) if FULL else ("all at once",)
"""An export to ONNX takes seconds; "all at once" covers Box actions, images, a Dict, normalisation and an LSTM."""


def acting_policy(observation, action, net):
    generator = torch.Generator().manual_seed(3)
    policy = Policy(observation, action, net, generator)
    with torch.no_grad():  # the actions of an untrained actor would show nothing
        policy.actor[-1].weight.normal_(generator=generator)
    shapes = [(3,) if leaf is VECTOR else None for leaf in getattr(observation, "spaces", {"": observation}).values()]
    normaliser = ObsNormaliser(shapes, 1.5)
    rows = tuple(np.random.default_rng(1).normal(4, 2, (9, 3)) if shape else np.zeros((9, 1)) for shape in shapes)
    normaliser.learn(rows, np.ones(9, np.bool_))
    return ActingPolicy(policy, observation, action, normaliser)


def observations(space, count):
    """(inputs of a policy, inputs of an exported file)."""
    space.seed(7)
    some = [space.sample() for _ in range(count)]
    if isinstance(space, spaces.Dict):
        joined = {key: np.stack([one[key] for one in some]) for key in space.spaces}
        return joined, list(joined.values())
    joined = np.stack(some)
    return joined, [joined]


def run_script(path, given):
    with warnings.catch_warnings(action="ignore"):  # torch would rather have you use torch.export
        script = torch.jit.load(path)
    return [out.detach().numpy() for out in script(*map(torch.as_tensor, given))]


def run_onnx(path, given):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(path)
    return evaluator.run(None, dict(zip(evaluator.input_names, given, strict=True)))


WAYS = {"policy.pt": (export.to_torchscript, run_script), "policy.onnx": (export.to_onnx, run_onnx)}
CASES = [(name, case) for name in WAYS for case in (IN_TORCHSCRIPT if name == "policy.pt" else IN_ONNX)]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_it_gives_the_same_actions(name, case, tmp_path):
    if name == "policy.onnx":
        require_module("onnxscript")
    observation, action, net = PAIRS[case]
    policy, (write, run) = acting_policy(observation, action, net), WAYS[name]
    about, twin = write(policy, tmp_path / name), acting_policy(observation, action, net)
    policy.begin(ROWS, greedy=True, seed=0)
    twin.begin(ROWS, greedy=True, seed=0)
    state, starts = np.zeros((ROWS, 16), np.float32), np.ones(ROWS, np.bool_)
    for _ in range(3):
        obs, given = observations(observation, ROWS)
        expected = policy.actions(obs, starts)
        outputs = run(str(about.path), [*given, state, starts] if net.recurrent != "none" else given)
        assert outputs[0].dtype == expected.dtype
        assert np.allclose(outputs[0], expected, atol=1e-5)
        assert np.allclose(outputs[1], twin.params(obs, starts).detach(), atol=1e-5)
        state, starts = outputs[-1], np.arange(ROWS) % 2 == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_inputs_and_outputs_are_described(tmp_path):
    about = export.to_torchscript(acting_policy(MIXED, spaces.Discrete(4), LSTM), tmp_path / "policy.pt")
    assert about.inputs == ("obs.at", "obs.map", "obs.more", "state", "starts")
    assert about.outputs == ("action", "numbers", "next_state")
    assert about.shapes["obs.map"] == (16, 16, 1)
    assert about.shapes["state"] == (16,)


def test_a_checkpoint_is_exported_and_needs_no_ninelives(tmp_path):
    result = train(
        TrainConfig(
            env="CartPole-v1",
            timesteps=64,
            n_envs=2,
            overlap="off",
            run_dir=tmp_path / "run",
            ppo=PpoConfig(n_steps=16),
            normalise=NormaliseConfig(obs=True),
            pool=PoolConfig(workers=1),
        )
    )
    newest = Checkpoints(tmp_path / "run" / "checkpoints").newest()
    export.to_torchscript(newest, tmp_path / "policy.pt")
    code = (
        "import sys, torch\n"
        f"action, numbers = torch.jit.load({str(tmp_path / 'policy.pt')!r})(torch.linspace(-1, 1, 8).reshape(2, 4))\n"
        "print(*action.tolist(), 'ninelives' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    policy = result.policy
    policy.begin(2, greedy=True, seed=0)
    expected = policy.actions(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    assert done.stdout.split() == [*map(str, expected), "False"]


def test_a_file_that_is_not_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "x").write_text("hello")
    with pytest.raises(CheckpointError, match="not a checkpoint of Ninelives"):
        export.to_torchscript(tmp_path / "x", tmp_path / "policy.pt")


def test_a_missing_package_is_named_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ConfigError, match=r"needs the package onnx\w*, .*pip install 'ninelives\[onnx\]'"):
        export.to_onnx(acting_policy(*PAIRS["discrete"]), tmp_path / "policy.onnx")


def test_a_file_with_other_outputs_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.jit, "load", lambda path: lambda *given: (torch.zeros(64), torch.zeros(64, 3)))
    with pytest.raises(NinelivesError, match=r"policy\.pt was deleted: .* differs from the policy's by up to"):
        export.to_torchscript(acting_policy(*PAIRS["discrete"]), tmp_path / "policy.pt")
    assert not list(tmp_path.iterdir())
