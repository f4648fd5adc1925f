"""A policy as one file that needs no Ninelives: TorchScript or ONNX, with its normaliser and its memory inside.

::

    inputs                             outputs
    one per leaf of the observation    action    the likeliest, as the environment wants it
    state    of a memory               numbers   logits, or means: mask or draw from them yourself
    starts   first row of an episode   state     of a memory, for the next call

Every file is read back and played beside the policy before it is handed out. Owns nothing but these files.
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
from ninelives.train.player import Player
from ninelives.train.policy.encoders import leaf_spaces, stored_dtype
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import Moments, ObsNormaliser
from ninelives.train.saving.checkpoint import load

ROWS = 3
"""Of the example that a file is made with; it takes any number of rows."""

COMPARED = 64
"""Rows of random observations that a file is compared with its policy on."""

Run = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True)
class Exported:
    """A file, and the names and shapes of what goes in and comes out; the first dimension is rows."""

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]


def to_torchscript(source: Player | str | Path, path: str | Path) -> Exported:
    """Write a policy, or that of a checkpoint, as TorchScript: for ``torch.jit.load`` in Python or C++.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        NinelivesError: what was written plays otherwise than the policy.
    """
    acting, path = Acting(_player(source)), Path(path)
    with _quiet_torch():
        script = torch.jit.trace(acting, tuple(acting.example(ROWS)))  # type: ignore[no-untyped-call]
        _put(path, lambda file: script.save(str(file)))
        _compare(acting, torch.jit.load(str(path)), path)  # type: ignore[no-untyped-call]
    return acting.about(path)


def to_onnx(source: Player | str | Path, path: str | Path) -> Exported:
    """Write a policy, or that of a checkpoint, as ONNX: for any runtime of it.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        ConfigError: the packages for it are not installed.
        NinelivesError: what was written plays otherwise than the policy.
    """
    try:
        import onnx.reference
        import onnxscript  # noqa: F401 - torch's exporter needs it, and says so less clearly
    except ImportError as missing:
        raise ConfigError(
            f"ONNX needs the package {missing.name}, which is not installed: pip install 'ninelives[onnx]', or export "
            "TorchScript instead"
        ) from missing
    acting, path = Acting(_player(source)), Path(path)
    rows = torch.export.Dim("rows")
    shapes = (tuple({0: rows} for _ in acting.inputs),)
    with _quiet_torch():
        program = torch.onnx.export(
            acting,
            tuple(acting.example(ROWS)),
            input_names=acting.inputs,
            output_names=acting.outputs,
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        _put(path, lambda file: program.save(str(file), external_data=False))
        evaluator = onnx.reference.ReferenceEvaluator(str(path))

    def run(*given: Tensor) -> Sequence[Tensor]:
        told = {name: value.numpy() for name, value in zip(acting.inputs, given, strict=True)}
        return [torch.as_tensor(out) for out in evaluator.run(None, told)]

    _compare(acting, run, path)
    return acting.about(path)


class Acting(nn.Module):
    """What a file holds: from observations as the environment gives them to actions as it wants them."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._policy = policy = player.policy.eval()
        self._leaves = [(_name(name), leaf) for name, leaf in leaf_spaces(player.observation_space)]
        self._types = [stored_dtype(leaf) for _, leaf in self._leaves]
        self._scales = nn.ModuleList(_scales(player.normaliser, len(self._leaves)))
        self._arrival = _Arrival(player.action_space, policy)
        memory = ["state", "starts"] if policy.memory is not None else []
        self.inputs = [name for name, _ in self._leaves] + memory
        self.outputs = ["action", "numbers", *(["next_state"] if memory else [])]

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Rows of every leaf, then the memory's state and where episodes start, if there is a memory."""
        count = len(self._leaves)
        leaves = tuple(
            scale(leaf).to(kind) for scale, leaf, kind in zip(self._scales, given[:count], self._types, strict=True)
        )
        if self._policy.memory is None:
            numbers = self._policy.actor(self._policy.features(leaves)[0])
            return self._arrival(self._policy.head.greedy(numbers)), numbers
        features, state = self._policy.features(leaves, given[count], given[count + 1])
        numbers = self._policy.actor(features)
        assert state is not None
        return self._arrival(self._policy.head.greedy(numbers)), numbers, state

    def example(self, rows: int, seed: int = 0) -> list[Tensor]:
        """Random observations, one tensor per leaf, and a memory's inputs."""
        found = []
        for number, (_, leaf) in enumerate(self._leaves):
            leaf.seed(seed + number)
            found.append(torch.as_tensor(np.stack([np.asarray(leaf.sample()) for _ in range(rows)])))
        state = self._policy.first_state(rows)
        if state is not None:
            found += [state + 0.1, torch.arange(rows) % 2 == 0]
        return found

    def about(self, path: Path) -> Exported:
        """What the file takes and gives."""
        with torch.inference_mode():
            given = self.example(ROWS)
            came = self(*given)
        named = zip((*self.inputs, *self.outputs), (*given, *came), strict=True)
        return Exported(
            path, tuple(self.inputs), tuple(self.outputs), {name: tuple(value.shape[1:]) for name, value in named}
        )


