"""Memory images of a Pokemon Emerald that is not there: what the tests know of the game, written independently.

The layout is written down a second time here, from the public decompilation, so that a slip in the reader is noticed.
"""

import struct

import numpy as np

from ninelives.errors import EmulatorError

EWRAM, IWRAM = 0x02000000, 0x03000000

ORDERS = """
    GAEM GAME GEAM GEMA GMAE GMEA AGEM AGME AEGM AEMG AMGE AMEG
    EGAM EGMA EAGM EAMG EMGA EMAG MGAE MGEA MAGE MAEG MEGA MEAG
"""
"""The order of the blocks Growth, Attacks, Effort and Miscellaneous, by personality modulo 24, as players know it."""


def member(species, level, hp, max_hp, *, personality=0, owner=0xBEEF1234, experience=1000, egg=False):
    """One hundred bytes of a party member, scrambled as the game does."""
    blocks = {
        "G": struct.pack("<HHIBBH", species, 13, experience, 0, 70, 0),
        "A": struct.pack("<4H4B", 33, 45, 0, 0, 35, 40, 0, 0),
        "E": bytes(range(12)),
        "M": struct.pack("<BBHII", 0, 16, 0x1234, (1 << 30 if egg else 0) | 0x1ABCDEF, 0),
    }
    secret = b"".join(blocks[letter] for letter in ORDERS.split()[personality % 24])
    checksum = sum(struct.unpack("<24H", secret)) & 0xFFFF
    key = personality ^ owner
    scrambled = b"".join(struct.pack("<I", word ^ key) for word in struct.unpack("<12I", secret))
    head = struct.pack("<II", personality, owner) + b"\xbb" * 20 + struct.pack("<HH", checksum, 0)
    return head + scrambled + struct.pack("<IBBHH5H", 0, level, 255, hp, max_hp, 11, 12, 13, 14, 15)


class Image:
    """The two memories of a Game Boy Advance as bytes that a test writes; a ``Memory`` like an emulator's."""

    def __init__(self):
        self.ewram, self.iwram = np.zeros(0x40000, np.uint8), np.zeros(0x8000, np.uint8)
        self.moved = 0
        self.key = 0xCAFE0123
        self.write(0x030022C0 + 0x0C, "<I", 0x08085F59)  # gMain.vblankCallback: some function

    def view(self, address, size):
        for first, block in ((EWRAM, self.ewram), (IWRAM, self.iwram)):
            if first <= address and address + size <= first + block.size:
                view = block[address - first : address - first + size]
                view.flags.writeable = False
                return view
        raise EmulatorError(f"{address:#x} is not mapped")

    def regions(self):
        return (("ewram", EWRAM, 0x40000), ("iwram", IWRAM, 0x8000))

    def write(self, address, form, *values):
        data = struct.pack(form, *values)
        first, block = (IWRAM, self.iwram) if address >= IWRAM else (EWRAM, self.ewram)
        block[address - first : address - first + len(data)] = np.frombuffer(data, np.uint8)

    @property
    def block1(self):
        return 0x02025A00 + self.moved

    @property
    def block2(self):
        return 0x02024A54 + self.moved

    def new_game(self, *, moved=0, x=5, y=6, group=0, number=9, money=3000):
        """What a player sees after a save was loaded: blocks, place and purse."""
        self.moved = moved
        self.write(0x03005D8C, "<II", self.block1, self.block2)
        self.write(self.block2 + 0xAC, "<I", self.key)
        self.money(money)
        self.stand(x, y, group, number)
        self.map(20, 18)
        return self

    def money(self, amount):
        self.write(self.block1 + 0x490, "<I", amount ^ self.key)

    def stand(self, x, y, group=0, number=9):
        self.write(self.block1, "<hhbb", x, y, group, number)

    def flag(self, number):
        offset = self.block1 + 0x1270 + number // 8 - EWRAM
        self.ewram[offset] |= 1 << number % 8

    def party(self, *members):
        self.write(0x020244E9, "<B", len(members))
        self.write(0x020244EC, f"<{100 * len(members)}s", b"".join(members))

    def map(self, width, height, *, pointer=0x02032318, walls=()):
        """A floor of tile 1 with walls at some places, with the game's border around it."""
        cells = np.full((height + 14, width + 15), 0x0C00 | 2, "<u2")
        cells[7 : 7 + height, 7 : 7 + width] = 0x3000 | 1
        for x, y in walls:
            cells[7 + y, 7 + x] = 0x0400 | 3
        self.write(0x03005DC0, "<iiI", width + 15, height + 14, pointer)
        self.write(pointer, f"<{cells.nbytes}s", cells.tobytes())

    def map_is_being_filled(self):
        """The game fills its whole buffer with an undefined tile before it copies a map."""
        self.write(0x02032318, "<10240H", *[0x03FF] * 10240)

    def battle(self, *, trainer):
        self.write(0x030022C0 + 0x439, "<B", 0b10)
        self.write(0x02022FEC, "<I", 0b1100 if trainer else 0b100)
