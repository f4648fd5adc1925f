"""A skip for want of something is a failure where nothing may be missing, however it was skipped; no other skip is."""

import pytest
from small_session import run_session

IN_TESTS = """
import pytest
from missing import MISSING, require_module, skip_missing

@pytest.fixture(scope="module")
def emulator():
    skip_missing("an emulator")

def test_body():
    skip_missing("a core")

def test_fixture(emulator):
    pass

def test_import():
    require_module("no_such_package")

@pytest.mark.skipif(True, reason=f"{MISSING}a compiler")
def test_mark():
    pass

def test_plain():
    pytest.skip("nothing is missing: this takes hours")

@pytest.mark.xfail(reason="missing: a mend")
def test_known():
    assert False
"""

AT_THE_TOP = {
    "whole_module": "from missing import skip_missing\nskip_missing('a core')\n",
    "whole_import": "from missing import require_module\nrequire_module('no_such_package')\n",
}


def session(place, tests, required):
    return run_session(place, tests, NINELIVES_REQUIRE_CORES="1" if required else "")


def test_on_anyones_machine_they_are_skips_that_say_what_is_missing(tmp_path):
    done = session(tmp_path, IN_TESTS, required=False)
    assert done.returncode == 0, done.stdout
    assert "5 skipped, 1 xfailed" in done.stdout
    for reason in ("a core", "an emulator", "No module named 'no_such_package'", "a compiler"):
        assert f": missing: {reason}\n" in done.stdout
    assert "missing.py" not in done.stdout, "the skip is reported where the test is, not where it is raised"


def test_where_nothing_may_be_missing_each_of_them_fails_and_plain_skips_stay(tmp_path):
    done = session(tmp_path, IN_TESTS, required=True)
    assert done.returncode == 1
    assert "2 failed, 1 skipped, 1 xfailed, 2 errors" in done.stdout
    for test in ("FAILED test_small.py::test_body", "FAILED test_small.py::test_import"):
        assert test in done.stdout
    for test in ("ERROR test_small.py::test_fixture", "ERROR test_small.py::test_mark"):
        assert test in done.stdout
    assert "missing: a compiler\nNINELIVES_REQUIRE_CORES=1 says that nothing is." in done.stdout


@pytest.mark.parametrize("tests", AT_THE_TOP.values(), ids=list(AT_THE_TOP))
def test_a_module_that_skips_itself_fails_too(tests, tmp_path):
    rest = "def test_one():\n    pass\n"
    assert "1 skipped" in session(tmp_path, tests + rest, required=False).stdout
    done = session(tmp_path, tests + rest, required=True)
    assert done.returncode == 2
    assert "ERROR test_small.py" in done.stdout
    assert "NINELIVES_REQUIRE_CORES=1" in done.stdout
