"""``ninelives train``: one command trains, keeps everything, goes on, and refuses what would lose something."""

import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest
import yaml
from same_process import commands, reap_orphans
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from missing import require_module
from ninelives.cli.reporting.display import Display
from ninelives.cli.train import Train, summary
from ninelives.train import train as train_with
from ninelives.train.config.classes import PpoConfig, TrainConfig
from ninelives.train.records import Result
from ninelives.view.monitor import read_episodes
from ninelives.view.progress import ProgressView
from ninelives.view.table import read_table

SMALL = ("--ppo.n-steps", "32", "--n-envs", "4", "--overlap", "off")


@pytest.fixture
def command(here, monkeypatch, capsys):
    return commands(here, monkeypatch, capsys)


@pytest.fixture
def train(command):
    return lambda *args: command("train", *args, *SMALL)


def test_one_command_trains_and_keeps_everything_about_the_run(train, here):
    done = train("CartPole-v1", "--timesteps", "2000", "--run-dir", "runs/one", "--seed", "3")
    assert done.code == 0, done.err
    run = here / "runs" / "one"
    assert re.search(r"done: 2,048 steps, \d+ episodes, mean return \d+\.\d+", done.out)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["env"], config["seed"], config["ppo"]["n_steps"], config["n_envs"]) == ("CartPole-v1", 3, 32, 4)
    rows = read_table(run / "progress.csv")
    assert [row["step"] for row in rows] == list(range(128, 2049, 128))
    assert sorted(path.name for path in (run / "monitor").iterdir()) == [f"{slot}.monitor.csv" for slot in range(4)]
    assert list((run / "tensorboard").iterdir())
    assert list((run / "checkpoints").iterdir())
    assert (run / "pool" / "events.jsonl").exists()
    assert {"seconds", "steps_per_s", "policy_loss", "value_loss", "entropy"} <= set(rows[0])
    (start,) = json.loads((run / "run.json").read_text())["starts"]
    assert {"ninelives", "torch", "python", "command", "at"} <= set(start)


def test_tensorboard_has_the_names_that_dashboards_know(train, here):
    assert train("CartPole-v1", "--timesteps", "2000", "--run-dir", "one").code == 0
    accumulator = EventAccumulator(str(here / "one" / "tensorboard"))
    accumulator.Reload()
    names = set(accumulator.Tags()["scalars"])
    assert {f"rollout/ep_rew_mean_env_{slot}" for slot in range(4)} <= names
    assert {"rollout/ep_rew_mean", "rollout/ep_len_mean"} <= names
    assert {"charts/SPS", "charts/episodic_return", "charts/episodic_length", "charts/learning_rate"} <= names
    assert {"losses/policy_loss", "losses/value_loss", "losses/entropy", "losses/approx_kl"} <= names
    assert {"faults/seen", "faults/restarts", "faults/healed", "faults/valid_share"} <= names
    assert {"time/fps", "time/total_timesteps", "time/idle_collect", "time/idle_learn"} <= names
    table = {row["step"]: row.get("ep_rew_mean") for row in read_table(here / "one" / "progress.csv")}
    for event in accumulator.Scalars("rollout/ep_rew_mean"):
        assert event.value == pytest.approx(table[event.step], rel=1e-4)


def test_a_run_begins_with_the_weights_of_another(train):
    assert train("CartPole-v1", "--timesteps", "128", "--run-dir", "one").code == 0
    assert train("CartPole-v1", "--timesteps", "128", "--run-dir", "two", "--model", "one").code == 0
    missing = train("CartPole-v1", "--run-dir", "three", "--model", "nothing")
    assert missing.code == 2
    assert "nothing is neither a checkpoint nor a run" in missing.err


WANDB = """
import json

class Run:
    def log(self, values, step):
        with open("sent.jsonl", "a") as file:
            file.write(json.dumps({"step": step, **values}) + chr(10))

    def finish(self):
        with open("sent.jsonl", "a") as file:
            file.write('"finished"')

def init(**about):
    with open("init.json", "w") as file:
        json.dump(about, file)
    return Run()
"""


