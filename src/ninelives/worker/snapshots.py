"""Snapshots: the whole state of one environment stack as bytes, exactly, or a reason why not.

Owns the decision which stacks can be saved. It never guesses: a layer takes part by its own ``save_state`` and
``load_state``, or by standing in a table here; otherwise the stack is refused and the caller replays instead. Knows
nothing of processes, slots or files.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import gymnasium

from ninelives.worker.snapshot_layers import Atari, Attributes, Layer, OwnState, class_name, repeat_probability

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
"""State that only newer versions of a wrapper have: saved where it is."""

_REFUSED: dict[str, str] = {
    "rendering.HumanRendering": "it shows a window",
    "rendering.RecordVideo": "it writes a video",
    "rendering.RenderCollection": "it collects every frame",
    "transform_action.TransformAction": "its function may remember something",
    "transform_observation.TransformObservation": "its function may remember something",
    "transform_reward.TransformReward": "its function may remember something",
}
"""Gymnasium's wrappers that cannot take part, and why."""

_ATARI = "ale_py.env.AtariEnv"

_EXACT_GAMES = """
    adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist basic_math
    battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede chopper_command
    crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk earthworld elevator_action
    enduro entombed et fishing_derby flag_capture freeway frogger frostbite galaxian gopher gravitar hangman
    haunted_house hero human_cannonball ice_hockey jamesbond journey_escape kaboom kangaroo keystone_kapers
    king_kong klax koolaid krull kung_fu_master laser_gates lost_luggage mario_bros montezuma_revenge mr_do
    ms_pacman name_this_game othello pacman phoenix pitfall pong pooyan private_eye riverraid road_runner robotank
    seaquest sir_lancelot skiing solaris space_invaders space_war star_gunner superman surround tennis time_pilot
    trondead turmoil tutankham up_n_down venture video_chess video_cube video_pinball wizard_of_wor word_zapper
    zaxxon
"""
"""Games that went on exactly after each of some 270 loads, at any frame, with ale_py 0.12.1.

Of the others an emulator's clone lacks something: whether a frame is unfinished (qbert, tetris), what the game counts
(miniature_golf), a part of its clock (pitfall2), or pixels of the next frame (tic_tac_toe_3d,
video_checkers, yars_revenge).
"""

_MOST_STICKY = 0.95
"""Above this the held action of an emulator may be older than what is remembered of it."""


class Snapshotter:
    """Saves and loads the whole state of one environment stack, exactly, or refuses.

    Make it right after the environment: an Atari game with sticky actions is watched from then on.
    """

    def __init__(self, layers: list[Layer]) -> None:
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
        """Bring the stack to a saved state; it need not have been reset. ValueError if the state is another stack's."""
        states = self._unpack(state)
        for layer, saved in zip(reversed(self._layers), reversed(states), strict=True):
            layer.load(saved)

    def _unpack(self, state: bytes) -> list[Any]:
        try:
            version, stack, states = pickle.loads(state)
        except Exception as error:
            raise ValueError(f"this is no saved state of an environment: {type(error).__name__}: {error}") from error
        if version != _FORMAT:
            raise ValueError(f"the state has format {version}, this Ninelives reads {_FORMAT}; save it again")
        if stack != self._stack:
            theirs, ours = "\n  ".join(stack), "\n  ".join(self._stack)
            raise ValueError(f"the state was saved by another stack:\n  {theirs}\nthis one is:\n  {ours}")
        return list(states)


def why_not(env: Any) -> str:
    """Why this stack cannot be saved, naming the layer; empty if it can be."""
    return _walk(env)[1]


def is_exact_atari(env: Any) -> bool:
    """Whether this is an Atari game, without wrappers, that its emulator brings back exactly."""
    return class_name(env) == _ATARI and not _why_not_base(env)


def _walk(env: Any) -> tuple[list[Layer], str]:
    """From the outermost layer inwards, to the first one that answers for all below it."""
    layers: list[Layer] = []
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
        layers.append(Attributes(layer, _state_of(layer)))
        layer = layer.env
    if refusal := _why_not_base(layer):
        return [], refusal
    return [*layers, Atari(layer)], ""


def _why_not_wrapper(layer: Any) -> str:
    key = _key(layer)
    if key in _REFUSED:
        return f"{class_name(layer)} cannot take part: {_REFUSED[key]}"
    if key not in _STATE:
        return f"{class_name(layer)} is an unknown wrapper; it may take part by save_state() and load_state()"
    missing = [name for name in _STATE[key] if not hasattr(layer, name)]
    if missing:
        return f"{class_name(layer)} has no {missing[0]}: this version of Gymnasium is not known"
    return ""


def _state_of(layer: Any) -> tuple[str, ...]:
    key = _key(layer)
    return _STATE[key] + tuple(name for name in _STATE_SINCE.get(key, ()) if hasattr(layer, name))


def _key(layer: Any) -> str:
    """Where the layer stands in the tables; empty for a class that only has the name of one of Gymnasium's."""
    return class_name(layer).removeprefix("gymnasium.wrappers.") if _is_what_it_says(type(layer)) else ""


def _is_what_it_says(cls: type) -> bool:
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls


def _why_not_base(env: Any) -> str:
    name = class_name(env)
    if name != _ATARI or not _is_what_it_says(type(env)):
        return f"{name} has no save_state() and load_state()"
    if env._game not in _EXACT_GAMES.split():
        return f"{name} plays {env._game}, which the emulator does not bring back exactly"
    if env.sound_obs:
        return f"{name} observes sound, which is not in the emulator's state"
    if env.ale.getBool("color_averaging"):
        return f"{name} blends frames, which are not in the emulator's state"
    if repeat_probability(env) > _MOST_STICKY:
        return f"{name} repeats actions with a probability above {_MOST_STICKY}"
    return ""
