"""``ninelives check``: its report on environments that are good, random, broken or missing."""

import re

import pytest

from ninelives.cli.check import judge
from ninelives.cli.diagnosis.finding import Severity
from ninelives.testing import EnvReport

GOOD = {
    "env": "game:make", "deterministic": True, "first_difference": None, "reuses_buffer": False, "picklable": True,
    "isolated": True, "steps_per_s": 1000.0, "rss_bytes_per_copy": 5_000_000, "findings": (), "on_fault": "'cut'",
    "fork_safe": {"forkserver": None, "fork": None, "spawn": None},
}  # fmt: skip


def verdicts(**changes):
    return {verdict.name: verdict for verdict in judge(EnvReport(**{**GOOD, **changes}))}


def test_a_module_of_the_current_directory_takes_keyword_arguments_and_a_rom(ninelives, here):
    (here / "mine.gba").write_bytes(b"rom")
    done = ninelives("check", "game:NeedsRom", "--env-kwargs", "size=5", "--rom", "mine.gba", "--steps", "20")
    assert (done.code, done.err) == (0, "")
    assert "the same seed and actions give the same rows" in done.out
    assert "game:NeedsRom is ready for a pool" in done.out


def test_an_environment_that_breaks_its_contract_is_a_problem(ninelives):
    done = ninelives("check", "game:Moody", "--steps", "20")
    assert done.code == 1
    assert "warning deterministic" in done.out
    assert "problem contract" in done.out
    assert "not in observation_space" in done.out


def test_an_environment_that_crashes_takes_only_its_worker_along(ninelives):
    done = ninelives("check", "game:Fatal", "--steps", "20")
    assert done.code == 1
    assert "killed by SIGSEGV" in done.err
    assert "game.py" in done.err


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ("Fatal", r"problem crashed +at step 1, seed 5: killed by SIGSEGV.*game\.py:\d+ in step"),
        ("Stuck", r"problem hung +at step 1, seed 5: hung in call.*game\.py:\d+ in wait_forever"),
        ("Raising", r"problem raised +at step 1, seed 5: raised ValueError: no such tile.*game\.py:\d+ in step"),
    ],
)
def test_an_environment_that_breaks_is_a_verdict_with_step_seed_and_line(ninelives, env, found):
    done = ninelives("check", f"game:{env}", "--steps", "20", "--seed", "5", "--timeout-s", "1.5")
    assert done.code == 1
    assert re.search(found, done.out)
    assert "1 problem found; fix these before a long run" in done.out
    assert "Traceback" not in done.out


def test_an_environment_that_cannot_be_built_shows_its_own_traceback_once(ninelives):
    done = ninelives("check", "game:Unbuildable", "--steps", "20")
    assert done.code == 1
    assert done.err.startswith("ninelives: slot 0")
    assert done.err.count("KeyError: 'rom'\n") == 1
    assert "cli/main.py" not in done.err


def test_names_and_settings_that_cannot_be_are_usage_errors(ninelives):
    done = ninelives("check", "what?")
    assert done.code == 2
    assert "is not an environment" in done.err
    done = ninelives("check", "game:Calm", "--env-kwargs", "size")
    assert done.code == 2
    assert "is not KEY=VALUE" in done.err


def test_a_good_report_has_nothing_to_complain_about():
    assert {verdict.severity for verdict in verdicts().values()} == {None}


def test_chance_that_is_not_seeded_is_a_warning_with_the_place_it_shows():
    verdict = verdicts(deterministic=False, first_difference="reward of row 3")["deterministic"]
    assert verdict.severity is Severity.WARNING
    assert "reward of row 3" in verdict.found


def test_a_reset_that_leaves_something_is_a_warning_with_the_setting_that_helps():
    found = verdicts(deterministic=False, reuse_differs=True, first_difference="observation of row 5")
    assert "deterministic" not in found
    assert found["reset"].severity is Severity.WARNING
    assert "new environments agree, a used one differs at observation of row 5" in found["reset"].found
    assert "--pool.fresh-env-every-episode" in found["reset"].advice


def test_copies_that_disturb_each_other_need_workers_of_their_own():
    assert "workers=num_envs" in verdicts(isolated=False)["isolated"].advice


def test_only_the_default_start_method_is_a_problem_when_it_fails():
    broken = verdicts(fork_safe={"forkserver": None, "fork": "slot 0: hung in call\n  phase: call", "spawn": None})
    assert broken["start: fork"].severity is Severity.WARNING
    assert broken["start: fork"].found == "does not work: slot 0: hung in call"
    assert "'forkserver' or 'spawn'" in broken["start: fork"].advice
    assert verdicts(fork_safe={"forkserver": "x", "fork": None})["start: forkserver"].severity is Severity.PROBLEM


def test_a_factory_that_cannot_be_sent_is_a_warning():
    assert "start_method='fork'" in verdicts(picklable=False)["picklable"].advice


def test_files_that_slots_share_are_a_warning_with_both_ways_out():
    verdict = verdicts(shared_files=("game.sav",))["files"]
    assert verdict.severity is Severity.WARNING
    assert "'game.sav'" in verdict.found
    assert "current_slot().scratch" in verdict.advice
    assert "workers=num_envs" in verdict.advice
