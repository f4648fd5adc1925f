"""Builds the native modules; every other setting lives in pyproject.toml.

All are optional: without a C compiler (or with ``NINELIVES_NATIVE=0`` at run time) Python does the same, more slowly.
"""

import sys

import numpy
from setuptools import Extension, setup

HEADERS = [
    "src/ninelives/transport/bell.h",
    "src/ninelives/transport/bytes.h",
    "src/ninelives/worker/digest.h",
    "src/ninelives/pool/slot_numbers.h",
]


def native(name: str, source: str, optimized: str = "-O2") -> Extension:
    """An extension that may fail to build without failing the installation."""
    return Extension(
        name,
        [source],
        depends=HEADERS,
        include_dirs=["src/ninelives/transport", "src/ninelives/pool", numpy.get_include()],
        # Two operations made into one round once instead of twice: sums must be the same on every processor.
        extra_compile_args=[optimized, "-ffp-contract=off"],
        optional=True,
    )


setup(
    ext_modules=[
        native("ninelives.transport._exchange", "src/ninelives/transport/_exchange.c"),
        native("ninelives.worker._loop", "src/ninelives/worker/_loop.c"),
        native("ninelives.worker._infos", "src/ninelives/worker/_infos.c"),
        native("ninelives.worker._digest", "src/ninelives/worker/_digest.c"),
        native("ninelives.worker._stack", "src/ninelives/worker/_stack.c"),
        native("ninelives.pool.data._batch", "src/ninelives/pool/data/_batch.c"),
        native("ninelives.pool.recovery._recorder", "src/ninelives/pool/recovery/_recorder.c"),
        native("ninelives.sims.emulators._resize", "src/ninelives/sims/emulators/_resize.c", "-O3"),
        native("ninelives.sims.emulators._sparse", "src/ninelives/sims/emulators/_sparse.c"),
        native("ninelives.sims.libretro._frames", "src/ninelives/sims/libretro/_frames.c"),
    ]
    if sys.platform == "linux"
    else []
)
