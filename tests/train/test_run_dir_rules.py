"""A run's directory is never overwritten without ``--force``, never shared, and records where the run came from."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from ninelives.errors import ConfigError
from ninelives.train.saving.log_offsets import LogOffsets
from ninelives.train.saving.provenance import git_facts, provenance
from ninelives.train.saving.run_dir import RunDir, starts_of


@pytest.fixture
def old(tmp_path):
    """A directory with a finished run in it."""
    path = tmp_path / "runs" / "one"
    with RunDir.open(path) as run:
        run.write_config({"env": "a"})
        run.checkpoints.mkdir()
        (run.checkpoints / "step-1.ckpt").write_text("precious")
    return path


def refusal(path, **how):
    with pytest.raises(ConfigError) as refused:
        RunDir.open(path, **how)
    return str(refused.value)


def test_a_run_is_not_overwritten_without_force(old):
    assert "already holds a run: use --resume to continue it, --force to delete and replace it" in refusal(old)
    assert (old / "checkpoints" / "step-1.ckpt").read_text() == "precious"


def test_a_run_whose_environments_never_started_is_replaced(tmp_path):
    with RunDir.open(tmp_path / "run") as run:
        run.write_config({"env": "mistyped"})
        run.pool.mkdir()
    with RunDir.open(tmp_path / "run") as run:
        assert not run.config.exists()
        assert not run.pool.exists()


def test_resume_keeps_everything(old):
    with RunDir.open(old, resume=True) as run:
        assert run.config.read_text() == "env: a\n"
        assert (run.checkpoints / "step-1.ckpt").read_text() == "precious"


def test_force_deletes_the_run_and_nothing_else(old):
    (old / "thesis.tex").write_text("mine")
    with RunDir.open(old, force=True) as run:
        assert not run.config.exists()
        assert not run.checkpoints.exists()
    assert (old / "thesis.tex").read_text() == "mine"


def test_force_does_not_follow_a_link_out_of_the_directory(old, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    (old / "monitor").symlink_to(elsewhere)
    RunDir.open(old, force=True).close()
    assert (elsewhere / "precious").read_text() == "mine"
    assert not (old / "monitor").exists()


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_with_other_files_is_refused_even_with_force(tmp_path, force):
    (tmp_path / "progress.csv").write_text("somebody's")
    assert "holds other files (progress.csv) but no run" in refusal(tmp_path, force=force)
    assert (tmp_path / "progress.csv").read_text() == "somebody's"


def test_there_must_be_something_to_resume(tmp_path):
    assert "holds no run; leave out --resume" in refusal(tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_a_trainer_killed_before_it_wrote_anything_can_be_started_again_either_way(tmp_path, how):
    path = tmp_path / "run"
    RunDir.open(path).close()
    (path / ".config.yaml.tmp").write_text("env: hal")
    RunDir.open(path, **how).close()


def test_resume_and_force_exclude_each_other(old):
    assert "--resume and --force exclude each other" in refusal(old, resume=True, force=True)


def test_a_file_is_refused_as_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file; name a directory" in refusal(tmp_path / "file")


def test_two_trainers_do_not_share_a_directory(old):
    with RunDir.open(old, resume=True):
        assert f"another trainer (pid {os.getpid()}) is running there" in refusal(old, resume=True)
        assert f"another trainer (pid {os.getpid()})" in refusal(old, force=True)
        assert (old / "checkpoints" / "step-1.ckpt").exists()
    RunDir.open(old, resume=True).close()


def test_a_killed_trainer_leaves_no_lock_behind(old):
    hold = "import sys, time; from ninelives.train.saving.run_dir import RunDir\n"
    hold += "run = RunDir.open(sys.argv[1], resume=True); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hold, str(old)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert f"pid {holder.pid}" in refusal(old, resume=True)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    RunDir.open(old, resume=True).close()


def test_each_start_is_recorded(old):
    for number in range(2):
        with RunDir.open(old, resume=True) as run:
            run.write_provenance({"command": ["ninelives", "train", str(number)]})
    assert [start["command"][-1] for start in starts_of(old)] == ["0", "1"]


def test_provenance_has_versions_machine_and_command():
    facts = provenance()
    assert {"at", "ninelives", "python", "numpy", "gymnasium", "platform", "cores"} <= set(facts)
    assert facts["command"] == sys.orig_argv


def test_provenance_has_the_commit_and_whether_files_differ_from_it(tmp_path):
    def git(*args):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], cwd=tmp_path, check=True)

    assert git_facts(str(tmp_path)) == {}
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "a")
    assert git_facts(str(tmp_path))["git_changed"] is False
    (tmp_path / "a").write_text("2")
    facts = git_facts(str(tmp_path))
    assert facts["git_changed"] is True
    assert len(facts["git_commit"]) == 40


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a\n")
    return path


def test_logs_are_truncated_to_their_size_at_the_checkpoint(tmp_path, log):
    marks = LogOffsets(tmp_path)
    marks.note(10, [log])
    log.write_text("a\nb\n")
    marks.note(20, [log])
    log.write_text("a\nb\nc\n")
    LogOffsets(tmp_path).cut(20, [log])
    assert log.read_text() == "a\nb\n"
    LogOffsets(tmp_path).cut(10, [log])
    assert log.read_text() == "a\n"


def test_a_log_that_did_not_exist_yet_is_emptied(tmp_path, log):
    LogOffsets(tmp_path).note(10, [])
    LogOffsets(tmp_path).cut(10, [log, tmp_path / "never.csv"])
    assert log.read_text() == ""
    assert not (tmp_path / "never.csv").exists()


def test_a_checkpoint_without_saved_offsets_truncates_nothing(tmp_path, log):
    LogOffsets(tmp_path).note(10, [])
    LogOffsets(tmp_path).cut(20, [log])
    assert log.read_text() == "a\n"


def test_a_new_directory_is_private_and_an_existing_one_keeps_its_mode(tmp_path):
    with RunDir.open(tmp_path / "runs" / "new"):
        assert stat.S_IMODE((tmp_path / "runs" / "new").stat().st_mode) == 0o700
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    with RunDir.open(tmp_path / "shared"):
        assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755


def test_a_directory_that_cannot_be_made_is_named():
    with pytest.raises(ConfigError, match="--run-dir /dev/null/one cannot be made: Not a directory"):
        RunDir.open("/dev/null/one")
