"""The maps of Rook's Errand, and the number of hops left of the whole errand from each place. Knows no graphics."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from texts import sections

HERE = Path(__file__).parent
ITEMS = {"K": "key", "1": "ring", "2": "spoon", "3": "crown"}
ERRAND = "K123H"
"""The objectives in order; the last is home."""

STEPS = ((0, 1), (0, -1), (-1, 0), (1, 0))
"""Down, up, left, right: the order in which the game numbers them."""

Place = tuple[int, int]


class Map:
    """One map as text."""

    def __init__(self, title: str, rows: list[str]) -> None:
        self.name, self.wall, self.floor = title.split()
        self.rows, self.width, self.height = rows, len(rows[0]), len(rows)
        if any(len(row) != self.width for row in rows):
            raise ValueError(f"{self.name}: all rows must be as long as the first")

    def find(self, letter: str) -> list[Place]:
        """The places of a character, row by row."""
        return [(x, y) for y, row in enumerate(self.rows) for x, mark in enumerate(row) if mark == letter]

    def side(self, place: Place) -> int:
        """The side of the map at which an exit is, as an index of STEPS."""
        x, y = place
        return [y == self.height - 1, y == 0, x == 0, x == self.width - 1].index(True)

    def distances(self, targets: list[Place]) -> dict[Place, int]:
        """Distance to the nearest target over all cells that a rook with a key can enter, without passing an exit."""
        seen, queue = dict.fromkeys(targets, 0), deque(targets)
        while queue:
            x, y = queue.popleft()
            for dx, dy in STEPS:
                place = (x + dx, y + dy)
                if not (0 <= place[0] < self.width and 0 <= place[1] < self.height) or place in seen:
                    continue
                if self.rows[place[1]][place[0]] not in "#~abcd":
                    seen[place] = seen[x, y] + 1
                    queue.append(place)
        return seen


class World:
    """All maps, their exits, and the distances left of the errand."""

    def __init__(self) -> None:
        self.maps = [Map(title, rows) for title, rows in sections(HERE / "maps.txt")]

    def ways(self, index: int) -> Iterator[tuple[Place, int, Place, int]]:
        """Every exit of a map: its place, the next map, the place of arrival and the direction there."""
        here = self.maps[index]
        for letter in "abcd":
            for number, place in enumerate(here.find(letter)):
                there = next(i for i, other in enumerate(self.maps) if i != index and other.find(letter))
                twin = self.maps[there].find(letter)[number]
                dx, dy = STEPS[self.maps[there].side(twin)]
                yield place, there, (twin[0] - dx, twin[1] - dy), here.side(place)

    def next_map(self, index: int, goal: int) -> int:
        """The neighbouring map on the path to the goal; the maps form a tree."""
        came_from, queue = {goal: goal}, deque([goal])
        while index not in came_from:
            at = queue.popleft()
            for _, there, _, _ in self.ways(at):
                if there not in came_from:
                    came_from[there] = at
                    queue.append(there)
        return came_from[index]

    def targets(self, index: int, objective: str) -> list[Place]:
        """The target cells of a map: the objective, or the exits that lead to it."""
        goal = next(i for i, other in enumerate(self.maps) if other.find(objective))
        if goal == index:
            return self.maps[index].find(objective)
        return [place for place, there, _, _ in self.ways(index) if there == self.next_map(index, goal)]

    def rest(self, index: int, errand: str) -> int:
        """Hops left of the errand after reaching the first target of this map."""
        target, objective = self.targets(index, errand[0])[0], errand[0]
        if self.maps[index].find(objective):
            return self.left(index, target, errand[1:]) if errand[1:] else 0
        there, arrival = next((there, arrival) for place, there, arrival, _ in self.ways(index) if place == target)
        return self.left(there, arrival, errand)

    def left(self, index: int, place: Place, errand: str) -> int:
        """Hops left of the errand from a place."""
        return self.maps[index].distances(self.targets(index, errand[0]))[place] + self.rest(index, errand)
