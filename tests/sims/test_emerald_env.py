"""Pokemon Emerald as an environment, on a ROM of our own whose memory is laid out like the game's."""

import hashlib
import os
import signal
import warnings

import numpy as np
import pytest
from emerald_image import Image, member
from stand_in_roms import emerald_stand_in

from ninelives import EnvSpec, Pool
from ninelives.errors import ConfigError, NinelivesWarning
from ninelives.sims.emulators.ram import RamReader
from ninelives.sims.games import emerald
from ninelives.sims.games.emerald_memory import MEMORY, LastGood

BUTTONS = ("noop", "a", "b", "up", "down", "left", "right", "start", "l")
FRAMES = 2


@pytest.fixture(scope="module")
def rom(tmp_path_factory):
    image = Image().new_game(moved=32, x=5, y=6)
    image.map(60, 40, walls=[(12, 6)])
    image.party(member(277, 5, 10, 20), member(283, 4, 15, 15))
    path = tmp_path_factory.mktemp("roms") / "stand_in.gba"
    path.write_bytes(emerald_stand_in(image))
    return path


@pytest.fixture
def env(rom):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        env = emerald.make(
            rom,
            any_revision=True,
            frame_skip=FRAMES,
            actions=BUTTONS,
            boot=(("noop", 10),),
            observe=("walls", "party_hp"),
            info=(*emerald.INFO, *(f"reward/{name}" for name in emerald.WEIGHTS)),
        )
    yield env
    env.close()


def act(env, name):
    return env.step(BUTTONS.index(name))


def test_walking_to_new_places_is_rewarded_once(env):
    env.reset(seed=0)
    obs, reward, *_, info = act(env, "right")
    assert (info["x"], info["y"]) == (5 + FRAMES, 6)
    assert reward == pytest.approx(0.02)
    assert obs["walls"][5, 7 + 12 - info["x"]] == 1
    assert act(env, "left")[1] == 0.0, "where the episode began is no new place"
    assert act(env, "right")[1] == 0.0, "neither is one that was seen"


@pytest.mark.parametrize(
    ("button", "term", "worth"),
    [("a", "badges", 5.0), ("start", "levels", 0.5), ("l", "healing", 10 / 35)],
)
def test_progress_is_rewarded_once(env, button, term, worth):
    env.reset(seed=0)
    info = act(env, button)[-1]
    assert info[f"reward/{term}"] == pytest.approx(worth)
    assert act(env, button)[-1][f"reward/{term}"] == 0.0


def test_a_transition_changes_nothing_and_rewards_nothing(env):
    env.reset(seed=0)
    good = act(env, "right")[0]
    obs, reward, _, _, info = act(env, "b")  # the save blocks are on their way
    assert info["settled"] == 0
    assert (info["x"], info["money"], reward) == (5 + FRAMES, 3000, 0.0)
    assert np.array_equal(obs["walls"], good["walls"])
    assert act(env, "noop")[-1]["settled"] == 1


def test_a_state_saved_in_a_transition_brings_the_last_good_values_back(env):
    env.reset(seed=0)
    act(env, "right")
    act(env, "b")
    state = env.save_state()
    ahead = [act(env, name) for name in ("b", "noop", "right", "a")]
    env.reset(seed=1)
    env.load_state(state)
    again = [act(env, name) for name in ("b", "noop", "right", "a")]
    for one, other in zip(ahead, again, strict=True):
        assert one[1:] == other[1:]
        assert all(np.array_equal(one[0][key], other[0][key]) for key in one[0])


def test_a_snapshot_stays_as_it_was_taken_while_the_game_goes_on(env):
    env.reset(seed=0)
    act(env, "right")
    snapshot = env.snapshot()
    taken = snapshot.to_bytes()
    for name in ("right", "a", "start"):
        act(env, name)
    assert snapshot.to_bytes() == taken


@pytest.mark.parametrize("key", emerald.OWN)
def test_what_the_game_decides_itself_is_refused_by_name(rom, key):
    with pytest.raises(ConfigError, match=f"{key}=.*ninelives/Emerald-v0 sets this itself"):
        emerald.make(rom, any_revision=True, **{key: ()})


def test_an_episode_ends_with_the_game_and_is_cut_at_its_length(rom):
    with pytest.warns(UserWarning, match="USA, the retail build"):
        env = emerald.make(rom, any_revision=True, max_steps=3, actions=BUTTONS)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    env.close()


