"""Builds the ROMs from their sources: ``python roms/build.py [errand] [lantern] [--out FOLDER]``.

Needs Debian's gcc-arm-none-eabi for Rook's Errand and cc65 for Lantern. The same compiler gives the same bytes;
COMPILERS has the versions that built the committed ROMs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from errand import assets
from lantern import chars

HERE = Path(__file__).parent
DATA = HERE.parent / "src" / "ninelives" / "sims" / "games" / "data"
COMPILERS = {"errand": ("arm-none-eabi-gcc", "12.2.1"), "lantern": ("ca65", "2.18")}
"""The compiler of each game, and its version that built the committed ROM."""

C_FLAGS = (
    *("-mcpu=arm7tdmi", "-marm", "-O2", "-std=c11", "-ffreestanding", "-nostdlib"),
    *("-fno-common", "-fno-strict-aliasing"),
    *("-Wall", "-Wextra", "-Wconversion", "-Wno-missing-field-initializers", "-Werror"),
)
C_SOURCES = ("main", "blocks", "world", "rook", "movers", "draw", "hud", "sound", "memory")


def run(*command: str | Path) -> str:
    """Run a program and return its output; exit with its error output if it fails."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return result.stdout


def build_errand(out: Path) -> tuple[Path, dict[str, int]]:
    """Build ``errand.gba``; returns its path and the address of every variable of the game."""
    source, rom = HERE / "errand", out / "errand.gba"
    with tempfile.TemporaryDirectory() as folder:
        assets.write(Path(folder))
        elf, flags = (
            Path(folder) / "errand.elf",
            [*C_FLAGS, "-I", source, "-I", folder, f"-ffile-prefix-map={folder}=."],
        )
        parts = [source / f"{name}.c" for name in C_SOURCES]
        run("arm-none-eabi-gcc", *flags, "-T", source / "errand.ld", source / "crt0.s", *parts,
            Path(folder) / "assets.c", "-lgcc", "-o", elf)  # fmt: skip
        run("arm-none-eabi-objcopy", "-O", "binary", "-j", ".text", elf, rom)
        symbols = run("arm-none-eabi-nm", elf)
    rom.write_bytes(with_checksum(rom.read_bytes()))
    return rom, {name: int(address, 16) for address, _, name in map(str.split, symbols.splitlines())}


def with_checksum(rom: bytes) -> bytes:
    """Set the header's checksum and pad the ROM to full kilobytes."""
    data = bytearray(rom.ljust(-(-len(rom) // 1024) * 1024, b"\0"))
    data[0xBD] = -(sum(data[0xA0:0xBD]) + 0x19) & 0xFF
    return bytes(data)


def build_lantern(out: Path) -> tuple[Path, dict[str, int]]:
    """Build ``lantern.nes``; returns its path and the address of every variable of the game."""
    source, rom = HERE / "lantern", out / "lantern.nes"
    with tempfile.TemporaryDirectory() as folder:
        made, labels = Path(folder) / "lantern.o", Path(folder) / "labels"
        (Path(folder) / "lantern.chr").write_bytes(chars.compose())
        run("ca65", "-g", "--bin-include-dir", folder, source / "lantern.s", "-o", made)
        run("ld65", "-C", source / "nrom.cfg", "-Ln", labels, made, "-o", rom)
        lines = [line.split() for line in labels.read_text().splitlines()]
    return rom, {name.lstrip("."): int(address, 16) for _, address, name in lines}


BUILDERS = {"errand": build_errand, "lantern": build_lantern}


def main() -> None:
    """Build the given games, by default into the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="*", help=f"which: {', '.join(BUILDERS)}; all by default")
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--symbols", action="store_true", help="also write GAME.json: the address of every variable")
    asked = parser.parse_args()
    for game in asked.games or BUILDERS:
        if game not in BUILDERS:
            parser.error(f"there is no game {game!r}; there are {', '.join(BUILDERS)}")
        rom, symbols = BUILDERS[game](asked.out)
        if asked.symbols:
            (asked.out / f"{game}.json").write_text(json.dumps(symbols, indent=1))
        print(f"{rom}: {rom.stat().st_size} bytes")


if __name__ == "__main__":
    main()
