"""The notes run, and they would notice: their checks refute wrong formulas and wrong pages.

A refutation is a residual that is not 0 and, since that alone proves nothing, numbers at which the
two sides of the identity differ.
"""

from __future__ import annotations

import builtins
import doctest
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import sympy

from proofs_notes.index import GENERAL, HERE, NAMED, NOTES
from proofs_notes.instances import instance
from spec.op import AnyTensor, Op
from spec.ops import OPS

EVERY = sorted(path.name for path in HERE.glob("*.md"))


def text_of(note: str) -> str:
    """Read a note."""
    return (HERE / note).read_text(encoding="utf-8")


class Recorder(doctest.DocTestRunner):
    """A runner that stops at the first check that fails, and keeps what it showed."""

    def __init__(self) -> None:
        super().__init__(optionflags=doctest.FAIL_FAST)
        self.shown: Any = None
        self.failed = ""

    def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
        self.shown, self.failed = getattr(builtins, "_", None), example.source

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, info: Any) -> None:
        raise AssertionError(f"{test.name}: {example.source} raised {info[1]!r}") from info[1]


def first_failure(note: str, text: str) -> Recorder:
    """Run a note, or a changed one, up to its first failing check."""
    recorder = Recorder()
    recorder.run(doctest.DocTestParser().get_doctest(text, {}, note, note, 0))
    return recorder


def residuals(shown: Any) -> Iterator[Any]:
    """Yield the expressions that a check has shown and that are not 0."""
    if isinstance(shown, (tuple, list, set)):
        for part in shown:
            yield from residuals(part)
    elif isinstance(shown, sympy.Expr) and shown != 0:
        yield shown


@pytest.mark.parametrize("note", EVERY)
def test_the_note_runs(note: str) -> None:
    parsed = doctest.DocTestParser().get_doctest(text_of(note), {}, note, note, 0)
    assert parsed.examples or note == "README.md", f"{note} checks nothing"
    assert doctest.DocTestRunner().run(parsed).failed == 0, f"{note} fails; see the output above"


def test_every_op_has_its_note_and_every_note_its_place() -> None:
    missing = [name for name in OPS if name not in NOTES]
    assert not missing, f"write a note for {missing}, or name `spec.ops.<op>` in a shared one"
    idle = [note for note in EVERY if note not in (*NOTES.values(), *GENERAL)]
    assert not idle, f"{idle} are about no op; index.py lists those that are about none"
    guide = text_of("README.md")
    assert [
        note for note in EVERY if note != "README.md" and f"[{note}]({note})" not in guide
    ] == []


@pytest.mark.parametrize("op", NAMED)
def test_the_note_that_names_a_page_names_its_kernel(op: str) -> None:
    text = text_of(NOTES[op])
    assert f"`fast/ops/{op}.py`" in text, f"{NOTES[op]} names the kernel's file"
    assert (HERE.parent / "fast" / "ops" / f"{op}.py").is_file()
    for kernel in re.findall(rf"`(_\w+)` in `fast/ops/{op}\.py`", " ".join(text.split())):
        assert f"def {kernel}(" in (HERE.parent / "fast" / "ops" / f"{op}.py").read_text("utf-8")


@pytest.mark.parametrize("note", EVERY)
def test_blocks_end_so_that_the_fence_is_no_output(note: str) -> None:
    lines = text_of(note).splitlines()
    open_at = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            if not open_at:
                assert line == "```pycon", f"{note}:{number}: blocks are pycon, prose is indented"
            else:
                blank = lines[number - 2] == ""
                assert blank, f"{note}:{number}: put an empty line before the closing fence"
            open_at = 0 if open_at else number
        elif line.startswith(">>>"):
            assert open_at, f"{note}:{number}: a check stands outside of a block"
    assert not open_at, f"{note}:{open_at}: the block is never closed"


