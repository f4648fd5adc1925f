"""Importing this writes the name and time of every function of the package that is called, to one file per process.

Preloaded into the fork server, it traces keeper and workers as well; children close inherited descriptors, so the file
is opened for every line.
"""

import os
import sys
import time
from pathlib import Path

import ninelives

ROOT = str(Path(ninelives.__file__).parent) + os.sep
INTO = os.environ["WALK_DIR"]


def _note(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(ROOT):
        name = f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_code.co_qualname}"
        file = os.open(os.path.join(INTO, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{time.monotonic_ns()} {name}\n".encode())
        os.close(file)


sys.setprofile(_note)
