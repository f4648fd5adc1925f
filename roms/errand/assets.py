"""Converts the graphics and maps of Rook's Errand to C. Knows the console's graphics format."""

from __future__ import annotations

from pathlib import Path

from errand.maps import ERRAND, ITEMS, Map, World
from texts import sections

HERE = Path(__file__).parent

KINDS = ("FLOOR", "WALL", "WATER", "STONE", "DOOR", "ITEM", "PERCH", "HOLLOW", "WAY")
"""Kinds of cells, in the order of their numbers in the upper four bits."""

ICONS = ("none", "key", "ring", "spoon", "crown", "sun", "home", "note")
BIG = "ROKSEAND'"
Drawing = list[str]


def drawings(name: str, size: int) -> dict[str, Drawing]:
    """The drawings of a file by name; smaller ones are repeated to the given size."""
    found = {}
    for title, rows in sections(HERE / "art" / f"{name}.txt"):
        times = size // len(rows)
        found[title] = [row * times for row in rows] * times
        if any(len(row) != size for row in found[title]) or len(found[title]) != size:
            raise ValueError(f"{name}.txt: {title} is not {size} x {size}")
    return found


class Palette:
    """Letters and their colours."""

    def __init__(self) -> None:
        rows = [line.split() for line in (HERE / "art" / "palette.txt").read_text().splitlines() if line[0] != ";"]
        self.letters = "".join(row[0] for row in rows)
        self.colours = [sum((int(part) >> 3) << 5 * i for i, part in enumerate(row[1:])) for row in rows]

    def tile(self, drawing: Drawing, x: int = 0, y: int = 0) -> tuple[int, ...]:
        """Eight words of eight pixels of four bits, in the console's format."""
        rows = [drawing[y + j][x : x + 8] for j in range(8)]
        return tuple(sum(self.letters.index(letter) << 4 * i for i, letter in enumerate(row)) for row in rows)

    def quarters(self, drawing: Drawing) -> list[tuple[int, ...]]:
        """A drawing of 16 x 16 pixels as four tiles."""
        return [self.tile(drawing, x, y) for y in (0, 8) for x in (0, 8)]


def turned(drawing: Drawing, quarter_turns: int) -> Drawing:
    """The drawing rotated clockwise."""
    for _ in range(quarter_turns):
        drawing = ["".join(column) for column in zip(*drawing[::-1], strict=True)]
    return drawing


class Tiles:
    """Tiles of the background, each kept once, and squares of four on the ground and four of what stands on it."""

    def __init__(self, palette: Palette) -> None:
        self.palette, self.art = palette, drawings("tiles", 16)
        water = palette.quarters(self.art["water"])
        self.tiles: list[tuple[int, ...]] = [(0,) * 8, *water]
        self.squares: list[tuple[int, ...]] = [(1, 2, 3, 4, 0, 0, 0, 0)]
        self.names = ["water"]

    def square(self, ground: str, name: str = "", drawing: Drawing | None = None) -> int:
        """The number of the square with this ground and this drawing on it."""
        full_name = f"{name} on {ground}" if name else ground
        if full_name not in self.names:
            self.names.append(full_name)
            below = (1, 2, 3, 4) if ground == "water" else self._tiles(self.art[ground])
            self.squares.append((*below, *(self._tiles(drawing) if drawing else (0, 0, 0, 0))))
        return self.names.index(full_name)

    def _tiles(self, drawing: Drawing) -> tuple[int, ...]:
        return tuple(self._tile(tile) for tile in self.palette.quarters(drawing))

    def _tile(self, tile: tuple[int, ...]) -> int:
        # The first five are taken: water's tiles change while the game runs, and nothing else may change with them.
        if not any(tile):
            return 0
        if tile not in self.tiles[5:]:
            self.tiles.append(tile)
        return self.tiles.index(tile, 5)

    def cell(self, world: Map, x: int, y: int) -> int:
        """A cell in the game's format: square, whether it blocks a rook (bit 10), kind (bits 12 to 15)."""
        mark = world.rows[y][x]
        if mark == "#":
            return self.on(world.floor, world.wall) | 1 << 10 | KINDS.index("WALL") << 12
        if mark == "~":
            return 1 << 10 | KINDS.index("WATER") << 12
        if mark in "Oo":
            return self.on("water", "stone~") | KINDS.index("STONE" if mark == "o" else "FLOOR") << 12
        if mark == "D":
            return self.on(world.floor, "door+") | 1 << 10 | KINDS.index("DOOR") << 12
        if mark in "abcd":
            side = world.side((x, y))
            arrow = turned(self.art["way+"], (1, 3, 2, 0)[side])
            return self.square(world.floor, f"way{side}+", arrow) | KINDS.index("WAY") << 12
        names = {"P": ("perch+", "PERCH"), "H": ("hollow+", "HOLLOW")}
        names |= {letter: (f"{item}+", "ITEM") for letter, item in ITEMS.items()}
        if mark in names:
            return self.on(world.floor, names[mark][0]) | KINDS.index(names[mark][1]) << 12
        growing = mark == "," and f"{world.floor}," in self.art
        return self.square(f"{world.floor}," if growing else world.floor)

    def on(self, ground: str, name: str) -> int:
        """The number of the square with a drawing of the file on its ground."""
        return self.square(ground, name, self.art[name])


FLIPS = {"7": 0, "9": 1 << 10, "1": 1 << 11, "3": 3 << 10}
"""How the console mirrors the one corner of a cloud that is drawn, by the place of the corner."""


def sky(palette: Palette, first: int) -> tuple[list[tuple[int, ...]], list[int]]:
    """The tiles of the clouds' shadows, the first of which gets the number ``first``, and the layer made of them."""
    art = dict(sections(HERE / "art" / "clouds.txt"))
    full, corner = palette.tile(art["full"]), palette.tile(art["corner"])
    marks = {".": 0, "#": first, **{mark: first + 1 | flips for mark, flips in FLIPS.items()}}
    return [full, corner], [marks[mark] for row in art["sky"] for mark in row]


