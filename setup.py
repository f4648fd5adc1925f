"""Builds the native modules; every other setting lives in pyproject.toml.

All are optional: without a C compiler (or with ``ROOKERY_NATIVE=0`` at run time) the pure-Python twins are used.
"""

import sys

import numpy
from setuptools import Extension, setup

HEADERS = ["src/rookery/transport/bell.h", "src/rookery/transport/bytes.h", "src/rookery/transport/hook.h"]


def native(name: str, source: str, optimized: str = "-O2") -> Extension:
    """An extension that may fail to build without failing the installation."""
    return Extension(
        name,
        [source],
        depends=HEADERS,
        include_dirs=["src/rookery/transport", numpy.get_include()],
        # Two operations made into one round once instead of twice: sums must be the same on every processor.
        extra_compile_args=[optimized, "-ffp-contract=off"],
        optional=True,
    )


setup(
    ext_modules=[
        native("rookery.transport._native", "src/rookery/transport/_native.c"),
        native("rookery.worker._native", "src/rookery/worker/_native.c"),
        native("rookery.pool._native", "src/rookery/pool/_native.c"),
        native("rookery.sims._native", "src/rookery/sims/_native.c", "-O3"),
        native("rookery.sims._holes", "src/rookery/sims/_holes.c"),
        native("rookery.sims.libretro._frames", "src/rookery/sims/libretro/_frames.c"),
    ]
    if sys.platform == "linux"
    else []
)
