"""The command line as a whole: help that teaches, errors in one message, exit codes."""

import os
import shlex
import signal
import subprocess
import sys

import pytest

import ninelives as package

VERBS = (
    "demo", "train", "test", "runs", "info", "doctor", "check", "benchmark", "chaos", "cores", "games", "state", "play",
    "record", "replay",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_teaches_with_an_example(ninelives, verb):
    done = ninelives(verb, "--help")
    assert done.code == 0
    assert f"$ ninelives {verb}" in done.out
    assert "Traceback" not in done.err


def test_the_first_help_names_every_verb(ninelives):
    done = ninelives("--help")
    assert done.code == 0
    assert all(f"• {verb}" in done.out for verb in VERBS)


def test_no_verb_and_an_unknown_verb_are_usage_errors(ninelives):
    assert ninelives().code == 2
    done = ninelives("inspect")
    assert done.code == 2
    assert "check" in done.err


def test_a_missing_extra_is_reported_in_one_line(here):
    program = "import sys; sys.modules['tyro'] = None; from ninelives.cli.main import main; sys.exit(main(['info']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=here)
    assert done.returncode == 2
    assert done.stderr == "ninelives: the command line needs tyro: pip install 'ninelives[cli]'\n"


def test_the_installed_script_sees_modules_of_the_current_directory(here):
    """A script's own path starts with its own directory, not with the current one."""
    program = "import sys; sys.path[0] = sys.prefix; from ninelives.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "state", "save", "game:Calm", "--out", "calm.rook"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, timeout=60)
    assert "game:Calm is not an emulated game" in done.stderr, "it was found, and has no state"


def test_info_says_versions_native_path_and_machine(ninelives):
    done = ninelives("info")
    assert done.code == 0
    facts = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert facts["ninelives"] == package.__version__
    assert facts["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert {"platform", "numpy", "gymnasium", "cores", "memory"} <= set(facts)


def test_info_says_why_the_native_path_is_not_active(process):
    done = process("info", NINELIVES_NATIVE="0")
    assert "not active: switched off by NINELIVES_NATIVE=0" in done.out


def test_help_does_not_load_what_only_a_run_needs(here):
    program = (
        "import sys; from ninelives.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'gymnasium.envs.classic_control', 'ninelives.testing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=here)
    assert done.stdout.splitlines()[-1] == "[]"


def test_ctrl_c_ends_a_verb_without_a_traceback_and_without_leftovers(here):
    command = [sys.executable, "-m", "ninelives", "demo", "--seconds", "60", "--env", "CartPole-v1"]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "16 slots" in line:
                break
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip() == "ninelives: interrupted"


@pytest.mark.parametrize("verb", ["check", "benchmark", "chaos"])
def test_a_game_that_needs_a_rom_says_so_in_a_sentence(ninelives, verb):
    done = ninelives(verb, "game:NeedsRom")
    assert (done.code, done.err) == (2, "ninelives: it needs your own ROM: --rom FILE\n")


@pytest.mark.parametrize("verb", ["check", "benchmark", "chaos"])
def test_a_rom_that_is_not_there_is_refused_before_anything_starts(ninelives, verb):
    done = ninelives(verb, "game:NeedsRom", "--rom", "nowhere.gba")
    assert done.code == 2
    assert "--rom nowhere.gba: no such file" in done.err


def test_a_reader_that_has_exited_is_no_error():
    """Output waits in a buffer; the closed pipe shows when that is flushed."""
    program = """\
import os, sys
from ninelives.cli.main import _guarded
reads, writes = os.pipe()
os.close(reads)
os.dup2(writes, 1)
sys.exit(_guarded(lambda: print("unread") or 0))"""
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=buffered
    )
    assert (done.stderr, done.returncode) == ("", 1)


def test_help_into_a_closed_pipe_is_no_error(here):
    program = "from ninelives.cli.main import main; import sys; sys.exit(main(['--help']))"
    command = f"{sys.executable} -c {shlex.quote(program)} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=here, timeout=60)
    assert done.stderr == ""


def test_an_error_of_the_system_is_reported_in_a_sentence(here):
    program = "from ninelives.cli.main import main; import sys; sys.exit(main(['games']))"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=here, timeout=60)
    assert done.returncode
    assert "No space left on device" in done.stderr
