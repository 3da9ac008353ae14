"""Ops of several results, by one made for the purpose: the product and the sum of two tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from fast import CompiledSession, Session
from fast.autodiff import hvp
from fast.device.counters import counters
from fast.kernels.page import Op
from fast.ops import OPS
from fast.ref import Ref
from tests.fast.compiled.test_compiled_memory import storages

CPU: dict[str, Any] = {"provider": "aten", "device": "cpu"}
X, Y = [1.0, -2.0, 3.0], [0.5, 4.0, -1.0]

came: list[tuple[bool, ...]] = []
"""For each call of the rule, which cotangents were there."""


def check(x: Tensor, y: Tensor) -> None:
    """Refuse nothing."""


def value(x: Tensor, y: Tensor) -> Any:
    """Multiply and add; the third result, the largest product, is a statistic."""
    product = x * y
    return (product, x + y, product.max()), (x, y)


def vjp(saved: Any, cotangents: Any, needs: Any) -> Any:
    """Return the gradients of the results that were used."""
    came.append(tuple(g is not None for g in cotangents))
    (x, y), (g, h, none) = saved, cotangents
    assert none is None
    parts = [(h, h)] if h is not None else []
    parts += [(g * y, g * x)] if g is not None else []
    sums = [left if len(parts) == 1 else left + parts[1][k] for k, left in enumerate(parts[0])]
    return tuple(found if need else None for found, need in zip(sums, needs, strict=True))


MADE = Op(
    "made", check, value, vjp, value, vjp, inputs=("x", "y"), results=3, fixed=(2,),
)  # fmt: skip


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the op into the table."""
    monkeypatch.setitem(OPS, "made", MADE)
    came.clear()
    yield


def both(s: Any, x: Ref, y: Ref) -> tuple[Ref, Ref, Ref]:
    results: Any = s.apply("made", (x, y), {})
    return results  # type: ignore[no-any-return]


def leaves(s: Session, **options: Any) -> tuple[Ref, Ref]:
    return s.input(X, requires_grad=True), s.input(Y, **{"requires_grad": True, **options})


USES: dict[tuple[bool, bool], Any] = {
    (True, True): lambda s, p, q: s.sum(s.mul(s.square(p), q)),
    (True, False): lambda s, p, q: s.sum(s.square(p)),
    (False, True): lambda s, p, q: s.sum(s.mul(q, q)),
}


@pytest.mark.parametrize("used", USES)
def test_gradients_are_those_of_ops_with_one_result(used: tuple[bool, bool]) -> None:
    s = Session(**CPU)
    x, y = leaves(s)
    p, q, _ = both(s, x, y)
    assert [s.value(r).tolist() for r in (p, q)] == [[0.5, -8.0, -3.0], [1.5, 2.0, 2.0]]
    grads = s.backward(USES[used](s, p, q))
    assert came == [(*used, False)], "the rule runs once, and hears of what was used"
    plain = Session(**CPU)
    a, b = leaves(plain)
    due = plain.backward(USES[used](plain, plain.mul(a, b), plain.add(a, b)))
    assert torch.equal(s.grad(grads, x), plain.grad(due, a))
    assert torch.equal(s.grad(grads, y), plain.grad(due, b))


def test_a_rule_whose_results_are_not_used_never_runs() -> None:
    s = Session(**CPU)
    x, y = leaves(s)
    both(s, x, y)
    grads = s.backward(s.sum(x))
    assert came == [] and not grads.reached(y)


@pytest.mark.parametrize("k", [0, 1])
def test_a_pass_may_start_at_any_of_the_results(k: int) -> None:
    s = Session(**CPU)
    x, y = leaves(s)
    grads = s.backward(both(s, x, y)[k], [1.0, 1.0, 1.0])
    assert came == [(k == 0, k == 1, False)]
    assert s.grad(grads, x).tolist() == (Y if k == 0 else [1.0, 1.0, 1.0])


def test_dense_gradients_have_one_for_each_result() -> None:
    s = Session(**CPU)
    x, y = leaves(s)
    p, q, largest = both(s, x, y)
    dense = s.backward_dense(s.sum(s.add(p, s.square(q))))
    assert came == [(True, True, False)]
    assert s.grad(dense, p).tolist() == [1.0, 1.0, 1.0]
    assert s.grad(dense, q).tolist() == [3.0, 4.0, 4.0]
    assert s.grad(dense, largest).tolist() == 0.0 and not dense.reached(largest)
    assert s.grad(dense, x).tolist() == [3.5, 8.0, 3.0]


