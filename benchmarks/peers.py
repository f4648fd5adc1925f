"""Stable-Baselines3 and CleanRL, each learning a game with given settings, and telling how it went.

Owns how peers are set up, through their public interfaces. CleanRL is a script, not a library: it is run as it is, from
a file that the user names, and only its SummaryWriter is ours, since that is where it says how far it is.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from games import Factory
from tasks import Settings
from tracks import Course


def sb3(
    game: str, timesteps: int, settings: Settings, seed: int, *,
    subproc: bool = False, threads: int = 0, evaluated: int = 100,
) -> Course:  # fmt: skip
    """Learn with Stable-Baselines3's PPO; the values its users get wherever ``settings`` has no word for it."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    if threads:
        torch.set_num_threads(threads)
    kind = SubprocVecEnv if subproc else DummyVecEnv
    env = make_vec_env(Factory(game), settings.n_envs, seed=seed, vec_env_cls=kind)
    course = Course()
    try:
        policy = "CnnPolicy" if settings.net == "cnn" else "MlpPolicy"
        model = PPO(policy, env, seed=seed, device="cpu", **_sb3_settings(settings))
        model.learn(timesteps, callback=_sb3_callback(course))
        if evaluated:
            _sb3_evaluation(model, game, seed, evaluated, course)
    finally:
        env.close()
    return course


def _sb3_settings(settings: Settings) -> dict[str, Any]:
    rate = settings.learning_rate
    return {
        "n_steps": settings.n_steps,
        "batch_size": settings.batch,
        "n_epochs": settings.epochs,
        "learning_rate": (lambda left: left * rate) if settings.anneal else rate,
        "gamma": settings.gamma,
        "gae_lambda": settings.gae_lambda,
        "clip_range": settings.clip,
        "ent_coef": settings.entropy,
        "vf_coef": settings.value,
        "max_grad_norm": settings.max_grad_norm,
    }


def _sb3_callback(course: Course) -> Any:
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        """Notes the time of every update, and every episode."""

        def _on_rollout_start(self) -> None:
            course.mark(self.num_timesteps)

        def _on_step(self) -> bool:
            for info in self.locals["infos"]:
                if "episode" in info:
                    course.episode(self.num_timesteps, float(info["episode"]["r"]))
            return True

        def _on_training_end(self) -> None:
            course.mark(self.num_timesteps)

    return Watch()


def _sb3_evaluation(model: Any, game: str, seed: int, episodes: int, course: Course) -> None:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    for greedy in (True, False):
        env = make_vec_env(Factory(game), 8, seed=seed + 10_000)
        try:
            mean, _ = evaluate_policy(model, env, episodes, deterministic=greedy)
        finally:
            env.close()
        course.evaluation["greedy" if greedy else "drawn"] = float(mean)


def cleanrl(
    game: str, timesteps: int, settings: Settings, seed: int, *, script: str, threads: int = 0, evaluated: int = 0
) -> Course:
    """Learn with CleanRL's ``ppo.py``, run as a program; it gives no policy to evaluate."""
    import runpy

    import torch

    if evaluated:
        raise ValueError("CleanRL's ppo.py keeps its policy to itself")
    if threads:
        torch.set_num_threads(threads)
    course = Course()
    before = sys.argv
    sys.argv = [script, *_cleanrl_flags(game, timesteps, settings, seed)]
    try:
        _listen(course)
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
    return course


def _cleanrl_flags(game: str, timesteps: int, settings: Settings, seed: int) -> list[str]:
    values = {
        "env-id": game, "total-timesteps": timesteps, "seed": seed, "num-envs": settings.n_envs,
        "num-steps": settings.n_steps, "num-minibatches": settings.n_envs * settings.n_steps // settings.batch,
        "update-epochs": settings.epochs, "learning-rate": settings.learning_rate, "gamma": settings.gamma,
        "gae-lambda": settings.gae_lambda, "clip-coef": settings.clip, "ent-coef": settings.entropy,
        "vf-coef": settings.value, "max-grad-norm": settings.max_grad_norm,
    }  # fmt: skip
    flags = [f"--{key}={value}" for key, value in values.items()]
    return [*flags, "--no-clip-vloss", "--no-cuda", "--anneal-lr" if settings.anneal else "--no-anneal-lr"]


def _listen(course: Course) -> None:
    """Stand in for tensorboard's writer: CleanRL tells it its step after every update."""

    class Listener:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            course.mark(0)

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            if tag == "charts/SPS":
                course.mark(step)
            elif tag == "charts/episodic_return":
                course.episode(step, float(value))

        def add_text(self, *args: Any) -> None:
            """Nobody reads it here."""

        def close(self) -> None:
            """Nothing was opened."""

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Listener  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
