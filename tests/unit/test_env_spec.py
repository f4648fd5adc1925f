import pickle
import sys
import types

import gymnasium
import pytest

from ninelives import ConfigError, EnvSpec


@pytest.mark.parametrize(
    "name",
    [
        "CartPole-v1",
        "ALE/Pong-v5",
        "ale_py:ALE/Pong-v5",
        "package.module:Some-Env-v12",
        "package.module:factory",
        "a:B.c",
    ],
)
def test_names_of_environments_are_taken_as_they_are(name):
    spec = EnvSpec.of(name)
    assert spec.env == name
    assert spec.label == name


@pytest.mark.parametrize(
    "value", ["CartPole", "", "a b", "module:", ":factory", "1module:make", 5, None, ["CartPole-v1"]]
)
def test_anything_else_is_refused_with_examples_before_a_process_starts(value):
    with pytest.raises(ConfigError) as refusal:
        EnvSpec.of(value)
    message = str(refusal.value)
    assert f"env={value!r}" in message
    for allowed in ("'CartPole-v1'", "'package.module:factory'", "callable", "EnvSpec"):
        assert allowed in message


def test_a_spec_is_taken_as_it_is_and_survives_pickling():
    spec = EnvSpec("CartPole-v1", kwargs={"render_mode": "rgb_array"}, modules=("json",))
    assert EnvSpec.of(spec) is spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_naming_an_environment_does_not_import_it():
    EnvSpec.of("a_module_that_does_not_exist:make")


def test_a_callable_is_called_with_its_keywords_once_per_environment():
    made = []

    def make(size):
        made.append(size)
        return object()

    construct = EnvSpec(make, kwargs={"size": 3}).load()
    assert made == []
    assert construct() is not construct()
    assert made == [3, 3]
    assert EnvSpec.of(make).label == "make"


@pytest.fixture
def module(monkeypatch):
    """A module that can be imported by name."""
    home = types.ModuleType("ninelives_test_home")
    monkeypatch.setitem(sys.modules, home.__name__, home)
    return home


def test_a_factory_is_found_by_its_path_also_inside_classes(module):
    class Nest:
        @staticmethod
        def make(legs=2):
            return f"bird with {legs} legs"

    module.Nest = Nest
    assert EnvSpec.of("ninelives_test_home:Nest.make").load()() == "bird with 2 legs"
    assert EnvSpec("ninelives_test_home:Nest.make", kwargs={"legs": 1}).load()() == "bird with 1 legs"


def test_a_gymnasium_id_is_made_by_gymnasium_with_keywords():
    env = EnvSpec("CartPole-v1", kwargs={"max_episode_steps": 7}).load()()
    assert env.spec.id == "CartPole-v1"
    assert env.spec.max_episode_steps == 7
    env.close()


def test_the_module_before_an_id_is_imported_so_that_it_can_register(monkeypatch, tmp_path):
    (tmp_path / "ninelives_test_registers.py").write_text(
        "import gymnasium\ngymnasium.register('NinelivesTestNest-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = EnvSpec.of("ninelives_test_registers:NinelivesTestNest-v0").load()()
    assert env.spec.id == "NinelivesTestNest-v0"
    env.close()
    del gymnasium.registry["NinelivesTestNest-v0"], sys.modules["ninelives_test_registers"]


def test_named_modules_are_imported_first(monkeypatch, tmp_path):
    (tmp_path / "ninelives_test_first.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    EnvSpec(object, modules=("ninelives_test_first",)).load()
    assert sys.modules.pop("ninelives_test_first", None) is not None


def test_only_known_games_have_modules_to_preload():
    assert "ninelives.sims.emulators.env" in EnvSpec.of("ninelives/Errand-v0").preload
    assert EnvSpec.of("ale_py:ALE/Pong-v5").preload == ("ale_py",)
    assert EnvSpec.of("CartPole-v1").preload == EnvSpec.of(dict).preload == ()
    assert EnvSpec.of("some_package:Game-v0").preload == (), "who knows what it starts when it is imported"
