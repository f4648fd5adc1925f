"""What ``import ninelives`` offers, and what the package ships beside its code."""

import ast
import importlib
import importlib.metadata
import inspect
import tomllib
from pathlib import Path

import pytest

import ninelives

PACKAGE = Path(ninelives.__file__).parent
PYPROJECT = PACKAGE.parent.parent / "pyproject.toml"


def names_for_type_checkers() -> dict[str, str]:
    """Name -> module of the imports below ``if TYPE_CHECKING`` of the package."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


def test_dir_shows_exactly_the_public_names():
    assert dir(ninelives) == sorted(ninelives.__all__)
    assert len(ninelives.__all__) == len(set(ninelives.__all__))


@pytest.mark.parametrize("name", ninelives.__all__)
def test_every_public_name_resolves(name: str):
    assert getattr(ninelives, name) is not None


@pytest.mark.parametrize("name", [n for n in ninelives.__all__ if n != "__version__"])
def test_every_public_name_has_a_docstring(name: str):
    assert inspect.getdoc(getattr(ninelives, name))


def test_the_list_of_names_is_written_out_so_that_type_checkers_see_the_exports():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert [isinstance(item, ast.Constant) for item in lists[0].elts] == [True] * len(ninelives.__all__)


def test_type_checkers_and_the_interpreter_see_the_same_names_from_the_same_modules():
    seen = names_for_type_checkers()
    assert set(seen) == set(ninelives.__all__) - {"__version__"}
    for name, module in seen.items():
        assert getattr(ninelives, name) is getattr(importlib.import_module(module), name)


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no attribute 'Pol'"):
        _ = ninelives.Pol


def test_the_version_is_the_same_everywhere():
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["version"]
    assert ninelives.__version__ == declared == importlib.metadata.version("ninelives")


def test_the_package_ships_its_type_marker_and_its_c_header():
    assert (PACKAGE / "py.typed").is_file()
    shipped = tomllib.loads(PYPROJECT.read_text())["tool"]["setuptools"]["package-data"]["ninelives"]
    assert "py.typed" in shipped
    for pattern in shipped:
        assert list(PACKAGE.glob(pattern)), f"package-data names {pattern}, which matches nothing"
