"""Drives the hosts of pages over their `EXAMPLES`, in a process whose launches run nothing.

No signature of a kernel is written by hand, so none can drift: a stand-in driver names the target,
and the hosts launch what they would launch on a device.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import OF, Dtype
from fast.device.mode import triton

DTYPES = tuple(dtype for dtype in OF.values() if dtype.kernels)

NARROW = {"ns_dtype": "bf16"}
"""The words by which an optimizer starts kernels of another dtype than that of the update."""

Start = Callable[[], object]
"""Some launches of a page's hosts, when called."""


class Example(NamedTuple):
    """What is launched for an example: `value`, `vjp` or `step`, in a dtype."""

    direction: str
    dtype: Dtype
    start: Start


class _Driver:
    """Stands in for a GPU's driver: it names the target, and there is nothing to run on."""

    def __init__(self, target: str) -> None:
        """Speak for one target, such as `sm_90`."""
        backend = importlib.import_module("triton.backends.compiler")
        self._target = backend.GPUTarget("cuda", int(target.removeprefix("sm_")), 32)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def stand_in(target: str) -> None:
    """Let triton compile for a target in this process, which is in compile-only mode."""
    triton.runtime.driver.set_active(_Driver(target))


def names() -> list[str]:
    """List the ops and optimizers that have kernels."""
    return [*importlib.import_module("fast.ops").OPS, *_optimizers()]


def page(name: str) -> Any:
    """Import the page of an op or an optimizer."""
    return importlib.import_module(f"fast.{'optim' if name in _optimizers() else 'ops'}.{name}")


def _optimizers() -> Any:
    return importlib.import_module("fast.optim").OPTIMIZERS


def examples(name: str) -> Iterator[Example]:
    """Yield what the hosts of an op or an optimizer do for its examples, in every dtype.

    Examples are small: while they are gone through, one large tile is enough.
    """
    with importlib.import_module("fast.kernels.tiles").one_is_enough():
        yield from _optimizer(name) if name in _optimizers() else _op(name)


def _op(name: str) -> Iterator[Example]:
    """Yield values, and VJPs of contiguous and of repeated cotangents."""
    own = page(name)
    allowed_tf32 = importlib.import_module("fast.kernels.product").TF32
    try:
        # Only products ask whether tf32 is allowed; every other page would launch the same twice.
        for tf32 in (False, True) if hasattr(own, "TF32") else (False,):
            allowed_tf32.set(tf32)
            for dtype in DTYPES:
                yield from _calls(own, dtype)
    finally:
        # Whoever watches may go through a few of them alone.
        allowed_tf32.set(False)


def _calls(own: Any, dtype: Dtype) -> Iterator[Example]:
    for inputs, attributes in own.EXAMPLES(dtype.storage):
        kept: list[Any] = []
        yield Example(
            "value",
            dtype,
            lambda i=inputs, a=attributes, k=kept: k.extend(own.value(*i, **a)),
        )
        if not kept:
            continue  # whoever watches has stopped it at a fault
        if len(own.op.indices) == own.op.results:
            continue  # nothing is sent back from indices
        z, saved = kept
        needs = [index not in own.op.index_inputs for index in range(len(inputs))]
        for g in _seeds(z, own.op.results, own.op.fixed):
            yield Example("vjp", dtype, lambda s=saved, g=g, n=needs: own.vjp(s, g, n))


def _seeds(made: Any, results: int, fixed: tuple[int, ...]) -> Iterator[Any]:
    """Yield a contiguous and a repeated cotangent.

    Of several results there is one for each, and then one for each alone, but for the fixed ones.
    """
    each: tuple[Tensor, ...] = made[:results] if isinstance(made, tuple) else (made,)
    contiguous = tuple(map(torch.ones_like, each))
    repeated = tuple(torch.ones((), dtype=z.dtype).expand(z.shape) for z in each)
    if results == 1:
        yield from (*contiguous, *repeated)
        return
    yield from (contiguous, repeated)
    for k in range(results):
        if k not in fixed:
            yield tuple(g if k == j else None for j, g in enumerate(contiguous))


def _optimizer(name: str) -> Iterator[Example]:
    """Yield updates with the default hyper-parameters, and with every one of them in use.

    The latter clip the gradients too, and then do not. What clips entries and norms of groups is
    the same for all optimizers, so that the first of them alone starts it.
    """
    rule = _optimizers()[name]
    functional = importlib.import_module("fast.optim._functional").Functional
    fields, defaults = rule.hyper._fields, rule.hyper._field_defaults
    needed = {field: 0.5 for field in fields if field not in defaults}
    used: dict[str, Any] = {field: 0.5 for field in fields if rule.kind(field) is float}
    used |= {field: word for field, word in NARROW.items() if field in fields}
    shape = (64, 64) if rule.matrices else (4096,)
    for dtype in DTYPES:
        for hyper, max_norm in ((needed, None), (used, 1.0), (used, None)):
            params: list[Tensor] = [torch.ones(shape, dtype=dtype.storage)]
            made = functional(rule, params, hyper, "triton", max_norm=max_norm)
            yield Example("step", dtype, lambda p=params, m=made: m.step(p))
        if name == next(iter(_optimizers())):
            groups = [{"params": [0], "max_norm": 1.0, "max_value": 0.5}]
            made = functional(rule, params, used, "triton", groups)
            yield Example("step", dtype, lambda p=params, m=made: m.step(p))
