"""What a worker owns, that it holds nothing of other processes, and that its children die with it."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

import pytest
from scenes import GUILTY, SEED, Curious, actions_at, crossed, film, of_kind, pool_of

from ninelives.events import FaultSeen
from ninelives.testing import Fragile, When, leftovers

METHODS = ["fork", "forkserver", "spawn"]


def eventfd_ids(pid):
    """Which bells a process holds: the kernel numbers every eventfd."""
    ids = []
    for fd, target in leftovers.descriptors(pid).items():
        if "eventfd" in target:
            lines = Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines()
            ids += [int(line.split()[1]) for line in lines if line.startswith("eventfd-id")]
    return ids


@pytest.fixture
def secret(tmp_path):
    """A file and a pipe of the user's program that every process it starts would inherit."""
    with open(tmp_path / "secret", "w") as file:
        os.set_inheritable(file.fileno(), True)
        read_end, write_end = os.pipe()
        os.set_inheritable(write_end, True)
        yield file.name
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize("method", METHODS)
def test_worker_has_its_own_bell_and_directories_and_no_descriptor_of_anyone_else(method, secret):
    with pool_of(Curious, start_method=method) as pool:
        assert_only_own_bells(pool)
        for pid in pool.worker_pids:
            targets = leftovers.descriptors(pid).values()
            assert secret not in targets
            assert not {target.partition(":")[0] for target in targets} & {"pipe", "socket"}
        assert_private_directories(pool)
        run_dir = pool.run_dir
    assert not run_dir.exists()


def assert_only_own_bells(pool):
    """Each of two workers holds its own bell and the parent's, and not its sibling's."""
    held = [set(eventfd_ids(pid)) for pid in pool.worker_pids]
    assert [len(ids) for ids in held] == [2, 2]
    assert len(set.intersection(*held)) == 1


def assert_private_directories(pool):
    places = pool.call("whereabouts")
    for place in places:
        assert place["cwd"] == place["tmpdir"] == place["TMPDIR"]
        assert Path(place["cwd"]).is_relative_to(pool.run_dir)
        assert place["launch_dir"] == os.getcwd()
        assert place["group"] == place["pid"]
        for directory in (place["cwd"], place["scratch"], pool.run_dir):
            assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert len({place["scratch"] for place in places}) == 4
    assert len({place["cwd"] for place in places}) == 2


def test_scratch_of_a_dead_worker_is_empty_for_the_next_one():
    with pool_of(Littering(), start_method="fork") as pool:
        film(pool)
        assert of_kind(pool, FaultSeen)
        assert [place.name for place in (pool.run_dir / "scratch" / "worker-0").rglob("litter")] == []


class Littering:
    """Leaves a file in its scratch directory in the first generation, then crashes."""

    def __call__(self):
        env = Fragile("segfault", When("step", at=3, slots=(GUILTY,)))()
        if env._place.generation == 1:
            (env._place.scratch / "litter").touch()
        return env


def test_run_directory_of_the_user_keeps_its_logs_and_loses_its_scratch(tmp_path):
    (tmp_path / "run").mkdir(mode=0o755)
    with pool_of(Fragile("flood", When("construct")), start_method="fork", run_dir=tmp_path / "run") as pool:
        pool.reset(seed=SEED)
        assert stat.S_IMODE(os.stat(tmp_path / "run" / "scratch").st_mode) == 0o700
    kept = {path.name for path in (tmp_path / "run").iterdir()}
    assert kept == {"events.jsonl", "worker-0.log", "worker-1.log"}
    assert (tmp_path / "run" / "worker-0.log").read_text().startswith("x" * 1023)


@pytest.mark.parametrize(("fault", "method"), crossed("step", ["have_child", "have_daemon", "have_forked_daemon"]))
def test_children_of_a_dead_worker_are_ended_while_the_pool_goes_on(fault, method):
    with pool_of(Parents(fault), start_method=method) as pool:
        film(pool)
        assert [fault.signal for fault in of_kind(pool, FaultSeen)] == ["SIGSEGV"]
        assert len(leftovers.await_none(lambda: surplus(pool), within_s=2.0)) == 0
        pool.step(actions_at(1))


def surplus(pool):
    """Processes below this one that are neither a worker nor their keeper."""
    keep = set(pool.worker_pids)
    return [p for p in leftovers.descendants() if p.pid not in keep and p.parent != os.getpid()]


class Parents:
    """Has a child, then crashes; the next generation has none."""

    def __init__(self, fault):
        self.birth = Fragile(fault, When("construct", slots=(GUILTY,)))
        self.death = Fragile("segfault", When("step", at=3, slots=(GUILTY,)))

    def __call__(self):
        self.birth()
        return self.death()


def test_flood_of_output_blocks_no_worker_and_stays_off_the_users_terminal(capfd, undisturbed):
    with pool_of(Fragile("flood", When("step", at=2)), start_method="fork") as pool:
        seen = film(pool)
        assert not of_kind(pool, FaultSeen)
    assert seen.equals(undisturbed, range(4))
    assert capfd.readouterr() == ("", "")


def test_environment_that_closes_every_descriptor_gives_true_rows_or_a_fault_and_never_a_wrong_row():
    with pool_of(Fragile("close_descriptors", When("step", at=3, slots=(GUILTY,))), start_method="fork") as pool:
        seen = film(pool, steps=20)
    assert seen.rows("valid", (2, 3)).all()


def test_leaking_worker_is_replaced_between_episodes_when_it_grows_too_large():
    limit = 200 << 20
    env = Fragile("leak", When("step", again=True, slots=(GUILTY,)), episode_steps=4)
    with pool_of(env, start_method="fork", max_rss_bytes=limit) as pool:
        seen = film(pool, steps=5)
        while not any(event.generation == 2 and type(event).__name__ == "WorkerReady" for event in pool.events):
            seen.referee.step(actions_at(1), pool.step(actions_at(1)))
        assert not of_kind(pool, FaultSeen)


def test_environments_of_one_worker_are_built_in_their_own_directories():
    with pool_of(partial(Curious), num_envs=3, workers=1, start_method="fork") as pool:
        scratches = [place["scratch"] for place in pool.call("whereabouts")]
    assert [Path(scratch).name for scratch in scratches] == ["slot-0", "slot-1", "slot-2"]
