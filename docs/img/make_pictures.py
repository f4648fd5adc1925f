"""Makes the pictures of the documentation by running Ninelives: python docs/img/make_pictures.py [games] [training].

``games.gif`` shows eight slots of one pool, ``panel.svg`` and ``curve.png`` come from one training run in which a
worker is killed half way. It takes about three minutes on two cores.
"""

import io
import os
import re
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np

import ninelives
from ninelives.sims.games.guide import Guide
from ninelives.sims.games.lantern import ACTIONS

HERE = Path(__file__).parent
NO_FONT_FROM_THE_NETWORK = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
LIKING = np.array([6.0 if "right" in action else 0.3 for action in ACTIONS])
HABITS = LIKING / LIKING.sum()
"""How likely each button combination is in Lantern: mostly to the right, often jumping."""


class Player(gymnasium.Wrapper):
    """A game that plays itself: slots 0 to 3 Rook's Errand by its guide, the others Lantern by running and jumping."""

    def __init__(self):
        self.slot = ninelives.current_slot().slot
        name = "ninelives/Errand-v0" if self.slot < 4 else "ninelives/Lantern-v0"
        goal = {"goal": "errand"} if self.slot < 4 else {"goal": "coast"}
        super().__init__(gymnasium.make(name, sticky=0.05, render_mode="rgb_array", **goal))
        self.action_space = gymnasium.spaces.Discrete(1)
        self.guide = Guide(self.env) if self.slot < 4 else None

    def step(self, action):
        return self.env.step(self.guide.action() if self.guide else int(self.np_random.choice(len(ACTIONS), p=HABITS)))


def games(frames=72, skip=60):
    """Eight games at once, as a GIF."""
    from PIL import Image

    with ninelives.Pool(Player, num_envs=8, workers=2) as pool:
        pool.reset(seed=3)
        for _ in range(skip):
            pool.step(np.zeros(8, dtype=np.int64))
        sheets = []
        for _ in range(frames):
            pool.step(np.zeros(8, dtype=np.int64))
            tiles = [
                Image.fromarray(picture).resize((180, 120), Image.Resampling.BOX) for picture in pool.call("render")
            ]
            sheet = Image.new("RGB", (4 * 184, 2 * 124), "white")
            for number, tile in enumerate(tiles):
                sheet.paste(tile, (number % 4 * 184 + 2, number // 4 * 124 + 2))
            sheets.append(sheet.quantize(48, dither=Image.Dither.NONE))
    sheets[0].save(HERE / "games.gif", save_all=True, append_images=sheets[1:], duration=120, loop=0, optimize=True)


def training(seconds=75.0):
    """One run on Rook's Errand: the panel as it stands near the end, and the curve of the whole."""
    from ninelives.cli.demo import ERRAND
    from ninelives.cli.reporting.display import Display
    from ninelives.train import Callback, StopTraining, train
    from ninelives.view.plot import write_curve
    from ninelives.view.pool_panel import event_line
    from ninelives.view.progress import ProgressView
    from ninelives.view.train_panel import heal_line

    class Watch(Callback):
        def __init__(self, view):
            self.view, self.episodes, self.means, self.lines, self.killed_at = view, [], [], [], None

        def on_start(self, started):
            self.pool, self.step, self.started_s = started.pool, 0, time.monotonic()

        def on_event(self, event):
            self.lines += filter(None, [event_line(event, self.view.model.pool) or heal_line(event)])

        def on_episode(self, episode):
            self.episodes.append((self.step, episode.total))

        def on_rollout(self, rollout):
            self.step = rollout.step
            if rollout.mean_return is not None:
                self.means.append((rollout.step, rollout.mean_return))
            passed_s = time.monotonic() - self.started_s
            if self.killed_at is None and passed_s > seconds / 2:
                self.killed_at = rollout.step
                os.kill(self.pool.worker_pids[0], signal.SIGKILL)
            if passed_s > seconds:
                raise StopTraining

    view = ProgressView(stream=io.StringIO(), live=False)
    watch = Watch(view)
    train(ERRAND, [Display(view, visualize=False, seconds=seconds), watch])
    save_panel(view, watch.lines)
    marks = [(watch.killed_at, "a worker is killed")]
    write_curve(HERE / "curve.png", watch.episodes, watch.means, "ninelives/Errand-ram-v0, 16 environments", marks)


def save_panel(view, lines):
    """As SVG, in the fonts that the reader has."""
    from rich.console import Console

    from ninelives.view.train_panel import panel

    console = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    console.print(panel(view.model, time.monotonic(), lines[-4:]))
    svg = console.export_svg(title="ninelives train")
    (HERE / "panel.svg").write_text(NO_FONT_FROM_THE_NETWORK.sub("", svg).replace("Fira Code", "monospace"))


if __name__ == "__main__":
    for part in sys.argv[1:] or ["games", "training"]:
        {"games": games, "training": training}[part]()
