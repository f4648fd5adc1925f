"""The doctor names the line that is to blame, not the machinery around it."""

from ninelives.view.stacks import blamed_line, exception_line, raising_line

OURS = """\
  File "/opt/lib/ninelives/worker/main.py", line 111 in serve
  File "/opt/lib/ninelives/supervise/child.py", line 78 in live
  File "<string>", line 1 in <module>
"""
HUNG = f"""\
loading level 3
Current thread 0x00007f0b0808cb80 (most recent call first):
  File "/home/me/game.py", line 13 in wait_for_player
  File "/home/me/game.py", line 8 in step
{OURS}"""
SYSTEM_ONLY = """\
Native stack (innermost first):
/opt/lib/ninelives/worker/_stack.cpython-311-x86_64-linux-gnu.so(+0x24f6)[0x7f0b020b94f6]
/tmp/scratch/ninelives-frames-_frames.cpython-311-x86_64-linux-gnu-k2x.so(+0x1149)[0x7f0b020b9149]
/usr/lib/libffi.so.8(ffi_call+0x23)[0x7f0b078ed503]
/lib/x86_64-linux-gnu/libc.so.6(clock_nanosleep+0x23)[0x7f0b078ed503]
/usr/lib/libpython3.11.so.1.0(PyObject_Vectorcall+0x33)[0x7f0b07b58ba3]
"""
IN_A_LIBRARY = SYSTEM_ONLY + "/home/me/libgame.so(emulate_frame+0x10)[0x7f0b07b58ba3]\n"


def test_a_hang_is_blamed_on_the_innermost_line_of_the_environment():
    assert blamed_line(HUNG) == "/home/me/game.py:13 in wait_for_player"


def test_a_hang_inside_an_installed_package_names_the_environments_line_that_called_it():
    dump = f"""\
Current thread 0x00007f0b0808cb80 (most recent call first):
  File "/venv/lib/python3.11/site-packages/requests/api.py", line 59 in request
  File "/home/me/game.py", line 8 in step
{OURS}"""
    expected = (
        "/venv/lib/python3.11/site-packages/requests/api.py:59 in request, called from /home/me/game.py:8 in step"
    )
    assert blamed_line(dump) == expected


def test_a_hang_inside_our_own_simulators_is_reported_as_one_inside_an_installed_package():
    dump = f"""\
Current thread 0x00007f0b0808cb80 (most recent call first):
  File "/home/me/ninelives/src/ninelives/sims/libretro/game.py", line 90 in run
  File "/home/me/mygame.py", line 8 in step
{OURS}"""
    assert blamed_line(dump).endswith("game.py:90 in run, called from /home/me/mygame.py:8 in step")


def test_other_threads_are_not_blamed():
    dump = f"""\
Thread 0x00007f0b00000000 (most recent call first):
  File "/home/me/music.py", line 2 in play
{HUNG}"""
    assert blamed_line(dump) == "/home/me/game.py:13 in wait_for_player"


def test_a_native_library_is_named_beside_the_line_that_called_it():
    assert blamed_line(HUNG + IN_A_LIBRARY) == (
        "/home/me/game.py:13 in wait_for_player, inside libgame.so (emulate_frame)"
    )


def test_the_system_and_python_are_not_blamed_for_a_native_stack():
    assert blamed_line(HUNG + SYSTEM_ONLY) == "/home/me/game.py:13 in wait_for_player"


def test_a_native_step_without_python_lines_is_blamed_on_its_library():
    dump = f"Current thread 0x1 (most recent call first):\n{OURS}{IN_A_LIBRARY}"
    assert blamed_line(dump) == "native code of libgame.so (emulate_frame)"


def test_text_without_a_stack_blames_no_line():
    assert blamed_line("the emulator says hello\n") == ""
    assert raising_line("") == ""
    assert exception_line("") == ""


def test_an_exception_is_blamed_on_the_line_that_raised_it():
    traceback = """\
Traceback (most recent call last):
  File "/opt/lib/ninelives/worker/slot.py", line 90, in step
    result = self.env.step(action)
  File "/home/me/game.py", line 8, in step
    return self._move(action)
  File "/home/me/game.py", line 21, in _move
    raise ValueError("no such tile")
ValueError: no such tile
"""
    assert raising_line(traceback) == "/home/me/game.py:21 in _move"
    assert exception_line(traceback) == "ValueError: no such tile"


def test_an_installed_environment_is_blamed_for_what_a_library_raised_below_it():
    traceback = """\
Traceback (most recent call last):
  File "/opt/lib/ninelives/worker/slot.py", line 150, in step
  File "/venv/lib/python3.11/site-packages/gymnasium/wrappers/common.py", line 125, in step
  File "/venv/lib/python3.11/site-packages/gymnasium/core.py", line 327, in step
  File "/venv/lib/python3.11/site-packages/mygame/env.py", line 40, in step
  File "/venv/lib/python3.11/site-packages/numpy/linalg/linalg.py", line 112, in inv
LinAlgError: Singular matrix
"""
    where = raising_line(traceback)
    assert where.endswith(
        "linalg.py:112 in inv, called from /venv/lib/python3.11/site-packages/mygame/env.py:40 in step"
    )


def test_a_failed_import_is_blamed_on_the_line_that_imports_not_on_the_import_system():
    ours = """\
Traceback (most recent call last):
  File "/opt/lib/ninelives/spec/env.py", line 100, in _load_factory
  File "/usr/lib/python3.11/importlib/__init__.py", line 126, in import_module
  File "<frozen importlib._bootstrap>", line 1204, in _gcd_import
"""
    assert raising_line(f"{ours}ModuleNotFoundError: No module named 'mygame'") == ""
    own = f"{ours}  File \"/home/me/mygame.py\", line 3, in <module>\nModuleNotFoundError: No module named 'mylib'"
    assert raising_line(own) == "/home/me/mygame.py:3 in <module>"
