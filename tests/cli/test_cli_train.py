"""``ninelives train``: one command trains, logs everything, resumes, and refuses what would lose something."""

import contextlib
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from missing import require_module
from ninelives.cli.main import main
from ninelives.cli.reporting.display import Display
from ninelives.cli.train import TrainCommand, summary, with_run_dir
from ninelives.train import train as train_with
from ninelives.train.config.classes import PpoConfig, TrainConfig
from ninelives.train.records import Result
from ninelives.view.monitor import read_episodes
from ninelives.view.progress import ProgressView
from ninelives.view.table import read_table

SMALL = ("--ppo.n-steps", "32", "--n-envs", "4", "--overlap", "off")


@pytest.fixture
def train(ninelives):
    return lambda *args: ninelives("train", *args, *SMALL)


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """The directory of a run that was long enough for every slot to finish episodes, trained once."""
    run = tmp_path_factory.mktemp("runs") / "one"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["train", "CartPole-v1", "--timesteps", "1000", "--run-dir", str(run), "--seed", "3", *SMALL]) == 0
    assert re.search(r"done: 1,024 steps, \d+ episodes, mean return \d+\.\d+", out.getvalue())
    return run


def test_one_command_trains_and_logs_everything_about_the_run(logged):
    run = logged
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["env"], config["seed"], config["ppo"]["n_steps"], config["n_envs"]) == ("CartPole-v1", 3, 32, 4)
    rows = read_table(run / "progress.csv")
    assert [row["step"] for row in rows] == list(range(128, 1025, 128))
    assert sorted(path.name for path in (run / "monitor").iterdir()) == [f"{slot}.monitor.csv" for slot in range(4)]
    assert list((run / "tensorboard").iterdir())
    assert list((run / "checkpoints").iterdir())
    assert (run / "pool" / "events.jsonl").exists()
    assert {"seconds", "steps_per_s", "policy_loss", "value_loss", "entropy"} <= set(rows[0])
    (start,) = json.loads((run / "run.json").read_text())["starts"]
    assert {"ninelives", "torch", "python", "command", "at"} <= set(start)


def test_tensorboard_has_the_names_that_dashboards_know(logged):
    accumulator = EventAccumulator(str(logged / "tensorboard"))
    accumulator.Reload()
    names = set(accumulator.Tags()["scalars"])
    assert {f"rollout/ep_rew_mean_env_{slot}" for slot in range(4)} <= names
    assert {"rollout/ep_rew_mean", "rollout/ep_len_mean"} <= names
    assert {"charts/SPS", "charts/episodic_return", "charts/episodic_length", "charts/learning_rate"} <= names
    assert {"losses/policy_loss", "losses/value_loss", "losses/entropy", "losses/approx_kl"} <= names
    assert {"faults/seen", "faults/restarts", "faults/healed", "faults/valid_share"} <= names
    assert {"time/fps", "time/total_timesteps", "time/idle_collect", "time/idle_learn"} <= names
    table = {row["step"]: row.get("ep_rew_mean") for row in read_table(logged / "progress.csv")}
    for event in accumulator.Scalars("rollout/ep_rew_mean"):
        assert event.value == pytest.approx(table[event.step], rel=1e-4)


@pytest.mark.usefixtures("one")
def test_a_run_begins_with_the_weights_of_another(train):
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


def test_the_directory_is_named_after_environment_and_time_if_none_is_given():
    run_dir = with_run_dir(TrainConfig(env="CartPole-v1")).run_dir
    assert re.fullmatch(r"runs/CartPole-v1-\d{8}-\d{6}", str(run_dir))


def test_a_run_is_not_overwritten_and_resumes_without_its_settings_being_repeated(train, ninelives, one):
    again = train("CartPole-v1", "--run-dir", "one")
    assert again.code == 2
    assert "--resume" in again.err
    assert "--force" in again.err
    on = ninelives("train", "--run-dir", "one", "--resume", "--timesteps", "256")
    assert on.code == 0, on.err
    assert "continuing at step 128" in on.out
    assert [row["step"] for row in read_table(one / "progress.csv")] == [128, 256]


@pytest.mark.parametrize("left", ["", "# nothing\n", None])
def test_a_run_resumes_without_its_config_file(train, ninelives, one, left):
    if left is None:
        (one / "config.yaml").unlink()
    else:
        (one / "config.yaml").write_text(left)
    on = ninelives("train", "--run-dir", "one", "--resume", "--timesteps", "256")
    assert on.code == 0, on.err
    assert "done: 256 steps" in on.out
    assert yaml.safe_load((one / "config.yaml").read_text())["ppo"]["n_steps"] == 32


def test_a_hundred_million_environments_are_refused_before_anything_is_written(ninelives, here):
    refused = ninelives("train", "CartPole-v1", "--n-envs", "100000000", "--run-dir", "one")
    assert refused.code != 0
    assert "--n-envs: n_envs=100000000 must be a whole number from 1 to 65536, or 'auto'" in refused.err
    assert not (here / "one").exists()


