"""Which key is which button or command, and how to read key names from a terminal's bytes. Pure."""

from __future__ import annotations

import re

BUTTON_OF = {
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "x": "a",
    "z": "b",
    "s": "x",
    "a": "y",
    "d": "l",
    "c": "r",
    "enter": "start",
    "space": "select",
}
"""Pad buttons by key name."""

COMMAND_OF = {
    "1": "save",
    "2": "load",
    "p": "pause",
    ".": "advance",
    "f": "fast",
    "?": "help",
    "h": "help",
    "q": "quit",
    "\x1a": "suspend",
}
"""Commands by key name."""

HELP = (
    "arrows: move   x: A   z: B   s: X   a: Y   d: L   c: R   enter: start   space: select",
    "1: save state   2: load it   p: pause   .: one frame   f: fast   h: help   q: quit",
)

_PLAIN = {"\r": "enter", "\n": "enter", " ": "space"}
_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;]*([A-Za-z~])|O([A-Z]))")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;]*|O)?$")


def key_names(data: bytes) -> tuple[list[str], bytes]:
    """The names of the keys in the bytes from a terminal, and the bytes of a key that has not completely arrived."""
    names: list[str] = []
    while data:
        if match := _SEQUENCE.match(data):
            letter = (match[1] or match[2]).decode()
            names += [_ARROWS[letter]] if letter in _ARROWS else []
            data = data[match.end() :]
        elif _UNFINISHED.match(data):
            return names, data
        else:
            letter = chr(data[0])
            names.append(_PLAIN.get(letter, letter.lower()))
            data = data[1:]
    return names, b""
