"""Checkpoints are read back bit for bit, the right ones are kept, and bad files are refused with the reason."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ninelives.errors import CheckpointError, ConfigError
from ninelives.train.saving import checkpoint, container
from ninelives.train.saving.checkpoint import Checkpoints

FULL = os.environ.get("NINELIVES_FULL") == "1"


@pytest.fixture
def kept(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def write(kept, step, score=None, **state):
    return kept.write({"weights": {"w": torch.full((3,), float(step))}, **state}, step=step, config={}, score=score)


def steps(kept):
    return [checkpoint.load(path).step for path in kept.all()]


def test_a_state_is_read_back_bit_for_bit(kept):
    net = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    rng = torch.Generator().manual_seed(5)
    state = {"weights": net.state_dict(), "optimiser": optimiser.state_dict(), "rng": rng.get_state()}
    path = kept.write(state, step=1, config={"env": "CartPole-v1"}, pool=("any", np.arange(3)))
    back = checkpoint.load(path)
    assert back.config == {"env": "CartPole-v1"}
    assert torch.equal(back.state["weights"]["weight"], net.weight)
    assert back.weights_sha256 == checkpoint.sha256_of(net.state_dict())
    other = torch.optim.Adam(torch.nn.Linear(3, 2).parameters())
    other.load_state_dict(back.state["optimiser"])
    assert other.state_dict()["param_groups"] == optimiser.state_dict()["param_groups"]
    assert torch.equal(other.state_dict()["state"][0]["exp_avg"], optimiser.state_dict()["state"][0]["exp_avg"])
    again = torch.Generator()
    again.set_state(back.state["rng"])
    assert torch.equal(torch.rand(4, generator=again), torch.rand(4, generator=rng))
    assert back.pool()[0] == "any"


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
TREES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=12,
)


@settings(deadline=None)
@given(tree=TREES)
def test_every_plain_tree_is_read_back(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("tree") / "one"
    path.write_bytes(container.packed({}, tree))
    assert container.read(path).tree == tree


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
def test_tensors_of_every_kind_are_read_back(dtype, shape, tmp_path):
    tensor = torch.arange(int(np.prod(shape))).reshape(shape).to(getattr(torch, dtype))
    (tmp_path / "one").write_bytes(container.packed({}, [tensor, tensor.T if tensor.ndim == 2 else tensor]))
    back, turned = container.read(tmp_path / "one").tree
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(back, tensor)
    assert torch.equal(turned, tensor.T if tensor.ndim == 2 else tensor)


@pytest.mark.parametrize("array", [np.float32(1.5), np.arange(6, dtype=">i2").reshape(2, 3)[:, ::2], np.array(["ab"])])
def test_arrays_of_every_kind_are_read_back_writeable(array, tmp_path):
    (tmp_path / "one").write_bytes(container.packed({}, array))
    back = container.read(tmp_path / "one").tree
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert back.flags.writeable


def test_a_value_that_cannot_be_stored_is_refused_with_its_place(kept):
    with pytest.raises(TypeError, match=r"state\.learner\.rng\[0\]\.cpu is a Generator"):
        write(kept, 1, rng=[{"cpu": np.random.default_rng()}])
    assert kept.newest() is None


def test_the_hash_of_weights_depends_on_every_bit_but_not_on_their_order():
    a, b = torch.zeros(2), torch.ones(3)
    same = {checkpoint.sha256_of({"a": a, "b": b}), checkpoint.sha256_of({"b": b, "a": a})}
    assert len(same) == 1
    others = [{"a": a, "c": b}, {"a": -a, "b": b}, {"a": a.reshape(1, 2), "b": b}, {"a": a.double(), "b": b}]
    assert same.isdisjoint(map(checkpoint.sha256_of, others))


def test_the_hash_is_read_without_torch(kept):
    path = write(kept, 7)
    code = (
        "import sys; from ninelives.train.saving.checkpoint import weights_sha256\n"
        f"print(weights_sha256({str(path)!r}), 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == [checkpoint.load(path).weights_sha256, "False"]


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_the_last_three_and_the_best_are_kept(kept):
    for step, score in [(10, None), (20, 5.0), (30, 9.0), (40, 1.0), (50, 2.0), (60, float("nan")), (70, 3.0)]:
        write(kept, step, score)
    assert steps(kept) == [30, 50, 60, 70]
    assert kept.best() == kept.all()[0]
    assert kept.newest() == kept.all()[-1]


def test_another_process_keeps_the_best_too(kept):
    write(kept, 10, 9.0)
    for step in (20, 30, 40, 50):
        write(Checkpoints(kept.directory, keep_last=1), step, 1.0)
    assert steps(kept) == [10, 50]


def test_the_best_is_deleted_like_any_other_without_keep_best(tmp_path):
    kept = Checkpoints(tmp_path, keep_last=2, keep_best=False)
    for step in range(5):
        write(kept, step, -step)
    assert steps(kept) == [3, 4]


def test_steps_are_sorted_as_numbers(kept):
    for step in (10**12 - 1, 10**12, 9):
        write(kept, step)
    assert steps(kept) == [9, 10**12 - 1, 10**12]


def test_files_of_the_user_are_not_touched(kept):
    kept.directory.mkdir(parents=True)
    (kept.directory / "notes.txt").write_text("mine")
    for step in range(6):
        write(kept, step)
    assert (kept.directory / "notes.txt").read_text() == "mine"


def test_at_least_one_must_be_kept(tmp_path):
    with pytest.raises(ConfigError, match="keep_last=0"):
        Checkpoints(tmp_path, keep_last=0)


# ---- what cannot be used ---------------------------------------------------------------------------------------------


def spoil(path, how):
    data = path.read_bytes()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "head only":
        path.write_bytes(data[:10])
    elif how == "one bit":
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif how == "longer":
        path.write_bytes(data + b"\0")
    elif how == "newer":
        path.write_bytes(container.MAGIC + (99).to_bytes(4, "little") + data[len(container.MAGIC) + 4 :])
    elif how == "pickle":
        path.write_bytes(pickle.dumps({"weights": 1}))
    elif how == "torch":
        torch.save({"weights": torch.ones(1)}, path)
    elif how == "text":
        path.write_text("hello")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated", r"step-0+5\.ckpt is truncated: it ends after \d+ of \d+ bytes.*--resume-previous"),
        ("empty", "is truncated: it ends after 0 bytes"),
        ("head only", "is truncated: it ends after 10 bytes"),
        ("one bit", "is damaged: .* SHA-256 .*--resume-previous"),
        ("longer", "is damaged"),
        ("newer", "has format 99, and this Ninelives reads formats up to 1: a newer version wrote it. Install"),
        ("pickle", "is not a checkpoint of Ninelives: a pickle"),
        ("torch", "is not a checkpoint of Ninelives: a zip file, as torch.save and Stable-Baselines3"),
        ("text", "is not a checkpoint of Ninelives: it begins with b'hello'"),
    ],
)
def test_each_kind_of_bad_file_has_its_own_message(how, words, kept):
    path = write(kept, 5)
    spoil(path, how)
    for use in (checkpoint.load, checkpoint.weights_sha256):
        with pytest.raises(CheckpointError, match=words):
            use(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*nothing\.ckpt"):
        checkpoint.load(tmp_path / "nothing.ckpt")


def test_a_pickle_in_another_file_is_never_executed(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    (tmp_path / "bad.ckpt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError):
        checkpoint.load(tmp_path / "bad.ckpt")
    good = Checkpoints(tmp_path).write({"weights": {}}, step=1, config={}, pool=Bomb())
    checkpoint.load(good)
    assert not (tmp_path / "boom").exists()


def test_previous_renames_damaged_ones_and_returns_the_newest_intact_one(kept):
    write(kept, 10)
    for step, how in [(20, "truncated"), (30, "torch")]:
        spoil(write(kept, step), how)
    assert checkpoint.load(kept.previous()).step == 10
    assert sorted(path.name for path in kept.directory.glob("*.damaged")) == [
        "step-000000000020.ckpt.damaged",
        "step-000000000030.ckpt.damaged",
    ]
    assert steps(kept) == [10]


def test_previous_leaves_a_checkpoint_of_a_newer_version_as_it_is(kept):
    write(kept, 10)
    newer = write(kept, 20)
    spoil(newer, "newer")
    with pytest.raises(CheckpointError, match=r"a newer version wrote it\. Install that version; .*move this one"):
        kept.previous()
    assert [path.name for path in sorted(kept.directory.iterdir())][-1] == newer.name


def test_previous_leaves_a_checkpoint_that_cannot_be_read_as_it_is(kept):
    write(kept, 10)
    (kept.directory / "step-000000000020.ckpt").mkdir()
    with pytest.raises(CheckpointError, match=r"step-0+20\.ckpt cannot be read: Is a directory"):
        kept.previous()
    assert not list(kept.directory.glob("*.damaged"))


def test_there_may_be_no_previous_one(kept):
    assert kept.previous() is None
    spoil(write(kept, 10), "one bit")
    assert kept.previous() is None


def test_a_full_disk_leaves_the_older_ones(kept, monkeypatch):
    """The unfinished file is a link to /dev/full, which is always full."""
    write(kept, 10)
    (kept.directory / ".step-000000000020.ckpt.tmp").symlink_to("/dev/full")
    monkeypatch.setattr(Checkpoints, "_delete_unfinished", lambda self: None)
    with pytest.raises(CheckpointError, match=r"cannot be written: No space left.*older ones are untouched"):
        write(kept, 20)
    assert steps(kept) == [10]
    assert [path.name for path in kept.directory.iterdir()] == ["step-000000000010.ckpt"]


# ---- kill -9 while it writes -----------------------------------------------------------------------------------------

WRITER = """
import sys, numpy
from ninelives.train.saving.checkpoint import Checkpoints
kept = Checkpoints(sys.argv[1])
newest = kept.newest()
step = 1 + (int(newest.stem.removeprefix("step-")) if newest else 0)
print("up", flush=True)
while True:
    kept.write({"weights": {"w": numpy.full(300_000, step)}}, step=step, config={}, score=-step)
    print(step, flush=True)
    step += 1
"""


def test_a_kill_at_any_moment_leaves_a_newest_one_that_loads(kept):
    rng, written = random.Random(3), 0
    for _ in range(100 if FULL else 5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(kept.directory)], stdout=subprocess.PIPE) as child:
            said = [child.stdout.readline() for _ in range(1 + rng.randrange(3))]
            time.sleep(0.05 * rng.random())
            child.send_signal(signal.SIGKILL)
            said = [*said, *child.stdout.read().split()][1:]
        written = max([written, *map(int, said)])
        if kept.newest() is None:
            assert written == 0
            continue
        newest = checkpoint.load(kept.newest())
        assert newest.step in (written, written + 1)  # the kill may come between the rename and the print
        written = newest.step
        assert np.array_equal(newest.state["weights"]["w"], np.full(300_000, written))
        assert all(checkpoint.load(path) for path in kept.all())
    assert written > 3
    write(kept, written + 1)
    assert not list(kept.directory.glob(".*")), "a half-written file was left behind"
