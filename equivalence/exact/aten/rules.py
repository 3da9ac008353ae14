"""What torch's functions of floats say of exact numbers, which numpy holds as objects.

A rule takes what torch's function takes, by the names of its schema: arrays for tensors, exact
numbers for floats. It is written for the function; its form in place, and that with `out`, follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from equivalence.exact.memory import stated
from equivalence.exact.numbers import Beyond, Inexact, over
from equivalence.exact.standins import Rule
from spec.ops.pow import raised

Function = Callable[..., Any]
Axes = int | Sequence[int] | None


def rules_of_torch(rules: Mapping[str, Rule]) -> dict[str, Function]:
    """Return the rules by the names of torch's functions, given the stand-ins by theirs."""
    exp, log, sqrt = (rules[name] for name in ("exp", "log", "sqrt"))
    one_by_one: dict[str, Callable[..., Any]] = {
        **_ARITHMETIC,
        **_COMPARISONS,
        **rules,
        "rsqrt": lambda x: over(1, sqrt(x)),
        "pow": _power,
    }
    return {
        **{name: _each(rule) for name, rule in one_by_one.items()},
        **_REDUCTIONS,
        **_PRODUCTS,
        **_SCATTERED,
        "std": lambda *x, **how: _each(sqrt)(_var(*x, **how)),
        "gelu_backward": _each(partial(_gelu_backward, rules)),
        "_softmax": lambda x, dim, half_to_float: _softmax(x, dim, _each(exp)),
        "_log_softmax": lambda x, dim, half_to_float: _log_softmax(x, dim, _each(exp), _each(log)),
    }


def _each(rule: Callable[..., Any]) -> Function:
    """Return a rule of numbers as one of arrays, which may have no axis."""

    def rule_of_arrays(*arrays: Any, **options: Any) -> Any:
        lanes = np.frompyfunc(partial(rule, **options), len(arrays), 1)
        return _objects(lanes(*map(_objects, arrays)))

    return rule_of_arrays


def _objects(x: Any) -> Any:
    return np.asarray(x, object)


def _scaled(x: Any, factor: Any) -> Any:
    """Multiply, but by 1: a sum of drawn numbers stays known as one."""
    return x if isinstance(factor, int) and factor == 1 else factor * x


def _quotient(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        raise Inexact(f"exact numbers are divided without rounding; got {rounding_mode!r}")
    return over(x, y)


def _power(x: Any, exponent: Any) -> Any:
    """Raise to a constant power as the page does, which says where e^(c ln x) stands for it."""
    if not isinstance(exponent, (int, Fraction)):
        raise Inexact(f"exact numbers have constant powers; got one that is computed, {exponent}")
    return raised(x, Fraction(exponent))


def _gelu_backward(rules: Mapping[str, Rule], g: Any, x: Any, *, approximate: str = "none") -> Any:
    """Return the rate of gelu as its page says it; torch's own has other constants for the same."""
    if approximate == "tanh":
        cubic, rate = stated(0.044715), stated(math.sqrt(2 / math.pi))
        gate = rules["tanh"](rate * (x + cubic * x * x * x))
        slope = (1 - gate * gate) * rate * (1 + 3 * cubic * x * x)
    else:
        root, rate = stated(math.sqrt(0.5)), stated(2 / math.sqrt(math.pi))
        u = root * x
        gate, slope = rules["erf"](u), rules["exp"](-(u * u)) * rate * root
    return (1 + gate + x * slope) * Fraction(1, 2) * g


def _larger(x: Any, y: Any) -> Any:
    return y if x < y else x


def _smaller(x: Any, y: Any) -> Any:
    return y if y < x else x


def _clamped(x: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = low if min is None else min, high if max is None else max
    found = x if low is None else _larger(x, low)
    return found if high is None else _smaller(found, high)


_over = _each(over)

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, alpha=1: x + _scaled(y, alpha),
    "sub": lambda x, y, alpha=1: x - _scaled(y, alpha),
    "rsub": lambda x, y, alpha=1: y - _scaled(x, alpha),
    "mul": lambda x, y: x * y,
    "div": _quotient,
    "neg": lambda x: -x,
    "abs": abs,
    "square": lambda x: x * x,
    "reciprocal": lambda x: over(1, x),
    "addcmul": lambda x, y, z, value=1: x + _scaled(y * z, value),
    "addcdiv": lambda x, y, z, value=1: x + _scaled(over(y, z), value),
    "lerp": lambda x, end, weight: x + weight * (end - x),
    "maximum": _larger,
    "minimum": _smaller,
    "relu": lambda x: _larger(x, 0),
    "threshold_backward": lambda g, x, threshold: 0 if x <= threshold else g,
    "clamp": _clamped,
    "clamp_min": _clamped,
    "clamp_max": lambda x, high: _clamped(x, None, high),
    "where": lambda condition, x, y: x if condition else y,
    "masked_fill": lambda x, mask, value: value if mask else x,
    "copy": lambda x, source, non_blocking=False: source,
    "_to_copy": lambda x, **form: x,
    "fill": lambda x, value: value,
}


def _sign(x: Any) -> int:
    return int(x > 0) - int(x < 0)


_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "sign": _sign,
    "sgn": _sign,
    "isnan": lambda x: x != x,
    "isinf": lambda x: isinstance(x, Beyond) and x == x,
    "isfinite": lambda x: not isinstance(x, Beyond),
    "logical_not": lambda x: x == 0,
}


