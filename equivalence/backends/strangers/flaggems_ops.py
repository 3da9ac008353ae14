"""FlagGems' functions by the pages' names: the value, and the gradient where it has one of its own.

FlagGems registers a function for each operator of ATen. Where it registers the backward operator,
too, the pair is the one that torch would call. Other gradients are torch's formulas over such
functions, so that the values alone are FlagGems' own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.strangers.flaggems_alone import module

Value = Callable[..., Any]
Gradients = Sequence[Tensor | None]
Gradient = Callable[..., Gradients]
"""A function of the cotangent, the inputs and the attributes."""

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _of(place: str, name: str) -> Value:
    """Return a function of one module of FlagGems, which is imported at the first call."""
    return lambda *given, **more: getattr(module(place), name)(*given, **more)


def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Any:
    return _of("layernorm", "layer_norm")(x, gamma.shape, gamma, beta, eps)[0]


def _layer_norm_back(
    g: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5
) -> Gradients:
    _, mean, rstd = _of("layernorm", "layer_norm")(x, gamma.shape, gamma, beta, eps)
    found: Gradients = _of("layernorm", "layer_norm_backward")(
        g, x, gamma.shape, mean, rstd, gamma, beta, [True, True, True]
    )
    return found


def _of_rows(name: str) -> tuple[Value, Gradient]:
    """Return softmax or log_softmax; its backward reads the result."""
    forward, backward = _of(name, name), _of(name, f"{name}_backward")

    def value(x: Tensor, axis: int = -1) -> Any:
        return forward(x, axis)

    def gradient(g: Tensor, x: Tensor, axis: int = -1) -> Gradients:
        return [backward(g, forward(x, axis), axis, x.dtype)]

    return value, gradient


def _embedding(indices: Tensor, table: Tensor) -> Any:
    return _of("embedding", "embedding")(table, indices)


def _embedding_back(g: Tensor, indices: Tensor, table: Tensor) -> Gradients:
    return [None, _of("embedding", "embedding_backward")(g, indices, table.shape[0])]


def _by_result(name: str) -> tuple[Value, Gradient]:
    """Return a curve whose backward reads its result."""
    forward, backward = _of(name, name), _of(name, f"{name}_backward")
    return forward, lambda g, x: [backward(g, forward(x))]


def _by_input(name: str) -> tuple[Value, Gradient]:
    """Return a curve whose backward reads its input."""
    backward = _of(name, f"{name}_backward")
    return _of(name, name), lambda g, x, **attributes: [backward(g, x, **attributes)]


def _relu_back(g: Tensor, x: Tensor) -> Gradients:
    return [_of("threshold", "threshold_backward")(g, x, 0.0)]


def _elu_back(g: Tensor, x: Tensor, alpha: float = 1.0) -> Gradients:
    return [_of("elu", "elu_backward")(g, alpha, 1.0, 1.0, False, x)]


def _power(x: Tensor, *, c: float) -> Any:
    return _of("pow", "pow_tensor_scalar")(x, c)


def _clamp(x: Tensor, *, lo: float, hi: float) -> Any:
    return _of("clamp", "clamp")(x, lo, hi)


def _axes(x: Tensor, axes: Any) -> list[int]:
    """Return the axes as a list of those that are meant: all for None."""
    if axes is None:
        return list(range(x.dim()))
    return [axes] if isinstance(axes, int) else list(axes)


def _reduction(place: str, name: str) -> Value:
    """Return a reduction over several axes; no axes mean all of them to it, as they do to torch."""

    def value(x: Tensor, axes: Any = None, keepdims: bool = False) -> Any:
        return x.clone() if axes == () else _of(place, name)(x, _axes(x, axes), keepdims)

    return value


def _product(x: Tensor, axes: Any = None, keepdims: bool = False) -> Any:
    """Multiply along one axis after the other, which is what prod takes."""
    if axes is None and not keepdims:
        return _of("prod", "prod")(x)
    z = x.clone()
    for axis in sorted((one % x.dim() for one in _axes(x, axes)), reverse=True):
        z = _of("prod", "prod_dim")(z, axis, keepdims)
    return z


def _norm(x: Tensor, ord: int = 2, axes: Any = None, keepdims: bool = False) -> Any:
    if axes == ():
        return x.abs()
    return _of("vector_norm", "vector_norm")(x, ord, _axes(x, axes), keepdims)


def _positions(name: str) -> Value:
    def value(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Any:
        return _of(name, name)(x, axis, keepdims)

    return value


def _cumsum(x: Tensor, *, axis: int, reverse: bool = False, exclusive: bool = False) -> Any:
    return _of("cumsum", "cumsum")(x, axis)


def _linear(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return _of("addmm", "addmm")(b, x, w.t())


def _mse_loss(x: Tensor, y: Tensor, reduction: str = "mean") -> Any:
    return _of("mse_loss", "mse_loss")(x, y, REDUCTIONS[reduction])


def _of_labels(
    scores: Tensor,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: Sequence[float] | None = None,
) -> tuple[Tensor | None, int, int]:
    """Return the attributes of a loss by labels as FlagGems takes them, in its order."""
    weights = None if weight is None else torch.tensor(weight, dtype=scores.dtype)
    return weights, REDUCTIONS[reduction], ignore_index


def _nll_loss(scores: Tensor, labels: Tensor, **attributes: Any) -> Any:
    return _of("nllloss", "nll_loss_forward")(scores, labels, *_of_labels(scores, **attributes))[0]


def _nll_loss_back(g: Tensor, scores: Tensor, labels: Tensor, **attributes: Any) -> Gradients:
    how = _of_labels(scores, **attributes)
    total = _of("nllloss", "nll_loss_forward")(scores, labels, *how)[1]
    return [_of("nllloss", "nll_loss_backward")(g, scores, labels, *how, total), None]


def _gather(x: Tensor, indices: Tensor, *, axis: int) -> Any:
    return _of("gather", "gather")(x, axis, indices)


def _gather_back(g: Tensor, x: Tensor, indices: Tensor, *, axis: int) -> Gradients:
    return [_of("gather", "gather_backward")(g, x, axis, indices, False), None]


def _concat(*xs: Tensor, axis: int) -> Any:
    return _of("cat", "cat")(list(xs), axis)


def _stack(*xs: Tensor, axis: int) -> Any:
    return _of("stack", "stack")(list(xs), axis)


def _pad(x: Tensor, *, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> Any:
    pairs = zip(reversed(before), reversed(after), strict=True)
    return _of("pad", "constant_pad_nd")(x, [n for pair in pairs for n in pair], value)


PAIRS: Mapping[str, tuple[Value, Gradient]] = {
    "layer_norm": (_layer_norm, _layer_norm_back),
    "softmax": _of_rows("softmax"),
    "log_softmax": _of_rows("log_softmax"),
    "embedding": (_embedding, _embedding_back),
    "gelu": _by_input("gelu"),
    "silu": _by_input("silu"),
    "sigmoid": _by_result("sigmoid"),
    "tanh": _by_result("tanh"),
    "relu": (_of("relu", "relu"), _relu_back),
    "elu": (_of("elu", "elu"), _elu_back),
    "nll_loss": (_nll_loss, _nll_loss_back),
    "gather": (_gather, _gather_back),
}
"""The ops of which FlagGems has the gradient, too."""

CURVES = (
    *("abs", "neg", "square", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "sin", "cos"),
    *("erf", "log_sigmoid", "softplus", "selu", "hardsigmoid", "add", "sub", "mul"),
)
"""Ops that both call by one name, without attributes."""

VALUES: Mapping[str, Value] = {
    **{name: _of(name, name) for name in CURVES},
    "div": _of("div", "true_divide"),
    "pow": _power,
    "clamp": _clamp,
    "sum": _reduction("sum", "sum_dim"),
    "mean": _reduction("mean", "mean_dim"),
    "max": _reduction("amax", "amax"),
    "prod": _product,
    "norm": _norm,
    "argmax": _positions("argmax"),
    "argmin": _positions("argmin"),
    "cumsum": _cumsum,
    "matmul": _of("mm", "mm"),
    "linear": _linear,
    "mse_loss": _mse_loss,
    "concat": _concat,
    "stack": _stack,
    "pad": _pad,
    "triu": _of("triu", "triu"),
    "tril": _of("tril", "tril"),
}
"""The ops of which FlagGems has the value alone."""
