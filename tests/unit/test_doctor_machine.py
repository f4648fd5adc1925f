"""What the doctor says about a machine, judged from facts."""

import resource

import pytest

from ninelives.cli.diagnosis import machine_checks as machine
from ninelives.cli.diagnosis.finding import Severity
from ninelives.cli.reporting.verdict_table import GOOD, Verdict, conclude, show

GB = 10**9


def test_a_machine_with_all_its_cores_is_good():
    assert machine.judge_cores(8, 8, 8).severity is GOOD


def test_cores_taken_away_are_reported_with_who_took_them():
    assert "affinity allows 2" in machine.judge_cores(8, 2, 2).found
    quota = machine.judge_cores(8, 8, 3)
    assert quota.severity is Severity.WARNING
    assert quota.found == "3 of 8 may be used (the container's quota)"
    assert machine.judge_cores(8, 4, 2).found == "2 of 8 may be used (affinity allows 4, the container's quota 2)"


def test_a_low_hard_limit_of_open_files_is_a_warning_with_the_number_of_workers_it_allows():
    low = machine.judge_descriptors(256, 328)
    assert low.severity is Severity.WARNING
    assert "room for about 100 workers" in low.found
    assert machine.judge_descriptors(1024, 1 << 20).severity is GOOD
    assert machine.judge_descriptors(1024, resource.RLIM_INFINITY).severity is GOOD


def test_a_containers_memory_limit_is_reported_and_little_memory_is_a_warning():
    assert "this container may use 2.0 GB" in machine.judge_memory(8 * GB, 2 * GB, 6 * GB).found
    assert machine.judge_memory(8 * GB, 8 * GB, GB // 10).severity is Severity.WARNING
    assert machine.judge_memory(8 * GB, GB // 10, 6 * GB).severity is Severity.WARNING
    assert machine.judge_memory(8 * GB, 8 * GB, 6 * GB).severity is GOOD


def test_the_pure_python_path_is_a_warning_with_its_reason():
    verdict = machine.judge_native(False, "switched off by NINELIVES_NATIVE=0")
    assert verdict.severity is Severity.WARNING
    assert "NINELIVES_NATIVE=0" in verdict.found


def test_without_the_native_path_only_python_stacks_will_be_seen():
    assert "Python stack only" in machine.judge_stacks(False, gdb=False, ptrace_scope="").found
    assert "Python and native stack" in machine.judge_stacks(True, gdb=False, ptrace_scope="1").found


def test_grouping_by_session_is_reported_either_way():
    assert machine.judge_autogroup("1").found.startswith("autogroup is on:")
    assert machine.judge_autogroup("0").found == "autogroup is off"


def test_a_temporary_directory_that_takes_no_files_is_a_problem(tmp_path):
    assert machine.check_temp_dir(tmp_path).severity is GOOD
    gone = machine.check_temp_dir(tmp_path / "gone")
    assert gone.severity is Severity.PROBLEM
    assert "TMPDIR" in gone.advice


def test_a_start_method_that_does_not_work_is_a_problem_that_names_the_others():
    verdict = machine.check_start("teleport")
    assert verdict.severity is Severity.PROBLEM
    assert "'teleport'" in verdict.found
    assert "'forkserver' or 'fork' or 'spawn'" in verdict.advice


def test_shared_memory_is_really_mapped_and_filled():
    assert "mapped and filled" in machine.check_shared_memory().found


@pytest.mark.parametrize(
    ("severities", "code", "words"),
    [
        ([GOOD, GOOD], 0, "all well\n"),
        ([GOOD, Severity.NOTE], 0, "all well\n"),
        ([Severity.WARNING, Severity.WARNING], 0, "all well, with 2 warnings\n"),
        ([Severity.WARNING, Severity.PROBLEM], 1, "1 problem found; bad luck\n"),
    ],
)
def test_only_problems_make_the_exit_code_one(capsys, severities, code, words):
    assert conclude(severities, "all well", "bad luck") == code
    assert capsys.readouterr().out.endswith(words)


def test_text_that_looks_like_markup_is_printed_as_it_is(capsys):
    show(Verdict("odd [red]", GOOD, "list[int] [/] [bold]", advice="[RUN_DIR]"))
    printed = capsys.readouterr().out
    assert "odd [red]" in printed
    assert "list[int] [/] [bold]" in printed
    assert "-> [RUN_DIR]" in printed
