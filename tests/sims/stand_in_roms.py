"""Stand-ins for games that nobody may ship: tiny ROMs of our own whose memory is laid out like theirs.

Written as machine code by two small assemblers, so that no compiler is needed. The Game Boy Advance one copies a memory
image into place and then moves what the pad moves; the NES one has a title, a level, a flag and a hole to die in.
"""

import struct

IO, VRAM = 0x04000000, 0x06000000
A, B, SELECT, START, RIGHT, LEFT, UP, DOWN, R, L = (1 << n for n in range(10))
"""Bits of the key register: zero where a key is held."""


CONDITIONS = {"eq": 0, "ne": 1, "ge": 10, "lt": 11, "always": 14}


class Arm:
    """A few ARM instructions with labels and constants."""

    def __init__(self):
        self.words, self.labels, self.branches, self.constants = [], {}, [], []

    def label(self, name):
        self.labels[name] = len(self.words)

    def emit(self, word, when="always"):
        self.words.append((CONDITIONS[when] << 28 | word) & 0xFFFFFFFF)

    def branch(self, name, when="always"):
        self.branches.append((len(self.words), name))
        self.emit(0x0A000000, when)

    def constant(self, register, value):
        self.constants.append((len(self.words), register, value))
        self.emit(0)

    def add(self, to, of, value, when="always"):
        self.emit(0x02800000 | of << 16 | to << 12 | value, when)

    def sub(self, to, of, value, when="always"):
        self.emit(0x02400000 | of << 16 | to << 12 | value, when)

    def compare(self, register, value):
        self.emit(0x03500000 | register << 16 | value)

    def test(self, register, value):
        rotation = next(r for r in range(16) if (value << 2 * r | value >> (32 - 2 * r)) & 0xFFFFFFFF < 256)
        byte = (value << 2 * rotation | value >> (32 - 2 * rotation)) & 0xFFFFFFFF
        self.emit(0x03100000 | register << 16 | rotation << 8 | byte)

    def load(self, to, at, offset=0):
        self.emit(0x05900000 | at << 16 | to << 12 | offset)

    def store(self, what, at, offset=0, when="always"):
        self.emit(0x05800000 | at << 16 | what << 12 | offset, when)

    def load_half(self, to, at, offset=0):
        self.emit(0x01D000B0 | at << 16 | to << 12 | (offset & 0xF0) << 4 | offset & 15)

    def store_half(self, what, at, offset=0, when="always"):
        self.emit(0x01C000B0 | at << 16 | what << 12 | (offset & 0xF0) << 4 | offset & 15, when)

    def store_byte(self, what, at, offset=0, when="always"):
        self.emit(0x05C00000 | at << 16 | what << 12 | offset, when)

    def code(self):
        for at, name in self.branches:
            self.words[at] |= (self.labels[name] - at - 2) & 0xFFFFFF
        for at, register, value in self.constants:
            self.words[at] = 0xE59F0000 | register << 12 | 4 * (len(self.words) - at - 2)
            self.words.append(value)
        return struct.pack(f"<{len(self.words)}I", *self.words)


def gba_rom(code, *, title=b"STANDIN", game_code=b"ROOK"):
    header = bytearray(0xC0)
    header[0:4] = struct.pack("<I", 0xEA00002E)
    header[0xA0 : 0xA0 + len(title)] = title
    header[0xAC:0xB2] = game_code + b"01"
    header[0xB2] = 0x96
    header[0xBD] = (-sum(header[0xA0:0xBD]) - 0x19) & 0xFF
    return bytes(header) + code


