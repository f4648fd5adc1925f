"""Monitor files: what SB3 writes, byte for byte, and what SB3 reads."""

import json

import gymnasium
from stable_baselines3.common.monitor import Monitor, load_results

from missing import require_module
from ninelives.view.monitor import MonitorFiles, last_time, read_episodes


class Lamp(gymnasium.Env):
    """Three steps an episode."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return 0, 1 / 3, self.steps == 3, False, {}


def test_a_file_is_what_sb3_writes_byte_for_byte(tmp_path):
    env = Monitor(Lamp(), str(tmp_path / "theirs"))
    env.reset()
    for _ in range(3):
        *_, info = env.step(0)
    env.close()
    theirs = (tmp_path / "theirs.monitor.csv").read_bytes()
    header = json.loads(theirs.splitlines()[0][1:])
    ours = MonitorFiles(tmp_path / "ours", header["env_id"], 1, header["t_start"])
    ours.episode(0, sum([1 / 3] * 3), 3, info["episode"]["t"])
    ours.close()
    assert (tmp_path / "ours" / "0.monitor.csv").read_bytes() == theirs


def test_sb3_reads_a_directory_of_them(tmp_path):
    require_module("pandas")  # SB3 reads them with it
    files = MonitorFiles(tmp_path, "CartPole-v1", 2, 1000.0)
    files.episode(1, 20.0, 20, 0.5)
    files.episode(0, 10.5, 11, 0.25)
    files.close()
    frame = load_results(str(tmp_path))
    assert frame["r"].tolist() == [10.5, 20.0]
    assert frame["l"].tolist() == [11, 20]


def test_a_resumed_run_goes_on_in_the_same_files_and_its_time_goes_on_too(tmp_path):
    for _ in range(2):
        files = MonitorFiles(tmp_path, "CartPole-v1", 2, 1000.0)
        files.episode(1, 20.0, 20, 4.0)
        files.close()
    assert (tmp_path / "1.monitor.csv").read_text().count("r,l,t") == 1
    assert [row[2] for row in read_episodes(tmp_path)] == [4.0, 8.0]


def test_rows_reach_the_file_when_they_are_flushed(tmp_path):
    files = MonitorFiles(tmp_path, "CartPole-v1", 1, 1000.0)
    files.episode(0, 1.0, 1, 1.0)
    files.flush()
    assert last_time(tmp_path / "0.monitor.csv") == 1.0
    files.close()


def test_a_half_written_line_is_left_out(tmp_path):
    (tmp_path / "0.monitor.csv").write_text('#{"t_start": 1, "env_id": "a"}\nr,l,t\r\n1.0,5,2.0\r\n3.0,7')
    assert read_episodes(tmp_path) == [(1.0, 5, 2.0)]
