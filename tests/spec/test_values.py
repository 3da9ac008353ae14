"""Every page's value is what its formula says, written once more over arrays of fractions.

The laws judge derivatives against values; what a value is, they have to believe.
So each forward definition is stated here a second time, with numpy's own axes, broadcasting and
indexing, on arrays of Python's fractions, and compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.cases.probes import carried
from equivalence.worlds.opaque import opaque
from spec import scalar
from spec.op import AnyTensor
from spec.ops import OPS
from spec.rng import philox

Array = Any
"""A numpy array of fractions."""


@pytest.fixture(autouse=True, scope="module")
def exact_world() -> Iterator[None]:
    """Let exp, log, tanh and roots be opaque while this module runs."""
    with opaque():
        yield


def array(x: AnyTensor, index: bool) -> Array:
    """Copy a tensor into an array, of ints or truth values if it holds indices."""
    plain = bool if bool in map(type, x.data) else int
    flat = np.empty(len(x.data), dtype=plain if index else object)
    flat[:] = x.data
    return flat.reshape(x.shape)


def each(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Apply a scalar function to every entry."""
    return np.vectorize(function, otypes=[object])


exp, log, sqrt, tanh, erf, sin, cos = (
    each(getattr(scalar, name)) for name in ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos")
)


def logistic(x: Array) -> Array:
    e = np.where(x < 0, exp(x), exp(-x))
    return np.where(x < 0, e, 1) / (1 + e)


SCALE = Fraction(1.0507009873554805)
SCALE_ALPHA = Fraction(1.6732632423543772 * 1.0507009873554805)


def gelu(x: Array, *, approximate: str) -> Array:
    if approximate == "none":
        return x * (1 + erf(x * Fraction(math.sqrt(0.5)))) / 2
    inner = Fraction(math.sqrt(2 / math.pi)) * (x + Fraction(0.044715) * x * x * x)
    return x * (1 + tanh(inner)) / 2


def powers(x: Array, *, c: float) -> Array:
    exponent = Fraction(c)
    if (2 * exponent).denominator > 1:
        return exp(exponent * log(x))
    if exponent > 64:
        return x * exp((exponent - 1) * log(np.abs(x)))
    whole = np.prod([np.ones_like(x), *[x] * int(abs(exponent))], axis=0)
    product = whole * sqrt(x) if exponent.denominator == 2 else whole
    return product if exponent > 0 else 1 / product


def softened(x: Array) -> Array:
    return np.where(x < 0, 0, x) + log(1 + np.where(x < 0, exp(x), exp(-x)))


def matmul(x: Array, y: Array) -> Array:
    return (x[:, :, None] * y[None, :, :]).sum(axis=1)


def linear(x: Array, w: Array, b: Array) -> Array:
    return (x[..., None, :] * w).sum(axis=-1) + b


def mean(x: Array, *, axes: Any = None, keepdims: bool = False) -> Array:
    total = x.sum(axis=axes, keepdims=keepdims)
    return total * Fraction(np.size(total), x.size) if x.size else total


def scored(losses: Array, reduction: str) -> Array:
    losses = np.asarray(losses, dtype=object)
    return losses if reduction == "none" else mean(losses) if reduction == "mean" else losses.sum()


def huber_loss(x: Array, y: Array, *, delta: float, reduction: str) -> Array:
    knee, far = Fraction(delta), abs(x - y)
    return scored(np.where(far < knee, far * far / 2, knee * far - knee * knee / 2), reduction)


def smooth_l1_loss(x: Array, y: Array, *, beta: float, reduction: str) -> Array:
    far = huber_loss(x, y, delta=beta, reduction="none") / Fraction(beta) if beta else abs(x - y)
    return scored(far, reduction)


def bce_with_logits(x: Array, target: Array, *, reduction: str) -> Array:
    return scored(softened(x) - x * target, reduction)


def kl_div(x: Array, target: Array, *, log_target: bool, reduction: str) -> Array:
    p, logarithm = (exp(target), target) if log_target else (target, log(target))
    return scored(np.where(p == 0, 0, p * (logarithm - x)), reduction)


