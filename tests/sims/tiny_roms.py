"""ROMs for tests, made of nothing but Python: a dot is moved by the pad, and every frame looks different.

    GBA   0x02000000 frame, +4 x, +8 y, +12 trail, +16 what the cartridge held, +20 its clock; 0x03000000 frame
    NES   0 frame, 1 x, 2 y, 3 pad, 4 trail, 5 what the cartridge held
    GB    0xC000 frame, +1 x, +2 y, +3 trail, +4 what the cartridge held

``trail`` depends on every frame so far. With ``save=True`` a game writes to its cartridge every frame, and
reads it again.
"""

from __future__ import annotations

import struct

GBA_FRAME, GBA_X, GBA_Y, GBA_TRAIL, GBA_HELD, GBA_TIME = range(0x02000000, 0x02000018, 4)

IO, EWRAM, IWRAM, VRAM = 10, 11, 12, 9
"""Registers that hold the first addresses."""

CONDITIONS = {"eq": 0, "ne": 1, "al": 14}
OPERATIONS = {"and": 0, "eor": 1, "sub": 2, "add": 4, "tst": 8, "cmp": 10, "orr": 12, "mov": 13}


class Arm:
    """An assembler for the few ARM instructions that these ROMs need."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._labels: dict[str, int] = {}
        self._branches: list[tuple[int, str]] = []
        self._constants: list[tuple[int, int, int]] = []

    def label(self, name):
        self._labels[name] = len(self._words)

    def op(self, name, target, source, operand, when="al"):
        """``target = source (op) number``; comparisons have no target."""
        compares = int(name in ("tst", "cmp"))
        self._word(
            when, 1 << 25 | OPERATIONS[name] << 21 | compares << 20 | source << 16 | target << 12 | _number(operand)
        )

    def opr(self, name, target, source, other, shift=0):
        """``target = source (op) (other << shift)``."""
        self._word("al", OPERATIONS[name] << 21 | source << 16 | target << 12 | shift << 7 | other)

    def right(self, target, source, shift):
        """``target = source >> shift``."""
        self._word("al", OPERATIONS["mov"] << 21 | target << 12 | shift << 7 | 1 << 5 | source)

    def multiply(self, target, source, other):
        self._word("al", 0x90 | target << 16 | other << 8 | source)

    def load(self, target, base, offset=0):
        self._word("al", 0x05900000 | base << 16 | target << 12 | offset)

    def store(self, source, base, offset=0):
        self._word("al", 0x05800000 | base << 16 | source << 12 | offset)

    def load_byte(self, target, base, offset=0):
        self._word("al", 0x05D00000 | base << 16 | target << 12 | offset)

    def store_byte(self, source, base, offset=0):
        self._word("al", 0x05C00000 | base << 16 | source << 12 | offset)

    def load_half(self, target, base, offset=0):
        self._word("al", 0x01D000B0 | base << 16 | target << 12 | (offset & 0xF0) << 4 | offset & 15)

    def store_half(self, source, base, offset=0):
        self._word("al", 0x01C000B0 | base << 16 | source << 12 | (offset & 0xF0) << 4 | offset & 15)

    def branch(self, label, when="al"):
        self._branches.append((len(self._words), label))
        self._word(when, 0x0A000000)

    def constant(self, target, value):
        self._constants.append((len(self._words), target, value))
        self._words.append(0)

    def code(self):
        for at, label in self._branches:
            self._words[at] |= (self._labels[label] - at - 2) & 0xFFFFFF
        for at, target, value in self._constants:
            self._words[at] = 0xE59F0000 | target << 12 | 4 * (len(self._words) - at - 2)
            self._words.append(value)
        return struct.pack(f"<{len(self._words)}I", *self._words)

    def _word(self, when, bits):
        self._words.append(CONDITIONS[when] << 28 | bits)


def _number(value):
    """Eight bits and an even rotation, as ARM wants its numbers."""
    for turn in range(16):
        rotated = (value << 2 * turn | value >> (32 - 2 * turn)) & 0xFFFFFFFF
        if rotated < 256:
            return turn << 8 | rotated
    raise ValueError(hex(value))


def gba_rom(save=False, clock=False):
    """A Game Boy Advance game; with ``clock`` it has the code of one whose cartridge has a clock."""
    arm = Arm()
    for register, address in ((IO, 0x04000000), (EWRAM, 0x02000000), (IWRAM, 0x03000000), (VRAM, 0x06000000)):
        arm.op("mov", register, 0, address)
    arm.constant(0, 0x1443)  # a bitmap of 240 x 160, and sprites
    arm.store_half(0, IO)
    _show_sprite(arm)
    arm.op("mov", 0, 0, 0)
    arm.store(0, EWRAM)
    arm.op("mov", 4, 0, 120)
    arm.op("mov", 5, 0, 80)
    arm.constant(6, 2166136261)
    arm.op("mov", 0, 0, 8)
    arm.store_half(0, IO, 4)
    arm.constant(3, 0x04000200)
    arm.op("mov", 0, 0, 1)
    arm.store_half(0, 3)
    arm.label("frame")
    arm.op("mov", 0, 0, 0)
    arm.store_byte(0, IO, 0x301)  # sleep until the picture is complete: a processor that waits costs time
    arm.op("mov", 0, 0, 1)
    arm.constant(3, 0x04000200)
    arm.store_half(0, 3, 2)
    _move(arm)
    if save:
        _use_cartridge(arm)
    if clock:
        _read_clock(arm)
    arm.load(0, EWRAM)
    arm.op("add", 0, 0, 1)
    for register, offset in ((0, 0), (4, 4), (5, 8), (6, 12)):
        arm.store(register, EWRAM, offset)
    arm.store(0, IWRAM)
    arm.branch("frame")
    code = b"BPEE" if clock else b"TINY"
    header = bytearray(0xC0)
    header[:4] = struct.pack("<I", 0xEA00002E)
    header[0xA0:0xB3] = b"TINY".ljust(12, b"\0") + code + b"01\x96"
    header[0xBD] = -(sum(header[0xA0:0xBD]) + 0x19) & 0xFF
    space_for_clock = bytes(0x20)  # the clock's registers lie over the ROM at 0xC4
    jump = struct.pack("<I", 0xEA000006)
    return bytes(header) + jump + space_for_clock[:28] + arm.code()


def _show_sprite(arm):
    """A red square of 8 x 8 at (20, 10), never moved: old mGBA forgets such sprites when it loads a state."""
    arm.constant(1, 0x06014000)
    arm.constant(0, 0x11111111)
    for line in range(8):
        arm.store(0, 1, 4 * line)
    arm.constant(1, 0x05000200)
    arm.op("mov", 0, 0, 0x1F)
    arm.store_half(0, 1, 2)
    arm.op("mov", 1, 0, 0x07000000)
    for place, value in ((0, 10), (2, 20), (4, 512)):
        arm.op("mov", 0, 0, value)
        arm.store_half(0, 1, place)


def _move(arm):
    """Registers: 4 x, 5 y, 6 trail, 8 the pad (0 = held)."""
    arm.constant(1, 0x04000130)
    arm.load_half(8, 1)
    for bit, register, change in ((0x10, 4, "add"), (0x20, 4, "sub"), (0x80, 5, "add"), (0x40, 5, "sub")):
        arm.op("tst", 0, 8, bit)
        arm.op(change, register, register, 1, when="eq")
    arm.op("and", 4, 4, 0x7F)
    arm.op("and", 5, 5, 0x7F)
    arm.op("mov", 0, 0, 240)
    arm.multiply(1, 5, 0)
    arm.opr("add", 1, 1, 4)
    arm.opr("add", 1, VRAM, 1, shift=1)
    arm.load(0, EWRAM)
    arm.store_half(0, 1)  # in a colour that no other frame has
    for register, shift in ((4, 0), (5, 8), (8, 16)):
        arm.opr("eor", 6, 6, register, shift)
    arm.constant(7, 16777619)
    arm.multiply(0, 6, 7)
    arm.opr("mov", 6, 0, 0)


def _use_cartridge(arm):
    """What the cartridge held goes into the trail, the trail into the cartridge."""
    arm.op("mov", 1, 0, 0x0E000000)
    arm.load_byte(0, 1, 17)
    arm.store(0, EWRAM, 16)
    arm.opr("add", 6, 6, 0)
    arm.store_byte(6, 1, 17)


def _read_clock(arm):
    """Ask the clock for its time, bit by bit: hours, minutes and seconds as three bytes."""
    arm.constant(1, 0x080000C4)
    for register, value in ((4, 1), (2, 7), (0, 1), (0, 5)):  # on; all pins out; select
        arm.op("mov", 0, 0, value)
        arm.store_half(0, 1, register)
    for place in range(7, -1, -1):
        bit = (0x67 >> place & 1) << 1
        for value in (4 | bit, 4 | bit, 5 | bit):
            arm.op("mov", 0, 0, value)
            arm.store_half(0, 1)
    arm.op("mov", 0, 0, 5)  # the data pin in
    arm.store_half(0, 1, 2)
    arm.op("mov", 2, 0, 0)
    arm.op("mov", 3, 0, 24)
    arm.label("bit")
    for value in (4, 4, 5):
        arm.op("mov", 0, 0, value)
        arm.store_half(0, 1)
    arm.load_half(0, 1)
    arm.op("and", 0, 0, 2)
    arm.right(2, 2, 1)
    arm.opr("orr", 2, 2, 0, shift=22)
    arm.op("sub", 3, 3, 1)
    arm.op("cmp", 0, 3, 0)
    arm.branch("bit", "ne")
    arm.store(2, EWRAM, 20)
    arm.op("mov", 0, 0, 1)
    arm.store_half(0, 1)


class Bytes:
    """Machine code of an eight-bit processor with short branches."""

    def __init__(self) -> None:
        self.code = bytearray()
        self._labels: dict[str, int] = {}
        self._branches: list[tuple[int, str]] = []

    def put(self, *values):
        self.code.extend(values)

    def label(self, name):
        self._labels[name] = len(self.code)
        return len(self.code)

    def branch(self, opcode, label):
        self.put(opcode, 0)
        self._branches.append((len(self.code) - 1, label))

    def finish(self):
        for at, label in self._branches:
            self.code[at] = (self._labels[label] - at - 1) & 0xFF
        return bytes(self.code)


def nes_rom(save=False):
    """A game for the Nintendo Entertainment System: the whole screen changes its colour every frame."""
    cpu = Bytes()
    cpu.put(0x78, 0xD8, 0xA2, 0xFF, 0x9A)  # no interrupts, no decimals, a stack
    for name in ("first", "second"):
        cpu.label(name)
        cpu.put(0x2C, 0x02, 0x20)
        cpu.branch(0x10, name)
    cpu.put(0xA9, 0, 0x85, 0, 0x85, 1, 0x85, 2, 0x85, 4)
    cpu.put(0xA9, 0x80, 0x8D, 0x00, 0x20, 0xA9, 0x08, 0x8D, 0x01, 0x20)  # a call every frame; show the background
    cpu.label("for ever")
    cpu.branch(0xD0, "for ever")
    cpu.branch(0xF0, "for ever")
    frame = cpu.label("frame")
    cpu.put(0xE6, 0x00)
    cpu.put(0xA9, 1, 0x8D, 0x16, 0x40, 0x85, 3, 0x4A, 0x8D, 0x16, 0x40)
    cpu.label("next button")
    cpu.put(0xAD, 0x16, 0x40, 0x4A, 0x26, 3)
    cpu.branch(0x90, "next button")
    for bit, change, place in ((1, 0xE6, 1), (2, 0xC6, 1), (4, 0xE6, 2), (8, 0xC6, 2)):
        cpu.put(0xA5, 3, 0x29, bit, 0xF0, 2, change, place)
    if save:
        cpu.put(0xAD, 0x00, 0x60, 0x85, 5, 0x45, 4, 0x85, 4)
    cpu.put(0xA5, 4, 0x0A, 0x0A, 0x18, 0x65, 4, 0x45, 1, 0x45, 2, 0x45, 3, 0x85, 4)  # trail * 5 ^ x ^ y ^ pad
    if save:
        cpu.put(0x8D, 0x00, 0x60)
    cpu.put(0xAD, 0x02, 0x20, 0xA9, 0x3F, 0x8D, 0x06, 0x20, 0xA9, 0, 0x8D, 0x06, 0x20)
    cpu.put(0xA5, 0, 0x29, 0x1F, 0x8D, 0x07, 0x20)
    cpu.put(0xA9, 0, 0x8D, 0x06, 0x20, 0x8D, 0x06, 0x20, 0x40)
    program = cpu.finish().ljust(0x3FFA, b"\0") + struct.pack("<3H", 0xC000 + frame, 0xC000, 0xC000 + frame)
    return b"NES\x1a" + bytes((1, 1, 2 if save else 0)) + bytes(9) + program + bytes(0x2000)


def gb_rom(save=False, color=False):
    """A Game Boy game: the whole screen changes its shade."""
    cpu = Bytes()
    cpu.put(0xF3, 0x31, 0xFE, 0xFF, 0x3E, 0x0A, 0xEA, 0x00, 0x00)  # no interrupts, a stack, the cartridge's memory on
    cpu.put(0xAF, 0x21, 0x00, 0xC0, 0x22, 0x22, 0x22, 0x22, 0x22, 0x3E, 0x91, 0xE0, 0x40)
    for name, jump in (("leave", 0x28), ("wait", 0x20)):
        cpu.label(name)
        cpu.put(0xF0, 0x44, 0xFE, 144)
        cpu.branch(jump, name)
    cpu.put(0x3E, 0x20, 0xE0, 0, 0xF0, 0, 0xF0, 0, 0x2F, 0xE6, 0x0F, 0x47, 0x21, 0, 0xC0, 0x34)  # b = pad, frame + 1
    for bits in ((0x40, 0x48), (0x58, 0x50)):
        cpu.put(0x23, 0xCB, bits[0], 0x28, 1, 0x34, 0xCB, bits[1], 0x28, 1, 0x35)
    if save:
        cpu.put(0xFA, 0x00, 0xA0, 0xEA, 4, 0xC0, 0x4F, 0xFA, 3, 0xC0, 0xA9, 0xEA, 3, 0xC0)
    cpu.put(0xFA, 3, 0xC0, 0x4F, 0x87, 0x87, 0x81, 0x21, 1, 0xC0, 0xAE, 0x23, 0xAE, 0xA8, 0xEA, 3, 0xC0)
    if save:
        cpu.put(0xEA, 0x00, 0xA0)
    cpu.put(0xFA, 0, 0xC0, 0xE0, 0x47)
    cpu.branch(0x18, "leave")
    rom = bytearray(0x8000)
    rom[0x100:0x104] = b"\x00\xc3\x50\x01"
    rom[0x134:0x138] = b"TINY"
    rom[0x147], rom[0x149] = (0x03, 0x02) if save else (0, 0)
    rom[0x143] = 0x80 if color else 0
    rom[0x14D] = sum(-byte - 1 for byte in rom[0x134:0x14D]) & 0xFF
    code = cpu.finish()
    rom[0x150 : 0x150 + len(code)] = code
    return bytes(rom)


ROMS = {"gba": gba_rom, "nes": nes_rom, "gb": gb_rom}
