"""Makes a core's start repeatable: memory that it allocates and forgets to clear reads as zeros, not as what was there.

fceumm, for one, hands a game whatever its cartridge memory held before in this process. The C library can fill what it
hands out; where it cannot, a core's first frames are only as repeatable as its authors made them.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

M_PERTURB = -6
FILL_WITH_ZEROS, FILL_NOT = 0xFF, 0
"""What ``mallopt`` is given is what freed memory is filled with; new memory gets its complement."""

SMALL_SIZES = range(24, 1033, 16)
KEPT_OF_A_SIZE = 7
"""glibc keeps this many freed blocks of each small size at hand, and hands them out again without filling them."""


@contextlib.contextmanager
def cleared() -> Iterator[None]:
    """While inside, memory that is allocated in this thread is cleared first, where the C library can do that."""
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
