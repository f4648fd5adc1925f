"""``ninelives state``: saves, shows and converts moments of games, and refuses what it cannot vouch for."""

import random
import struct
import tracemalloc
import zlib

import pytest
from installed import core_named, require_bindings
from raw_envelopes import container, picture, rzip
from tiny_games import make, memory_of, rom_file
from tiny_roms import GBA_X

from ninelives.cli.main import main
from ninelives.errors import CheckpointError
from ninelives.sims.emulators.actions import pad_named
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.movies import Hasher, MovieRecorder
from ninelives.sims.emulators.raw_states import LARGEST, core_state
from ninelives.sims.emulators.state_files import read_snapshot
from ninelives.sims.games.registry import DATA

MACHINE_BYTES = 0x61000
CARTRIDGE, CLOCK = 2, 4


@pytest.fixture
def state(tmp_path, monkeypatch, capsys):
    """Run ``ninelives state`` in a directory of its own; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        code = main(["state", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def rom(tmp_path):
    return rom_file(tmp_path, "gba", save=True)


def first_x(core, rom, file):
    env = EmulatorEnv(rom, core=str(core.path), state=file, memory=memory_of("gba"))
    env.reset(seed=0)
    env.close()
    return env.ram["x"]


def test_a_moment_after_a_boot_script_is_saved_and_episodes_begin_there(state, rom, new_mgba, tmp_path):
    code, out, err = state("save", rom, "--core", new_mgba.path, "--boot", "noop:20", "right:5", "--out", "a.rook")
    assert (code, err) == (0, "")
    assert "a.rook: gba state of mGBA 0.10" in out
    assert first_x(new_mgba, rom, tmp_path / "a.rook") == 125
    code, out, _ = state("info", "a.rook", "--rom", rom)
    assert code == 0
    for line in ("system      gba", "core        mGBA 0.10", "240 x 160, rgb565", "checksum    ok", " matches"):
        assert line in out


def test_the_beginning_of_a_registered_game_is_saved(state, tmp_path):
    code, _, err = state("save", "ninelives/Lantern-v0", "--out", "lantern.rook")
    assert (code, err) == (0, "")
    snapshot = read_snapshot(tmp_path / "lantern.rook")
    assert snapshot.identity.system == "nes"
    assert not snapshot.wrapper, "a moment to begin at has no environment"


def test_the_moment_after_a_movie_is_saved_and_another_games_movie_is_refused(state, rom, new_mgba, machine, tmp_path):
    played = machine(new_mgba, frame_skip=4, save=True)
    played.advance(1, 0)
    recorder, hasher = MovieRecorder(played.identity, 4, "tiny", b""), Hasher(played)
    for name in ("noop", "right", "right", "down"):
        played.step(pad_named(name))
        recorder.note(pad_named(name), hasher.now())
    recorder.movie().write(tmp_path / "a.movie")
    words = ("--movie", "a.movie", "--core", new_mgba.path)
    assert state("save", rom, *words, "--out", "a.rook")[0] == 0
    assert first_x(new_mgba, rom, tmp_path / "a.rook") == played.memory.view(GBA_X, 4)[0]
    (tmp_path / "other.gba").write_bytes(rom.read_bytes() + bytes(4))
    code, _, err = state("save", "other.gba", *words, "--out", "b.rook")
    assert code == 1
    assert "belongs to another ROM" in err


def test_nothing_is_overwritten_unless_told(state, rom, tmp_path):
    (tmp_path / "a.rook").write_text("mine")
    code, _, err = state("save", rom, "--out", "a.rook")
    assert (code, err) == (2, "ninelives: --out a.rook exists already; choose another name, or --overwrite\n")
    assert (tmp_path / "a.rook").read_text() == "mine"
    assert state("save", rom, "--out", "a.rook", "--overwrite")[0] == 0
    assert state("info", "a.rook")[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("save", "tiny.gba", "--boot", "noop", "--out", "b.rook"), 2, "'noop' is not ACTION:FRAMES"),
        (("save", "CartPole-v1", "--boot", "noop:3", "--out", "b.rook"), 2, "need a ROM file"),
        (("save", "no such game", "--out", "b.rook"), 2, "is not an environment"),
        (("save", "CartPole-v1", "--out", "b.rook"), 2, "CartPole-v1 is not an emulated game of Ninelives"),
        (("save", "tiny.gba", "--boot", "jump:3", "--out", "b.rook"), 2, "names 'jump'; allowed: 'noop'"),
        (("save", "tiny.gba", "--boot", "noop:0", "--out", "b.rook"), 2, "'noop:0' is not ACTION:FRAMES"),
        (("save", "tiny.gba", "--boot", "noop:²", "--out", "b.rook"), 2, "'noop:²' is not ACTION:FRAMES"),
        (("save", "tiny.gba", "--env-kwargs", "a=1", "--out", "b.rook"), 2, "are for game ids"),
        (("save", "tiny.gba", "--core", "nosuch", "--out", "b.rook"), 2, "no core named nosuch was found"),
        (("save", "nogame.gba", "--out", "b.rook"), 2, "nogame.gba: no such ROM file"),
        (("save", "ninelives/Erand-v0", "--out", "b.rook"), 2, "Did you mean: `Errand`?"),
        (("info", "nothing.rook"), 2, "nothing.rook cannot be read"),
        (("info", "tiny.gba"), 1, "tiny.gba: this is not a Ninelives snapshot"),
        (("convert", "tiny.gba", "--out", "b.rook"), 2, "pass the ROM with --rom"),
        (("convert", "tiny.gba", "--rom", "none.gba", "--out", "b.rook"), 2, "no such file"),
        (("convert", "tiny.gba", "--rom", "tiny.gba", "--out", "b.rook"), 1, "reject"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(state, rom, tmp_path, words, code, told):
    ended, _, err = state(*words)
    assert ended == code
    assert told in err
    assert "Traceback" not in err
    assert not (tmp_path / "b.rook").exists()


def test_a_damaged_and_a_foreign_file_are_told_apart(state, rom, tmp_path):
    state("save", rom, "--out", "a.rook")
    data = bytearray((tmp_path / "a.rook").read_bytes())
    data[-9] ^= 1
    (tmp_path / "b.rook").write_bytes(data)
    assert "b.rook: the snapshot is damaged" in state("info", "b.rook")[2]
    (tmp_path / "other.gba").write_bytes(rom.read_bytes() + b"\0")
    code, _, err = state("info", "a.rook", "--rom", "other.gba")
    assert code == 1
    assert "belongs to another ROM" in err


# ---- raw states -----------------------------------------------------------------------------------------------------


def as_desktop_picture(raw):
    """What desktop mGBA would have written for this state of its core."""
    records, at = {}, MACHINE_BYTES
    while (entry := struct.unpack_from("<IiQ", raw, at))[0]:
        records[f"_{entry[0]}"] = raw[entry[2] : entry[2] + entry[1]]
        at += 16
    assert {f"_{CARTRIDGE}", f"_{CLOCK}"} <= set(records)
    return picture(raw[:MACHINE_BYTES], **records)


def test_a_raw_state_becomes_a_state_file_with_its_cartridge(state, rom, new_mgba, tmp_path):
    state("save", rom, "--core", new_mgba.path, "--boot", "noop:30", "right:5", "--out", "a.rook")
    assert state("convert", "a.rook", "--rom", rom, "--out", "raw.state")[0] == 0
    raw = (tmp_path / "raw.state").read_bytes()
    for envelope in (bytes, rzip, container):
        assert core_state(envelope(raw)) == raw
    (tmp_path / "raw.state").write_bytes(as_desktop_picture(raw))
    code, out, err = state("convert", "raw.state", "--rom", rom, "--core", new_mgba.path, "--out", "b.rook")
    assert (code, err) == (0, "")
    assert "one frame after the raw state" in out
    assert one_frame_later(new_mgba, rom, tmp_path / "a.rook") == one_frame_later(new_mgba, rom, tmp_path / "b.rook", 0)


@pytest.mark.parametrize("core", ["mgba-old", "bindings:mgba"])
def test_a_raw_state_of_a_game_that_saves_is_converted_on_every_gba_core(state, core):
    """A core learns only as the game goes on how large its cartridge is."""
    if core == "bindings:mgba":
        require_bindings()
    game, name = str(DATA / "errand.gba"), str(core_named(core).path) if core == "mgba-old" else core
    assert state("save", game, "--core", name, "--boot", "noop:60", "start:4", "noop:60", "--out", "a.rook")[0] == 0
    assert state("convert", "a.rook", "--out", "raw.state")[0] == 0
    code, out, err = state("convert", "raw.state", "--rom", game, "--core", name, "--out", "b.rook")
    assert (code, err) == (0, "")
    assert "one frame after the raw state" in out


def test_bytes_that_are_no_state_are_refused_though_the_core_takes_them(state, tmp_path):
    game = str(DATA / "lantern.nes")
    state("save", game, "--core", core_named("fceumm").path, "--out", "a.rook")
    state("convert", "a.rook", "--out", "raw.state")
    size = (tmp_path / "raw.state").stat().st_size
    (tmp_path / "noise.state").write_bytes(random.Random(0).randbytes(size))
    code, _, err = state(
        "convert", "noise.state", "--rom", game, "--core", core_named("fceumm").path, "--out", "b.rook"
    )
    assert code == 1
    assert err.startswith("ninelives: this is not a state of FCEUmm")
    assert not (tmp_path / "b.rook").exists()


def one_frame_later(core, rom, file, frames=1):
    env = make(core, rom, state=file, boot=(), frame_skip=1, sticky=0.0)
    env.reset(seed=0)
    for _ in range(frames + 3):
        env.step(0)
    env.close()
    return dict(env.ram)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        rzip(bytes(9000))[:-3],
        rzip(bytes(9000))[:30],
        container(bytes(100))[:40],
        b"RASTATE\x01END \0\0\0\0",
        picture(bytes(300))[:-20],
        b"\x89PNG\r\n\x1a\n" + bytes(50),
        picture(b""),
    ],
)
def test_a_broken_envelope_is_refused(data):
    with pytest.raises(CheckpointError, match="emulator's state"):
        core_state(data)


def _bombs():
    """Small files that expand to a gigabyte or more."""
    part = zlib.compress(bytes(LARGEST // 2), 9)
    packed = struct.pack("<I", len(part)) + part
    announced = struct.pack("<8sIQ", b"#RZIPv\x01#", 1 << 20, LARGEST * 20) + packed * 40
    hidden = struct.pack("<8sIQ", b"#RZIPv\x01#", 1 << 20, 5000) + packed * 40
    records = {f"_{number}": bytes(LARGEST // 2) for number in range(2, 8)}
    return {"announced": announced, "hidden": hidden, "picture": picture(bytes(300), **records)}


@pytest.mark.parametrize("kind", ["announced", "hidden", "picture"])
def test_a_state_that_expands_without_end_is_refused_before_it_fills_the_memory(kind):
    bomb = _bombs()[kind]
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"emulator's state .* (announces|expands to more than) .*bytes"):
            core_state(bomb)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2 * LARGEST if kind == "picture" else most < 1 << 20
