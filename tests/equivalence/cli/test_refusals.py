"""What a stranger's module raises is one sentence and exit code 2, whichever command loads it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from equivalence.blame import Refused, blaming
from equivalence.cli import main
from equivalence.cli.work import ended
from equivalence.runs.results import CRASH, USAGE
from tests.equivalence.backends.fakes import Right

HEAD = """
from dataclasses import replace
from equivalence import Capabilities, declared

class Squares:
    name = "squares"
    ops, rule = {"square": ("fp32",)}, staticmethod(declared("torch"))
    def capabilities(self):
        return Capabilities(self.ops, self.rule)
    def value(self, op, inputs, attrs):
        return inputs[0] * inputs[0]
    def vjp(self, op, inputs, attrs, cotangents):
        return [2 * inputs[0] * cotangents[0]]

"""
LINES = HEAD.count("\n")

BROKEN = {
    "raise RuntimeError('no\\ndevice')": (
        "importing stranger raised RuntimeError: no device (at {file}:{line})"
    ),
    "raise SystemExit(0)": "importing stranger raised SystemExit: 0 (at {file}:{line})",
    "import no_such_library": (
        "importing stranger raised ModuleNotFoundError: No module named 'no_such_library' "
        "(at {file}:{line})"
    ),
    "def f(:": "importing stranger raised SyntaxError: ",
    "Squares.__init__ = lambda self: self.missing": (
        "calling Squares() raised AttributeError: 'Squares' object has no attribute 'missing' "
        "(at {file}:{line})"
    ),
    "Squares.capabilities = lambda self: 1 / 0": (
        "capabilities() raised ZeroDivisionError: division by zero (at {file}:{line})"
    ),
    "Squares.rule = staticmethod(lambda op, dtype: {}[op])": (
        "contract('square', 'fp32') raised KeyError: 'square' (at {file}:{line})"
    ),
    "Squares.rule = staticmethod(lambda op, dtype: declared('cuda')(op, dtype))": (
        "contract('square', 'fp32') raised ValueError: no declared contracts for 'cuda'; there are"
    ),
    "Squares.rule = staticmethod(lambda op, dtype: 'fp32')": (
        "contract('square', 'fp32') returned str, where equivalence.Contract is wanted"
    ),
    "Squares.rule = staticmethod(lambda *_: replace(declared('torch')(*_), store='fp32'))": (
        "contract('square', 'fp32') has store='fp32', where a Format"
    ),
    "Squares.rule = staticmethod(lambda *_: replace(declared('torch')(*_), freedom='all'))": (
        "has freedom='all', where 'page' or 'stable' is wanted"
    ),
    "Squares.ops = {'square': 'fp32'}": (
        "the dtypes of square are a collection; for 'fp32' write ('fp32',)"
    ),
}
"""What is wrong with a backend's module, and what is said of it."""

COMMANDS = {
    "run": ["run", "--profile", "quick", "--jobs", "0"],
    "sizes": ["run", "--profile", "sizes", "--jobs", "0"],
    "exact": ["exact", "--jobs", "0"],
    "replay-case": [
        "replay-case",
        '{"op":"square","direction":"value","dtype":"fp32","shapes":[[]],'
        '"recipes":[["integers",1,"contiguous"]]}',
    ],
}


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "stranger.py"
    sys.modules.pop("stranger", None)


@pytest.mark.parametrize("line", BROKEN)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_backend_that_cannot_be_loaded_is_a_sentence(
    command: str, line: str, stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger.write_text(f"{HEAD}{line}\n", encoding="utf-8")
    assert main([*COMMANDS[command], "--backend", "stranger:Squares"]) == USAGE
    said = capsys.readouterr().err
    expected = BROKEN[line].format(file="stranger.py", line=LINES + 1)
    assert said.startswith("error: backend 'stranger:Squares'") and expected in said
    assert said.count("\n") == 1


def test_pages_that_raise_are_a_sentence(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger.write_text("\nraise OSError('no file')\n", encoding="utf-8")
    assert main(["list", "--pages", "stranger"]) == USAGE
    assert capsys.readouterr().err == (
        "error: --pages stranger: importing stranger raised OSError: no file (at stranger.py:2)\n"
    )


def test_a_fault_of_the_suite_is_a_crash_with_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1 means not conformant, and Python's own code of a traceback is 1."""
    from argparse import Namespace

    def faulty(chosen: Namespace) -> int:
        raise IndexError("a bug")

    assert ended(faulty, Namespace()) == CRASH
    said = capsys.readouterr().err
    assert re.search(r"Traceback .*faulty.*IndexError: a bug\n.*no verdict", said, re.DOTALL)


def test_what_is_refused_already_and_an_interrupt_pass_as_they_are() -> None:
    for error in (Refused("as it is"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, blaming("a call"):
            raise error
        assert caught.value is error


def test_a_right_backend_is_loaded(stranger: Path) -> None:
    assert Right().capabilities().ops
    stranger.write_text(HEAD, encoding="utf-8")
    assert main([*COMMANDS["replay-case"], "--backend", "stranger:Squares"]) == 0
