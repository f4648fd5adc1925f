"""Builds the native modules; every other setting lives in pyproject.toml.

All are optional: without a C compiler (or with ``ROOKERY_NATIVE=0`` at run time) the pure-Python twins are used.
"""

import sys

import numpy
from setuptools import Extension, setup

HEADERS = ["src/rookery/transport/bell.h", "src/rookery/transport/bytes.h", "src/rookery/transport/hook.h"]


def native(name: str, source: str) -> Extension:
    """An extension that may fail to build without failing the installation."""
    return Extension(
        name,
        [source],
        depends=HEADERS,
        include_dirs=["src/rookery/transport", numpy.get_include()],
        extra_compile_args=["-O2"],
        optional=True,
    )


setup(
    ext_modules=[
        native("rookery.transport._native", "src/rookery/transport/_native.c"),
        native("rookery.worker._native", "src/rookery/worker/_native.c"),
        native("rookery.pool._native", "src/rookery/pool/_native.c"),
    ]
    if sys.platform == "linux"
    else []
)