def emerald_stand_in(image):
    """A ROM that looks like Pokemon Emerald in memory: begins with an image, then the pad changes it.

    Arrows walk, A earns the first badge, L heals the first member, B takes the callback away as moving blocks does, and
    START gives the first member level 6.
    """
    block1 = image.block1
    arm = Arm()
    arm.constant(10, IO)
    arm.constant(0, 0x0403)
    arm.store_half(0, 10)  # bitmap mode
    arm.constant(0, 0x08000000 + 0x400)  # where the image lies in the ROM
    arm.label("chunk")
    arm.load(1, 0)
    arm.compare(1, 0)
    arm.branch("main", "eq")
    arm.load(2, 0, 4)
    arm.add(0, 0, 8)
    arm.label("word")
    arm.load(3, 0)
    arm.store(3, 1)
    arm.add(0, 0, 4)
    arm.add(1, 1, 4)
    arm.sub(2, 2, 1)
    arm.compare(2, 0)
    arm.branch("word", "ne")
    arm.branch("chunk")
    arm.label("main")
    arm.label("same")
    arm.load_half(0, 10, 6)
    arm.compare(0, 160)
    arm.branch("same", "eq")
    arm.label("wait")
    arm.load_half(0, 10, 6)
    arm.compare(0, 160)
    arm.branch("wait", "ne")
    _obey_pad(arm, block1)
    arm.branch("main")
    return gba_rom(arm.code().ljust(0x400 - 0xC0, b"\0") + _chunks(image), game_code=b"BPEE")


