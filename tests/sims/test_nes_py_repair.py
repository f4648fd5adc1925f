"""Games of nes_py: repaired on NumPy 2, bounded, and with Gymnasium's interface."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from nes_games import ACTIONS, play, runner
from own_python import run_program
from stand_in_roms import mario_stand_in

import ninelives
from ninelives.errors import ClosedError, ConfigError, EmulatorError, UsageError
from ninelives.sims.emulators import nes_py_env

pytestmark = pytest.mark.usefixtures("runner_rom")


@pytest.fixture
def env(runner_rom):
    env = play(runner_rom)
    yield env
    env.close()


def test_without_the_repair_the_same_game_cannot_be_built(runner_rom):
    program = f"""
        import numpy as np
        from nes_py import NESEnv
        NESEnv({str(runner_rom)!r})
    """
    assert "OverflowError" in run_program(program, check=False).stderr


def test_arithmetic_with_cells_of_memory_is_that_of_whole_numbers(env):
    env.reset()
    right = ACTIONS.index("right")
    told = [env.step(right)[4]["x"] for _ in range(130)]
    assert told[-1] == told[0] + 2 * 129 > 0xFF


def test_memory_stays_a_live_view_that_can_be_written(env):
    env.reset()
    ram = env.ram
    before = ram[0x86]
    env.step(ACTIONS.index("right"))
    assert ram[0x86] == before + 2
    ram[0x86] = 0x60
    assert env.step(ACTIONS.index("right"))[4]["x"] == 0x62


def test_cells_are_ints_and_ranges_are_arrays(env):
    env.reset()
    assert type(env.ram[0x07F8]) is int
    assert [type(cell) for cell in env.ram[0x07F8:0x07FB]] == [int] * 3
    assert env.ram[0x07F8:0x07FB].dtype == np.uint8
    assert np.may_share_memory(env.ram[0x07F8:0x07FB], env.ram)


def test_it_is_an_environment_of_gymnasium(env):
    check_env(env, skip_render_check=True)


def test_rows_are_the_same_in_every_episode_and_instance(runner_rom, env):
    def episode(env):
        first, _ = env.reset(seed=2**40)
        return np.stack([first, *(env.step(step * 7 % len(ACTIONS))[0] for step in range(40))])

    first = episode(env)
    assert len({row.tobytes() for row in first}) > 10
    assert np.array_equal(first, episode(env))
    other = play(runner_rom)
    assert np.array_equal(first, episode(other))
    other.close()


def test_an_observation_is_not_changed_by_the_next_step(env):
    first, _ = env.reset()
    copy = first.copy()
    for _ in range(5):
        env.step(ACTIONS.index("right"))
    assert np.array_equal(first, copy)


def test_a_frame_skip_sums_rewards_and_ends_with_the_episode(runner_rom):
    env = play(runner_rom, frame_skip=100)
    env.reset()
    rewards, ended = [], False
    while not ended:
        _, reward, ended, cut, _ = env.step(ACTIONS.index("right"))
        rewards.append(reward)
    assert rewards[0] == 200
    assert rewards[-1] < 200
    assert not cut
    env.close()


@pytest.mark.parametrize("cause", ["the title never ends", "memory is a copy"])
def test_an_endless_loop_ends_with_an_error_that_names_it(runner_rom, tmp_path, cause):
    stuck = tmp_path / "stuck.nes"
    stuck.write_bytes(mario_stand_in(title_ends=False))
    path, is_copied = (stuck, False) if cause == "the title never ends" else (runner_rom, True)
    with pytest.raises(EmulatorError, match=r"Runner\._skip_start_screen \(nes_games\.py:\d+\) skipped 300 frames"):
        play(path, ram_is_copied=is_copied, max_skipped_frames=300)
    play(runner_rom).close()  # the bound of the last is not the next one's


def test_the_bound_of_one_game_is_not_anothers(runner_rom):
    patient, hasty = play(runner_rom, max_skipped_frames=900), play(runner_rom, max_skipped_frames=300)
    for env, bound in ((hasty, 300), (patient, 900)):
        env.reset()
        for _ in range(bound):
            env._game._frame_advance(0)
        with pytest.raises(EmulatorError, match=f"skipped {bound} frames"):
            env._game._frame_advance(0)
        env.close()


def test_a_relative_path_is_the_users_also_in_a_pool_and_a_path_will_do(runner_rom, monkeypatch):
    monkeypatch.chdir(runner_rom.parent)
    nes_py_env.NesPyEnv(rom_path=runner_rom).close()
    nes_py_env.NesPyEnv(rom_path=runner_rom.name).close()
    settings = {"rom_path": runner_rom.name, "actions": ("noop", "right")}
    game = ninelives.EnvSpec("ninelives.sims.emulators.nes_py_env:NesPyEnv", settings)
    with ninelives.Pool(game, 1, start_method="fork") as pool:
        assert pool.reset(seed=0).obs.shape == (1, 240, 256, 3)


def test_a_loop_may_take_its_time_within_the_bound_in_every_step_anew(runner_rom):
    env = play(runner_rom, max_skipped_frames=100)
    for _ in range(3):
        env.reset()
        env._game._frame_advance(0)
    for _ in range(300):
        env.step(0)
    env.close()


def test_after_close_nothing_of_the_machine_can_be_touched(runner_rom):
    env = play(runner_rom)
    env.reset()
    game = env._game
    env.close()
    env.close()
    assert game.ram is None
    with pytest.raises(ClosedError, match="was closed"):
        env.step(0)
    with pytest.raises(ClosedError, match="was closed"):
        _ = env.ram


def test_a_registered_id_is_built_without_the_wrappers_of_old_gym(runner_rom):
    from gym.envs.registration import register, registry

    register("Runner-v0", entry_point=runner(), kwargs={"rom_path": str(runner_rom)})
    try:
        env = nes_py_env.NesPyEnv("Runner-v0")
        assert env.reset()[0].shape == (240, 256, 3)
        assert env.action_space.n == 256
        env.close()
    finally:
        del registry["Runner-v0"]


def test_what_is_not_there_is_named(runner_rom):
    with pytest.raises(ConfigError, match="'Nothing-v0' is not registered"):
        nes_py_env.NesPyEnv("Nothing-v0")
    with pytest.raises(ConfigError, match="no button 'jump'; allowed: noop, a, b"):
        nes_py_env.NesPyEnv(runner(), rom_path=str(runner_rom), actions=["right+jump"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"frame_skip": 0}, "frame_skip=0 must be a whole number"),
        ({"frame_skip": "4"}, "frame_skip='4' must be a whole number"),
        ({"max_skipped_frames": 0}, "max_skipped_frames=0 must be a whole number"),
        ({"actions": ()}, "actions=() must be a list of names"),
        ({"actions": [3]}, "actions=[3] must be a list of names"),
        ({"actions": "right"}, "actions='right' must be a list of names"),
        ({"render_mode": "human"}, "render_mode='human' is not known; allowed: 'rgb_array', None"),
        ({"rom_path": 3}, "rom_path=3 must be a file name"),
    ],
)
def test_a_mistake_is_refused_with_what_is_allowed(runner_rom, settings, told):
    with pytest.raises(ConfigError) as refused:
        nes_py_env.NesPyEnv(**{"rom_path": str(runner_rom), **settings})
    assert told in str(refused.value)


def test_an_action_that_does_not_exist_is_refused(runner_rom, env):
    raw = nes_py_env.NesPyEnv(rom_path=runner_rom)
    for game, actions, last in ((env, (-1, len(ACTIONS), 1.7, None, "a"), len(ACTIONS) - 1), (raw, (-1, 256), 255)):
        game.reset()
        for action in actions:
            with pytest.raises(UsageError, match=f"must be a whole number from 0 to {last}"):
                game.step(action)
        game.step(np.int64(last))
    raw.close()


def test_a_missing_package_is_answered_with_the_command_that_installs_it():
    program = """
        import sys
        sys.modules["nes_py"] = None
        from ninelives.errors import EmulatorError
        from ninelives.sims.emulators import nes_py_env
        try:
            nes_py_env.NesPyEnv(rom_path="game.nes")
        except EmulatorError as error:
            print(error)
    """
    assert "pip install nes-py" in run_program(program).stdout


def test_importing_it_says_nothing():
    done = run_program("from ninelives.sims.emulators import nes_py_env; nes_py_env.repair()", "-W", "error")
    assert done.stdout + done.stderr == ""
