"""A configuration from four layers: flags override ``--set``, which overrides a YAML file, then the defaults.

::

    defaults of the class  <  run.yaml  <  --set ppo.gamma=0.9  <  --ppo.gamma 0.95      ->  one frozen dataclass
                              run.yaml:7    --set ppo.gamma        --ppo.gamma               or one ConfigError

Generic over frozen dataclasses; a field that is a dataclass is a section. Each value keeps its origin, so that every
refusal, here or by the class itself, names file and line. Must never know what a setting means.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ninelives.errors import ConfigError
from ninelives.train.config import yaml_text
from ninelives.train.config.coerce import CoercionError, coerce, describe

Config = TypeVar("Config")

LONGEST_SHOWN = 200
"""Characters of a refused value that a message shows."""


@dataclass(frozen=True)
class Setting:
    """One value with its dotted name and its origin, such as ``run.yaml:7`` or ``--n-envs``."""

    name: str
    value: Any
    where: str


def resolve(cls: type[Config], *layers: Iterable[Setting]) -> Config:
    """The configuration; a later layer wins over an earlier one.

    Raises:
        ConfigError: an unknown name, a wrong type, or a value that the class refuses; names its origin.
    """
    chosen = {setting.name: setting for layer in layers for setting in layer}
    for setting in chosen.values():
        _known(cls, setting)
    return _build(cls, "", chosen)


def load(cls: type[Config], path: Path) -> Config:
    """The configuration of one file."""
    return resolve(cls, from_file(cls, path))


def from_file(cls: type, path: Path) -> list[Setting]:
    """All values of a YAML file with the structure of the class.

    Raises:
        ConfigError: the file is missing, not YAML, of another structure, or has a name twice.
    """
    node = yaml_text.compose(path)
    if node is None:
        return []
    return list(_walk(cls, node, "", path))


def from_pairs(pairs: Sequence[str]) -> list[Setting]:
    """``("ppo.gamma=0.9", "n_envs=8")``; values are read as YAML."""
    settings = []
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {pair!r} is not NAME=VALUE; for example: --set ppo.learning_rate=3e-4")
        name = name.strip().replace("-", "_")
        settings.append(Setting(name, yaml_text.value(text, f"--set {name}"), f"--set {name}"))
    return settings


def from_flags(cls: type, given: Mapping[str, Any]) -> list[Setting]:
    """The flags of the command line, nested like the class; flags that were not given are absent."""
    return [Setting(name, value, f"--{name.replace('_', '-')}") for name, value in _flat(cls, given, "")]


def from_tree(cls: type, tree: Mapping[str, Any], where: str) -> list[Setting]:
    """The result of ``as_tree``, for example from a checkpoint; ``where`` is the origin in messages."""
    return [Setting(name, value, where) for name, value in _flat(cls, tree, "")]


def _flat(cls: type, tree: Mapping[str, Any], section: str) -> Iterator[tuple[str, Any]]:
    kinds = _kinds(cls)
    for key, value in tree.items():
        if dataclasses.is_dataclass(kinds.get(key)) and isinstance(value, Mapping):
            yield from _flat(typing.cast(type, kinds[key]), value, f"{section}{key}.")
        else:
            yield f"{section}{key}", value


def as_tree(config: Any) -> Any:
    """Plain values that YAML and JSON can hold."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: as_tree(getattr(config, field.name)) for field in dataclasses.fields(config)}
    if isinstance(config, Mapping):
        return {str(key): as_tree(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [as_tree(value) for value in config]
    return str(config) if isinstance(config, Path) else config


def dump(config: Any) -> str:
    """The configuration as YAML, which ``load`` reads back."""
    return yaml_text.dump(as_tree(config))


def names_of(cls: type, section: str = "") -> Iterator[str]:
    """Every dotted name of a class, in its order."""
    for name, kind in _kinds(cls).items():
        if dataclasses.is_dataclass(kind):
            yield from names_of(typing.cast(type, kind), f"{section}{name}.")
        else:
            yield f"{section}{name}"


def _kinds(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _walk(cls: type, node: Any, section: str, path: Path) -> Iterator[Setting]:
    at = f"{path}:{node.start_mark.line + 1}"
    if not yaml_text.is_mapping(node):
        what = f"{section.rstrip('.')} is a section" if section else "a configuration consists of names"
        raise ConfigError(f"{at}: {what}: write `name: value` lines{' below it' if section else ''}")
    kinds = _kinds(cls)
    seen: dict[str, str] = {}
    for key_node, value_node in node.value:
        key, where = str(key_node.value), f"{path}:{key_node.start_mark.line + 1}"
        name = f"{section}{key}"
        if key in seen:
            raise ConfigError(f"{where}: {name} is given twice, first at {seen[key]}")
        seen[key] = where
        if dataclasses.is_dataclass(kinds.get(key)):
            yield from _walk(typing.cast(type, kinds[key]), value_node, f"{name}.", path)
        else:
            yield Setting(name, yaml_text.plain(value_node, where), where)


def _known(cls: type, setting: Setting) -> None:
    every = list(names_of(cls))
    if setting.name in every:
        return
    sections = {name.rpartition(".")[0] for name in every}
    if setting.name in sections:
        raise ConfigError(f"{setting.where}: {setting.name} is a section; set one of its names, like {setting.name}.x")
    raise ConfigError(f"{setting.where}: {setting.name} is not a setting; {_nearest(setting.name, every)}")


def _nearest(name: str, every: Sequence[str]) -> str:
    """A suggestion: the right name in the wrong section, or a similar spelling."""
    section, _, last = name.rpartition(".")
    elsewhere = [known for known in every if known.rpartition(".")[2] == last]
    near = elsewhere or difflib.get_close_matches(name, every, 1, 0.6)
    near = near or [k for k in every if difflib.SequenceMatcher(None, last, k.rpartition(".")[2]).ratio() > 0.75]
    if near:
        return f"did you mean {near[0]}?"
    here = [known for known in every if known.rpartition(".")[0] == section]
    return f"allowed{f' in {section}' if section and here else ''}: {', '.join(here or every)}"


def _build(cls: type[Config], section: str, chosen: Mapping[str, Setting]) -> Config:
    values: dict[str, Any] = {}
    for key, kind in _kinds(cls).items():
        name = f"{section}{key}"
        if dataclasses.is_dataclass(kind):
            values[key] = _build(typing.cast("type[Any]", kind), f"{name}.", chosen)
        elif name in chosen:
            values[key] = _coerced(chosen[name], kind)
    _complete(cls, section, values)
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(_placed(str(error), section, chosen)) from error


def _coerced(setting: Setting, kind: Any) -> Any:
    try:
        return coerce(setting.value, kind)
    except CoercionError:
        shown = repr(setting.value)
        shown = shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."
        raise ConfigError(f"{setting.where}: {setting.name}={shown} must be {describe(kind)}") from None


def _complete(cls: type, section: str, values: Mapping[str, Any]) -> None:
    for field in dataclasses.fields(cls):
        needed = field.init and field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in values:
            name = f"{section}{field.name}"
            raise ConfigError(
                f"{name} is missing: write `{name}: ...` in the --config file, or give it on the command line"
            )


def _placed(message: str, section: str, chosen: Mapping[str, Setting]) -> str:
    """Prefix a class's refusal with the origins of the settings that it names."""
    origins = []
    for name, setting in chosen.items():
        last = name.removeprefix(section)
        if name.startswith(section) and re.search(rf"(?<![\w.]){re.escape(last)}\b|\b{re.escape(name)}\b", message):
            origins.append(setting.where)
    return f"{', '.join(dict.fromkeys(origins))}: {message}" if origins else message