class _Scale(nn.Module):
    """The normaliser of one leaf, in the very arithmetic of the one it stands for."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, moments: Moments, clip: float | None) -> None:
        super().__init__()
        self._clip = clip
        self.register_buffer("mean", torch.as_tensor(moments.mean))
        self.register_buffer("deviation", torch.as_tensor(moments.deviation))

    def forward(self, leaf: Tensor) -> Tensor:
        """The leaf as the network wants it."""
        scaled = (leaf.double() - self.mean) / self.deviation
        return scaled if self._clip is None else scaled.clamp(-self._clip, self._clip)


class _Arrival(nn.Module):
    """What becomes of actions on their way to the environment (``Head.to_env``), as tensors."""

    start: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, space: spaces.Space[Any], policy: Policy) -> None:
        super().__init__()
        shape, to_env = (1, *policy.head.shape), policy.head.to_env
        self._is_box, self._dtype = isinstance(space, spaces.Box), torch.as_tensor(np.zeros(1, space.dtype)).dtype
        if self._is_box:  # infinity comes back as the bound, where there is one
            self.register_buffer("low", torch.as_tensor(to_env(np.full(shape, -np.inf, np.float32))))
            self.register_buffer("high", torch.as_tensor(to_env(np.full(shape, np.inf, np.float32))))
        else:
            self.register_buffer("start", torch.as_tensor(to_env(np.zeros(shape, np.int64))))

    def forward(self, action: Tensor) -> Tensor:
        """The action as the environment wants it."""
        if not self._is_box:
            return (action + self.start).to(self._dtype)
        return torch.minimum(torch.maximum(action.to(self._dtype), self.low), self.high)


def _player(source: Player | str | Path) -> Player:
    return source if isinstance(source, Player) else Player.of_state(load(source).state)


def _name(path: str) -> str:
    """Of an input: ``obs`` for the only leaf, else its way through the space."""
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
        yield _Scale(moments, state["clip"])


def _put(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside the target, then rename: nobody ever finds half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        write(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _compare(acting: Acting, run: Run, path: Path) -> None:
    given = acting.example(COMPARED, seed=1)
    with torch.inference_mode():
        wanted, got = acting(*given), run(*given)
    for name, ours, theirs in zip(acting.outputs, wanted, got, strict=True):
        if not torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-5):
            path.unlink()
            worst = float((ours.double() - theirs.double()).abs().max())
            raise NinelivesError(
                f"{path.name} was not kept: on {COMPARED} random observations its {name} differs from the policy's by "
                f"up to {worst:g}. Please report this with the observation and action space"
            )


@contextmanager
def _quiet_torch() -> Iterator[None]:
    """Torch's exporters warn about their own insides, and print their progress."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
