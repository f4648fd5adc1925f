"""Ninelives's own trainer, learning a game with given settings, and telling how it went."""

from __future__ import annotations

import dataclasses
from typing import Any

from tasks import Settings
from tracks import Course

NO_LIMIT = 10**6


def ninelives(
    game: str, timesteps: int, settings: Settings, seed: int, *,
    evaluated: int = 100, chaos: bool = False, **options: Any,
) -> Course:  # fmt: skip
    """Learn with ``ninelives.train.train``; ``options`` are top-level settings of its configuration."""
    from ninelives.train import train

    course = Course()
    watchers = [watch(course), *([weather(course)] if chaos else [])]
    result = train(config(game, timesteps, settings, seed, **options), watchers)
    course.facts["weights"] = result.weights_sha256
    if evaluated:
        _evaluation(result.policy, game, seed, evaluated, course)
    return course


def without_memory(game: str, timesteps: int, settings: Settings, seed: int, **options: Any) -> Course:
    """The same, with a network that sees only the present."""
    return ninelives(game, timesteps, dataclasses.replace(settings, net="mlp"), seed, **options)


def config(game: str, timesteps: int, settings: Settings, seed: int, **options: Any) -> Any:
    """The configuration of a run."""
    from ninelives.train import NetConfig, PoolConfig, PpoConfig, TrainConfig

    n_envs, n_steps = settings.n_envs, settings.n_steps
    return TrainConfig(
        env="games:make",
        env_kwargs={"name": game},
        timesteps=timesteps,
        n_envs=n_envs,
        seed=seed,
        device="cpu",
        ppo=PpoConfig(
            learning_rate=settings.learning_rate,
            schedule="linear" if settings.anneal else "constant",
            n_steps=n_steps,
            epochs=settings.epochs,
            minibatches=_minibatches(settings),
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
            clip=settings.clip,
            entropy=settings.entropy,
            value=2 * settings.value,  # SB3's loss has no half in it
            max_grad_norm=settings.max_grad_norm,
        ),
        net=NetConfig(recurrent="lstm" if settings.net == "lstm" else "none", recurrent_size=64),
        # The same in quiet and under chaos: a hang is seen after a second, and no number of deaths ends the run.
        pool=PoolConfig(step_timeout_s=1.0, max_restarts=NO_LIMIT, max_restarts_per_slot=NO_LIMIT),
        **{"overlap": "off", **options},
    )


def _minibatches(settings: Settings) -> int:
    """A part of a rollout holds at least one whole sequence where there is a memory."""
    parts = settings.n_envs * settings.n_steps // settings.batch
    return min(parts, settings.n_envs) if settings.net == "lstm" else parts


def watch(course: Course) -> Any:
    """Notes the time of every update, and every episode. Rows that hold a reset are no steps, and are not counted."""
    from ninelives.train import Callback

    class Watch(Callback):
        def on_start(self, started: Any) -> None:
            course.facts.update(because=list(started.because), collect_s=[], learn_s=[], valid=[])
            self._seen, self._true = started.step, float(started.step)
            course.mark(started.step)

        def on_rollout(self, rollout: Any) -> None:
            course.facts["collect_s"].append(rollout.seconds)
            course.facts["valid"].append(rollout.valid_share)
            self._true += rollout.learned_share * (rollout.step - self._seen)
            self._seen = rollout.step

        def on_update(self, update: Any) -> None:
            course.facts["learn_s"].append(update.seconds)
            course.mark(round(self._true))

        def on_episode(self, episode: Any) -> None:
            course.episode(episode.step, episode.total)

    return Watch()


def weather(course: Course) -> Any:
    """Kills a random worker each second and stops one each minute, from the first rollout to the end."""
    import random
    import threading

    from ninelives.testing.kill_plan import inject
    from ninelives.train import Callback

    class Weather(Callback):
        def on_start(self, started: Any) -> None:
            self._pool, self._over, self._rng = started.pool, threading.Event(), random.Random(1)
            course.facts["murders"] = 0
            self._thread = threading.Thread(target=self._blow, daemon=True)
            self._thread.start()

        def on_end(self, result: Any) -> None:
            self._over.set()
            self._thread.join()

        def _blow(self) -> None:
            second = 0
            while not self._over.wait(1.0):
                second += 1
                pid = self._rng.choice(self._pool.worker_pids)
                if pid is not None and inject(pid, "hang" if second % 60 == 30 else "kill"):
                    course.facts["murders"] += 1

    return Weather()


def _evaluation(policy: Any, game: str, seed: int, episodes: int, course: Course) -> None:
    from ninelives import EnvSpec
    from ninelives.train.evaluate import evaluate

    env = EnvSpec("games:make", {"name": game})
    for greedy in (True, False):
        score = evaluate(policy, env, episodes=episodes, greedy=greedy, seed=seed + 10_000)
        course.evaluation["greedy" if greedy else "drawn"] = score.mean
