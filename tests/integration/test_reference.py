"""The golden values that the unit tests read are what their reference programs write."""

import importlib.util
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "reference"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_the_golden_values_are_those_of_the_program(name):
    spec = importlib.util.spec_from_file_location(f"reference_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text() == module.text()
