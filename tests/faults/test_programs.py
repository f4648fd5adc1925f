"""A pool inside a user's program, however it is run, and what Ctrl-C does to it."""

from __future__ import annotations

import json
import threading
import time

import pytest
from scenes import SEED, actions_at, film, pool_of

from ninelives.testing import CountingEnv

SHORT = """
import gymnasium, numpy, ninelives

print("imported", flush=True)

class Own(gymnasium.Env):
    '''An environment that exists only in the user's main module.'''
    observation_space = gymnasium.spaces.Box(0, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return numpy.zeros(2, numpy.float32), {}
    def step(self, action):
        return numpy.ones(2, numpy.float32), 1.0, False, False, {}

pool = ninelives.Pool(Own, 4, workers=2, start_method=METHOD)
pool.reset(seed=0)
print(pool.step([0, 1, 0, 1]).reward.sum(), flush=True)
pool.close()
"""

LONG = """
import sys, ninelives
from ninelives.testing import Fragile, When

env = Fragile(FAULT, When("close", once=sys.argv[1]))
pool = ninelives.Pool(env, 4, workers=2, close_timeout_s=LIMIT, start_method=METHOD)
try:
    pool.reset(seed=0)
    print("up", flush=True)
    while True:
        pool.step([0, 0, 0, 0])
finally:
    print("closing", flush=True)
    pool.close()
    print("closed", flush=True)
"""

STARTING = """
import sys, ninelives
from ninelives.testing import Fragile, When

ninelives.Pool(Fragile("hang_sleeping", When("construct", once=sys.argv[1])), 2, workers=2, close_timeout_s=1.0)
"""

METHODS = ["fork", "forkserver", "spawn"]
WAYS = [("one-liner", "fork"), ("script", "forkserver"), ("one-liner", "spawn"), ("script", "spawn")]
"""How a program is run and its start method: by pairs, and both ways with spawn, where a guard is needed elsewhere."""


def filled(source, **values):
    for name, value in values.items():
        source = source.replace(name, repr(value))
    return source


@pytest.mark.parametrize(("how", "method"), WAYS)
def test_pool_works_without_a_main_guard_and_the_main_module_runs_once(how, method, tmp_path, run_program):
    source = filled(SHORT, METHOD=method)
    if how == "script":
        (tmp_path / "train.py").write_text(source)
        program = run_program("train.py", cwd=tmp_path)
    else:
        program = run_program("-c", source)
    assert program.end() == (0, "imported\n4.0\n", "")
    assert program.left() == []


def test_program_that_ends_without_closing_its_pool_leaves_nothing(run_program):
    program = run_program("-c", filled(SHORT, METHOD="forkserver").replace("pool.close()", ""))
    assert program.end() == (0, "imported\n4.0\n", "")
    assert program.left() == []


def test_program_that_dies_of_an_exception_shows_it_and_leaves_nothing(run_program):
    program = run_program("-c", filled(SHORT, METHOD="forkserver").replace("pool.close()", "1 / 0"))
    code, _, errors = program.end()
    assert code == 1
    assert errors.strip().endswith("ZeroDivisionError: division by zero")
    assert program.left() == []


def test_program_that_forks_after_the_pool_was_made_keeps_its_pool(run_program):
    """The forked process inherits the pool object and runs exit handlers; the workers are not its own."""
    fork = "import os, sys\nif not os.fork(): sys.exit()\nos.wait()\nprint(pool.step([0, 0, 0, 0]).valid.all())\n"
    program = run_program("-c", filled(SHORT, METHOD="forkserver").replace("pool.close()", fork + "pool.close()"))
    assert program.end() == (0, "imported\n4.0\nTrue\n", "")


@pytest.mark.parametrize("method", METHODS)
def test_one_interrupt_ends_everything_cleanly(method, tmp_path, run_program):
    marker = tmp_path / "closed-by-itself"
    program = run_program("-c", filled(LONG, FAULT="nap", LIMIT=5.0, METHOD=method), marker)
    program.await_line("up")
    program.interrupt()
    code, out, errors = program.end()
    assert (code, out) == (-2, "closing\nclosed\n")
    assert errors.strip().endswith("KeyboardInterrupt")
    assert marker.exists()
    assert program.left() == []


def test_second_interrupt_kills_workers_that_will_not_close(tmp_path, run_program):
    hangs = tmp_path / "hangs-in-close"
    program = run_program("-c", filled(LONG, FAULT="hang_native", LIMIT=60.0, METHOD="fork"), hangs)
    program.await_line("up")
    program.interrupt()
    program.await_line("closing")
    while not hangs.exists():
        time.sleep(0.01)
    began = time.monotonic()
    program.interrupt()
    code, _, _ = program.end()
    assert code == -2
    assert time.monotonic() - began < 10.0
    assert program.left() == []


def test_interrupt_while_workers_start_leaves_nothing(tmp_path, run_program):
    hangs = tmp_path / "hangs-in-construct"
    program = run_program("-c", STARTING, hangs)
    while not hangs.exists():
        time.sleep(0.01)
    program.interrupt()
    code, _, errors = program.end()
    assert code == -2
    assert errors.strip().endswith("KeyboardInterrupt")
    assert program.left() == []


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_pool_works_from_a_thread(method):
    seen = []

    def run():
        with pool_of(CountingEnv, start_method=method) as pool:
            seen.append(film(pool))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen[0].batches[-1].valid.all()


def test_pool_made_in_one_thread_works_in_another():
    pool = pool_of(CountingEnv, start_method="fork")
    seen = []

    def run():
        pool.reset(seed=SEED)
        seen.append(pool.step(actions_at(1)))
        pool.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen[0].valid.all()


def test_two_pools_in_one_program_do_not_know_each_other():
    with pool_of(CountingEnv, start_method="fork") as one, pool_of(CountingEnv, start_method="fork") as other:
        first, second = one.reset(seed=1), other.reset(seed=100)
        one.send(actions_at(1))
        other.send(actions_at(2))
        assert json.dumps(other.recv().obs[:, 1].tolist()) == json.dumps(second.obs[:, 1].tolist())
        assert json.dumps(one.recv().obs[:, 1].tolist()) == json.dumps(first.obs[:, 1].tolist())