def _axes(x: Any, dim: Axes) -> tuple[int, ...]:
    """Return the axes that a reduction goes over: none named means all."""
    if not x.ndim:
        return ()
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(x.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _sum(x: Any, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _objects(np.sum(_objects(x), axis=_axes(x, dim), keepdims=keepdim, initial=0))


def _mean(x: Any, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    number = int(np.prod([x.shape[axis] for axis in _axes(x, dim)], dtype=np.int64))
    return _over(_sum(x, dim, keepdim), number)


def _var(
    x: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Return the variance; torch says in one of three ways how many fewer than all divide it."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = int(unbiased) if correction is None else correction
    axes = _axes(x, dim)
    number = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    apart = x - _mean(x, axes, keepdim=True)
    return _over(_sum(apart * apart, axes, keepdim), number - less)


def _var_mean(x: Any, dim: Any = None, *how: Any, **more: Any) -> tuple[Any, Any]:
    axes = None if isinstance(dim, bool) else dim
    keepdim = more.get("keepdim", how[1] if len(how) > 1 else False)
    return _var(x, dim, *how, **more), _mean(x, axes, keepdim)


def _amax(x: Any, dim: Axes = (), keepdim: bool = False) -> Any:
    return _objects(np.max(x, axis=_axes(x, dim), keepdims=keepdim))


def _amin(x: Any, dim: Axes = (), keepdim: bool = False) -> Any:
    return _objects(np.min(x, axis=_axes(x, dim), keepdims=keepdim))


def _first_of(x: Any, extreme: Any, axis: int) -> Any:
    """Return where along an axis the extreme stands first."""
    return np.argmax(np.asarray(x == extreme, bool), axis=axis)


def _max(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return _amax(x)
    most = _amax(x, dim, keepdim=True)
    where = np.expand_dims(_first_of(x, most, dim), dim)
    return (most, where) if keepdim else (most.squeeze(dim), where.squeeze(dim))


def _min(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    least = _max(-x, dim, keepdim)
    return -least if dim is None else (-least[0], least[1])


def _argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _max(x.reshape(-1), 0)[1] if dim is None else _max(x, dim, keepdim)[1]


_REDUCTIONS: dict[str, Function] = {
    "sum": _sum,
    "mean": _mean,
    "var": _var,
    "var_mean": _var_mean,
    "amax": _amax,
    "amin": _amin,
    "aminmax": lambda x, *, dim=None, keepdim=False: (
        _amin(x, dim, keepdim), _amax(x, dim, keepdim)
    ),
    "max": _max,
    "min": _min,
    "argmax": _argmax,
    "argmin": lambda x, dim=None, keepdim=False: _argmax(-x, dim, keepdim),
    "prod": lambda x, dim=None, keepdim=False, *, dtype=None: np.prod(
        _objects(x), axis=_axes(x, dim), keepdims=keepdim, initial=1
    ),
    "cumsum": lambda x, dim, *, dtype=None: np.add.accumulate(_objects(x), axis=dim),
    "cumprod": lambda x, dim, *, dtype=None: np.multiply.accumulate(_objects(x), axis=dim),
}  # fmt: skip


def _shares(x: Any, dim: int, exp: Function) -> tuple[Any, Any]:
    """Return exponentials below the largest entry, and their sums."""
    # A row that is masked throughout is NaN, as in torch, and who wants it so replaces it.
    with np.errstate(invalid="ignore"):
        powers = exp(x - _amax(x, dim, keepdim=True))
    return powers, _sum(powers, dim, keepdim=True)


def _softmax(x: Any, dim: int, exp: Function) -> Any:
    return _over(*_shares(x, dim, exp))


def _log_softmax(x: Any, dim: int, exp: Function, log: Function) -> Any:
    _, total = _shares(x, dim, exp)
    return x - _amax(x, dim, keepdim=True) - log(total)


def _product(x: Any, y: Any) -> Any:
    """Multiply matrices, of no entry too, which numpy sums to None."""
    if x.shape[-1] == 0:
        return np.zeros((*x.shape[:-1], y.shape[-1]), object)
    return np.matmul(x, y)


_PRODUCTS: dict[str, Function] = {
    "mm": _product,
    "bmm": _product,
    "mv": lambda x, y: _product(x, y[:, None])[:, 0],
    "dot": lambda x, y: _sum(x * y),
    "addmm": lambda b, x, y, *, beta=1, alpha=1: _scaled(b, beta) + _scaled(_product(x, y), alpha),
    "baddbmm": lambda b, x, y, *, beta=1, alpha=1: (
        _scaled(b, beta) + _scaled(_product(x, y), alpha)
    ),
}


def _added_at(x: Any, places: tuple[Any, ...], terms: Any) -> Any:
    """Add terms into a copy at places, which may be one place many times."""
    found = _objects(x).copy()
    np.add.at(found, places, terms)
    return found


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    before = (slice(None),) * (dim % x.ndim)
    return _added_at(x, (*before, index.reshape(-1)), _scaled(source, alpha))


def _places(dim: int, index: Any) -> tuple[Any, ...]:
    """Return where each entry of an index along one axis lies."""
    places = list(np.indices(index.shape))
    places[dim] = index
    return tuple(places)


def _scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return _added_at(x, _places(dim, index), source[tuple(map(slice, index.shape))])


def _scatter(x: Any, dim: int, index: Any, source: Any, *, reduce: str | None = None) -> Any:
    if reduce is not None:
        raise Inexact(f"exact numbers know no scatter that reduces; torch is given {reduce!r}")
    found, entries = _objects(x).copy(), _objects(source)
    taken = entries[tuple(map(slice, index.shape))] if entries.ndim else source
    found[_places(dim, index)] = taken
    return found


def _index_put(
    x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False, *_: Any
) -> Any:
    places = tuple(slice(None) if index is None else index for index in indices)
    if accumulate:
        return _added_at(x, places, values)
    found = _objects(x).copy()
    found[places] = values
    return found


_SCATTERED: dict[str, Function] = {
    **{rule.__name__[1:]: rule for rule in (_index_add, _scatter, _scatter_add, _index_put)},
    **dict.fromkeys(("_unsafe_index_put", "_index_put_impl"), _index_put),
}
