"""``ninelives test``: evaluates a saved policy, records a video, and refuses early what it cannot do."""

import re

import pytest

from missing import require_module


@pytest.fixture
def trained(ninelives, one):
    return ninelives


def test_a_run_is_played_greedy_and_stochastic_and_scored_with_an_interval(trained):
    done = trained("test", "one", "--episodes", "6", "--n-envs", "3", "--success", "0")
    assert done.code == 0, done.err
    assert "step-000000000128.ckpt (step 128)" in done.out
    for way in ("greedy", "stochastic"):
        assert re.search(rf"{way}: return \d+\.\d+ \+- .* 6 episodes", done.out)
        assert f"{way}: success 100.0% (61.0% to 100.0% of 6)" in done.out


def test_the_same_seed_plays_the_same(trained):
    first, second = (
        trained("test", "one", "--episodes", "4", "--seed", "5", "--play", "stochastic").out for _ in range(2)
    )
    assert first == second


def test_one_checkpoint_can_be_named_and_the_best_one_asked_for(trained, here):
    (file,) = (here / "one" / "checkpoints").glob("*.ckpt")
    one = trained("test", str(file), "--episodes", "2", "--play", "greedy")
    best = trained("test", "one", "--which", "best", "--episodes", "2", "--play", "greedy")
    assert one.code == best.code == 0
    assert "stochastic" not in one.out
    assert one.out.splitlines()[1:] == best.out.splitlines()[1:]


def test_a_video_is_made_of_pictures(trained, here):
    require_module("imageio")
    done = trained("test", "one", "--episodes", "1", "--play", "greedy", "--video", "video.gif")
    assert done.code == 0, done.err
    frames = int(re.search(r"video: video.gif \((\d+) frames at 50 per second\)", done.out)[1])
    assert frames > 5
    assert (here / "video.gif").read_bytes().startswith(b"GIF8")
    again = trained("test", "one", "--video", "video.gif")
    assert again.code == 2
    assert "exists already" in again.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nothing",), "nothing is neither a checkpoint nor a run with a newest checkpoint"),
        (("nothing", "--video", "video.avi"), "must end in .gif or .mp4"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_message(ninelives, args, words):
    done = ninelives("test", *args)
    assert done.code == 2
    assert words in done.err


def test_a_missing_extra_is_named(ninelives, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "imageio" else name)
    done = ninelives("test", "nothing", "--video", "video.gif")
    assert "needs imageio: pip install 'ninelives[video]'" in done.err


def test_a_file_that_is_no_checkpoint_is_named(ninelives, here):
    (here / "weights.pt").write_bytes(b"something else")
    done = ninelives("test", "weights.pt")
    assert done.code == 1
    assert "weights.pt" in done.err
