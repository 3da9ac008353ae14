"""The paths by which strangers imported modules before there were rooms are refused by the new."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

MOVED = {
    "equivalence.contract": "equivalence.worlds.contract",
    "equivalence.declared": "equivalence.backends.libraries",
    "equivalence.run": "equivalence.runs.run",
    "fast.bridge": "fast.device.bridge",
    "fast.buffer": "fast.device.buffer",
    "fast.gradmap": "fast.runtime.gradmap",
    "fast.interchange": "fast.checkpoint.interchange",
    "fast.param": "fast.runtime.param",
}


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_is_refused_by_the_new_one(old: str) -> None:
    new = MOVED[old]
    says = f"^{old} is {new} now: write {new} in the import$"
    with pytest.raises(ModuleNotFoundError, match=says):
        importlib.import_module(old)
    package, _, name = old.partition(".")
    with pytest.raises(ModuleNotFoundError, match=says):
        exec(f"from {package} import {name}")
    importlib.import_module(new)


@pytest.mark.parametrize("package", ["equivalence", "fast"])
def test_what_never_was_is_not_found_as_ever(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{package}.nothing'"):
        importlib.import_module(f"{package}.nothing")


def test_the_judge_refuses_old_paths_without_torch() -> None:
    """Notes import its worlds on machines that have none."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import equivalence.worlds.contract\n"
        "assert 'fast' not in sys.modules\n"
        "try:\n    import equivalence.run\n"
        "except ModuleNotFoundError as error:\n    assert 'equivalence.runs.run' in str(error)\n"
        "else:\n    raise SystemExit('taken')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
