"""Makes a core's start repeatable: memory that it allocates and does not clear reads as zeros, not as old data.

fceumm, for example, uses uninitialised memory for a cartridge. glibc can fill the memory it allocates; with another C
library a core's first frames are only as repeatable as the core makes them.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

M_PERTURB = -6
FILL_WITH_ZEROS, FILL_NOT = 0xFF, 0
"""``mallopt`` takes the value that freed memory is filled with; new memory gets its complement."""

SMALL_SIZES = range(24, 1033, 16)
KEPT_OF_A_SIZE = 7
"""glibc caches this many freed blocks of each small size, and reuses them without filling them."""


@contextlib.contextmanager
def cleared() -> Iterator[None]:
    """Within this context, memory allocated in this thread is cleared first, if the C library supports that."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        yield
        return
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.argtypes = (ctypes.c_void_p,)
    held = [libc.malloc(size) for size in SMALL_SIZES for _ in range(KEPT_OF_A_SIZE)]
    libc.mallopt(M_PERTURB, FILL_WITH_ZEROS)
    try:
        yield
    finally:
        libc.mallopt(M_PERTURB, FILL_NOT)
        for block in held:
            libc.free(block)
