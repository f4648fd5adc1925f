"""``make soak``: a million steps of eight emulated games in a pool; fails if their memory grows.

Memory is what the workers have for themselves (private pages), looked at after every hundredth of the run. Growth is
from the end of the warm-up, the first tenth, to the last look, per slot.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import ninelives
from procfs import private_mb

SLOTS = 8
LOOKS, WARM_LOOKS = 100, 10
MOST_MB = 1.0


def main() -> int:
    args = _arguments()
    began = time.monotonic()
    with ninelives.Pool(args.env, SLOTS, workers=args.workers) as pool:
        sizes = _soak(pool, max(args.steps // SLOTS // LOOKS, 1), began)
        faults = pool.metrics().faults
    growth = (sizes[-1] - sizes[WARM_LOOKS]) / SLOTS
    verdict = "flat" if growth < MOST_MB else "GROWS"
    print(f"{args.env}, {SLOTS} slots on {args.workers} workers, {faults} faults")
    print(f"{growth:+.3f} MB a slot after warm-up: {verdict}")
    return int(growth >= MOST_MB)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="ninelives/Errand-v0", help="a Gymnasium id (default ninelives/Errand-v0)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of all slots together (default 1,000,000)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    return parser.parse_args()


def _soak(pool: ninelives.Pool, batches: int, began: float) -> list[float]:
    draw, sizes = np.random.default_rng(0), []
    pool.reset(seed=0)
    for look in range(LOOKS):
        for _ in range(batches):
            pool.step(draw.integers(0, pool.action_space.n, SLOTS))
        sizes.append(private_mb([pid for pid in pool.worker_pids if pid is not None]))
        rate = (look + 1) * batches * SLOTS / (time.monotonic() - began)
        print(f"{look + 1:3d} % {sizes[-1]:8.2f} MB {rate:8.0f} steps/s", flush=True)
    return sizes


if __name__ == "__main__":
    sys.exit(main())
