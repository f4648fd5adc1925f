"""A scripted player for Rook's Errand that reads the game's memory. Shows that the game can be won.

It follows the game's own trail of hops, crosses stones only while all of them are dry, avoids enemies, and caws when it
cannot. It does not play perfectly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.sims.emulators.memory_map import Ram
from ninelives.sims.games.errand import ACTIONS, HOP, MAP, MODES, MOVERS, TRAIL

STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
FREE, STONE = (0, 5, 6, 7), 3
FOX = 0
TIDE, GONE_AT, TIDE_OF_CELL = 288, 228, 24
"""Ticks of a sinking stone's cycle, of its dry part, and between neighbours."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Mover:
    """A fox, a cat or an owl."""

    x: int
    y: int
    dx: int
    dy: int
    kind: int

    def threatens(self, place: Place) -> bool:
        """Whether it can reach this place within two hops."""
        x, y = place[0] - self.x, place[1] - self.y
        if self.kind == FOX:
            return y == 0 and -1 <= x * self.dx <= 3
        return abs(x) + abs(y) <= 2

    def distance(self, place: Place) -> int:
        """Distance to a place in hops."""
        return abs(place[0] - self.x) + abs(place[1] - self.y)


class Guide:
    """Chooses actions for an environment of ``ninelives.sims.games.errand.make``."""

    def __init__(self, env: Any) -> None:
        self._env = env.unwrapped
        self._memory = self._env.machine.memory

    def action(self) -> int:
        """The next action."""
        return ACTIONS.index(self._choose(self._env.ram))

    def _choose(self, ram: Ram) -> str:
        if ram["mode"] != MODES.index("play"):
            return "noop"
        self._cells, self._trail = self._grid(MAP + 8, ram) >> 12, self._grid(TRAIL, ram)
        self._movers = list(self._seen(ram))
        here = (int(ram["x"]), int(ram["y"]))
        onwards = [name for name in STEPS if self._trail[_to(here, name)[::-1]] < self._trail[here[::-1]]]
        for name in onwards:
            if self._is_safe(_to(here, name), ram) and self._holds(here, name, int(ram["tide"])):
                return name
        return self._avoid(here, ram) if self._is_threatened(here) else "noop"

    def _grid(self, address: int, ram: Ram) -> npt.NDArray[np.uint16]:
        shape = (int(ram["height"]), int(ram["width"]))
        cells: npt.NDArray[np.uint16] = self._memory.view(address, 2 * shape[0] * shape[1]).view("<u2")
        return cells.reshape(shape)

    def _seen(self, ram: Ram) -> Iterator[Mover]:
        count = int(self._memory.view(MOVERS + 64, 4).view("<u4")[0])
        for x, y, heading, rest in ram["movers"][:count].tolist():
            dx, dy = np.array([heading], np.int16).view(np.int8).tolist()
            yield Mover(x, y, dx, dy, rest & 0xFF)

    def _is_safe(self, place: Place, ram: Ram) -> bool:
        if ram["freeze"] > 2 * HOP:
            return all(mover.distance(place) > 1 for mover in self._movers)
        return not self._is_threatened(place)

    def _is_threatened(self, place: Place) -> bool:
        return any(mover.threatens(place) for mover in self._movers)

    def _holds(self, here: Place, name: str, tide: int) -> bool:
        """Whether every stone up to the next solid ground is dry from when the rook lands until it leaves."""
        place, landing = _to(here, name), tide + HOP
        while self._cells[place[::-1]] == STONE:
            age = (landing + sum(place) * TIDE_OF_CELL) % TIDE
            if age + HOP + 2 >= GONE_AT or age < 2:
                return False
            place, landing = self._downhill(place), landing + HOP
        return True

    def _downhill(self, place: Place) -> Place:
        return min((_to(place, name) for name in STEPS), key=lambda one: self._trail[one[::-1]])

    def _avoid(self, here: Place, ram: Ram) -> str:
        """Go to a free neighbour that is not threatened, else caw, else go to the one farthest from the enemies."""
        free = [name for name in STEPS if self._cells[_to(here, name)[::-1]] in FREE]
        safe = [name for name in free if not self._is_threatened(_to(here, name))]
        if safe:
            return safe[0]
        if not ram["caw_pause"]:
            return "a"
        return max(free, key=lambda name: min(mover.distance(_to(here, name)) for mover in self._movers))


def _to(place: Place, name: str) -> Place:
    return place[0] + STEPS[name][0], place[1] + STEPS[name][1]
