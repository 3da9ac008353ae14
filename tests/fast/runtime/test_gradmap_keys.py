"""What stands for an entry of gradients, what does not, and contributions from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fast import Rejected, Released, Session, SessionError
from fast.device.counters import counters
from fast.session import Param, Ref


class Held:
    """A session with a parameter used twice, an input, a constant, and both forms of gradients."""

    def __init__(self, precision: str = "fp32") -> None:
        self.s = s = Session(provider="aten", precision=precision, device="cpu")
        self.w: Param = s.param([1.0, 2.0], name="w")
        self.frozen: Param = s.param([1.0, 1.0], name="frozen", requires_grad=False)
        self.idle: Param = s.param([7.0], name="idle")
        self.f: Ref = s.use(self.frozen)
        self.x, self.again, self.unused = s.use(self.w), s.use(self.w), s.use(self.idle)
        self.y: Ref = s.input([3.0, 4.0], requires_grad=True)
        self.c: Ref = s.input([5.0, 6.0])
        self.out: Ref = s.mul(s.mul(self.x, self.y), self.c)
        self.loss: Ref = s.sum(self.out)
        self.sparse, self.dense = s.backward(self.loss), s.backward_dense(self.loss)
        self.forms: tuple[Any, Any] = self.sparse, self.dense


def test_a_parameter_stands_for_its_first_leaf_in_both_forms() -> None:
    h = Held()
    for d in h.forms:
        assert d[h.w].tensor.tolist() == d[h.x].tensor.tolist() == d[h.x.id].tensor.tolist()
        assert h.s.grad(d, h.w).tolist() == [15.0, 24.0]
        assert (d.reached(h.w), d.reached(h.x), d.reached(h.again)) == (True, True, False)
        assert (d.reached(h.idle), h.s.grad(d, h.idle).tolist()) == (False, [0.0])
        assert d[np.int64(h.x.id)].tensor.tolist() == [15.0, 24.0]


KEYS: list[tuple[Any, str]] = [
    ("a", "a ref, a parameter or the id of an entry is needed, got 'a'"),
    (True, "is needed, got True"),
    (1.0, "is needed, got 1.0"),
    (None, "is needed, got None"),
    ([1], "is needed, got"),
    (torch.ones(1), "is needed, got"),
    (-1, "no entry -1|node -1 is not a trainable leaf"),
    (99, "no entry 99|node 99 is not a trainable leaf"),
]


@pytest.mark.parametrize(("key", "due"), KEYS)
def test_what_stands_for_no_entry_is_refused_by_every_method(key: Any, due: str) -> None:
    h = Held()
    for d in h.forms:
        for use in (lambda d=d: d[key], lambda d=d: d.reached(key), lambda d=d: h.s.grad(d, key)):
            with pytest.raises(Rejected, match=due):
                use()
        assert key not in d
    with pytest.raises(Rejected, match=due):
        h.sparse.accumulate(key, torch.ones(2))


def test_parameters_and_refs_that_the_gradients_do_not_have_are_refused() -> None:
    h, other = Held(), Held()
    later = h.s.add(h.x, h.y)
    for d in h.forms:
        for key, due in (
            (h.frozen, "'frozen' was not used, trainable"),
            (other.w, "'w' was not used, trainable"),
            (other.x, "another session"),
            (later, "no entry 9|node 9 is not a trainable leaf"),
        ):
            for use in (lambda d=d, k=key: d[k], lambda d=d, k=key: d.reached(k)):
                with pytest.raises(Rejected, match=due):
                    use()
            assert key not in d


def test_membership_is_that_of_what_may_be_asked_for() -> None:
    h = Held()
    known = [h.x, h.w, h.x.id, h.again, h.y, h.idle, h.unused]
    for d in h.forms:
        assert [key in d for key in known] == [True] * len(known)
    assert [key in h.sparse for key in (h.c, h.out, h.f)] == [False] * 3
    assert [key in h.dense for key in (h.c, h.out, h.f)] == [True] * 3
    assert list(h.sparse) == [h.x.id, h.again.id, h.unused.id, h.y.id]
    assert list(h.dense) == list(range(len(h.dense))) == list(range(9))


def test_nothing_is_said_after_release() -> None:
    h = Held()
    for d in h.forms:
        d.release()
        for use in (
            lambda d=d: len(d),
            lambda d=d: list(d),
            lambda d=d: h.x.id in d,
            lambda d=d: h.w in d,
            lambda d=d: d.reached(h.w),
        ):
            with pytest.raises(Released, match="it was released; call backward"):
                use()
    with pytest.raises(Released):
        h.sparse.accumulate(h.x, torch.ones(2))


def test_gradients_are_read_by_their_own_session_only() -> None:
    h, other = Held(), Held()
    for d, ref in ((h.sparse, h.x), (h.dense, h.out), (h.dense, h.x.id)):
        with pytest.raises(SessionError, match="grad: these gradients are of another session"):
            other.s.grad(d, ref)  # type: ignore[arg-type]


@pytest.mark.parametrize("into", [{}, [], 1, "grads"])
def test_a_pass_adds_to_a_map_only(into: Any) -> None:
    h = Held()
    with pytest.raises(Rejected, match=r"into: a map that backward\(\) returned is needed, got"):
        h.s.backward(h.loss, into=into)


@pytest.mark.usefixtures("settled")
def test_what_was_lent_may_be_given_back_without_harm() -> None:
    h = Held()
    for d in h.forms:
        for key, due in ((h.w, [15.0, 24.0]), (h.y, [5.0, 12.0]), (h.again, [0.0, 0.0])):
            lent = d[key]
            assert d[key] is lent
            live, reached = counters.live_bytes, d.reached(key)
            lent.release()
            assert counters.live_bytes == live or not reached, "the memory is the gradients'"
            assert d[key].tensor.tolist() == h.s.grad(d, key).tolist() == due
            assert counters.live_bytes == live
            d[key].release()
        h.s.sgd_step(0.0, d)
        d.release()


def test_lent_buffers_end_with_the_gradients() -> None:
    h = Held()
    for d in h.forms:
        lent = [d[key] for key in (h.w, h.y, h.again, h.idle)]
        lent[1].release()
        lent.append(d[h.y])
        d.release()
        assert all(buffer.released for buffer in lent)


def test_a_contribution_from_outside_is_copied_first_and_added_then() -> None:
    h = Held()
    s, g = h.s, h.sparse
    given = torch.tensor([1.0, 2.0], requires_grad=True)
    zeros = g[h.again]
    for key in (h.w, h.x, h.x.id, h.y, h.again, h.idle):
        before = s.grad(g, key)
        one: Any = given if before.numel() == 2 else s.upload([1.0])
        for turn in (1, 2):
            g.accumulate(key, one)
            due = before + turn * (one.detach() if isinstance(one, torch.Tensor) else one.tensor)
            assert g.reached(key)
            assert s.grad(g, key).equal(due)
    assert zeros.released, "zeros that were lent are no gradient"
    assert given.tolist() == [1.0, 2.0]
    assert not g.arena.flat.requires_grad
    s.sgd_step(1.0, g)
    assert h.w.value().tolist() == [1.0 - 15.0 - 6.0 - 2.0, 2.0 - 24.0 - 12.0 - 4.0]
    assert h.idle.value().tolist() == [5.0]


def test_a_contribution_comes_to_a_parameter_that_came_after_the_map() -> None:
    h = Held()
    late = h.s.use(h.s.param([1.0] * 100))
    h.sparse.accumulate(late, torch.ones(100))
    assert h.s.grad(h.sparse, late).tolist() == [1.0] * 100
    assert h.s.grad(h.sparse, h.x).tolist() == [15.0, 24.0]


GIVEN: list[tuple[Callable[[Held], Any], Any, type[Exception], str]] = [
    (lambda h: h.x, torch.tensor(1.0), Rejected, r"shape \(2,\), got \(\)"),
    (lambda h: h.y, torch.ones(1, 2), Rejected, r"shape \(2,\), got \(1, 2\)"),
    (lambda h: h.again, torch.ones(3), Rejected, r"shape \(2,\), got \(3,\)"),
    (lambda h: h.unused, torch.ones(2), Rejected, r"shape \(1,\), got \(2,\)"),
    (lambda h: h.x, torch.ones(2).double(), Rejected, "torch.float32 on cpu, got torch.float64"),
    (lambda h: h.y, torch.ones(2).long(), Rejected, "torch.float32 on cpu, got torch.int64"),
    (lambda h: h.x, torch.ones(2, device="meta"), Rejected, "meta"),
    (lambda h: h.x, torch.ones(2).to_sparse(), Rejected, "sparse"),
    (lambda h: h.x, [1.0, 1.0], Rejected, "takes a buffer or a torch tensor, got list"),
    (lambda h: h.x, None, Rejected, "takes a buffer or a torch tensor, got NoneType"),
    (lambda h: h.c, torch.ones(2), Rejected, "not a trainable leaf"),
    (lambda h: h.out, torch.ones(2), Rejected, "not a trainable leaf"),
    (lambda h: h.frozen, torch.ones(2), Rejected, "'frozen' was not used, trainable"),
]


@pytest.mark.parametrize(("key", "given", "error", "due"), GIVEN)
def test_a_contribution_that_does_not_fit_changes_nothing(
    key: Callable[[Held], Any], given: Any, error: type[Exception], due: str
) -> None:
    h = Held()
    before = [h.s.grad(h.sparse, leaf).tolist() for leaf in (h.x, h.again, h.y, h.unused)]
    with pytest.raises(error, match=due):
        h.sparse.accumulate(key(h), given)
    after = [h.s.grad(h.sparse, leaf).tolist() for leaf in (h.x, h.again, h.y, h.unused)]
    assert after == before
    assert [h.sparse.reached(leaf) for leaf in (h.x, h.again, h.y, h.unused)] == [
        True, False, True, False,
    ]  # fmt: skip


def test_a_released_contribution_is_refused() -> None:
    h = Held()
    buffer = h.s.upload([1.0, 1.0])
    buffer.release()
    with pytest.raises(Released):
        h.sparse.accumulate(h.x, buffer)


def test_narrow_contributions_add_up_in_the_masters_precision() -> None:
    h = Held("bf16")
    g = h.sparse
    g.accumulate(h.w, torch.tensor([2.0**-12, 0.0]))
    g.accumulate(h.w, torch.tensor([1.0, 1.0], dtype=torch.bfloat16))
    assert h.s.grad(g, h.w).tolist() == [16.0 + 2.0**-12, 25.0]
    g.accumulate(h.y, torch.tensor([1.0, 1.0], dtype=torch.bfloat16))
    assert h.s.grad(g, h.y).tolist() == [6.0, 13.0]
    with pytest.raises(Rejected, match=r"torch\.bfloat16 on cpu, got torch.float32"):
        g.accumulate(h.y, torch.ones(2))
