"""Raw states in the envelopes that people have them in, as RetroArch and desktop mGBA write them."""

import struct
import zlib


def rzip(state: bytes, chunk: int = 4096) -> bytes:
    parts = [zlib.compress(state[at : at + chunk]) for at in range(0, len(state), chunk)]
    packed = b"".join(struct.pack("<I", len(part)) + part for part in parts)
    return b"#RZIPv\x01#" + struct.pack("<IQ", chunk, len(state)) + packed


def container(state: bytes) -> bytes:
    def block(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + bytes(-len(data) % 8)

    return b"RASTATE\x01" + block(b"ACHV", b"abc") + block(b"MEM ", state) + block(b"END ", b"")


def picture(machine: bytes, **records: bytes) -> bytes:
    """A PNG of one pixel with mGBA's chunks; ``records`` are named by their tags, like ``_2``."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    extra = b"".join(
        chunk(b"gbAx", struct.pack("<Ii", int(tag[1:]), len(record)) + zlib.compress(record))
        for tag, record in records.items()
    )
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(bytes(4)))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"gbAs", zlib.compress(machine)) + extra + chunk(b"IEND", b"")


def bare(state: bytes) -> bytes:
    return state


ENVELOPES = {"rzip": rzip, "container": container, "picture": picture, "bare": bare}
