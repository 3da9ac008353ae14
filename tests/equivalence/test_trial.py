"""A registered page is tried by the laws before it judges; a page of the book has been tried."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from equivalence import FP32, Capabilities, Contract, Request, Unusable, perform, registered
from equivalence.cli import main
from equivalence.registry import ENTRIES, unregister
from equivalence.runs.results import CONFORMANT, USAGE
from equivalence.trials import trial as trials
from equivalence.trials.trial import BrokenPage, trial, try_pages
from spec.kinds import pointwise
from spec.op import Op, Type, refuse
from spec.ops import OPS
from spec.scalar import cos, divide, exp, less, log, maximum, select, sin, tanh
from spec.several import several


def page(value: Callable[[Any], Any], rate: Callable[[Any], Any], name: str = "own") -> Op:
    """Return the record of a pointwise page of one input."""

    def rule(x: Type) -> Type:
        return x

    return pointwise(name, rule, lambda x: x.map(value), lambda x: (rate(x),))


def cube(factor: int = 3) -> Op:
    """Return the page of the cube, whose derivative is 3 x^2; with another factor it is wrong."""
    return page(lambda x: x * x * x, lambda x: factor * x * x, "cube")


class Cubes:
    """A right backend of the cube and of the square, which counts its calls."""

    name = "cubes"

    def __init__(self, *ops: str) -> None:
        self.ops, self.calls = ops or ("cube",), 0

    def capabilities(self) -> Capabilities:
        offered = dict.fromkeys(self.ops, ("fp32",))
        return Capabilities(offered, lambda op, dtype: Contract("cubes", FP32, FP32))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        self.calls += 1
        return inputs[0] ** 3 if op == "cube" else inputs[0] * inputs[0]

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        self.calls += 1
        (x,) = inputs
        return [3 * (x * x) * cotangents[0] if op == "cube" else 2 * x * cotangents[0]]


ASKED = Request("cubes", ops=["cube"], profile="quick")

SAYS = (
    r"the page cube breaks the law pushforward \(jvp is not the derivative that dual numbers "
    r"carry\) at cube\(Tensor\(Fraction\(1, 1\)\)\); fix the page; no backend was judged"
)


def test_a_right_page_judges() -> None:
    backend = Cubes()
    with registered(cube()):
        done = perform(ASKED, backend)
    assert backend.calls and "untried" not in done.environment


def test_a_wrong_derivative_is_the_pages_own_fault() -> None:
    backend = Cubes()
    with registered(cube(2)), pytest.raises(Unusable, match=f"^{SAYS}$"):
        perform(ASKED, backend)
    assert backend.calls == 0


def test_a_page_of_the_book_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def noted(op: Op) -> trials.Trial:
        tried.append(op.name)
        return trials.Trial({}, "", 30, "")

    monkeypatch.setattr(trials, "trial", noted)
    with registered(cube()):
        perform(Request("cubes", ops=["square"], profile="quick"), Cubes("square", "cube"))
        assert tried == []
        perform(Request("cubes", ops=["square", "cube"], profile="quick"), Cubes("square", "cube"))
        assert tried == ["cube"]


def test_a_page_is_tried_once() -> None:
    record = cube()
    with registered(record):
        found = trial(record)
        assert trial(record) is found
    assert trial(record) is not found


@pytest.mark.parametrize("name", ["softmax", "take", "rand_uniform", "argmax", "dropout", "where"])
def test_a_trial_takes_ops_of_any_kind(name: str) -> None:
    found = trial(OPS[name])
    assert found.broken == {} and found.tried == 30 and not found.untried


def _one_plus_exp(x: Any) -> Any:
    return 1 + exp(x)


RIGHT = {
    "an identity of sines": (lambda x: sin(x) * sin(x), lambda x: sin(x + x)),
    "an identity of powers": (lambda x: exp(x) * exp(x), lambda x: 2 * exp(x + x)),
    "an identity of tanh": (
        lambda x: log(_one_plus_exp(x)),
        lambda x: divide(1 + tanh(divide(x, 2)), 2),
    ),
    "zero at the kink": (lambda x: maximum(x, 0), lambda x: select(less(0, x), 1, 0)),
    "one at the kink": (lambda x: maximum(x, 0), lambda x: select(less(x, 0), 0, 1)),
}


@pytest.mark.parametrize("what", RIGHT)
def test_a_right_page_is_not_accused(what: str) -> None:
    found = trial(page(*RIGHT[what]))
    assert found.broken == {} and found.tried == 30 and not found.untried, found


WRONG = {
    "an identity missed": (lambda x: sin(x) * sin(x), lambda x: 2 * sin(x + x)),
    "a sign": (cos, sin),
    "a branch": (lambda x: maximum(x, 0), lambda x: select(less(0, x), 0, 1)),
    "near one": (tanh, lambda x: 1 - tanh(x)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_page_is_accused(what: str) -> None:
    assert list(trial(page(*WRONG[what])).broken) == ["pushforward"]


def _clipped(cotangent: Any) -> Any:
    return cotangent.map(lambda g: max(min(g, 1), -1))


def test_each_law_that_is_broken_is_named() -> None:
    right = cube()
    found = trial(replace(right, vjp=lambda inputs, cotangent: (cotangent,)))
    assert list(found.broken) == ["transpose"]
    found = trial(replace(right, vjp=lambda inputs, cotangent: (cotangent, cotangent)))
    assert found.broken == {"types": "vjp returns 2 for 1 inputs"}
    vjp = right.vjp
    clipped = replace(right, vjp=lambda x, cotangent: (_clipped(vjp(x, cotangent)[0]),))
    found = trial(clipped)
    assert found.broken, "Python compares fractions, and no balls"
    assert found.broken.keys() <= {"linearity", "transpose"}
    both = trials.Trial({"a": "it is", "b": "so it is"}, "cube(1)", 1, "")
    assert "cube breaks the laws a (it is) and b (so it is) at cube(1);" in both.sentence("cube")


UNTRIED = {
    "NoFraction": (
        lambda x: exp(2 * log(2 + x * x)),
        lambda x: 4 * x * (2 + x * x),
        "the stand-in of exp knows no power",
    ),
    "a float": (
        lambda x: 0.1 * x * x,
        lambda x: 0.3 * x,
        "the laws hold of exact numbers",
    ),
    "rounding": (
        lambda x: 0.1 * x * x * x,
        lambda x: 0.3 * x * x,
        "the laws hold of exact numbers",
    ),
    "a bug": (lambda x: {}[x], lambda x: x, "KeyError: "),
}


@pytest.mark.parametrize("what", UNTRIED)
def test_what_cannot_be_tried_is_not_accused(what: str) -> None:
    value, rate, why = UNTRIED[what]
    found = trial(page(value, rate))
    assert not found.broken and why in found.untried, found


def test_a_page_that_refuses_all_that_is_small_could_not_be_tried() -> None:
    def rule(x: Type) -> Type:
        if max(x.shape, default=0) < 4:
            raise refuse("own C1", "an extent from 4 on", x)
        return x

    with registered(replace(cube(), type_rule=rule), family="elementwise"):
        done = trials.try_pages(["cube"])
    assert "own C1" in done["cube"]


PAGES = """
from dataclasses import replace

