"""A host for any libretro core in plain ctypes: no compiler, several machines in one process."""
