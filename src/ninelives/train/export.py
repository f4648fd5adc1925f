"""A policy as one file that needs no Ninelives: TorchScript or ONNX, including normaliser and recurrent state.

::

    inputs                             outputs
    one per leaf of the observation    action      the most likely one, as the environment expects it
    state    of a recurrent network    numbers     logits or means, to mask or sample from yourself
    starts   first row of an episode   next_state  of a recurrent network, for the next call

Every file is read back and compared with the policy before it is returned. Must never change the policy.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ninelives.errors import ConfigError, NinelivesError
from ninelives.train.policy.acting import ActingPolicy
from ninelives.train.policy.encoders import leaf_spaces, stored_dtype
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import Moments, ObsNormaliser
from ninelives.train.saving.checkpoint import load

ROWS = 3
"""Rows of the example that is traced; the file accepts any number."""

COMPARED = 64
"""Random observations on which a file is compared with its policy."""

Run = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True)
class Exported:
    """A file, and the names and shapes of its inputs and outputs, without the first dimension, which is rows."""

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]


def to_torchscript(source: ActingPolicy | str | Path, path: str | Path) -> Exported:
    """Write a policy, or that of a checkpoint, as TorchScript, for ``torch.jit.load`` in Python or C++.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        NinelivesError: the written file gives other outputs than the policy.
    """
    module, path = PolicyModule(_acting_policy(source)), Path(path)
    with _quiet_torch():
        script = torch.jit.trace(module, tuple(module.example(ROWS)))  # type: ignore[no-untyped-call]
        _write_file(path, lambda file: script.save(str(file)))
        _compare(module, torch.jit.load(str(path)), path)  # type: ignore[no-untyped-call]
    return module.about(path)


def to_onnx(source: ActingPolicy | str | Path, path: str | Path) -> Exported:
    """Write a policy, or that of a checkpoint, as ONNX, for any ONNX runtime.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        ConfigError: onnx or onnxscript is not installed.
        NinelivesError: the written file gives other outputs than the policy.
    """
    try:
        import onnx.reference
        import onnxscript  # noqa: F401 - torch's exporter needs it, with a less helpful message
    except ImportError as missing:
        raise ConfigError(
            f"ONNX needs the package {missing.name}, which is not installed: pip install 'ninelives[onnx]', or export "
            "TorchScript instead"
        ) from missing
    module, path = PolicyModule(_acting_policy(source)), Path(path)
    rows = torch.export.Dim("rows")
    shapes = (tuple({0: rows} for _ in module.inputs),)
    with _quiet_torch():
        program = torch.onnx.export(
            module,
            tuple(module.example(ROWS)),
            input_names=module.inputs,
            output_names=module.outputs,
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        _write_file(path, lambda file: program.save(str(file), external_data=False))
        evaluator = onnx.reference.ReferenceEvaluator(str(path))

    def run(*given: Tensor) -> Sequence[Tensor]:
        named = {name: value.numpy() for name, value in zip(module.inputs, given, strict=True)}
        return [torch.as_tensor(out) for out in evaluator.run(None, named)]

    _compare(module, run, path)
    return module.about(path)


class PolicyModule(nn.Module):
    """What a file holds: from observations as the environment returns them to actions as it expects them."""

    def __init__(self, acting: ActingPolicy) -> None:
        super().__init__()
        self._policy = policy = acting.policy.eval()
        self._leaves = [(_name(name), leaf) for name, leaf in leaf_spaces(acting.observation_space)]
        self._types = [stored_dtype(leaf) for _, leaf in self._leaves]
        self._scales = nn.ModuleList(_scales(acting.normaliser, len(self._leaves)))
        self._to_env = _ToEnv(acting.action_space, policy)
        recurrent = ["state", "starts"] if policy.recurrent is not None else []
        self.inputs = [name for name, _ in self._leaves] + recurrent
        self.outputs = ["action", "numbers", *(["next_state"] if recurrent else [])]

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Takes rows of each leaf, then the state and the starts of episodes if the network is recurrent."""
        count = len(self._leaves)
        leaves = tuple(
            scale(leaf).to(kind) for scale, leaf, kind in zip(self._scales, given[:count], self._types, strict=True)
        )
        if self._policy.recurrent is None:
            numbers = self._policy.actor(self._policy.features(leaves)[0])
            return self._to_env(self._policy.head.greedy(numbers)), numbers
        features, state = self._policy.features(leaves, given[count], given[count + 1])
        numbers = self._policy.actor(features)
        assert state is not None
        return self._to_env(self._policy.head.greedy(numbers)), numbers, state

    def example(self, rows: int, seed: int = 0) -> list[Tensor]:
        """Random observations, one tensor per leaf, and the inputs of a recurrent network."""
        found = []
        for number, (_, leaf) in enumerate(self._leaves):
            leaf.seed(seed + number)
            found.append(torch.as_tensor(np.stack([np.asarray(leaf.sample()) for _ in range(rows)])))
        state = self._policy.first_state(rows)
        if state is not None:
            found += [state + 0.1, torch.arange(rows) % 2 == 0]
        return found

    def about(self, path: Path) -> Exported:
        """Names and shapes of the file's inputs and outputs."""
        with torch.inference_mode():
            given = self.example(ROWS)
            returned = self(*given)
        named = zip((*self.inputs, *self.outputs), (*given, *returned), strict=True)
        return Exported(
            path, tuple(self.inputs), tuple(self.outputs), {name: tuple(value.shape[1:]) for name, value in named}
        )