def test_a_fixed_result_takes_no_gradient() -> None:
    s = Session(**CPU)
    x, y = leaves(s)
    p, q, largest = both(s, x, y)
    assert [r.requires_grad for r in (p, q, largest)] == [True, True, False]
    grads = s.backward(s.sum(s.mul(s.broadcast_to(largest, shape=(3,)), q)))
    assert came == [(False, True, False)]
    assert s.grad(grads, x).tolist() == [0.5, 0.5, 0.5]


def test_what_needs_no_gradient_is_not_asked_for() -> None:
    s = Session(**CPU)
    x, y = leaves(s, requires_grad=False)
    p, q, _ = both(s, x, y)
    assert s.grad(s.backward(s.sum(s.add(p, q))), x).tolist() == [1.5, 5.0, 0.0]
    s.reset_tape()
    x, y = s.const(X), s.const(Y)
    assert [r.requires_grad for r in both(s, x, y)] == [False, False, False]


@pytest.mark.usefixtures("settled")
def test_results_are_weighed_once_and_freed_with_the_tape() -> None:
    def sharing(x: Tensor, y: Tensor) -> Any:
        whole = torch.cat((x, y))
        mean = whole.mean()
        return (whole[:3], whole[3:], mean), (x, whole, mean)

    s = Session(**CPU)
    x, y = leaves(s)
    before = counters.snapshot()
    both(s, x, y)
    after = counters.snapshot()
    assert after.live_bytes - before.live_bytes == 12 + 12 + 4
    assert after.live_buffers - before.live_buffers == 3
    s._bound["made"] = s._bound["made"]._replace(value=sharing)
    both(s, x, y)
    assert counters.live_bytes - after.live_bytes == 24 + 4
    assert counters.live_buffers - after.live_buffers == 2
    held = counters.snapshot()
    aside = s._bound["made"]._replace(value=lambda x, y: (sharing(x, y)[0], (torch.ones(8),)))
    s._bound["made"] = aside
    both(s, x, y)
    assert counters.live_bytes - held.live_bytes == 24 + 4 + 32
    assert counters.live_buffers - held.live_buffers == 3


def test_an_error_appends_nothing() -> None:
    def fails(*inputs: Tensor) -> Any:
        raise ValueError("in the middle")

    s = Session(**CPU)
    x, y = leaves(s)
    both(s, x, y)
    held = len(s._tape), s._tape.bytes, s._tape.extra
    s._bound["made"] = s._bound["made"]._replace(value=fails)
    with pytest.raises(ValueError, match="in the middle"):
        both(s, x, y)
    assert (len(s._tape), s._tape.bytes, s._tape.extra) == held
    assert len(s._tape.values) == len(s._tape.rules)


def one_used(s: Any, x: Ref, y: Ref) -> Ref:
    _, q, largest = both(s, x, y)
    again, *_ = both(s, q, y)
    return s.sum(s.mul(again, s.broadcast_to(largest, shape=(3,))))  # type: ignore[no-any-return]


def test_a_replay_does_as_the_eager_tape() -> None:
    found = []
    for kind in (Session, CompiledSession):
        s = kind(**CPU)
        params = [s.param(X), s.param(Y)]
        kept = []
        for _ in range(3):
            out = s.run(one_used, params, [])
            with s.backward(out) as grads:
                kept += [s.value(out), *(s.grad(grads, p) for p in params)]
                s.sgd_step(0.25, grads)
        found.append(kept)
        if kind is CompiledSession:
            product = s.value(Ref(s._tape, 2))
            assert product.isnan().all() and product.shape == (3,), "what nothing reads is dropped"
            held = storages(s)
            weight = s._tape.bytes, len(s._tape) + s._tape.extra
            assert (sum(held.values()), len(held)) == weight
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_curvature_goes_through_both() -> None:
    def ours(ops: Any, x: Ref, y: Ref) -> Any:
        p, q, _ = both(ops, x, y)
        return ops.sum(ops.mul(ops.square(p), q))

    def plain(ops: Any, x: Ref, y: Ref) -> Any:
        return ops.sum(ops.mul(ops.square(ops.mul(x, y)), ops.add(x, y)))

    vectors = ([1.0, 0.0, -1.0], [0.0, 2.0, 1.0])
    found, due = (hvp(program, [X, Y], vectors, **CPU) for program in (ours, plain))
    for a, b in zip(found, due, strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))
