"""What a tape says after a parameter that it used has changed: nothing reads the new memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from fast import Session, Stale
from fast.autodiff import grad
from fast.session import Param, Ref

PROVIDERS = ["aten", "triton"]


def session(provider: str = "aten", precision: str = "fp32") -> Session:
    return Session(provider=provider, precision=precision, device="cpu")


def stepped(s: Session, w: Param) -> None:
    with s.backward(s.sum(s.square(s.use(w)))) as grads:
        s.sgd_step(0.25, grads)


def loaded(s: Session, w: Param) -> None:
    s.load_optimizer_state("adamw", w, s.optimizer_state("adamw", w))
    w.set_device(torch.full(w.shape, 9.0))


CHANGES: dict[str, Callable[[Session, Param], Any]] = {
    "an update": stepped,
    "set": lambda s, w: w.set(torch.full(w.shape, 9.0)),
    "set_device": lambda s, w: w.set_device(torch.full(w.shape, 9.0)),
    "a state and a value": loaded,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("provider", "precision"), [("aten", "fp32"), ("triton", "fp32"), ("aten", "bf16")]
)
def test_an_op_on_a_leaf_that_has_changed_since_is_stale(
    provider: str, precision: str, change: str
) -> None:
    s = session(provider, precision)
    w, other = s.param([[3.0, 1.0]], name="w"), s.param([[2.0, 2.0]])
    x, y, c = s.use(w), s.use(other), s.input([[1.0, 1.0]])
    before = s.square(x)
    CHANGES[change](s, w)
    size = len(s._tape)
    for use in (
        lambda: s.value(x),
        lambda: s.square(x),
        lambda: s.add(x, c),
        lambda: s.add(c, x),
        lambda: -x,
        lambda: s.linear(c, x, s.input([0.0])),
        lambda: s.take(x, 0, axis=0),
        lambda: s.where([[True, False]], x, c),
        lambda: s.reshape(x, shape=(2,)),
        lambda: s.detach(x),
    ):
        with pytest.raises(Stale, match="'w' was used at version 0 and is at version 1"):
            use()
    assert len(s._tape) <= size + 3, "only the constants were recorded"
    assert s.value(s.square(before)).tolist() == [[81.0, 1.0]], "a result is the tape's own"
    assert s.value(s.add(y, c)).tolist() == [[3.0, 3.0]], "what has not changed is not stale"
    fresh = s.use(w)
    assert s.value(s.add(fresh, c)).tolist() == (w.value() + 1).tolist()
    s.reset_tape()
    again = s.use(w)
    assert s.value(s.add(again, again)).tolist() == (w.value() * 2).tolist()


VIEWS: dict[str, Callable[[Session, Ref], Ref]] = {
    "reshape": lambda s, x: s.reshape(x, shape=(4,)),
    "reshape to itself": lambda s, x: s.reshape(x, shape=(2, 2)),
    "permute": lambda s, x: s.permute(x, axes=(1, 0)),
    "permute to itself": lambda s, x: s.permute(x, axes=(0, 1)),
    "broadcast_to": lambda s, x: s.broadcast_to(x, shape=(3, 2, 2)),
    "broadcast to itself": lambda s, x: s.broadcast_to(x, shape=(2, 2)),
    "detach": lambda s, x: s.detach(x),
    "take": lambda s, x: s.take(x, 1, axis=0),
    "dropout at rest": lambda s, x: s.dropout(x, p=0.5, seed=1, training=False),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_result_that_looks_like_a_view_of_a_leaf_keeps_the_old_value(
    provider: str, view: str
) -> None:
    s = session(provider)
    w = s.param([[1.0, 2.0], [3.0, 4.0]])
    z = VIEWS[view](s, s.use(w))
    before = s.value(z)
    for change in (stepped, CHANGES["set_device"]):
        change(s, w)
        assert s.value(z).equal(before)
        assert s.value(s.add(z, z)).equal(before + before)


def test_a_change_while_a_program_runs_beside_is_seen_on_the_sessions_own_tape() -> None:
    s = session()
    w = s.param([1.0, 2.0], name="w")
    x = s.use(w)

    def program(ops: Any, y: Ref) -> Ref:
        w.set([5.0, 6.0])
        return cast("Ref", ops.sum(ops.mul(y, ops.use(w))))

    found = grad(program, session=s)([1.0, 1.0])
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [5.0, 6.0]
    with pytest.raises(Stale, match="'w'"):
        s.square(x)