def triplet_margin_loss(
    a: Array, b: Array, c: Array, *, margin: float, p: int, eps: float, swap: bool, reduction: str
) -> Array:
    near, far, other = (
        norm(x - y + Fraction(eps), ord=p, axes=(-1,), keepdims=False)
        for x, y in ((a, b), (a, c), (b, c))
    )
    far = np.minimum(far, other) if swap else far
    return scored(np.maximum(near - far + Fraction(margin), 0), reduction)


def shifted(x: Array, axis: int) -> Array:
    return x - x.max(axis=axis, keepdims=True)


def softmax(x: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    powers = exp(shifted(x, axis))
    return powers / powers.sum(axis=axis, keepdims=True)


def masked_softmax(x: Array, mask: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    largest = np.where(mask, x, np.where(mask, x, 0).min(axis=axis, keepdims=True))
    powers = np.where(mask, exp(x - largest.max(axis=axis, keepdims=True)), 0)
    total = powers.sum(axis=axis, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def log_softmax(x: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    return shifted(x, axis) - log(exp(shifted(x, axis)).sum(axis=axis, keepdims=True))


def cumsum(x: Array, *, axis: int, reverse: bool, exclusive: bool) -> Array:
    turned = np.flip(x, axis) if reverse else x
    sums = np.cumsum(turned, axis=axis) - (turned if exclusive else 0)
    return np.flip(sums, axis) if reverse else sums


def prod(x: Array, *, axes: Any, keepdims: bool) -> Array:
    return np.asarray(x.prod(axis=axes, keepdims=keepdims), object)


def norm(x: Array, *, ord: int, axes: Any, keepdims: bool) -> Array:
    sizes = np.asarray(np.where(x < 0, -x, x), object)
    if ord == 1 or not x.size:
        return np.asarray(sizes.sum(axis=axes, keepdims=keepdims), object)
    scale = np.asarray(sizes.max(axis=axes, keepdims=True), object)
    scale = np.where(scale == 0, Fraction(1), scale)
    parts = np.asarray(np.asarray(x / scale, object) ** 2, object)
    z = np.asarray(scale * sqrt(np.asarray(parts.sum(axis=axes, keepdims=True), object)), object)
    return z if keepdims else z.reshape(np.shape(sizes.sum(axis=axes)))


def logsumexp(x: Array, *, axes: Any, keepdims: bool) -> Array:
    largest = x.max(axis=axes, keepdims=True)
    powers = np.asarray(exp(x - largest), object).sum(axis=axes, keepdims=True)
    z = np.asarray(log(powers) + largest, object)
    return z if keepdims else z.reshape(np.shape(x.max(axis=axes)))


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
    weight: Any = None,
    scores: Callable[..., Array] = log_softmax,
) -> Array:
    weights = np.array([Fraction(w) for w in weight or [1] * x.shape[1]], dtype=object)
    table, share = -scores(np.moveaxis(x, 1, -1), axis=-1) * weights, Fraction(label_smoothing)
    rows = np.zeros(labels.shape, dtype=object)
    for i, label in np.ndenumerate(labels):
        if label != ignore_index:
            uniform = table[i].sum() / Fraction(len(table[i]))
            rows[i] = (1 - share) * table[*i, label] + share * uniform
    kept = weights[labels[labels != ignore_index]].sum()
    if reduction == "none":
        return rows
    if reduction == "mean":
        return np.asarray(rows.sum() / kept if kept else 0, object)
    return np.asarray(rows.sum(), object)


def scatter_add(x: Array, indices: Array, source: Array, *, axis: int) -> Array:
    z, moved = x.copy(), np.moveaxis(source.reshape(_flat(x, indices, axis)), axis, 0)
    np.add.at(np.moveaxis(z, axis, 0), indices.ravel(), moved)
    return z


def _flat(x: Array, indices: Array, axis: int) -> tuple[int, ...]:
    return tuple(indices.size if k == axis % x.ndim else n for k, n in enumerate(x.shape))


def flattened(x: Array, *, start: int, end: int) -> Array:
    shape = x.shape or (1,)
    last = end % len(shape)
    count = int(np.prod(shape[start : last + 1], dtype=int))
    return x.reshape((*shape[:start], count, *shape[last + 1 :]))


def padded(x: Array, *, before: Any, after: Any, value: Any) -> Array:
    wide = np.full(np.add(np.add(before, x.shape), after).astype(int), Fraction(value), object)
    wide[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    return wide


def _offsets(x: Array) -> Any:
    """How far each entry lies to the right of the main diagonal."""
    return np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]


def slice_(x: Array, *, axis: int, start: int, length: int) -> Array:
    return np.moveaxis(np.moveaxis(x, axis, 0)[start : start + length], 0, axis)


def uniform(shape: Any, seed: int, counter: int, pairs: bool = False) -> Array:
    """Draw block by block, all four words of each, as far as the shape reaches; or one pair on."""
    low, high = 2**32 - 1, 32
    count = int(np.prod(shape, dtype=int))
    words: list[int] = []
    while len(words) < count + pairs:
        block = len(words) // 4
        counters = (block & low, block >> high, counter & low, counter >> high)
        words += philox(counters, (seed & low, seed >> high))
    flat = np.empty(count + pairs, dtype=object)
    flat[:] = [Fraction(word >> 8, 2**24) for word in words[: count + pairs]]
    return flat if pairs else flat.reshape(shape)


def rand_normal(*, shape: Any, seed: int, counter: int, like: Any) -> Array:
    u = uniform(shape, seed, counter, pairs=True)
    entries = np.empty(len(u) - 1, dtype=object)
    for k in range(len(entries)):
        first, second = u[k - k % 2], u[k - k % 2 + 1]
        angle = 2 * scalar.pi_like(like) * second
        wave = scalar.sin(angle) if k % 2 else scalar.cos(angle)
        entries[k] = scalar.sqrt(-2 * scalar.log(1 - first)) * wave
    return entries.reshape(shape)


def chained(x: Array, *, steps: Any) -> Array:
    for step in steps:
        name, pairs = step if isinstance(step, tuple) else (step, ())
        x = FORMULAS[name](x, **dict(pairs))
    return x


def placed(find: Callable[..., Any]) -> Callable[..., Array]:
    def find_places(x: Array, *, axis: Any, keepdims: bool) -> Array:
        return np.asarray(find(x, axis=axis, keepdims=keepdims), dtype=object)

    return find_places


def dropout(x: Array, *, p: Any, seed: int, counter: int, training: bool) -> Array:
    kept = 1 - Fraction(p)
    chosen = uniform(x.shape, seed, counter) < kept
    return np.where(chosen, x / kept if kept else x, 0) if training else x


def clamped(x: Array, *, lo: float, hi: float) -> Array:
    low, high = (Fraction(b) if math.isfinite(b) else b for b in (lo, hi))
    return np.where(x < low, low, np.where(x > high, high, x))


FORMULAS: dict[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: 0 - x,
    "abs": each(lambda a: max(a, -a)),
    "square": lambda x: x * x,
    "sqrt": sqrt,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / sqrt(x),
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "expm1": lambda x: exp(x) - 1,
    "log1p": lambda x: log(1 + x),
    "sigmoid": logistic,
    "log_sigmoid": lambda x: x - softened(x),
    "softplus": softened,
    "silu": lambda x: x * logistic(x),
    "mish": lambda x: x * tanh(softened(x)),
    "elu": lambda x, *, alpha: np.where(x > 0, x, Fraction(alpha) * (exp(x) - 1)),
    "selu": lambda x: np.where(x > 0, SCALE * x, SCALE_ALPHA * (exp(x) - 1)),
    "erf": erf,
    "sin": sin,
    "cos": cos,
    "gelu": gelu,
    "hardswish": each(lambda a: a * min(max(a + 3, 0), 6) / Fraction(6)),
    "pow": powers,
    "safe_log": lambda x, *, eps: log(softened(x) + Fraction(eps)),
    "relu": each(lambda a: max(a, 0)),
    "leaky_relu": lambda x, *, slope: np.where(x > 0, x, Fraction(slope) * x),
    "clamp": clamped,
    "hardtanh": clamped,
    "hardsigmoid": each(lambda a: min(max(a + 3, 0), 6) / Fraction(6)),
    "softsign": each(lambda a: a / (1 + max(a, -a))),
    "scale": lambda x, *, c: Fraction(c) * x,
    "maximum": lambda x, y: np.where(x > y, x, y),
    "minimum": lambda x, y: np.where(x < y, x, y),
    "where": lambda mask, x, y: np.where(mask, x, y),
    "sum": lambda x, *, axes, keepdims: x.sum(axis=axes, keepdims=keepdims),
    "mean": mean,
    "cumsum": cumsum,
    "norm": norm,
    "prod": prod,
    "cumprod": lambda x, *, axis: np.multiply.accumulate(x, axis=axis),
    "broadcast_to": lambda x, *, shape: np.broadcast_to(x, shape),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "permute": lambda x, *, axes: x.transpose(axes),
    "flatten": flattened,
    "flip": lambda x, *, axes: np.flip(x, axes),
    "pad": padded,
    "take": lambda x, indices, *, axis: np.take(x, indices, axis=axis),
    "gather": lambda x, indices, *, axis: np.take_along_axis(x, indices.astype(int), axis),
    "embedding": lambda indices, weight: weight[indices.astype(int)],
    "one_hot": lambda indices, *, classes, like: np.eye(classes, dtype=int)[indices.astype(int)],
    "scatter_add": scatter_add,
    "slice": slice_,
    "concat": lambda *xs, axis: np.concatenate(xs, axis=axis),
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "triu": lambda x, *, diagonal: np.where(_offsets(x) >= diagonal, x, 0),
    "tril": lambda x, *, diagonal: np.where(_offsets(x) <= diagonal, x, 0),
    "chain": chained,
    "detach": lambda x: x,
    "cast": lambda x, *, to: x,
    "max": lambda x, *, axes, keepdims: x.max(axis=axes, keepdims=keepdims),
    "min": lambda x, *, axes, keepdims: x.min(axis=axes, keepdims=keepdims),
    "argmax": placed(np.argmax),
    "argmin": placed(np.argmin),
    "logsumexp": logsumexp,
    "matmul": matmul,
    "linear": linear,
    "log_softmax": log_softmax,
    "softmax": softmax,
    "masked_softmax": masked_softmax,
    "layer_norm": layer_norm,
    "mse_loss": lambda x, y, *, reduction: scored((x - y) ** 2, reduction),
    "mae_loss": lambda x, y, *, reduction: scored(abs(x - y), reduction),
    "huber_loss": huber_loss,
    "smooth_l1_loss": smooth_l1_loss,
    "bce_with_logits": bce_with_logits,
    "kl_div": kl_div,
    "triplet_margin_loss": triplet_margin_loss,
    "hinge_embedding_loss": lambda x, y, *, margin, reduction: scored(
        np.where(y, x, np.maximum(Fraction(margin) - x, 0)), reduction
    ),
    "nll_loss": lambda *inputs, **attributes: cross_entropy(
        *inputs, **attributes, scores=lambda x, axis: x
    ),
    "cross_entropy": cross_entropy,
    "rand_uniform": lambda *, like, **attributes: uniform(**attributes),
    "rand_normal": rand_normal,
    "bernoulli_mask": lambda *, keep_prob, like, **attributes: (
        uniform(**attributes) < keep_prob
    ).astype(int),
    "dropout": dropout,
}


def test_every_page_is_written_once_more() -> None:
    assert set(FORMULAS) == set(OPS)


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_is_what_its_formula_says(name: str, data: st.DataObject) -> None:
    call = data.draw(carried(OPS[name]))
    inputs = [array(x, k in call.op.index_inputs) for k, x in enumerate(call.inputs)]
    expected = np.asarray(FORMULAS[name](*inputs, **call.attributes), dtype=object)
    assert call.value.shape == expected.shape
    assert list(call.value.data) == expected.ravel().tolist()