def test_a_resumed_run_ends_with_the_weights_and_the_logs_of_one_that_was_never_killed(ninelives, here, reap_orphans):
    flags = ("CartPole-v1", "--timesteps", "3072", "--checkpoint-every", "512", *SMALL)
    whole = ninelives("train", *flags, "--run-dir", "whole")
    assert whole.code == 0, whole.err
    killed = [sys.executable, "-m", "ninelives", "train", *flags, "--run-dir", "killed"]
    with subprocess.Popen(killed, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _wait_for_checkpoint(here / "killed" / "checkpoints", process)
        os.kill(process.pid, signal.SIGKILL)
    reap_orphans()
    resumed = ninelives("train", "--run-dir", "killed", "--resume")
    assert resumed.code == 0, resumed.err
    assert _sha(resumed.out) == _sha(whole.out)
    assert _shown_sha(ninelives, "killed") == _shown_sha(ninelives, "whole") == _sha(whole.out)
    steps = [row["step"] for row in read_table(here / "killed" / "progress.csv")]
    assert steps == list(range(128, 3073, 128))
    episodes = [sorted(row[:2] for row in read_episodes(here / name / "monitor")) for name in ("whole", "killed")]
    assert episodes[0] == episodes[1]


def _wait_for_checkpoint(directory, process):
    while not (directory.is_dir() and list(directory.glob("step-*.ckpt"))):
        assert process.poll() is None, process.stderr.read()
        assert process.stdout.readline() or process.poll() is None


def _sha(out):
    return re.search(r"weights sha256: ([0-9a-f]{64})", out)[1]


def _shown_sha(ninelives, run):
    return _sha(ninelives("runs", "show", run).out)


def test_a_file_has_the_shape_of_the_flags_and_flags_win(train, ninelives, here):
    (here / "run.yaml").write_text("env: CartPole-v1\ntimesteps: 128\nppo:\n  epochs: 2\n  gamma: 0.9\n")
    done = train("--config", "run.yaml", "--set", "ppo.gamma=0.95", "--ppo.epochs", "1", "--run-dir", "one")
    assert done.code == 0, done.err
    config = yaml.safe_load((here / "one" / "config.yaml").read_text())
    assert (config["timesteps"], config["ppo"]["epochs"], config["ppo"]["gamma"]) == (128, 1, 0.95)
    repeated = ninelives("train", "--config", "one/config.yaml", "--run-dir", "two")
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
def test_what_is_wrong_in_a_file_is_refused_by_line_before_anything_starts(ninelives, here, text, words):
    (here / "run.yaml").write_text(text)
    done = ninelives("train", "--config", "run.yaml")
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


def test_an_environment_that_does_not_start_shows_its_own_traceback(train):
    done = train("game:Unbuildable", "--timesteps", "128")
    assert done.code == 1
    assert "KeyError: 'rom'" in done.err


def test_ctrl_c_keeps_the_run_and_says_how_to_continue(train, here):
    def press_ctrl_c():
        while not read_table(here / "one" / "progress.csv"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    typist = threading.Thread(target=press_ctrl_c)
    typist.start()
    done = train("CartPole-v1", "--run-dir", "one")
    typist.join()
    assert done.code == 130, done.err
    assert "continue: ninelives train --run-dir one --resume" in done.out
    assert list((here / "one" / "checkpoints").iterdir())


def test_visualize_changes_neither_the_number_of_environments_nor_the_result(train, ninelives, one, here):
    seen = train("CartPole-v1", "--timesteps", "128", "--run-dir", "seen", "--visualize")
    assert "training continues without pictures" in seen.out
    assert _sha(seen.out) == _shown_sha(ninelives, "one")
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


def test_on_a_terminal_every_slot_is_drawn():
    require_module("pygame")
    text = shown("CartPole-v1", 5)
    assert "▀" in text
    assert "■■■■■" in re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.usefixtures("ninelives")
def test_an_environment_without_pictures_is_trained_without_them():
    text = re.sub(r"\s+", " ", shown("game:Calm", 2))
    assert "▀" not in text
    assert "no picture" in text


def test_what_was_given_is_what_is_trained():
    said = TrainCommand(
        "CartPole-v1", {"timesteps": 5, "env_kwargs": ("a=1",), "net": {"hidden": (8,)}}, None, ("seed=7",)
    )
    config = said.settings()
    assert (config.timesteps, config.env_kwargs, config.net.hidden, config.seed) == (5, {"a": 1}, (8,), 7)


def test_a_run_without_an_episode_is_reported_as_such():
    result = Result(step=10, episodes=0, mean_return=None, version=1, seconds=1.0, steps_per_s=10.0,
                    weights_sha256="ab", stopped=False, run_dir=None, policy=None)  # fmt: skip
    assert summary(result)[0] == "done: 10 steps, 0 episodes, no episode ended, 1.00 s at 10 steps/s"


def test_a_run_that_cuts_is_resumed_with_new_episodes_and_says_so(process, here):
    begin = ("train", "CartPole-v1", "--timesteps", "256", "--run-dir", "run", "--pool.on-fault", "cut", *SMALL)
    assert process(*begin).code == 0
    resumed = process("train", "--run-dir", "run", "--resume", "--timesteps", "512")
    assert resumed.code == 0, resumed.err
    assert "done: 512 steps" in resumed.out
    assert "warning: slots 0, 1, 2, 3 begin new episodes in the resumed run: no state was saved" in resumed.err
    assert [row["step"] for row in read_table(here / "run" / "progress.csv")] == [128, 256, 384, 512]
