"""The doctor speaks in flags to a user of ``ninelives train``, and in keywords to a user of ``ninelives.Pool``."""

import pytest

from ninelives.cli.diagnosis.finding import Finding, Severity
from ninelives.cli.diagnosis.wording import by_command_line, in_flags


@pytest.mark.parametrize(
    ("keywords", "flags"),
    [
        ("if it is only slow, raise step_timeout_s above 30 s", "raise --pool.step-timeout-s above 30 s"),
        ("max_rss_bytes=240_000_000 replaces it", "--pool.max-rss-bytes 240_000_000 replaces it"),
        ("on_fault='cut', if it", "--pool.on-fault cut, if it"),
        ("check='shape' accepts NaN", "--pool.check shape accepts NaN"),
        ("`ninelives check ENV` looks for the cause", "`ninelives check ENV` looks for the cause"),
        ("spares=1 keeps one ready", "--pool.spares 1 keeps one ready"),
        ("first-ready batches (batch_size below num_envs)", "(--pool.ready below --n-envs)"),
        ("run fewer workers; see `dmesg`", "run fewer workers (--pool.workers); see `dmesg`"),
        ("modules in preload=[...]: they", "preload=[...] (of ninelives.Pool; there is no flag for it): they"),
    ],
)
def test_advice_is_given_in_flags(keywords, flags):
    finding = in_flags(Finding(Severity.NOTE, "title", (keywords,), (keywords,)))
    assert finding.title == "title"
    assert flags in finding.details[0]
    assert flags in finding.advice[0]


def test_only_a_run_of_the_command_line_gets_flags():
    assert by_command_line(["/usr/bin/python", "/venv/bin/ninelives", "train", "CartPole-v1"])
    assert by_command_line(["/usr/bin/python", "-m", "ninelives", "train", "CartPole-v1"])
    assert not by_command_line(["python", "train.py", "ninelives"])
    assert not by_command_line([])
