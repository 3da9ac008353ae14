"""What a reader sees of a tape, pinned: the words are part of the book."""

from __future__ import annotations

from fractions import Fraction

import pytest

from spec.ops import OPS
from spec.refusals import Rejected
from spec.session import Session
from spec.show import dot, event, ledger, opened, program
from spec.tape import Tape
from spec.tensor import Tensor, tensor


def example() -> tuple[Tape, int]:
    """A tape of one product, one broadcast, labels and a loss."""
    tape = Tape()
    w = tape.param(tensor([[1.0, 2.0]]), name="w")
    x = tape.const(tensor([[3.0], [1.0]]))
    y = tape.apply(OPS["matmul"], x, w)
    b = tape.apply(OPS["broadcast_to"], tape.leaf(tensor(0.5), name="b"), shape=(2, 2))
    labels = tape.const(tensor([1, 0]), name="labels")
    z = tape.apply(OPS["add"], y, b)
    return tape, tape.apply(OPS["nll_loss"], z, labels, reduction="sum")


PROGRAM = """\
x0: real[1,2] = leaf w
x1: real[2,1] = const
x2: real[2,2] = matmul x1 x0
x3: real[] = leaf b
x4: real[2,2] = broadcast_to x3 shape=(2, 2)
x5: index[2] = const labels
x6: real[2,2] = add x2 x4
x7: real[] = nll_loss x6 x5 reduction='sum'"""

LEDGER = """\
node  rule          value                     cotangent
x0    w             [[1.0, 2.0]]              [[-1.0, -3.0]]
x1    const         [[3.0], [1.0]]            -
x2    matmul        [[3.0, 6.0], [1.0, 2.0]]  [[0.0, -1.0], [-1.0, 0.0]]
x3    b             0.5                       -2.0
x4    broadcast_to  [[0.5, 0.5], [0.5, 0.5]]  [[0.0, -1.0], [-1.0, 0.0]]
x5    labels        [1, 0]                    -
x6    add           [[3.5, 6.5], [1.5, 2.5]]  [[0.0, -1.0], [-1.0, 0.0]]
x7    nll_loss      -8.0                      1.0"""

EVENTS = [
    "x2 starts with 1",
    "x2 hands on 1",
    "x1 gets 3 from x2, has 3",
    "x0 gets 9 from x2, has 9",
    "x1 hands on 3",
    "x0 gets 18 from x1, has 27",
]


def test_a_program_is_readable() -> None:
    assert program(example()[0]) == PROGRAM


def test_a_program_shows_what_is_read_as_a_mask() -> None:
    tape = Tape()
    x = tape.param(tensor([1.0, 2.0]), name="x")
    mask = tape.const(tensor([True, False]), name="kept")
    tape.apply(OPS["where"], mask, x, x)
    lines = ("x0: real[2] = leaf x", "x1: mask[2] = const kept", "x2: real[2] = where x1 x0 x0")
    assert program(tape) == "\n".join(lines)


def test_a_ledger_shows_values_beside_cotangents() -> None:
    tape, out = example()
    assert ledger(tape, out) == LEDGER
    assert ledger(tape, out, tensor(1.0)) == LEDGER


def test_a_fraction_in_a_tensor_is_written_as_it_is_alone() -> None:
    tape = Tape()
    half = tape.leaf(tensor([[Fraction(1, 2)], [Fraction(-3)]]), name="half")
    said: list[str] = []
    seen = Tape(lambda happened: said.append(event(happened)))
    seen.backward(seen.apply(OPS["square"], seen.leaf(tensor(Fraction(1, 3)))), tensor(Fraction(2)))
    assert said[0] == "x1 starts with 2" and said[2] == "x0 gets 4/3 from x1, has 4/3"
    out = tape.apply(OPS["sum"], half)
    assert ledger(tape, out).splitlines()[1:] == [
        "x0    half  [[1/2], [-3]]  [[1], [1]]",
        "x1    sum   -5/2           1",
    ]


def test_what_is_shown_is_stable() -> None:
    (first, out), (second, _) = example(), example()
    assert program(first) == program(second)
    assert ledger(first, out) == ledger(second, out)
    assert dot(first) == dot(second)


