"""The generator of sticky frames inside an ALE clone: read it, replace it, and predict its draws.

ALE writes its Mersenne Twister as decimal text near the end of a serialized state. Knows nothing of environments.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_TEXT = re.compile(rb"\d+(?: \d+){624}")
"""A Mersenne Twister as C++ writes it: 624 words and a position."""

_WORDS = 624

_TEXT_BYTES = 625 * 11 + 64
"""The end of a clone that is searched: enough for the text and what follows it."""

_LENGTH = slice(24, 28)
"""Where a clone stores the length of the emulator's own part: after six numbers of ALE's."""


@dataclass(frozen=True)
class TwisterState:
    """A Mersenne Twister at one moment."""

    key: bytes
    position: int

    @classmethod
    def in_clone(cls, clone: bytes) -> TwisterState:
        """The generator of sticky frames in a serialized clone. ValueError if it is not found."""
        start, stop = _find(clone)
        numbers = np.fromstring(clone[start:stop], np.uint32, sep=" ")
        return cls(numbers[:-1].tobytes(), int(numbers[-1]))

    @classmethod
    def seeded(cls, seed: int) -> TwisterState:
        """As C++ seeds it with 32 bits."""
        _, key, position, *_ = np.random.RandomState(seed & 0xFFFFFFFF).get_state()
        return cls(np.asarray(key, np.uint32).tobytes(), int(position))

    def put_into(self, clone: bytes) -> bytes:
        """The clone with this generator in place of its own, and with corrected lengths."""
        start, stop = _find(clone)
        text = " ".join(map(str, [*np.frombuffer(self.key, np.uint32).tolist(), self.position])).encode()
        length = int.from_bytes(clone[_LENGTH], "little") + len(text) - (stop - start)
        if _LENGTH.stop + length != start + len(text):
            raise ValueError("the generator is not at the end of the emulator's part: unknown format of this ale_py")
        head = clone[: _LENGTH.start] + length.to_bytes(4, "little") + clone[_LENGTH.stop : start - 4]
        return head + len(text).to_bytes(4, "little") + text + clone[stop:]

    def draw(self, count: int) -> tuple[npt.NDArray[np.uint64], TwisterState]:
        """The next numbers, and the generator after them."""
        _TWISTER.put(self.key, self.position)
        draws = np.asarray(_TWISTER.bits.random_raw(count))
        return draws, TwisterState(*_TWISTER.get())


def _find(clone: bytes) -> tuple[int, int]:
    """Where the generator of sticky frames is written; the console has one of its own before it."""
    found = _TEXT.search(clone, max(len(clone) - _TEXT_BYTES, 0))
    if found is None:
        raise ValueError("no generator was found in the emulator's state: unknown format of this ale_py")
    start = found.start()
    return start, start + int.from_bytes(clone[start - 4 : start], "little")


class Twister:
    """NumPy's Mersenne Twister, read and set in memory: through its ``state`` either takes forty microseconds.

    The words in memory are compared with what numpy reports before they are used.
    """

    def __init__(self) -> None:
        self.bits = np.random.MT19937(0)
        address = self.bits.ctypes.state_address
        self._words = (ctypes.c_uint32 * (_WORDS + 1)).from_address(address)
        self._is_known = self._from_memory() == self._from_numpy()

    def get(self) -> tuple[bytes, int]:
        """The words, and the position among them."""
        return self._from_memory() if self._is_known else self._from_numpy()

    def put(self, key: bytes, position: int) -> None:
        """Continue from this state."""
        if self._is_known:
            ctypes.memmove(self._words, key, 4 * _WORDS)
            self._words[_WORDS] = position
        else:
            words = np.frombuffer(key, np.uint32)
            self.bits.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}

    def _from_memory(self) -> tuple[bytes, int]:
        return bytes(self._words)[: 4 * _WORDS], int(self._words[_WORDS])

    def _from_numpy(self) -> tuple[bytes, int]:
        state = self.bits.state["state"]
        return state["key"].tobytes(), int(state["pos"])


_TWISTER = Twister()
"""Only ever used from a state that was just put in."""