def test_a_pool_of_the_registered_game_heals_to_the_same_rows(rom):
    settings = {"rom": str(rom), "any_revision": True, "frame_skip": 2, "actions": BUTTONS, "observe": ("walls",)}
    settings |= {"info": emerald.INFO, "boot": (("noop", 10),)}
    script = [BUTTONS.index(name) for name in ("right", "b", "b", "down", "a", "left", "b", "right", "start", "l")] * 3

    def rows(kills=()):
        out = []
        with pytest.warns(NinelivesWarning, match="is made for Pokemon Emerald"):  # said in a worker, heard here
            pool = Pool(EnvSpec("ninelives/Emerald-v0", settings), 2, workers=1, snapshot_every=4)
        with pool:
            pool.reset(seed=0)
            for step, action in enumerate(script):
                if step in kills:
                    os.kill(pool.worker_pids[0], signal.SIGKILL)
                batch = pool.step(np.array([action, script[-1 - step]]))
                assert batch.valid.all()
                out.append((batch.reward.copy(), {key: cells.copy() for key, cells in batch.obs.items()}))
        return out

    for (reward, seen), (expected, expected_seen) in zip(rows(kills=(2, 7, 20)), rows(), strict=True):
        assert np.array_equal(reward, expected)
        assert all(np.array_equal(seen[key], expected_seen[key]) for key in seen)


def test_another_revision_is_refused_and_named(rom, tmp_path):
    given = hashlib.sha1(rom.read_bytes()).hexdigest()
    with pytest.raises(ConfigError) as refusal:
        emerald.make(rom)
    words = str(refusal.value)
    for part in ("f3ae088181bf583e55daf962a92bb46f4f1d07b7", given, "USA", "'BPEE'", "any_revision=True"):
        assert part in words


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"NES\x1a" + bytes(1000), "is not a GBA ROM"), (b"", "is not a GBA ROM"), (None, "cannot be read")],
)
def test_what_is_no_rom_is_refused(tmp_path, content, words):
    path = tmp_path / "game.gba"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        emerald.make(path)


def test_without_a_rom_the_message_says_which_is_needed():
    with pytest.raises(ConfigError, match="needs your own ROM of Pokemon Emerald") as refusal:
        emerald.make()
    assert "--rom" in str(refusal.value)


def test_weights_are_chosen_by_name():
    assert [term.name for term in emerald.rewards({"healing": 0, "places": 1})][:2] == ["last_good", "places"]
    assert "healing" not in [term.name for term in emerald.rewards({"healing": 0})]
    with pytest.raises(ConfigError, match=r"no 'speed'; allowed: places, maps"):
        emerald.rewards({"speed": 1})


class Story:
    """The rewards of a story told in memory images."""

    def __init__(self, image):
        self.image, self._reader = image, RamReader(MEMORY, image)
        self._terms = emerald.rewards()
        self._before = self._reader.read()

    def then(self):
        after = self._reader.read()
        told = {term.name: term(self._before, after) for term in self._terms}
        self._before = after
        return {name: pytest.approx(value) for name, value in told.items() if value}


def test_what_was_true_before_anything_was_known_is_not_rewarded():
    image = Image()
    story = Story(image)
    assert story.then() == {}
    image.new_game()
    for badge in range(0x867, 0x86F):
        image.flag(badge)
    image.party(member(277, 50, 100, 100))
    assert story.then() == {}, "a save was loaded: its badges and levels are not ours"
    image.party(member(277, 51, 100, 102))
    assert story.then() == {"levels": 0.5}


def test_events_count_once_even_if_their_flags_come_and_go():
    image = Image().new_game()
    story = Story(image)
    assert story.then() == {}
    image.flag(0x52)
    image.flag(0x120)
    assert story.then() == {"events": 0.6}
    image.ewram[image.block1 - 0x02000000 + 0x1270 + 0x52 // 8] = 0
    assert story.then() == {}
    image.flag(0x52)
    assert story.then() == {}
    image.flag(0x500)
    assert story.then() == {"trainers": 1.0}
    image.flag(0x05)
    assert story.then() == {}, "temporary flags are no events"


def test_a_new_map_is_a_new_map_and_a_new_place():
    image = Image().new_game(number=9)
    story = Story(image)
    story.then()
    image.stand(5, 6, number=10)
    assert story.then() == {"maps": 0.5, "places": 0.02}


def test_healing_after_a_blackout_and_in_battle_is_not_rewarded():
    image = Image().new_game()
    image.party(member(277, 5, 0, 20))
    story = Story(image)
    story.then()
    image.party(member(277, 5, 20, 20))
    assert story.then() == {}, "everybody had fainted"
    image.party(member(277, 5, 10, 20))
    story.then()
    image.battle(trainer=False)
    image.party(member(277, 5, 20, 20))
    assert story.then() == {}, "a potion in battle"


def test_what_the_keeper_has_saved_is_not_what_it_goes_on_with():
    image = Image().new_game()
    image.party(member(277, 5, 10, 20))
    story = Story(image)
    story.then()
    keeper = story._terms[0]
    saved = keeper.save()
    image.party(member(277, 6, 10, 20))
    story.then()
    assert (saved["party_good"]["level_sum"], keeper.save()["party_good"]["level_sum"]) == (5, 6)


def test_the_keeper_comes_first_because_the_others_need_it():
    assert isinstance(emerald.rewards()[0], LastGood)
