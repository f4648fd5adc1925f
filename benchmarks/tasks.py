"""What is learned: which game, for how long, with which settings. Pure data, the same for every system.

Settings of CartPole are those of rl-baselines3-zoo, tuned there for Stable-Baselines3 (but for the clip range, which
stays as it is here): what is good for the peer is what both get. With its settings of LunarLander either system hovers
at a mean return of about 145 on most seeds; those here were the better of two that were tried, with Ninelives.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """PPO's settings, in words that every system has. ``batch`` is the size of a minibatch, in steps.

    Attributes:
        net: ``mlp`` is two layers of 64 with tanh, apart for policy and value; ``cnn`` is the Nature CNN, shared;
            ``lstm`` the former with a memory between its layers and its heads.
    """

    n_envs: int = 8
    n_steps: int = 128
    batch: int = 256
    epochs: int = 4
    learning_rate: float = 2.5e-4
    anneal: bool = False
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    max_grad_norm: float = 0.5
    net: str = "mlp"


@dataclass(frozen=True)
class Task:
    """A game with everything needed to learn it.

    Attributes:
        name: on the command line and in the results.
        title: in the results.
        game: a name of ``games.make``.
        timesteps: environment steps.
        seeds: how many runs, seeded 0, 1, 2 and so on.
        goal: the mean return that counts as learned.
        systems: who learns it.
        settings: of PPO.
        is_slow: run only when it is asked for by name.
    """

    name: str
    title: str
    game: str
    timesteps: int
    seeds: int
    goal: float
    systems: tuple[str, ...] = ("ninelives", "sb3")
    settings: Settings = field(default_factory=Settings)
    is_slow: bool = False


TASKS = (
    Task(
        "cartpole", "CartPole-v1", "CartPole-v1", 150_000, 5, 490.0,
        settings=Settings(
            n_steps=32, batch=256, epochs=20, learning_rate=1e-3, anneal=True, gamma=0.98, gae_lambda=0.8,
            entropy=0.0,
        ),
    ),
    Task(
        "lunarlander", "LunarLander-v3", "LunarLander-v3", 600_000, 3, 200.0,
        settings=Settings(
            n_steps=512, batch=128, epochs=10, learning_rate=5e-4, anneal=True, gamma=0.995, gae_lambda=0.97,
            entropy=0.005,
        ),
        is_slow=True,
    ),
    Task(
        "catch", "Catch: 40x40x2 pixels, Nature CNN", "catch", 200_000, 3, 3.5,
        settings=Settings(n_steps=64, learning_rate=1e-3, anneal=True, gamma=0.95, gae_lambda=0.9, net="cnn"),
    ),
    Task(
        "recall", "Recall: name a cue that was shown 2 to 8 steps ago", "recall", 100_000, 3, 0.95,
        systems=("ninelives", "ninelives_blind", "sb3"),
        settings=Settings(n_steps=64, batch=128, learning_rate=1e-3, gamma=0.95, net="lstm"),
    ),
)  # fmt: skip

LABELS = {
    "ninelives": "Ninelives",
    "ninelives_blind": "Ninelives without memory",
    "sb3": "SB3 PPO",
    "sb3_subproc": "SB3 PPO, SubprocVecEnv",
    "cleanrl": "CleanRL ppo.py",
}