def test_weights_and_biases_gets_the_same_numbers_under_the_name_of_the_directory(train, here):
    (here / "wandb.py").write_text(WANDB)
    done = train("CartPole-v1", "--timesteps", "256", "--run-dir", "runs/one", "--log.wandb", "rooks")
    assert done.code == 0, done.err
    about = json.loads((here / "init.json").read_text())
    assert (about["project"], about["id"], about["resume"]) == ("rooks", "one", "allow")
    *sent, last = (json.loads(line) for line in (here / "sent.jsonl").read_text().splitlines())
    assert [values["step"] for values in sent] == [128, 256]
    assert "losses/policy_loss" in sent[0]
    assert last == "finished"


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_missing_extra_is_refused_before_anything_starts(train, here):
    done = train("CartPole-v1", "--log.wandb", "rooks")
    assert done.code == 2
    assert "log.wandb='rooks' needs wandb: pip install 'ninelives[wandb]'" in done.err
    assert not (here / "runs").exists()


def test_the_directory_is_named_after_environment_and_time_if_none_is_said(train, here):
    assert train("CartPole-v1", "--timesteps", "128").code == 0
    (run,) = (here / "runs").iterdir()
    assert re.fullmatch(r"CartPole-v1-\d{8}-\d{6}", run.name)


def test_a_run_is_not_overwritten_and_goes_on_without_its_settings_being_said_again(train, command, here):
    assert train("CartPole-v1", "--timesteps", "256", "--run-dir", "runs/one").code == 0
    again = train("CartPole-v1", "--run-dir", "runs/one")
    assert again.code == 2
    assert "already holds a run: use --resume to continue it, --force to delete and replace it" in again.err
    on = command("train", "--run-dir", "runs/one", "--resume", "--timesteps", "512")
    assert on.code == 0, on.err
    assert "goes on at step 256" in on.out
    assert [row["step"] for row in read_table(here / "runs" / "one" / "progress.csv")] == [128, 256, 384, 512]


def test_a_resumed_run_ends_with_the_weights_and_the_logs_of_one_that_was_never_killed(command, here):
    flags = ("CartPole-v1", "--timesteps", "4096", "--checkpoint-every", "512", *SMALL)
    whole = command("train", *flags, "--run-dir", "whole")
    assert whole.code == 0, whole.err
    killed = [sys.executable, "-m", "ninelives", "train", *flags, "--run-dir", "killed"]
    with subprocess.Popen(killed, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _wait_for_checkpoint(here / "killed" / "checkpoints", process)
        os.kill(process.pid, signal.SIGKILL)
    reap_orphans()
    resumed = command("train", "--run-dir", "killed", "--resume")
    assert resumed.code == 0, resumed.err
    assert _sha(resumed.out) == _sha(whole.out)
    assert _shown_sha(command, "killed") == _shown_sha(command, "whole") == _sha(whole.out)
    steps = [row["step"] for row in read_table(here / "killed" / "progress.csv")]
    assert steps == list(range(128, 4097, 128))
    episodes = [sorted(row[:2] for row in read_episodes(here / name / "monitor")) for name in ("whole", "killed")]
    assert episodes[0] == episodes[1]


def _wait_for_checkpoint(directory, process):
    while not (directory.is_dir() and list(directory.glob("step-*.ckpt"))):
        assert process.poll() is None, process.stderr.read()
        assert process.stdout.readline() or process.poll() is None


def _sha(out):
    return re.search(r"weights sha256: ([0-9a-f]{64})", out)[1]


def _shown_sha(command, run):
    return _sha(command("runs", "show", run).out)


def test_a_file_has_the_shape_of_the_flags_and_flags_win(train, command, here):
    (here / "run.yaml").write_text("env: CartPole-v1\ntimesteps: 256\nppo:\n  epochs: 2\n  gamma: 0.9\n")
    done = train("--config", "run.yaml", "--set", "ppo.gamma=0.95", "--ppo.epochs", "1", "--run-dir", "one")
    assert done.code == 0, done.err
    config = yaml.safe_load((here / "one" / "config.yaml").read_text())
    assert (config["timesteps"], config["ppo"]["epochs"], config["ppo"]["gamma"]) == (256, 1, 0.95)
    repeated = command("train", "--config", "one/config.yaml", "--run-dir", "two")
    assert _sha(repeated.out) == _sha(done.out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("env: CartPole-v1\nppo:\n  epoch: 2\n", "run.yaml:3: ppo.epoch is not a setting; did you mean ppo.epochs?"),
        ("env: CartPole-v1\nn_envs: four\n", "run.yaml:2: n_envs='four' must be a whole number or 'auto'"),
        ("env: CartPole-v1\nppo: {clip: 0}\n", "run.yaml:2: clip=0.0 must be greater than 0"),
        ("env: CartPole-v1\nresume: true\n", "run.yaml:2: resume needs run_dir"),
        ("timesteps: 100\n", "env is missing"),
        ("env: CartPole\n", "run.yaml:1: env='CartPole' is not an environment"),
    ],
)
def test_what_is_wrong_in_a_file_is_refused_by_line_before_anything_starts(command, here, text, words):
    (here / "run.yaml").write_text(text)
    done = command("train", "--config", "run.yaml")
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert not (here / "runs").exists()


