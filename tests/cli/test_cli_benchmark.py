"""``ninelives benchmark``: the table, the line to paste, and the arithmetic behind them."""

import re

import pytest

from ninelives.cli.bench.bench_grid import (
    MemoryModel,
    PoolMeasurement,
    PoolShape,
    best_of,
    line_to_paste,
    parse_bytes,
    shapes,
    sizes_to_try,
)
from ninelives.cli.target import env_spec
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec
from ninelives.train.sizing import Sizing

MB = 1_000_000


def measured(num_envs, workers, steps_per_s, megabytes, groups=1):
    return PoolMeasurement(PoolShape(num_envs, workers, groups), steps_per_s, 1000.0, megabytes * MB, 0.1)


def test_a_table_and_a_line_that_can_be_pasted_are_printed(ninelives):
    done = ninelives("benchmark", "game:Calm", "--num-envs", "4", "--workers", "1", "2", "--groups", "1", "2",
                   "--seconds", "1", "--env-kwargs", "size=4")  # fmt: skip
    assert done.code == 0, done.err
    assert "steps/s" in done.out
    assert "of limit" in done.out
    assert len(re.findall(r"│ +\d+ │ +\d+ │ +\d+ │ +\d+ │", done.out)) == 4
    line = done.out.splitlines()[-1]
    assert line.startswith("ninelives.Pool(ninelives.EnvSpec(\"game:Calm\", {'size': 4}), num_envs=")
    compile(line, "pasted", "eval")


def test_what_does_not_fit_into_memory_is_not_started(ninelives):
    done = ninelives("benchmark", "game:Calm", "--num-envs", "2", "--workers", "1", "--memory-limit", "1MB")
    assert done.code == 1
    assert "nothing fits into 1 MB" in done.err
    assert "measuring" not in done.err


def test_how_many_environments_are_tried_is_the_trainers_choice_and_its_neighbours(monkeypatch):
    monkeypatch.setattr("ninelives.train.sizing.choose_for", lambda spec: Sizing(12, f"for {spec.label}"))
    assert sizes_to_try(EnvSpec("CartPole-v1")) == (6, 12, 24)


def test_impossible_settings_are_usage_errors(ninelives):
    assert "is not a size" in ninelives("benchmark", "game:Calm", "--memory-limit", "much").err
    assert ninelives("benchmark", "game:Calm", "--num-envs", "2", "--workers", "3").code == 2
    assert ninelives("benchmark", "game:Calm", "--seconds", "0").code == 2


def test_only_shapes_that_can_be_dealt_evenly_are_measured_and_small_ones_first():
    assert shapes((8, 2), (1, 4), (1, 2)) == [
        PoolShape(2, 1, 1), PoolShape(2, 1, 2), PoolShape(8, 1, 1), PoolShape(8, 1, 2), PoolShape(8, 4, 1),
        PoolShape(8, 4, 2),
    ]  # fmt: skip
    assert shapes((6,), (4,), (1, 2)) == [PoolShape(6, 4, 1)]
    with pytest.raises(ConfigError, match="multiple of workers x groups"):
        shapes((5,), (2,), (2,))


def test_groups_make_first_ready_batches():
    assert (PoolShape(32, 2, 1).batch_size, PoolShape(32, 2, 2).batch_size) == (32, 16)


def test_the_fastest_wins_unless_a_smaller_one_is_as_good():
    small, big, slow = measured(8, 1, 980, 10), measured(8, 4, 1000, 40), measured(8, 2, 500, 5)
    assert best_of([small, big, slow]) is small
    assert best_of([measured(8, 1, 900, 10), big, slow]) is big


def test_the_ratio_is_to_the_bare_loops_measured_beside_it():
    assert measured(8, 1, 850, 10).ratio == pytest.approx(0.85)


def test_memory_is_guessed_from_workers_and_copies_and_learnt_from_measurements():
    model = MemoryModel(alone_bytes=10 * MB, copy_bytes=5 * MB)
    assert model.guess(PoolShape(8, 2, 1)) == 50 * MB
    model.learn(PoolShape(8, 2, 1), 26 * MB)
    assert model.guess(PoolShape(32, 2, 1)) == 50 * MB


def test_the_line_to_paste_says_no_more_than_it_must():
    assert (
        line_to_paste(EnvSpec("CartPole-v1"), PoolShape(8, 2, 1))
        == 'ninelives.Pool("CartPole-v1", num_envs=8, workers=2)'
    )
    assert line_to_paste(EnvSpec("g:m", {"level": 3}), PoolShape(8, 2, 2)) == (
        "ninelives.Pool(ninelives.EnvSpec(\"g:m\", {'level': 3}), num_envs=8, workers=2, groups=2, batch_size=4)"
    )


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("512 MiB", 512 << 20), ("1.5g", 15 * 10**8), ("2000", 2000), ("8kb", 8000)]
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "four", "0"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ConfigError, match="is not a size"):
        parse_bytes(text)


def test_keyword_arguments_are_read_as_python_where_they_can_be():
    spec = env_spec("game:make", ["level=3", "mode=hard", "flags=[1, 2]", "name='x'", "on=True", "sum=a=b"])
    assert spec.kwargs == {"level": 3, "mode": "hard", "flags": [1, 2], "name": "x", "on": True, "sum": "a=b"}


@pytest.mark.parametrize("pair", ["level", "=3", "a b=1"])
def test_a_pair_that_is_none_is_refused(pair):
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        env_spec("game:make", [pair])