def letters() -> dict[str, Drawing]:
    """Glyphs of 8 x 8 pixels by character: white ink on black."""
    found = {" ": ["k" * 8] * 8}
    for characters, rows in sections(HERE / "art" / "font.txt"):
        for number, character in enumerate(characters):
            glyph = [row.split()[number].replace("#", "w").replace(".", "k") for row in rows]
            found[character] = ["k" * 8] + [f"k{row}kk" for row in glyph]
    return found


def doubled(drawing: Drawing) -> Drawing:
    """The drawing at twice its size."""
    return ["".join(letter * 2 for letter in row).replace("w", "y") for row in drawing for _ in range(2)]


def table(kind: str, name: str, values: list[int] | list[str]) -> str:
    """A constant array in C."""
    lines = [", ".join(map(str, values[i : i + 12])) for i in range(0, len(values), 12)]
    return f"const {kind} {name}[{len(values)}] = {{\n  " + ",\n  ".join(lines) + "\n};\n"


def compose() -> tuple[str, str]:
    """The header and the source of everything drawn."""
    palette, world = Palette(), World()
    tiles, glyphs, sprites = Tiles(palette), letters(), drawings("sprites", 16)
    maps = [_map(world, index, tiles) for index in range(len(world.maps))]
    stones = [tiles.on("water", name) for name in ("stone~", "wet~", "gone~")]
    signs = [palette.tile(glyphs.get(chr(code), glyphs[" "])) for code in range(32, 91)]
    signs += [palette.tile(drawing) for drawing in (drawings("icons", 8)[name] for name in ICONS)]
    signs += [tile for letter in BIG for tile in palette.quarters(doubled(glyphs[letter]))]
    shadows, layer = sky(palette, len(tiles.tiles))
    tiles.tiles += shadows
    source = ['#include "assets.h"\n', table("u16", "kPalette", palette.colours)]
    source += [table("u32", "kTiles", [word for tile in tiles.tiles for word in tile])]
    source += [table("u32", "kWater2", [w for tile in palette.quarters(tiles.art["water2"]) for w in tile])]
    source += [table("u16", "kSky", layer)]
    source += [table("u16", "kSquares", [tile for square in tiles.squares for tile in square])]
    source += [table("u32", "kSigns", [word for tile in signs for word in tile])]
    drawn = [word for drawing in sprites.values() for tile in palette.quarters(drawing) for word in tile]
    source += [table("u32", "kSprites", drawn), *(text for text, _ in maps)]
    source += [table("Map", "kMaps", [entry for _, entry in maps]), _routes(world)]
    start = world.maps[0].find("@")[0]
    numbers = {
        "MAPS": len(maps), "START_X": start[0], "START_Y": start[1], "OBJECTIVES": len(ERRAND),
        "TILES": len(tiles.tiles), "SQUARES": len(tiles.squares), "SIGNS": len(signs), "SPRITES": len(sprites),
        "STONE_DRY": stones[0], "STONE_WET": stones[1], "STONE_GONE": stones[2],
        "ICON": 59, "LARGE": 59 + len(ICONS),
        **{f"KIND_{kind}": number for number, kind in enumerate(KINDS)},
        **{f"SPRITE_{name.upper()}": number for number, name in enumerate(sprites)},
    }  # fmt: skip
    defines = "\n".join(f"#define {name} {value}" for name, value in numbers.items())
    header = (HERE / "assets.h.in").read_text().replace("@NUMBERS@", defines)
    return header.replace("@BIG@", BIG), "\n".join(source)


def _map(world: World, index: int, tiles: Tiles) -> tuple[str, str]:
    here = world.maps[index]
    cells = [tiles.cell(here, x, y) for y in range(here.height) for x in range(here.width)]
    ways = [f"{{{p[0]}, {p[1]}, {to}, {a[0]}, {a[1]}, {side}}}" for p, to, a, side in world.ways(index)]
    items = [f"{{{p[0]}, {p[1]}, {1 << bit}}}" for bit, letter in enumerate(ITEMS) for p in here.find(letter)]
    movers = [f"{{{p[0]}, {p[1]}, {kind}}}" for kind, letter in enumerate("FCW") for p in here.find(letter)]
    text = table("u16", f"kCells{index}", cells) + table("Way", f"kWays{index}", ways)
    text += table("Item", f"kItems{index}", items or ["{0, 0, 0}"])
    text += table("Spawn", f"kSpawns{index}", movers or ["{0, 0, 0}"])
    names = [f"kCells{index}", f"kWays{index}", f"kItems{index}", f"kSpawns{index}"]
    counts = [here.width, here.height, tiles.square(here.floor), len(ways), len(items), len(movers)]
    return text, f'{{"{here.name}", {", ".join(names)}, {", ".join(map(str, counts))}}}'


def _routes(world: World) -> str:
    entries = []
    for number, objective in enumerate(ERRAND):
        for index in range(len(world.maps)):
            target = world.targets(index, objective)[0]
            here = bool(world.maps[index].find(objective))
            goal = next(i for i, other in enumerate(world.maps) if other.find(objective))
            through = 255 if here else world.next_map(index, goal)
            entries.append(f"{{{through}, {target[0]}, {target[1]}, {world.rest(index, ERRAND[number:])}}}")
    return table("Route", "kRoutes", entries)


def write(folder: Path) -> None:
    """Write ``assets.h`` and ``assets.c`` into a directory."""
    header, source = compose()
    (folder / "assets.h").write_text(header)
    (folder / "assets.c").write_text(source)
