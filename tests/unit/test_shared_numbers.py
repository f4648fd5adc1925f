"""Numbers that Python and C both name are the same numbers."""

import re
from pathlib import Path

import pytest

import ninelives
from ninelives.pool.recovery import recorder
from ninelives.sims.emulators import resize, sparse
from ninelives.sims.libretro import api
from ninelives.spec import info_schema, text
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.phase import Attention, Op, Phase
from ninelives.transport import control
from ninelives.worker import fingerprint, loop

PACKAGE = Path(ninelives.__file__).parent
SOURCES = sorted([*PACKAGE.rglob("_*.c"), PACKAGE / "transport" / "bell.h", PACKAGE / "worker" / "digest.h"])
IN_PYTHON = {
    **{f"PHASE_{phase.name}": int(phase) for phase in Phase},
    **{f"OP_{op.name}": int(op) for op in Op},
    **{f"ATTENTION_{name}": getattr(Attention, name) for name in ("MAIL", "ENDED", "FAULT", "INFO")},
    **{mode.name: int(mode) for mode in Autoreset},
    **{name: value for name, value in vars(control).items() if name.isupper()},
    **{name: value for name, value in vars(loop).items() if name.startswith(("LEAF_", "MAX_"))},
    **{name: value for name, value in vars(info_schema).items() if name.startswith(("INFO_", "MAX_"))},
    **{name: getattr(text, name) for name in ("TEXT_BYTES", "HEADER_BYTES")},
    **{name: value for name, value in vars(fingerprint).items() if name.endswith("_BIT")},
    **{name: getattr(recorder, name) for name in ("STEP", "AUTORESET")},
    **{name: getattr(api, name) for name in ("DEVICE_JOYPAD", "ID_JOYPAD_MASK", "COMMAND_BITS")},
    **{command.name: int(command) for command in api.EnvironmentCommand},
    "MOST_PIXELS": resize.MOST_PIXELS,
    **{name: getattr(sparse, name) for name in ("BLOCK", "MOST_PARTS")},
}
ONLY_IN_C = {"MAX_BUFFERS", "BLOCK_BYTES", "LANE_GROUPS", "SIZE_BYTES"}


def named_in_c():
    for source in SOURCES:
        text = source.read_text()
        for body in re.findall(r"enum\s*\{([^}]*)\}", text):
            yield from re.findall(r"(\w+)\s*=\s*(\d+)", body)
        yield from re.findall(r"#define (WORDS) (\d+)", text)


@pytest.mark.parametrize(("name", "value"), sorted(named_in_c()))
def test_a_name_means_the_same_number_in_both_languages(name, value):
    if name not in ONLY_IN_C:
        assert IN_PYTHON[name] == int(value)


def test_the_lines_of_the_control_segment_are_cache_lines():
    layout = control.control_layout(workers=3, slots=5)
    offsets = dict(zip((field.name for field in layout.fields), layout.offsets, strict=True))
    fields = {field.name: field for field in layout.fields}
    for name in ("parent", "to_worker", "from_worker", "since_ns", "group", "record"):
        assert offsets[name] % 64 == 0
        assert fields[name].nbytes % 64 == 0, f"one writer of {name} would share a line with another"


def test_every_field_of_the_control_segment_has_a_typed_name():
    declared = set(control.Control.__annotations__)
    assert declared == {field.name for field in control.control_layout(1, 1).fields} | set(control.RECORD.names)


def test_the_words_of_a_slots_record_are_where_the_native_loop_looks_for_them():
    text = (PACKAGE / "worker" / "_loop.c").read_text()
    (body,) = re.findall(r"typedef struct \{([^}]*)\} Record;", text)
    sizes, at, found = {"double": 8, "int64_t": 8, "uint64_t": 8, "uint8_t": 1}, 0, {}
    for kind, names in re.findall(r"(\w+) ([^;]*);", body):
        for name, count in re.findall(r"(\w+)(?:\[(\d+)\])?", names):
            found[name], at = at, at + sizes[kind] * int(count or 1)
    in_c = {"mail_bytes": "mail", "episode_began_ns": "began"}
    assert {name: control.RECORD.fields[name][1] for name in control.RECORD.names} == {
        name: found[in_c.get(name, name)] for name in control.RECORD.names
    }
