"""Requirements that a test does not find: a skip on any machine, a failure where everything was installed.

The reason of such a skip begins with ``missing: ``. A skip that is right on a complete machine (too long, another
system) must never begin like that.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest

MISSING = "missing: "

REQUIRED = os.environ.get("NINELIVES_REQUIRE_CORES") == "1"
"""In CI nothing may be missing: a test that is skipped even there is never run."""


def skip_missing(what: object) -> NoReturn:
    """Skip the test, or at the top of a module all of its tests."""
    __tracebackhide__ = True
    pytest.skip(f"{MISSING}{what}", allow_module_level=True)


def require_module(name: str) -> ModuleType:
    """The module, if it is installed."""
    __tracebackhide__ = True
    try:
        return importlib.import_module(name)
    except ImportError as error:
        skip_missing(error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _judged((yield))


def _judged(report):
    # The reports of expected failures are skips too, with no such triple.
    if REQUIRED and report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith(MISSING):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {reason}\nNINELIVES_REQUIRE_CORES=1 says that nothing is."
    return report
