"""``ninelives cores``: lists the installed emulator cores and their abilities. Loads cores in other processes only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from ninelives.cli.reporting.verdict_table import say
from ninelives.errors import EmulatorError

if TYPE_CHECKING:
    from ninelives.sims.libretro.cores import FoundCore
    from ninelives.sims.libretro.emulator import Abilities
    from ninelives.sims.libretro.probe import CoreReport

AT_ONCE = 2
HEADINGS = ("core", "version", "files", "found by", "skipped frames", "cartridge save", "clock", "path")
MOST_KINDS = 5


@dataclass(frozen=True)
class CoresCommand:
    """List the installed libretro cores: version, file types, and abilities.

    For example:
    $ ninelives cores
    $ ninelives cores mgba
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[CORE ...]")] = ()
    """Only these cores: names such as mgba, or paths of core files."""

    def run(self) -> int:
        """Probe every core and print a table; exit code 1 if none works."""
        from ninelives.sims.libretro.cores import missing_core
        from ninelives.sims.libretro.probe import examine

        found = self._chosen()
        if not found:
            raise EmulatorError(missing_core(("mgba",), []))
        with ThreadPoolExecutor(AT_ONCE) as several:
            reports = list(several.map(lambda core: examine(core.path), found))
        _print_table([HEADINGS, *rows(found, reports)])
        for core, report in zip(found, reports, strict=True):
            if report.problem:
                say(f"{core.path}: {report.problem}", "[yellow]warning[/]")
        return 0 if any(report.info for report in reports) else 1

    def _chosen(self) -> list[FoundCore]:
        from ninelives.sims.libretro.cores import find_core, found_cores

        if not self.names:
            return found_cores()
        several = found_cores()
        wanted = [[core for core in several if core.name == name] or [find_core(name)] for name in self.names]
        return [core for cores in wanted for core in cores]


def rows(found: list[FoundCore], reports: list[CoreReport]) -> Iterator[tuple[str, ...]]:
    """One row per core, in search order."""
    seen: set[str] = set()
    for core, report in zip(found, reports, strict=True):
        name = f"({core.name})" if core.name in seen and core.source != "argument" else core.name
        seen.add(core.name)
        info = report.info
        kinds = info.extensions if info else ()
        files = " ".join(kinds[:MOST_KINDS]) + (" ..." if len(kinds) > MOST_KINDS else "")
        yield (name, info.version if info else "?", files, core.source, *_words(report.abilities), str(core.path))


def _words(abilities: Abilities | None) -> tuple[str, str, str]:
    if abilities is None:
        return "?", "?", "?"
    return (
        "not drawn" if abilities.skips_drawing else "drawn",
        {True: "in its state", False: "added to its state", None: "none"}[abilities.cartridge_in_state],
        {True: "counts frames", False: "the host's", None: "none"}[abilities.clock_pinned],
    )


def _print_table(lines: list[tuple[str, ...]]) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    for line in lines:
        say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    if any(line[0].startswith("(") for line in lines):
        say("(name): hidden by a core of the same name above; pass its path to use it")