def test_a_drawing_points_from_parents_to_children() -> None:
    tape = Tape()
    x = tape.leaf(tensor(3), name="x")
    tape.apply(OPS["mul"], x, x)
    assert dot(tape) == (
        "digraph tape {\n"
        "  rankdir=LR;\n"
        '  x0 [shape=box, label="x\\nreal[]"];\n'
        '  x1 [shape=ellipse, label="mul\\nreal[]"];\n'
        "  x0 -> x1;\n"
        "  x0 -> x1;\n"
        "}"
    )


def test_a_drawing_survives_any_name() -> None:
    tape = Tape()
    tape.leaf(tensor(3), name='a "b" \\ c')
    assert 'label="a \\"b\\" \\\\ c\\nreal[]"' in dot(tape)


def test_events_read_as_sentences() -> None:
    heard: list[str] = []
    tape = Tape(lambda happened: heard.append(event(happened)))
    x = tape.leaf(tensor(3))
    tape.backward(tape.apply(OPS["mul"], tape.apply(OPS["square"], x), x))
    assert heard == EVENTS


def test_an_empty_tape_shows_nothing() -> None:
    assert program(Tape()) == ""
    assert dot(Tape()) == "digraph tape {\n  rankdir=LR;\n}"


COMPOSITES = [name for name, op in OPS.items() if op.program is not None and op.edges]


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_is_opened_into_the_steps_of_its_program(name: str) -> None:
    """The value and the gradients stay what they were, and the name is gone."""
    op = OPS[name]
    for edge in op.edges:
        tape = Tape()
        fixed = {*op.index_inputs, *op.buffers}
        ids = [tape.leaf(tensor(x), k not in fixed) for k, x in enumerate(edge.inputs)]
        out = tape.apply(op, *ids, **edge.attributes)
        found = opened(tape, name)
        assert name not in {node.op.name for node in map(found.node, range(len(found))) if node.op}
        # Of nothing, a program may take no step and return its first input.
        result = len(found) - 1 if len(found) > len(ids) else 0
        assert repr(found.value(result)) == repr(tape.value(out))
        seed = tape.value(out).map(lambda _: 0.5)
        before, after = tape.backward(out, seed), found.backward(result, seed)
        # A step may hand nothing on where there is no entry; what there is has to be the same.
        assert {k: repr(g) for k, g in before.items() if g.data} == {
            k: repr(g) for k, g in after.items() if k in before and g.data
        }
        assert program(opened(tape)) == program(tape)


def test_only_a_composite_is_opened() -> None:
    tape = Tape()
    x = tape.leaf(tensor([1.0, 2.0]), name="x")
    tape.apply(OPS["exp"], tape.apply(OPS["softmax"], x))
    with pytest.raises(Rejected, match=r"^opened: there is no composite on the tape 'exp'; there"):
        opened(tape, "softmax", "exp")
    assert "softmax" in dot(tape) and "softmax" not in dot(opened(tape, "softmax"))


def test_a_notebook_shows_lines_as_they_stand_and_tensors_as_tables() -> None:
    session = Session()
    y = session.exp(session.input(tensor([0.0, 1.0]), name="<x>"))
    for text in (program(session), ledger(session, session.sum(y)), dot(session)):
        shown = text._repr_html_()
        assert shown.startswith("<pre>") and "&lt;x&gt;" in shown and "<x>" in text
    rows = tensor([[Fraction(1, 2), 3], [0, Fraction(-1, 3)]])._repr_html_()
    assert rows == (
        "<table><tr><td>1/2</td><td>3</td></tr><tr><td>0</td><td>-1/3</td></tr></table>"
    )
    assert tensor([1, 2])._repr_html_() == "<table><tr><td>1</td><td>2</td></tr></table>"
    assert tensor(7)._repr_html_() == "<table><tr><td>7</td></tr></table>"
    for other in (tensor([]), tensor([[[1]]]), tensor([0] * 401), Tensor.rule((2,), lambda i: i)):
        assert other._repr_html_() is None
