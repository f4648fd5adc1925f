"""Snapshots: the whole state of one environment stack as bytes, exactly, or a reason why not.

Owns the decision which stacks can be saved. It never guesses: a layer takes part by its own ``save_state`` and
``load_state``, by the table of Gymnasium's wrappers here, or by the support of its simulator; otherwise the stack is
refused and the caller replays instead. Knows nothing of processes, slots or files.
"""

from __future__ import annotations

import pickle
import time
from typing import Any

import gymnasium

from ninelives.spec.snapshots import SnapshotLayer, class_name, is_genuine
from ninelives.worker.support import support_for

_FORMAT = 2

_PROTOCOL = ("save_state", "load_state")

_STATE: dict[str, tuple[str, ...]] = {
    "array_conversion.ArrayConversion": (),
    "atari_preprocessing.AtariPreprocessing": ("obs_buffer", "lives", "game_over"),
    "common.Autoreset": ("autoreset",),
    "common.OrderEnforcing": ("_has_reset",),
    "common.PassiveEnvChecker": ("checked_reset", "checked_step", "checked_render"),
    "common.RecordEpisodeStatistics": (
        "episode_count",
        "episode_start_time",
        "episode_returns",
        "episode_lengths",
        "time_queue",
        "return_queue",
        "length_queue",
    ),
    "common.TimeLimit": ("_elapsed_steps",),
    "jax_to_numpy.JaxToNumpy": (),
    "jax_to_torch.JaxToTorch": (),
    "numpy_to_torch.NumpyToTorch": (),
    "rendering.AddWhiteNoise": (),
    "rendering.ObstructView": (),
    "stateful_action.RepeatAction": (),
    "stateful_action.StickyAction": ("last_action", "is_sticky_actions", "num_repeats", "repeats_taken"),
    "stateful_observation.DelayObservation": ("observation_queue",),
    "stateful_observation.FrameStackObservation": ("obs_queue", "padding_value"),
    "stateful_observation.MaxAndSkipObservation": ("_obs_buffer",),
    "stateful_observation.NormalizeObservation": ("obs_rms", "_update_running_mean"),
    "stateful_observation.TimeAwareObservation": ("timesteps",),
    "stateful_reward.NormalizeReward": ("return_rms", "discounted_reward", "_update_running_mean"),
    "transform_action.ClipAction": (),
    "transform_action.DiscretizeAction": (),
    "transform_action.RescaleAction": (),
    "transform_observation.AddRenderObservation": (),
    "transform_observation.DiscretizeObservation": (),
    "transform_observation.DtypeObservation": (),
    "transform_observation.FilterObservation": (),
    "transform_observation.FlattenObservation": (),
    "transform_observation.GrayscaleObservation": (),
    "transform_observation.RescaleObservation": (),
    "transform_observation.ReshapeObservation": (),
    "transform_observation.ResizeObservation": (),
    "transform_reward.ClipReward": (),
}
"""Gymnasium's wrappers, below ``gymnasium.wrappers``, and the attributes that decide what they will do next.

The rest of a wrapper is its construction, and buffers that are written before they are read.
"""

_STATE_SINCE: dict[str, tuple[str, ...]] = {
    "common.PassiveEnvChecker": ("checked_data_reuse", "_previous_data"),  # Gymnasium 1.4
}
"""State that only newer versions of a wrapper have: saved where it exists."""

_REFUSED: dict[str, str] = {
    "rendering.HumanRendering": "it shows a window",
    "rendering.RecordVideo": "it writes a video",
    "rendering.RenderCollection": "it collects every frame",
    "transform_action.TransformAction": "its function may remember something",
    "transform_observation.TransformObservation": "its function may remember something",
    "transform_reward.TransformReward": "its function may remember something",
}
"""Gymnasium's wrappers that cannot take part, and why."""

_CLOCK = "episode_start_time"
"""Of RecordEpisodeStatistics: a reading of this machine's clock; what is saved is the time since."""


class OwnState:
    """A layer that saves itself and everything below it."""

    def __init__(self, layer: Any) -> None:
        self.identity = class_name(layer)
        self._layer = layer

    def begin(self) -> None:
        """Nothing to prepare."""

    def save(self) -> bytes:
        """What ``save_state`` returns."""
        state = self._layer.save_state()
        if not isinstance(state, bytes):
            raise TypeError(f"{self.identity}.save_state() must return bytes, got {type(state).__name__}")
        return state

    def load(self, state: bytes) -> None:
        """Pass it to ``load_state``."""
        self._layer.load_state(state)