@pytest.mark.parametrize("note", EVERY)
def test_marks_start_their_lines(note: str) -> None:
    for number, line in enumerate(text_of(note).splitlines(), 1):
        for mark in ("Proved:", "Proved at given sizes:", "Assumed:"):
            misplaced = re.search(rf"[^`]{mark}", line)
            assert not misplaced, f"{note}:{number}: {mark} starts a line, or TRUST.md misses it"
    if note not in GENERAL:
        assert re.search(r"^Proved: ", text_of(note), re.MULTILINE), f"{note} says what it proves"


def doubled(op: Op) -> Op:
    """Return an op whose derivatives are twice the true ones; they still obey the transpose law."""

    def twice(rule: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(*arguments: Any, **attributes: Any) -> Any:
            found = rule(*arguments, **attributes)
            return tuple(map(scaled, found)) if isinstance(found, tuple) else scaled(found)

        return wrong

    def scaled(x: AnyTensor | None) -> AnyTensor | None:
        return None if x is None else x.map(lambda a: 2 * a)

    return replace(op, jvp=twice(op.jvp), vjp=twice(op.vjp))


def one_of(every: int, cases: Iterable[Any]) -> list[Any]:
    """Leave to `make full` all but one of so many; notes import no helper of other tests."""
    return [
        pytest.param(case, marks=[] if number % every == every - 1 else [pytest.mark.full])
        for number, case in enumerate(cases)
    ]


DERIVED = [
    name
    for name, note in NOTES.items()
    if note not in GENERAL and not OPS[name].stops_gradients and OPS[name].kind != "source"
]
"""The ops whose derivatives a note derives; detach decides its own, and a source has none."""


@pytest.mark.parametrize("name", one_of(10, DERIVED))
def test_a_page_with_a_doubled_derivative_is_refuted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = doubled(OPS[name])
    monkeypatch.setitem(OPS, name, wrong)
    monkeypatch.setattr(importlib.import_module(f"spec.ops.{name}"), "op", wrong)
    assert first_failure(NOTES[name], text_of(NOTES[name])).failed


@dataclass(frozen=True)
class Wrong:
    """A wrong formula to plant into a note: what is wrong, the text, and numbers that show it."""

    note: str
    what: str
    right: str
    wrong: str
    given: Mapping[str, Any] = field(default_factory=dict)


LOG_1_3 = [[sympy.Integer(0), sympy.log(3)]]
ROW = {"N": 1, "C": 2, "p": 0, "q": 0, "x": LOG_1_3, "g": [[1, 5]], "t": [[1, 5]]}
POINT = {"n": 1, "p": 0, "x": [3], "y": [5], "g": [7], "t": [1], "s": [2]}
# The variance is 9, and 18 if it is divided by n - 1; both are squares once eps is added.
NORM = {"N": 1, "C": 2, "p": 0, "q": 0, "eps": 7, "x": [[0, 6]], "g": [[1, 5]]} | {
    "gamma": [2, 3],
    "beta": [1, 1],
}
# Of a batch of two, of one channel.
CHANNEL = NORM | {"N": 2, "C": 1, "x": [[0], [6]], "g": [[1], [5]], "gamma": [2], "beta": [1]}
# The mean square is 25, and a square of 2 once eps is added.
RMS = NORM | {"eps": 39, "x": [[1, 7]]}
LOSS = {"N": 2, "C": 2, "p": 0, "q": 1, "x": [*LOG_1_3, *LOG_1_3], "label": [1, 0]}
PRODUCT = {"M": 2, "K": 2, "N": 2, "i": 0, "k": 0, "j": 1} | {
    "x": [[1, 2], [3, 4]],
    "y": [[5, 6], [7, 8]],
    "g": [[1, 3], [9, 27]],
}
BATCH = {"B": 2, "M": 2, "K": 2, "N": 2, "b": 1, "i": 0, "k": 0, "j": 1} | {
    "x": [[[1, 2], [3, 4]], [[2, 3], [5, 7]]],
    "y": [[[5, 6], [7, 8]], [[1, 4], [6, 9]]],
    "g": [[[1, 3], [9, 27]], [[2, 5], [8, 11]]],
}
LAYER = {"N": 2, "I": 1, "O": 1, "i": 0, "k": 0, "o": 0} | {
    "x": [[2], [3]],
    "w": [[5]],
    "b": [7],
    "g": [[1], [4]],
}
TIE = {"N": 1, "C": 2, "p": 0, "q": 0, "x": [[3, 3]], "g": [1], "t": [[1, 5]]}
WON = {"N": 1, "C": 2, "p": 0, "q": 1, "x": [[3, 4]], "winner": [1], "g": [1]}
CUBE = {"A": 1, "B": 2, "C": 1, "i": 0, "j": 0, "k": 0, "x": [[[1], [2]]], "g": [[[5]]]}

HALF = sympy.Rational(1, 2)
APART = {"A": 2, "i": 0, "x": [3, 1], "y": [1, 1]}

WRONG = (
    Wrong("pointwise.md", "sub keeps its sign", "(g, -g), x, y", "(g, g), x, y", POINT),
    Wrong("pointwise.md", "mul by itself", "(g * y, g * x)", "(g * x, g * y)", POINT),
    Wrong("pointwise.md", "div squares once", "-((x / y) / y) * g)", "-(x / y) * g)", POINT),
    Wrong("pointwise.md", "square forgets 2", "(2 * x * g,)", "(x * g,)", POINT),
    Wrong("pointwise.md", "exp of g", "(exp(x) * g,)", "(exp(g) * x,)", POINT | {"x": [0]}),
    Wrong("pointwise.md", "tanh", "(1 - tanh(x) * tanh(x)) *", "(1 - tanh(x)) *", POINT),
    Wrong("pointwise.md", "sqrt forgets 2", "g / (2 * sqrt(x))", "g / sqrt(x)", POINT | {"x": [4]}),
    Wrong("pointwise.md", "log of a log", "(g / x,)", "(g / (x * x),)", POINT),
    Wrong("pointwise.md", "relu leaks", "lambda g, x: (0,)", "lambda g, x: (g,)", POINT),
    Wrong(
        "pointwise.md",
        "maximum leaks",
        "lambda g, x, y: (0, g), neg",
        "lambda g, x, y: (g, g), neg",
        POINT,
    ),
    Wrong(
        "pointwise.md",
        "minimum takes the larger",
        "(g, 0), negative, above",
        "(0, g), negative, above",
        POINT,
    ),
    Wrong("pointwise.md", "where leaks", "(1 - chosen) * g[p]", "g[p]", POINT | {"m": [1]}),
    Wrong(
        "mean.md",
        "a sum",
        "divide(g[kept_index(here, kept, keepdims)], number)",
        "g[kept_index(here, kept, keepdims)]",
    ),
    Wrong("mean.md", "all entries", "for axis in axes))\n", "for axis in range(rank)))\n"),
    Wrong("mse_loss.md", "a sign", "dy[here] + kernel", "dy[here] - kernel", APART | {"g": [7, 2]}),
    Wrong("mse_loss.md", "no 2", "kernel = 2 * (x[here]", "kernel = (x[here]", APART | {"g": [7]}),
    Wrong("mse_loss.md", "no count", "divide(g[()], n),", "g[()],", APART | {"g": 7}),
    Wrong("sum.md", "a mean", "shape=shape)[at])\n", "shape=shape)[at] / shape[1])\n", CUBE),
    Wrong(
        "data_movement.md",
        "twice the transpose",
        "back = op.vjp((x, *positions), w, **attributes)[0]",
        "back = op.vjp((x, *positions), w, **attributes)[0].map(lambda a: 2 * a)",
        {"A": 1, "B": 1, "C": 1, "i0": 0, "w": [[[3]]], "v": [5]},
    ),
    Wrong(
        "data_movement.md", "positions of another axis", "(A, B, C), labels(", "(C, C, C), labels("
    ),
    Wrong(
        "data_movement.md",
        "reshape reads column by column",
        "w[unravel(T, offset(S, p))]",
        "w[unravel(T, offset(S[::-1], p[::-1]))]",
    ),
    Wrong(
        "data_movement.md",
        "an interval beyond the axis",
        "cut(axis, A, A + B + C)",
        "cut(axis, A, B + C)",
    ),
    Wrong(
        "data_movement.md",
        "sources of another axis",
        'labels("l", positions, shape[axis])',
        'labels("l", positions, shape[axis - 1])',
    ),
    Wrong(
        "data_movement.md",
        "the law of the first input alone",
        "vs[k]) for k in real)",
        "vs[k]) for k in real[:1])",
    ),
    Wrong("max.md", "ties keep all", "e(p, q) * divide(g[p], count)", "e(p, q) * g[p]", TIE),
    Wrong("max.md", "the first column wins", "kronecker(k, winner[i])", "kronecker(k, 0)", WON),
    Wrong("matmul.md", "dx without a transpose", "g[i, n] * y[k, n]", "g[i, n] * y[n, k]", PRODUCT),
    Wrong("matmul.md", "dy without a sum", "x[m, k] * g[m, j]", "x[i, k] * g[m, j]", PRODUCT),
    Wrong("matmul.md", "dx of another place", "n] * y[b, k, n]", "n] * y[0, k, n]", BATCH),
    Wrong("matmul.md", "dy without a sum", "x[b, m, k] * g", "x[b, i, k] * g", BATCH),
    Wrong("linear.md", "dw by one row", "g[m, o] * x[m, k]", "g[m, o] * x[i, k]", LAYER),
    Wrong(
        "linear.md", "db by one row", "(N, lambda m: g[m, o]))", "(N, lambda m: g[i, o]))", LAYER
    ),
    Wrong("softmax.md", "no sum", "z[p, q] * (g[p, q] - total)", "z[p, q] * g[p, q]", ROW),
    Wrong("softmax.md", "sum of g", "g[p, k] * z[p, k])\n", "g[p, k])\n", ROW),
    Wrong("softmax.md", "JVP: a sign", "* (t[p, q] - total)", "* (t[p, q] + total)", ROW),
    Wrong("log_softmax.md", "no exponential", "- exp(z[p, q]) *", "- z[p, q] *", ROW),
    Wrong("log_softmax.md", "no sum", "sum_over(C, lambda k: g[p, k])", "g[p, q]", ROW),
    Wrong("log_softmax.md", "JVP as VJP", "exp(z[p, k]) * t[p, k]", "exp(z[p, q]) * t[p, k]", ROW),
    Wrong("layer_norm.md", "no mean", "(h(p, q) - first - y", "(h(p, q) - y", NORM),
    Wrong("layer_norm.md", "the mean twice", "(h(p, q) - first", "(h(p, q) - 2 * first", NORM),
    Wrong("layer_norm.md", "no second mean", " - y(p, q) * second)", ")", NORM),
    Wrong("layer_norm.md", "unbiased", "mu(i))) + eps", "mu(i))) * C / (C - 1) + eps", NORM),
    Wrong(
        "layer_norm.md",
        "eps outside the root",
        "sqrt(mean(lambda k: square(x[i, k] - mu(i))) + eps)",
        "(sqrt(mean(lambda k: square(x[i, k] - mu(i)))) + eps)",
        NORM,
    ),
    Wrong("layer_norm.md", "dgamma of x", "g[i, q] * y(i, q)", "g[i, q] * x[i, q]", NORM),
    Wrong("rms_norm.md", "no projection", " - x[p, q] * s(p) ** 3 * along)", ")", RMS),
    Wrong("rms_norm.md", "a square of s", "x[p, q] * s(p) ** 3", "x[p, q] * s(p) ** 2", RMS),
    Wrong(
        "rms_norm.md",
        "eps outside the root",
        "sqrt(mean(lambda k: square(x[i, k])) + eps)",
        "(sqrt(mean(lambda k: square(x[i, k]))) + eps)",
        RMS,
    ),
    Wrong("rms_norm.md", "dgamma of x", "g[i, q] * s(i) * x[i, q]", "g[i, q] * x[i, q]", RMS),
    Wrong("group_norm.md", "no mean", "(h(p, q) - first - y", "(h(p, q) - y", NORM),
    Wrong("group_norm.md", "no second mean", " - y(p, q) * second, root", ", root", NORM),
    Wrong("group_norm.md", "dgamma of x", "g[i, q] * y(i, q)", "g[i, q] * x[i, q]", NORM),
    Wrong("batch_norm.md", "no mean", "(h(p, q) - middle - y", "(h(p, q) - y", CHANNEL),
    Wrong("batch_norm.md", "no second mean", " - y(p, q) * along, root", ", root", CHANNEL),
    Wrong("batch_norm.md", "dgamma of x", "g[i, q] * y(i, q)", "g[i, q] * x[i, q]", CHANNEL),
    Wrong("nll_loss.md", "a sign", "- -kronecker", "- kronecker", LOSS | {"g": [3, 4]}),
    Wrong("nll_loss.md", "no count", "divide(g[()], N))\n", "g[()])\n", LOSS | {"g": 3}),
    Wrong("cross_entropy.md", "no one-hot", "[p, q] - target)", "[p, q])", LOSS | {"g": [3, 4]}),
    Wrong(
        "cross_entropy.md", "a sign", "[p, q] - target)", "[p, q] + target)", LOSS | {"g": [3, 4]}
    ),
    Wrong("cross_entropy.md", "no count", "divide(g[()], N)}", "g[()]}", LOSS | {"g": 3}),
    Wrong("cross_entropy.md", "smoothing by s", "q) + s / C", "q) + s", LOSS | {"g": [3, 4]}),
    Wrong("random.md", "another draw", "((x,), w, **call)", "((x,), w, **call | {'seed': 8})"),
    Wrong("random.md", "half the density", "- 2 * sympy.pi /", "- sympy.pi /", {"u": 0, "v": 0}),
    Wrong("random.md", "another radius", "b**2) / 2) - (1 - u)", "b**2)) - (1 - u)", {"u": HALF}),
    Wrong("random.md", "at most", "[u < p for u in drawn]", "[u <= p for u in drawn]"),
    Wrong(
        "tape_equals_graph.md",
        "what is handed back comes first",
        "found[parent] + handed[k] if parent in found",
        "handed[k] + found[parent] if parent in found",
    ),
    Wrong(
        "tape_equals_graph.md",
        "a fan-out hands back once",
        "found[parent] + handed[k] if parent in found",
        "found[parent] if parent in found",
    ),
    Wrong("tape_equals_graph.md", "frozen leaves receive", "if wants[parent]:", "if parent >= 0:"),
    Wrong(
        "tape_equals_graph.md",
        "only the op is seeded",
        "return tape.backward_from(seeds)",
        "return tape.backward_from({max(seeds): seeds[max(seeds)]})",
    ),
)


def ids(wrong: Wrong) -> str:
    """Name a case by its note and what is wrong."""
    return f"{wrong.note}: {wrong.what}"


@pytest.mark.parametrize("case", one_of(6, WRONG), ids=ids)
def test_a_wrong_formula_is_refuted(case: Wrong) -> None:
    text = text_of(case.note)
    assert case.right in text, f"{case.note} no longer says {case.right!r}; plant another formula"
    failure = first_failure(case.note, text.replace(case.right, case.wrong, 1))
    assert failure.failed, "the note does not notice"
    if case.given:
        found = list(residuals(failure.shown))
        assert any(sympy.simplify(instance(e, case.given)) != 0 for e in found), found
