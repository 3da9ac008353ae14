"""Chains of pointwise ops: what a chain is worth beside its steps, and what is no chain."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fast import CompiledSession, Rejected, Session
from fast.kernels.elementwise import pointwise
from fast.ops import OPS
from fast.ops.chain import NAMES
from spec.op import Rejected as SpecRejected
from spec.op import Type
from spec.ops import OPS as SPEC
from spec.ops.chain import NAMES as OF_SPEC
from spec.tensor import tensor

NEEDED: dict[str, dict[str, Any]] = {
    "scale": {"c": 0.5},
    "pow": {"c": 2.0},
    "clamp": {"lo": -0.5, "hi": 0.5},
}
STEPS = ("neg", ("leaky_relu", {"slope": 0.25}), "sigmoid", ("scale", {"c": 3.0}))
X = torch.tensor([[0.5, -1.25, 3.0], [2.0, -0.75, 0.0]])


def test_both_sides_know_the_same_steps() -> None:
    """They are ops of one input that refuse no shape and keep it; a new one need not be a step."""
    alone = {n for n, op in SPEC.items() if len(op.inputs) == 1 and keeps_every_shape(n)}
    assert NAMES == OF_SPEC and {*NAMES} <= alone - {"chain", "cast", "detach", "flip"}


def keeps_every_shape(name: str) -> bool:
    op, attributes = SPEC[name], {k: v[0] for k, v in SPEC[name].tried.items()}
    try:
        shapes = [op.check_types(Type(shape), **attributes).shape for shape in ((), (2, 3))]
    except SpecRejected:
        return False
    return shapes == [(), (2, 3)]


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("name", NAMES)
def test_a_chain_of_one_step_is_that_op(name: str, provider: str) -> None:
    x, g = torch.linspace(0.25, 1.5, 7), torch.linspace(-2.0, 1.0, 7)
    attributes = NEEDED.get(name, {})
    value, vjp = OPS["chain"].hosts(provider)
    own, own_vjp = OPS[name].hosts(provider)
    z, saved = value(x, steps=((name, attributes),))
    expected, own_saved = own(x, **OPS[name].bind((x,), attributes)[1])
    assert torch.equal(z, expected)
    (found,), (due,) = vjp(saved, g, (True,)), own_vjp(own_saved, g, (True,))
    assert found is not None and due is not None and torch.equal(found, due)


@pytest.mark.parametrize("kind", [Session, CompiledSession])
def test_a_chain_is_its_steps_one_by_one(kind: Any) -> None:
    """In 32 bits, where nothing is rounded between them that is not rounded within, to the bit."""

    def fused(ops: Any, x: Any) -> Any:
        return ops.sum(ops.chain(x, steps=STEPS))

    def apart(ops: Any, x: Any) -> Any:
        x = ops.sigmoid(ops.leaky_relu(ops.neg(x), slope=0.25))
        return ops.sum(ops.scale(x, c=3.0))

    found = []
    for program in (fused, apart):
        s = kind(provider="aten")
        p = s.param(X)
        loss = s.run(program, [p], [])
        found.append((s.value(loss), s.grad(s.backward(loss), p)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_chain_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(pointwise, "launch", lambda kernel, *_, **meta: started.append(meta["FN"]))
    _, saved = OPS["chain"].value(X, steps=STEPS)
    OPS["chain"].vjp(saved, X, (True,))
    assert [len(fns) for fns in started] == [4, 4]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((), "chain C1: steps are names of pointwise ops of one input"),
        ("tanh", "chain C1: steps are names"),
        (("matmul",), "chain C1: steps are names"),
        ((("scale", 2.0),), "chain C1: steps are names"),
        ((("scale", {"x": 2.0}),), "chain C1: a step has attributes alone|scale: no attribute 'x'"),
        (("scale",), r"scale: .*c"),
        ((("clamp", {"lo": 2.0, "hi": 1.0}),), "clamp C"),
        ((("tanh", {"slope": 2.0}),), r"tanh: .*slope"),
    ],
)
def test_what_is_no_chain_is_refused(steps: Any, told: str) -> None:
    s = Session(provider="aten")
    with pytest.raises(Rejected, match=told):
        s.chain(s.input(X), steps=steps)
    with pytest.raises(SpecRejected, match=told):
        SPEC["chain"](tensor([1.0]), steps=steps)
