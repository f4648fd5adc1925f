"""A configuration from a file, ``--set`` and flags: which one wins, and refusals with file and line."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives.errors import ConfigError
from ninelives.train.config.layers import as_tree, dump, from_file, from_flags, from_pairs, load, resolve


@dataclass(frozen=True)
class Learner:
    learning_rate: float = 3e-4
    epochs: int = 4
    anneal: bool = True
    target_kl: float | None = None
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        if self.learning_rate <= 0:
            raise ConfigError(f"ppo.learning_rate={self.learning_rate!r} must be greater than zero")


@dataclass(frozen=True)
class Run:
    env: str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    timesteps: int = 1_000_000
    n_envs: int | Literal["auto"] = "auto"
    overlap: Literal["auto", "on", "off"] = "auto"
    run_dir: Path | None = None
    ppo: Learner = field(default_factory=Learner)

    def __post_init__(self) -> None:
        if self.n_envs != "auto" and self.timesteps < self.n_envs:
            raise ConfigError(f"timesteps={self.timesteps} must be at least n_envs={self.n_envs}")


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "run.yaml"
        path.write_text(text)
        return path

    return write


def refusal(call, *args):
    with pytest.raises(ConfigError) as refused:
        call(*args)
    return str(refused.value)


def test_flags_override_set_which_overrides_the_file_and_the_defaults(write):
    path = write("env: a\ntimesteps: 10\nn_envs: 2\nppo:\n  epochs: 7\n  learning_rate: 3e-3\n")
    run = resolve(
        Run,
        from_file(Run, path),
        from_pairs(["ppo.epochs=8", "n_envs=3"]),
        from_flags(Run, {"n_envs": 4, "ppo": {"epochs": 9}}),
    )
    assert run == Run("a", timesteps=10, n_envs=4, ppo=Learner(epochs=9, learning_rate=3e-3))


def test_a_flag_with_the_default_value_overrides_the_file_too(write):
    path = write("env: a\ntimesteps: 10\n")
    assert resolve(Run, from_file(Run, path), from_flags(Run, {"timesteps": 1_000_000})).timesteps == 1_000_000


def test_values_are_read_as_people_write_them(write):
    text = (
        "env: a\ntimesteps: 1e6\noverlap: on\nrun_dir: runs/a\nppo: {learning_rate: 1e-3, hidden: [8], target_kl: null}"
    )
    run = load(Run, write(text + "\nenv_kwargs: {level: 3, mode: no}"))
    assert (run.timesteps, run.overlap, run.run_dir) == (1_000_000, "on", Path("runs/a"))
    assert (run.ppo.learning_rate, run.ppo.hidden, run.ppo.target_kl) == (1e-3, (8,), None)
    assert run.env_kwargs == {"level": 3, "mode": "no"}
    assert type(run.timesteps) is int


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("env: a\nppo:\n  learning_rat: 1\n", 3, "ppo.learning_rat is not a setting; did you mean ppo.learning_rate?"),
        ("env: a\n\nlearning_rate: 1\n", 3, "learning_rate is not a setting; did you mean ppo.learning_rate?"),
        ("env: a\nppo:\n  zzz: 1\n", 3, "ppo.zzz is not a setting; allowed in ppo: ppo.learning_rate, ppo.epochs"),
        ("env: a\nppo:\n  epochs: many\n", 3, "ppo.epochs='many' must be a whole number"),
        ("env: a\nppo:\n  anneal: yes\n", 3, "ppo.anneal='yes' must be true or false"),
        ("env: a\ntimesteps: true\n", 2, "timesteps=True must be a whole number"),
        ("env: a\ntimesteps: 1.5\n", 2, "timesteps=1.5 must be a whole number"),
        ("env: a\noverlap: true\n", 2, "overlap=True must be 'auto', 'on' or 'off'"),
        ("env: a\nn_envs: some\n", 2, "n_envs='some' must be a whole number or 'auto'"),
        ("env: a\nppo: {hidden: 64}\n", 2, "ppo.hidden=64 must be a list of a whole number each"),
        ("env: a\nppo: 3\n", 2, "ppo is a section: write `name: value` lines below it"),
        ("env: a\n\nppo: {learning_rate: -1}\n", 3, "ppo.learning_rate=-1.0 must be greater than zero"),
        ("env: a\ntimesteps: 1\nenv: b\n", 3, "env is given twice, first at"),
        ("- env\n", 1, "a configuration consists of names: write `name: value` lines"),
        ("env: [a\n", 2, "not YAML"),
    ],
)
def test_errors_name_file_and_line(write, text, line, words):
    path = write(text)
    assert refusal(load, Run, path).startswith(f"{path}:{line}: ")
    assert words in refusal(load, Run, path)


def bomb(levels):
    """Ten times as many values with each line."""
    lines = ["env: &x0 [a]", *(f"k{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, levels))]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (bomb(10), 5, "more than the 10,000 values that a configuration may have, counting what aliases stand for"),
        (bomb(30), 5, "more than the 10,000 values"),
        ("env: &x [*x]\n", 1, "an alias refers to itself"),
        ("env: a\nppo: " + "[" * 5000 + "]" * 5000, 2, "nested more than the 50 levels that a configuration may have"),
        ("env: a\nppo: {epochs: 2026-13-45}\n", 2, "not a YAML value"),
        ("env: a\ntimesteps: " + "9" * 5000, 2, "not a YAML value"),
        ("env: a\ntimesteps: !!python/name:os.system x\n", 2, "not a YAML value: could not determine a constructor"),
        ("env: a\ntimesteps: [" + "1," * 5000 + "]", 2, "... must be a whole number"),
    ],
)
def test_hostile_files_are_refused_at_once(write, text, line, words):
    path = write(text)
    began = time.process_time()
    message = refusal(load, Run, path)
    assert time.process_time() - began < 1.0
    assert message.startswith(f"{path}:{line}: ")
    assert words in message
    assert len(message) < 600


def test_a_file_that_is_no_configuration_is_refused_by_its_size(write):
    path = write("# " + "x" * (2 << 20))
    assert f"{path}: larger than the 1,048,576 bytes" in refusal(load, Run, path)


def test_hostile_pairs_are_refused(write):
    for text in ("[" * 5000 + "]" * 5000, "2026-13-45", "&x [*x]"):
        message = refusal(from_pairs, [f"env={text}"])
        assert message.startswith("--set env: ")
        assert len(message) < 400


def test_an_impossible_combination_names_all_its_origins(write):
    path = write("env: a\ntimesteps: 4\n")
    message = refusal(resolve, Run, from_file(Run, path), from_flags(Run, {"n_envs": 8}))
    assert message == f"{path}:2, --n-envs: timesteps=4 must be at least n_envs=8"


def test_errors_in_pairs_name_them():
    assert "--set 'epochs' is not NAME=VALUE" in refusal(from_pairs, ["epochs"])
    assert refusal(resolve, Run, from_pairs(["env=a", "ppo.epoch=3"])).startswith("--set ppo.epoch: ")
    assert "did you mean ppo.epochs?" in refusal(resolve, Run, from_pairs(["env=a", "ppo.epoch=3"]))
    assert "ppo is a section" in refusal(resolve, Run, from_pairs(["env=a", "ppo={epochs: 3}"]))
    assert "is not a YAML value" in refusal(from_pairs, ["env=[a"])


def test_dashes_and_underscores_mean_the_same_in_pairs():
    assert resolve(Run, from_pairs(["env=a", "ppo.learning-rate=1"])).ppo.learning_rate == 1.0


def test_a_missing_required_setting_is_named(write):
    assert "env is missing" in refusal(load, Run, write("timesteps: 5\n"))
    assert "env is missing" in refusal(load, Run, write(""))


def test_a_missing_file_is_named(tmp_path):
    message = refusal(load, Run, tmp_path / "no.yaml")
    assert "no.yaml" in message
    assert "No such file" in message


names = st.text("abcyesnof0123456789e-_. :#'\"[]{}\n", min_size=1)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names
learners = st.builds(
    Learner,
    learning_rate=st.floats(min_value=0, exclude_min=True),
    epochs=st.integers(),
    anneal=st.booleans(),
    target_kl=st.none() | st.floats(allow_nan=False),
    hidden=st.lists(st.integers()).map(tuple),
)
runs = st.builds(
    Run,
    env=names,
    env_kwargs=st.dictionaries(names, plain),
    timesteps=st.integers(min_value=10**6),
    n_envs=st.just("auto") | st.integers(1, 10**6),
    overlap=st.sampled_from(["auto", "on", "off"]),
    run_dir=st.none() | names.map(Path),
    ppo=learners,
)


@given(run=runs)
def test_a_dumped_configuration_is_read_back_the_same(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("dump") / "config.yaml"
    path.write_text(dump(run))
    assert load(Run, path) == run


def test_a_tree_is_plain():
    assert as_tree(Run("a", run_dir=Path("x")))["run_dir"] == "x"
    assert as_tree(Run("a"))["ppo"]["hidden"] == [64, 64]
