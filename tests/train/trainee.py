"""A trainer in a process of its own that prints its progress, to be killed at any moment.

``python trainee.py RUN_DIR CONFIG_JSON [--resume] [--die-in CALL NUMBER]``: with ``--die-in`` it kills itself in the
NUMBER-th call of ``fsync`` or ``replace`` that a checkpoint makes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import ninelives.train.saving.checkpoint  # must be imported before arm() patches os
from ninelives.train import Callback, NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig, train

SECTIONS = {"ppo": PpoConfig, "net": NetConfig, "pool": PoolConfig, "normalise": NormaliseConfig}


class PrintUpdates(Callback):
    """Prints one line for each update."""

    def on_start(self, started):
        print("start", started.step, flush=True)

    def on_update(self, update):
        print("update", update.step, flush=True)


def config_of(plain, **more):
    """A configuration from plain values."""
    return TrainConfig(
        **{key: SECTIONS[key](**value) if key in SECTIONS else value for key, value in plain.items()}, **more
    )


def arm(call, number):
    """Make the ``number``-th call of this function of ``os`` in the checkpoint module kill this process."""
    original, count = getattr(os, call), 0

    def deadly(*args, **kwargs):
        nonlocal count
        if sys._getframe(1).f_code.co_filename == ninelives.train.saving.checkpoint.__file__:
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(os, call, deadly)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("config", type=json.loads)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--die-in", nargs=2)
    args = parser.parse_args()
    if args.die_in:
        arm(args.die_in[0], int(args.die_in[1]))
    resume = args.resume and args.run_dir.exists()
    result = train(config_of(args.config, run_dir=args.run_dir, resume=resume), [PrintUpdates()])
    print("end", result.weights_sha256, flush=True)


if __name__ == "__main__":
    main()