def _obey_pad(arm, block1):
    arm.constant(1, IO + 0x130)
    arm.load_half(8, 1)
    arm.constant(2, block1)
    for offset, more, less in ((0, RIGHT, LEFT), (2, DOWN, UP)):
        arm.load_half(4, 2, offset)
        arm.test(8, more)
        arm.add(4, 4, 1, "eq")
        arm.test(8, less)
        arm.sub(4, 4, 1, "eq")
        arm.store_half(4, 2, offset)
    arm.load_half(4, 2)
    arm.constant(5, VRAM)
    arm.store_half(4, 5)  # the picture shows where we are
    arm.constant(3, block1 + 0x1270 + 0x867 // 8)
    arm.constant(4, 1 << 0x867 % 8)
    arm.test(8, A)
    arm.store_byte(4, 3, when="eq")
    arm.constant(3, 0x020244EC)
    arm.constant(4, 20)
    arm.test(8, L)
    arm.store_half(4, 3, 86, when="eq")
    arm.constant(4, 6)
    arm.test(8, START)
    arm.store_byte(4, 3, 84, when="eq")
    arm.constant(3, 0x030022C0)
    arm.constant(4, 0x08085F59)
    arm.constant(5, 0)
    arm.test(8, B)
    arm.store(4, 3, 0x0C, when="ne")
    arm.store(5, 3, 0x0C, when="eq")


def _chunks(image):
    """Everything in an image that is not zero, as (address, words, data), ended by address 0."""
    out = b""
    for first, block in ((0x02000000, image.ewram), (0x03000000, image.iwram)):
        pages = block.reshape(-1, 256)
        for number in pages.any(axis=1).nonzero()[0]:
            out += struct.pack("<II", first + 256 * int(number), 64) + pages[number].tobytes()
    return out + struct.pack("<I", 0)


class M6502:
    """A few 6502 instructions with labels."""

    ORIGIN = 0xC000

    def __init__(self):
        self.bytes, self.labels, self.short, self.far = bytearray(), {}, [], []

    def __call__(self, *code):
        self.bytes.extend(code)

    def label(self, name):
        self.labels[name] = len(self.bytes)

    def branch(self, opcode, name):
        self(opcode, 0)
        self.short.append((len(self.bytes) - 1, name))

    def jump(self, name):
        self(0x4C, 0, 0)
        self.far.append((len(self.bytes) - 2, name))

    def put(self, value, address):
        self(0xA9, value, 0x8D, address & 255, address >> 8)

    def get(self, address):
        self(0xAD, address & 255, address >> 8)

    def rom(self):
        for at, name in self.short:
            self.bytes[at] = (self.labels[name] - at - 1) & 255
        for at, name in self.far:
            struct.pack_into("<H", self.bytes, at, self.ORIGIN + self.labels[name])
        vectors = struct.pack("<HHH", self.ORIGIN + self.labels["nmi"], self.ORIGIN, self.ORIGIN + self.labels["nmi"])
        tiles = bytes(16) + b"\x3c\x7e\xff\xff\xff\xff\x7e\x3c" + bytes(8)
        return (
            b"NES\x1a\1\1" + bytes(10) + bytes(self.bytes).ljust(0x3FFA, b"\0") + vectors + tiles.ljust(0x2000, b"\0")
        )


BEQ, BNE, BCC, BCS, BPL = 0xF0, 0xD0, 0x90, 0xB0, 0x10


def mario_stand_in(*, title_ends=True):
    """A ROM that looks like Super Mario Bros. in memory.

    A title until START is held, sixty frames of an empty screen, then a level: right and left walk two pixels a frame,
    down dies, and at x = 0x0180 there is a flag. A second of sixty frames takes one from the clock of 400.
    """
    code = M6502()
    code(0x78, 0xD8, 0xA2, 0xFF, 0x9A)  # sei, cld, stack
    code.put(0, 0x2000)
    code.put(0, 0x2001)
    for name in ("warm", "warmer"):
        code.label(name)
        code(0x2C, 0x02, 0x20)
        code.branch(BPL, name)
    code(0xA9, 0, 0xA2, 0)
    code.label("clear")
    for page in range(8):
        code(0x9D, 0, page)
    code(0xE8)
    code.branch(BNE, "clear")
    code.put(2, 0x075A)  # lives
    code.put(0x28, 0x86)
    code.put(1, 0xB5)
    code.put(0x3F, 0x2006)
    code.put(0x00, 0x2006)
    for color in (0x0F, 0x30, 0x16, 0x2A) * 8:
        code.put(color, 0x2007)
    code.put(0x1E, 0x2001)
    code.put(0x80, 0x2000)
    code.label("idle")
    code.jump("idle")
    _mario_frame(code, title_ends)
    return code.rom()


def _mario_frame(code, title_ends):
    code.label("nmi")
    code.put(2, 0x4014)
    code.put(1, 0x4016)
    code(0x85, 0xF0, 0x4A, 0x8D, 0x16, 0x40)  # pad collected in $f0, first button in the highest bit
    code.label("pad")
    code(0xAD, 0x16, 0x40, 0x4A, 0x26, 0xF0)
    code.branch(BCC, "pad")
    code.get(0x0770)  # OperMode
    code.branch(BNE, "started")
    if title_ends:
        code(0xA5, 0xF0, 0x29, 0x10)
        code.branch(BEQ, "done")
        code.put(1, 0x0770)
        code.put(60, 0x07A0)
        code.put(4, 0x07F8)
    code.jump("done")
    code.label("started")
    code.get(0x07A0)  # ScreenTimer
    code.branch(BEQ, "level")
    code(0xCE, 0xA0, 0x07)
    code.jump("done")
    code.label("level")
    code.get(0x0E)
    code(0xC9, 0x04)
    code.branch(BEQ, "done")  # at the flag
    code(0xC9, 0x0B)
    code.branch(BEQ, "done")  # dying
    code.put(8, 0x0E)
    _mario_walk(code)
    code.label("done")
    code(0xA5, 0x86, 0x8D, 0x03, 0x02)  # a sprite where Mario is
    code.put(100, 0x0200)
    code.put(1, 0x0201)
    code(0xA9, 0, 0x8D, 0x05, 0x20, 0x8D, 0x05, 0x20, 0x40)


def _mario_walk(code):
    code(0xA5, 0xF0, 0x29, 0x01)  # right
    code.branch(BEQ, "left")
    code(0xA5, 0x86, 0x18, 0x69, 0x02, 0x85, 0x86, 0xA5, 0x6D, 0x69, 0x00, 0x85, 0x6D)
    code.label("left")
    code(0xA5, 0xF0, 0x29, 0x02)
    code.branch(BEQ, "down")
    code(0xA5, 0x86, 0x38, 0xE9, 0x02, 0x85, 0x86, 0xA5, 0x6D, 0xE9, 0x00, 0x85, 0x6D)
    code.label("down")
    code(0xA5, 0xF0, 0x29, 0x04)
    code.branch(BEQ, "flag")
    code.put(0x0B, 0x0E)
    code.label("flag")
    code(0xA5, 0x6D, 0xC9, 0x01)
    code.branch(BNE, "walked")
    code(0xA5, 0x86, 0xC9, 0x80)
    code.branch(BCC, "walked")
    code.put(0x04, 0x0E)
    code.put(0x03, 0x1D)
    code.label("walked")
