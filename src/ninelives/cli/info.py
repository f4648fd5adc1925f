"""``ninelives info``: versions, the active code path (native or Python), and the machine."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass

import ninelives


@dataclass(frozen=True)
class InfoCommand:
    """Show versions, whether the native code is active and why, and the machine's cores and memory.

    For example:
    $ ninelives info
    """

    def run(self) -> int:
        """Print the facts."""
        for name, fact in facts():
            print(f"{name:<10} {fact}")
        return 0


def facts() -> list[tuple[str, str]]:
    """Names and values for a bug report."""
    from ninelives import host
    from ninelives.native import native_status

    native = native_status()
    return [
        ("ninelives", ninelives.__version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("platform", platform.platform()),
        ("numpy", _version("numpy")),
        ("gymnasium", _version("gymnasium")),
        ("native", f"{'active' if native.active else 'not active'}: {native.reason}"),
        ("cores", str(host.cores())),
        ("memory", f"{host.free_bytes() / 1e9:.1f} GB free of {host.memory_limit_bytes() / 1e9:.1f} GB"),
    ]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
