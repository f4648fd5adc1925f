"""The games by their ids: registered lightly, made in workers, listed on the command line."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import ninelives
from ninelives.sims.games import GAMES, game, rom_of

OURS = [one for one in GAMES if not one.needs_rom]


def python(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize("one", OURS, ids=lambda one: one.id)
def test_every_game_of_ours_plays_by_its_id(one):
    env = gymnasium.make(one.id, disable_env_checker=True)
    observation, _ = env.reset(seed=0)
    for action in (1, 2, 0):
        observation, reward, *_, info = env.step(action)
        assert observation in env.observation_space
        assert np.isfinite(reward)
        assert info["success"] == 0
    env.close()


def test_registering_loads_no_game_no_emulator_and_no_picture_code():
    code = "import ninelives.sims.games, sys; print(*sorted(sys.modules))"
    loaded = set(python(code).split())
    unwanted = (
        "ninelives.sims.emulators.env",
        "ninelives.sims.games.errand",
        "ninelives.sims.libretro",
        "cv2",
        "torch",
    )
    assert not loaded & set(unwanted)


def test_a_pool_knows_the_games_without_being_told():
    with ninelives.Pool("ninelives/Lantern-v0", num_envs=2, workers=1) as pool:
        pool.reset(seed=0)
        batch = pool.step(np.array([1, 0]))
        assert batch.valid.all()
        assert batch.infos["far"].tolist() != [0, 0]


def test_the_list_names_every_game_and_what_it_needs():
    said = python("import sys; from ninelives.cli.main import main; sys.exit(main(['games']))")
    for one in GAMES:
        (line,) = [line for line in said.splitlines() if line.startswith(f"{one.id} ")]
        assert ("rom=FILE" in line) == one.needs_rom
        assert one.title in line


def test_an_unknown_game_is_refused_with_those_there_are():
    with pytest.raises(ninelives.ConfigError, match="ninelives/Errand-v0"):
        game("ninelives/Chess-v0")


def test_only_our_own_roms_come_with_the_package():
    for one in GAMES:
        if one.needs_rom:
            with pytest.raises(ninelives.ConfigError, match="your own ROM"):
                rom_of(one.id)
        else:
            assert rom_of(one.id).is_file()