class _Normalise(nn.Module):
    """The normaliser of one leaf, with the same arithmetic as ``ObsNormaliser``."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, moments: Moments, clip: float | None) -> None:
        super().__init__()
        self._clip = clip
        self.register_buffer("mean", torch.as_tensor(moments.mean))
        self.register_buffer("deviation", torch.as_tensor(moments.deviation))

    def forward(self, leaf: Tensor) -> Tensor:
        """The normalised leaf."""
        scaled = (leaf.double() - self.mean) / self.deviation
        return scaled if self._clip is None else scaled.clamp(-self._clip, self._clip)


class _ToEnv(nn.Module):
    """``Head.to_env`` for tensors."""

    start: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, space: spaces.Space[Any], policy: Policy) -> None:
        super().__init__()
        shape, to_env = (1, *policy.head.shape), policy.head.to_env
        self._is_box, self._dtype = isinstance(space, spaces.Box), torch.as_tensor(np.zeros(1, space.dtype)).dtype
        if self._is_box:  # infinity is clipped to the bound, where there is one
            self.register_buffer("low", torch.as_tensor(to_env(np.full(shape, -np.inf, np.float32))))
            self.register_buffer("high", torch.as_tensor(to_env(np.full(shape, np.inf, np.float32))))
        else:
            self.register_buffer("start", torch.as_tensor(to_env(np.zeros(shape, np.int64))))

    def forward(self, action: Tensor) -> Tensor:
        """The action as the environment expects it."""
        if not self._is_box:
            return (action + self.start).to(self._dtype)
        return torch.minimum(torch.maximum(action.to(self._dtype), self.low), self.high)


def _acting_policy(source: ActingPolicy | str | Path) -> ActingPolicy:
    if isinstance(source, ActingPolicy):
        return source
    checkpoint = load(source)
    with checkpoint.understood():
        return ActingPolicy.of_state(checkpoint.state)


def _name(path: str) -> str:
    """Name of a leaf's input: ``obs`` for the only leaf, otherwise with its path in the space."""
    return "obs" if path == "." else "obs" + path.replace("/", ".")


def _scales(normaliser: ObsNormaliser | None, count: int) -> Iterator[nn.Module]:
    if normaliser is None:
        yield from (nn.Identity() for _ in range(count))
        return
    state = normaliser.state_dict()
    for saved in state["leaves"]:
        if saved is None:
            yield nn.Identity()
            continue
        moments = Moments(saved["mean"].shape)
        moments.load_state_dict(saved)
        yield _Normalise(moments, state["clip"])


def _write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside the target, then rename, so that no reader ever finds half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        write(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _compare(module: PolicyModule, run: Run, path: Path) -> None:
    given = module.example(COMPARED, seed=1)
    with torch.inference_mode():
        expected, actual = module(*given), run(*given)
    for name, ours, theirs in zip(module.outputs, expected, actual, strict=True):
        if not torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-5):
            path.unlink()
            worst = float((ours.double() - theirs.double()).abs().max())
            raise NinelivesError(
                f"{path.name} was deleted: on {COMPARED} random observations its {name} differs from the policy's by "
                f"up to {worst:g}. Please report this with the observation and action space"
            )


@contextmanager
def _quiet_torch() -> Iterator[None]:
    """Torch's exporters warn about their own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
