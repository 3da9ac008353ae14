"""Every page's value is what the independent source says that its record names.

The laws judge derivatives against values; what a value is, they have to believe. So each is
compared with a function of torch, numpy or mpmath, by the budget of the arithmetic in fp64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from equivalence.backends.torch.backend import TorchBackend
from equivalence.budgets import oracle
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.outcome import Outcome
from equivalence.cases.probes import Call, calls
from equivalence.worlds.opaque import opaque
from spec.op import AnyTensor, Elsewhere, Op
from spec.ops import OPS
from spec.ops.chain import read
from spec.tensor import tensor
from tests.spec import sources
from tests.turns import of_pages

CONTRACT = TorchBackend().capabilities().contract


def lowered(x: AnyTensor, index: bool, mask: bool) -> Tensor:
    """Copy a tensor into one of fp64, of integers or of truth values."""
    dtype = torch.bool if mask else torch.int64 if index else torch.float64
    entries = [entry if index else float(entry) for entry in x.data]
    return torch.tensor(entries, dtype=dtype).reshape(tuple(x.shape))


def judged(op: Op, call: Call) -> Outcome:
    """Judge what the source says of a call by the budget of the page."""
    inputs = [
        lowered(x, k in op.index_inputs, k in op.mask_inputs) for k, x in enumerate(call.inputs)
    ]
    attributes: dict[str, Any] = {
        name: sources.plain(value) for name, value in call.attributes.items() if name != "like"
    }
    got = sources.value(op, inputs, attributes)
    expected = oracle.expected_value(op, inputs, attributes, CONTRACT(op.name, "fp64"))
    stored = torch.int64 if op.kind == "positions" else None if op.converts else torch.float64
    return judge_tensor(got if stored is None else got.to(stored), expected)


# Torch warns of values that it does not promise; that they are the page's is what is judged here.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name", of_pages((op.name for op in OPS.values() if sources.expression(op)), 4)
)
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_is_what_its_source_says(name: str, data: st.DataObject) -> None:
    call = data.draw(calls(OPS[name]))
    try:
        outcome = judged(OPS[name], call)
    except (RuntimeError, IndexError):
        # Torch refuses some calls without entries that a page takes.
        assume(all(x.data for x in call.inputs))
        raise
    assert not outcome.failed, outcome.problem or outcome.detail


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("sub", Elsewhere("torch.sub(y, x)", None)),
        ("mean", Elsewhere("torch.sum(x, dim=axes, keepdim=keepdims)", None)),
        ("safe_log", Elsewhere(None, None, formula="mpmath.log(mpmath.exp(x) + eps)")),
        ("take", Elsewhere(None, None, formula="numpy.take(x, indices[::-1], axis=axis)")),
        ("cumsum", Elsewhere("torch.cumsum(x, dim=axis)", None, formula="called - x")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_page_that_is_not_its_source_is_noticed(name: str, statement: Elsewhere) -> None:
    """A page whose value were another would be as far from what its record names."""
    x, y = tensor([1, 2, 4]), tensor([4, 4, 1])
    inputs = {"sub": (x, y), "take": (x, tensor([2, 0]))}.get(name, (x,))
    attributes = {"axis": 0} if "axis" in OPS[name].attributes else {}
    assert not judged(OPS[name], Call(OPS[name], inputs, attributes)).failed
    wrong = replace(OPS[name], elsewhere=statement)
    assert judged(wrong, Call(wrong, inputs, attributes)).failed


@given(data=st.data())
def test_a_chain_is_its_steps(data: st.DataObject) -> None:
    call = data.draw(calls(OPS["chain"]))
    with opaque():
        (expected,) = call.inputs
        for name, attributes in read(call.attributes["steps"]):
            expected = OPS[name](expected, **attributes)
        assert call.value == expected
