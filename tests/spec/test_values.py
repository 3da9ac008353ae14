"""Every page's value is what its formula says, written once more over arrays of fractions.

The laws judge derivatives against values; what a value is, they have to believe.
So each forward definition is stated here a second time, with numpy's own axes, broadcasting and
indexing, on arrays of Python's fractions, and compared exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.op import AnyTensor
from spec.ops import OPS
from tests.spec.strategies import calls

Array = Any
"""A numpy array of fractions."""


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


def array(x: AnyTensor, index: bool) -> Array:
    """Copy a tensor into an array, of ints if it holds indices."""
    flat = np.empty(len(x.data), dtype=int if index else object)
    flat[:] = x.data
    return flat.reshape(x.shape)


def each(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Apply a scalar function to every entry."""
    return np.vectorize(function, otypes=[object])


exp, log, sqrt, tanh = (
    each(function) for function in (scalar.exp, scalar.log, scalar.sqrt, scalar.tanh)
)


def matmul(x: Array, y: Array) -> Array:
    return (x[:, :, None] * y[None, :, :]).sum(axis=1)


def linear(x: Array, w: Array, b: Array) -> Array:
    return (x[..., None, :] * w).sum(axis=-1) + b


def shifted(x: Array, axis: int) -> Array:
    return x - x.max(axis=axis, keepdims=True)


def softmax(x: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    powers = exp(shifted(x, axis))
    return powers / powers.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    return shifted(x, axis) - log(exp(shifted(x, axis)).sum(axis=axis, keepdims=True))


def layer_norm(x: Array, gamma: Array, beta: Array, *, eps: Any) -> Array:
    if x.size == 0:
        return x
    n = Fraction(x.shape[-1])
    centred = x - x.sum(axis=-1, keepdims=True) / n
    variance = (centred * centred).sum(axis=-1, keepdims=True) / n
    return gamma * centred / sqrt(variance + Fraction(eps)) + beta


def cross_entropy(
    x: Array,
    labels: Array,
    *,
    ignore_index: int,
    reduction: str,
    label_smoothing: Any = 0,
    scores: Callable[..., Array] = log_softmax,
) -> Array:
    table, share = -scores(x, axis=-1), Fraction(label_smoothing)
    rows = np.zeros(len(labels), dtype=object)
    for i, label in enumerate(labels):
        if label != ignore_index:
            uniform = table[i].sum() / Fraction(len(table[i]))
            rows[i] = (1 - share) * table[i, label] + share * uniform
    kept = int((labels != ignore_index).sum())
    if reduction == "none":
        return rows
    return np.asarray(rows.sum() / max(kept, 1) if reduction == "mean" else rows.sum(), object)


FORMULAS: dict[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "square": lambda x: x * x,
    "sqrt": sqrt,
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "relu": each(lambda a: max(a, 0)),
    "sum": lambda x, *, axes, keepdims: x.sum(axis=axes, keepdims=keepdims),
    "broadcast_to": lambda x, *, shape: np.broadcast_to(x, shape),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute": lambda x, *, axes: x.transpose(axes),
    "take": lambda x, indices, *, axis: np.take(x, indices, axis=axis),
    "detach": lambda x: x,
    "max": lambda x, *, axes, keepdims: x.max(axis=axes, keepdims=keepdims),
    "matmul": matmul,
    "linear": linear,
    "log_softmax": log_softmax,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "nll_loss": lambda *inputs, **attributes: cross_entropy(
        *inputs, **attributes, scores=lambda x, axis: x
    ),
    "cross_entropy": cross_entropy,
}


def test_every_page_is_written_once_more() -> None:
    assert set(FORMULAS) == set(OPS)


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_is_what_its_formula_says(name: str, data: st.DataObject) -> None:
    call = data.draw(calls(name))
    inputs = [array(x, k in call.op.index_inputs) for k, x in enumerate(call.inputs)]
    expected = np.asarray(FORMULAS[name](*inputs, **call.attributes), dtype=object)
    assert call.value.shape == expected.shape
    assert list(call.value.data) == expected.ravel().tolist()