from equivalence import register
from spec.kinds import pointwise


def page(factor, **facts):
    def rule(x):
        return x

    return pointwise(
        "cube", rule, lambda x: x.map(lambda a: a * a * a), lambda x: (factor * x * x,)
    )
"""

REGISTER = {
    "wrong": "register(page(2))",
    "right": "register(page(3))",
    "unknown": "register(page(3), family='row')",
}


@pytest.fixture
def module(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Write a module that registers a page of the cube, and forget it afterwards."""
    name = f"pages_{request.param}"
    (tmp_path / f"{name}.py").write_text(PAGES + REGISTER[request.param])
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)
    if "cube" in ENTRIES:
        unregister("cube")


BACKEND = Cubes()
COMMANDS = [("run", "--profile", "quick"), ("exact", "--points", "1")]


def command(line: Sequence[str], module: str) -> int:
    """Run a command on the backend of the cube, whose calls are counted from here on."""
    BACKEND.calls = 0
    asked = ("--backend", f"{__name__}:BACKEND", "--pages", module, "--ops", "cube", "--jobs", "0")
    return main([*line, *asked])


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: line[0])
@pytest.mark.parametrize("module", ["wrong"], indirect=True)
def test_the_command_line_refuses_a_wrong_page(
    module: str, line: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(line, module) == USAGE
    said = capsys.readouterr()
    assert re.fullmatch(f"error: {SAYS}\n", said.err) and said.out == ""
    assert BACKEND.calls == 0


@pytest.mark.parametrize("module", ["unknown"], indirect=True)
def test_the_command_line_refuses_an_unknown_family(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(COMMANDS[0], module) == USAGE
    assert "with the family 'row', which there is not; there are flips," in capsys.readouterr().err
    assert BACKEND.calls == 0


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: line[0])
@pytest.mark.parametrize("module", ["right"], indirect=True)
def test_the_command_line_says_what_could_not_be_tried(
    module: str,
    line: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(trials, "trial", lambda op: trials.Trial({}, "", 0, "no fraction"))
    path = tmp_path / "found.json"
    assert command([*line, "--json", str(path)], module) == CONFORMANT
    said = capsys.readouterr().out
    assert "the laws could not test the page cube before it judged results: no fraction" in said
    found = json.loads(path.read_text())
    assert found.get("environment", found)["untried"] == {"cube": "no fraction"}
    assert BACKEND.calls


def rows(types: Callable[[Type], Any], program: Callable[[Any, Any], Any]) -> Op:
    """Return the page of rows and their sums, as somebody wrote it."""
    return several("rows", types, program, (OPS["sum"], OPS["square"]))


def _rows_and_sums(x: Type) -> dict[str, Type]:
    if not x.shape:
        raise refuse("rows C1", "x has an axis", x)
    return {"rows": x, "sums": Type(x.shape[:-1])}


def _squared(ops: Any, x: Any) -> Any:
    return ops.square(x), ops.sum(x, axes=(-1,))


def test_a_page_of_several_results_is_tried_like_any_other() -> None:
    found = trial(rows(_rows_and_sums, _squared))
    assert found.broken == {} and found.tried == 30 and not found.untried


SEVERAL = {
    "other types": (
        (_rows_and_sums, lambda ops, x: _squared(ops, x)[::-1]),
        r"rows breaks the law types \(rows: declared real\[\d+\], got real\[\]\) at rows\(",
    ),
    "a result too few": (
        (_rows_and_sums, lambda ops, x: _squared(ops, x)[:1]),
        r"rows breaks the law types \(declared 2 results, got 1\) at rows\(",
    ),
    "no tuple": ((_rows_and_sums, lambda ops, x: x), "the program returns a tuple of the results"),
    "no names": ((lambda x: (x, x), _squared), "the type rule returns the types of the results by"),
    "positions": (
        (lambda x: {"x": x, "at": Type(x.shape, index=True)}, _squared),
        "Write two pages: one of the numbers, and one of the positions",
    ),
}


@pytest.mark.parametrize("what", SEVERAL)
def test_a_wrong_page_of_several_results_says_what_to_write(what: str) -> None:
    written, says = SEVERAL[what]
    with registered(rows(*written)), pytest.raises(BrokenPage, match=says):
        try_pages(["rows"])


def test_a_page_whose_value_is_a_tuple_says_what_to_write() -> None:
    op = pointwise("pair", lambda x: x, lambda x: (x, x), lambda a: (1,))
    with (
        registered(op),
        pytest.raises(BrokenPage, match="pair: the value is one tensor; got tuple"),
    ):
        try_pages(["pair"])