def test_a_flag_that_does_not_exist_is_answered_with_the_nearest(ninelives):
    done = ninelives("train", "CartPole-v1", "--ppo.epoch", "3")
    assert done.code == 2
    assert "--ppo.epochs" in done.err


def test_keyword_arguments_reach_the_environment(train, here):
    done = train("game:Calm", "--env-kwargs", "size=5", "--timesteps", "128", "--run-dir", "one")
    assert done.code == 0, done.err
    assert yaml.safe_load((here / "one" / "config.yaml").read_text())["env_kwargs"] == {"size": 5}


def test_an_environment_that_does_not_start_is_told_in_its_own_words(train):
    done = train("game:Unbuildable", "--timesteps", "128")
    assert done.code == 1
    assert "KeyError: 'rom'" in done.err


def test_ctrl_c_keeps_the_run_and_says_how_to_go_on(here):
    trainer = [sys.executable, "-m", "ninelives", "train", "CartPole-v1", "--run-dir", "one", *SMALL]
    with subprocess.Popen(trainer, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("run: "):
                break
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "go on: ninelives train --run-dir one --resume" in out
    assert list((here / "one" / "checkpoints").iterdir())


def test_visualize_changes_neither_the_number_of_environments_nor_the_result(train, here):
    runs = [train("CartPole-v1", "--timesteps", "256", "--run-dir", name, *more)
            for name, more in (("plain", ()), ("seen", ("--visualize",)))]  # fmt: skip
    assert "training goes on without pictures" in runs[1].out
    assert _sha(runs[0].out) == _sha(runs[1].out)
    assert yaml.safe_load((here / "seen" / "config.yaml").read_text())["n_envs"] == 4


def shown(env, n_envs):
    """What a terminal gets to see of a short run."""
    stream = io.StringIO()
    config = TrainConfig(
        env=env, n_envs=n_envs, timesteps=n_envs, overlap="off", visualize=True, ppo=PpoConfig(n_steps=8)
    )
    with ProgressView(stream, live=True) as view:
        train_with(config, [Display(view, visualize=True)])
    return stream.getvalue()


@pytest.mark.parametrize("n_envs", [1, 5])
def test_on_a_terminal_every_slot_is_drawn(n_envs):
    require_module("pygame")
    text = shown("CartPole-v1", n_envs)
    assert "▀" in text
    assert f"{'■' * n_envs}" in re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.usefixtures("command")
def test_an_environment_without_pictures_is_trained_without_them():
    text = re.sub(r"\s+", " ", shown("game:Calm", 2))
    assert "▀" not in text
    assert "no picture" in text


def test_what_was_said_is_what_is_trained():
    said = Train("CartPole-v1", {"timesteps": 5, "env_kwargs": ("a=1",), "net": {"hidden": (8,)}}, None, ("seed=7",))
    config = said.settings()
    assert (config.timesteps, config.env_kwargs, config.net.hidden, config.seed) == (5, {"a": 1}, (8,), 7)


def test_a_run_without_an_episode_is_told_as_such():
    result = Result(step=10, episodes=0, mean_return=None, version=1, seconds=1.0, steps_per_s=10.0,
                    weights_sha256="ab", stopped=False, run_dir=None, policy=None)  # fmt: skip
    assert summary(result)[0] == "done: 10 steps, 0 episodes, no episode ended, 1.00 s at 10 steps/s"