class WrapperState:
    """A wrapper of Gymnasium whose state is in known attributes."""

    def __init__(self, layer: Any, names: tuple[str, ...]) -> None:
        # With its arguments: a stack of four frames is not a stack of two.
        self.identity = f"{class_name(layer)} {getattr(layer, '_saved_kwargs', {})!r}"
        self._layer, self._names = layer, names

    def begin(self) -> None:
        """Nothing to prepare."""

    def save(self) -> dict[str, Any]:
        """The attributes' values; the caller's pickle makes the copies."""
        state = {name: getattr(self._layer, name) for name in self._names}
        if state.get(_CLOCK, -1) != -1:
            state[_CLOCK] = time.perf_counter() - state[_CLOCK]
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Set the attributes."""
        for name in self._names:
            is_running_clock = name == _CLOCK and state[name] != -1
            setattr(self._layer, name, time.perf_counter() - state[name] if is_running_clock else state[name])


class Snapshotter:
    """Saves and loads the whole state of one environment stack, exactly.

    Create it right after the environment: an Atari game with sticky actions is tracked from then on.
    """

    def __init__(self, layers: list[SnapshotLayer]) -> None:
        self._layers = layers
        self._stack = [layer.identity for layer in layers]
        for layer in layers:
            layer.begin()

    @classmethod
    def of(cls, env: Any) -> Snapshotter | None:
        """The snapshotter of this stack; None if it cannot be saved, and ``why_not`` says why."""
        layers, refusal = _walk(env)
        return None if refusal else cls(layers)

    def save(self) -> bytes:
        """Everything that decides what comes next. Raises what a layer's ``save_state`` raises."""
        return pickle.dumps((_FORMAT, self._stack, [layer.save() for layer in self._layers]), pickle.HIGHEST_PROTOCOL)

    def load(self, state: bytes) -> None:
        """Put the stack into a saved state; it need not have been reset. ValueError if another stack saved it."""
        states = self._unpack(state)
        for layer, saved in zip(reversed(self._layers), reversed(states), strict=True):
            layer.load(saved)

    def _unpack(self, state: bytes) -> list[Any]:
        try:
            version, stack, states = pickle.loads(state)
        except Exception as error:
            raise ValueError(f"not a saved state of an environment: {type(error).__name__}: {error}") from error
        if version != _FORMAT:
            raise ValueError(f"the state has format {version}, this Ninelives reads {_FORMAT}; save it again")
        if stack != self._stack:
            theirs, ours = "\n  ".join(stack), "\n  ".join(self._stack)
            raise ValueError(f"the state was saved by another stack:\n  {theirs}\nthis one is:\n  {ours}")
        return list(states)


def why_not(env: Any) -> str:
    """Why this stack cannot be saved, naming the layer; empty if it can be."""
    return _walk(env)[1]


def _walk(env: Any) -> tuple[list[SnapshotLayer], str]:
    """From the outermost layer inwards, to the first one that saves everything below it."""
    layers: list[SnapshotLayer] = []
    layer = env
    while True:
        offered = [name for name in _PROTOCOL if callable(getattr(type(layer), name, None))]
        if len(offered) == len(_PROTOCOL):
            return [*layers, OwnState(layer)], ""
        if offered:
            return [], f"{class_name(layer)} has {offered[0]}() but not both of save_state() and load_state()"
        if not isinstance(layer, gymnasium.Wrapper):
            break
        if refusal := _why_not_wrapper(layer):
            return [], refusal
        layers.append(WrapperState(layer, _state_of(layer)))
        layer = layer.env
    support = support_for(layer)
    if support is None:
        return [], f"{class_name(layer)} has no save_state() and load_state()"
    refusal = support.why_not(layer)
    return ([], refusal) if refusal else ([*layers, support.layer(layer)], "")


def _why_not_wrapper(layer: Any) -> str:
    key = _key(layer)
    if key in _REFUSED:
        return f"{class_name(layer)} cannot take part: {_REFUSED[key]}"
    if key not in _STATE:
        return f"{class_name(layer)} is an unknown wrapper; it may take part by save_state() and load_state()"
    missing = [name for name in _STATE[key] if not hasattr(layer, name)]
    if missing:
        return f"{class_name(layer)} has no {missing[0]}: unknown version of Gymnasium"
    return ""


def _state_of(layer: Any) -> tuple[str, ...]:
    key = _key(layer)
    return _STATE[key] + tuple(name for name in _STATE_SINCE.get(key, ()) if hasattr(layer, name))


def _key(layer: Any) -> str:
    """The layer's key in the tables; empty for a class that only has the name of one of Gymnasium's."""
    return class_name(layer).removeprefix("gymnasium.wrappers.") if is_genuine(type(layer)) else ""
