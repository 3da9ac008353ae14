"""Derivatives of programs: values, options, what they own, and what they refuse."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from fast import OPS, Rejected, Released, Session, SessionError, Stale, Unavailable, counters
from fast.autodiff import grad, hvp, value_and_grad, vjp
from fast.ops import tanh
from spec import autodiff

CPU = {"provider": "aten", "device": "cpu"}
LABELS = torch.tensor([1, 0])


def well(ops: Any, x: Any) -> Any:
    """(x^2 - 1)^2, whose second derivative at 1 is 8."""
    return ops.square(ops.sub(ops.square(x), ops.const(1.0)))


def cubic(ops: Any, x: Any, y: Any) -> Any:
    """The sum of x^3 y + 2 x."""
    return ops.sum(x * x * x * y + x + x)


def score(ops: Any, w: Any, x: Any, labels: Any) -> Any:
    """A loss of one layer; labels are no refs."""
    return ops.cross_entropy(ops.matmul(x, w), labels)


def nested(ops: Any, x: Any) -> Any:
    """Ask for a Hessian inside a Hessian."""
    (found,) = hvp(well, [2.0], [1.0], **CPU)
    return ops.mul(ops.square(x), ops.const(found))


def broken(ops: Any, x: Any) -> Any:
    """Fail after some work."""
    ops.square(ops.add(x, x))
    raise KeyError("in the program")


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_gradients_by_hand(provider: str) -> None:
    options = {"provider": provider, "device": "cpu"}
    assert grad(well, **options)(2.0).item() == 24.0
    value, gradient = value_and_grad(well, **options)(2.0)
    assert (value.item(), gradient.item()) == (9.0, 24.0)
    x, y = [1.0, 2.0], np.array([3.0, 4.0])
    assert grad(cubic, **options)(x, y).tolist() == [11.0, 50.0]
    assert grad(cubic, argnums=-1, **options)(x, y).tolist() == [1.0, 8.0]
    both = grad(cubic, argnums=(1, 0), **options)(x, y)
    assert [g.tolist() for g in both] == [[1.0, 8.0], [11.0, 50.0]]


def test_data_of_every_kind_comes_in_and_host_tensors_go_out() -> None:
    s = Session(**CPU)
    for x in ([1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1, 2]), s.upload([1.0, 2.0])):
        found = grad(lambda ops, x: ops.sum(ops.square(x)), **CPU)(x)
        assert type(found) is torch.Tensor
        assert (found.tolist(), found.device.type) == ([2.0, 4.0], "cpu")
    for precision, dtype in (
        ("fp64", torch.float64),
        ("bf16", torch.bfloat16),
        ("fp16", torch.float16),
    ):
        options = {**CPU, "precision": precision}
        assert grad(well, **options)(1.0).dtype is dtype
        assert hvp(well, [1.0], [1.0], **options)[0].dtype is dtype


def test_integers_reach_the_program_as_they_are() -> None:
    w, x = [[0.0, 0.0]], [[1.0], [2.0]]
    for labels in (LABELS, [1, 0], np.array([1, 0])):
        _, pull = vjp(score, w, x, labels, **CPU)
        with pull:
            found = pull()
            assert found[2] is None
            assert grad(score, **CPU)(w, x, labels).tolist() == found[0].tolist() == [[-0.25, 0.25]]
        assert hvp(score, [w, x, labels], [[[1.0, 0.0]], None, None], **CPU)[2] is None
    assert hvp(well, [1], [1], **CPU)[0].item() == 8.0, "what has a vector is a number"


def test_a_pullback_may_be_applied_again_and_keeps_the_callers_seed() -> None:
    seed = torch.tensor([1.0, 3.0])
    value, pull = vjp(lambda ops, x: ops.add(x, x), [1.0, 2.0], **CPU)
    assert value.tolist() == [2.0, 4.0]
    for _ in range(2):
        assert pull(seed)[0].tolist() == [2.0, 6.0]
    assert pull(np.array([1, 0]))[0].tolist() == [2.0, 0.0]
    assert seed.tolist() == [1.0, 3.0]
    with pytest.raises(Rejected, match=r"seed must have the shape \(2,\) of entry 1, got \(\)"):
        pull(1.0)
    with pytest.raises(Rejected, match="without a seed the pass starts at a scalar"):
        pull()
    pull.release()
    pull.release()
    assert pull.released
    with pytest.raises(Released, match=r"call vjp\(\) again"):
        pull(seed)


@pytest.mark.parametrize(
    ("f", "gradient"),
    [
        (lambda ops, x: x, 1.0),
        (lambda ops, x: ops.const(2.0), 0.0),
        (lambda ops, x: ops.detach(ops.square(x)), 0.0),
    ],
)
def test_a_program_may_pass_its_input_on_or_leave_it_out(
    f: Callable[..., Any], gradient: float
) -> None:
    assert grad(f, **CPU)(3.0).item() == gradient
    assert vjp(f, 3.0, **CPU)[1]()[0].item() == gradient
    assert hvp(f, [3.0], [1.0], **CPU)[0].item() == 0.0


def calls(**options: Any) -> list[Callable[..., Any]]:
    """Every entry, as a function of a program of one input and of the input."""

    def pulled(f: Any, x: Any) -> Any:
        with vjp(f, x, **options)[1] as pull:
            return pull()

    return [
        lambda f, x: grad(f, **options)(x),
        lambda f, x: value_and_grad(f, **options)(x),
        pulled,
        lambda f, x: hvp(f, [x], [x], **options),
    ]


def held() -> tuple[int, int]:
    """Return the bytes and the buffers that are owned now."""
    now = counters.snapshot()
    return now.live_bytes, now.live_buffers


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_new_session_is_gone_on_any_exit(precision: str) -> None:
    gc.disable()  # Nothing may wait for a collector of cycles.
    try:
        before = held()
        for call in calls(**CPU, precision=precision):
            call(well, 2.0)
            assert held() == before
            with pytest.raises(KeyError):
                call(broken, [2.0])
            with pytest.raises(Rejected):
                call(lambda ops, x: ops.add(x, ops.const([1.0])), [1.0, 2.0])
            assert held() == before
    finally:
        gc.enable()


@pytest.mark.usefixtures("settled")
def test_an_error_in_the_middle_of_a_pass_releases_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*anything: object) -> Any:
        raise RuntimeError("a broken rule")

    before = held()
    session = Session(**CPU)
    monkeypatch.setitem(OPS, "square", replace(OPS["square"], aten_vjp=failing))
    inside = held()
    for call in [*calls(**CPU), *calls(session=session)]:
        with pytest.raises(RuntimeError, match="a broken rule") as caught:
            call(lambda ops, x: ops.sum(ops.square(ops.tanh(ops.add(x, x)))), [1.0, 2.0])
        # The traceback, and with it every frame, is still alive here.
        assert caught.value.__traceback__ is not None
        assert held()[0] == inside[0]
    del call, session, caught
    gc.collect()
    assert held() == before


@pytest.mark.usefixtures("settled")
def test_a_given_session_stays_as_it_was() -> None:
    s = Session(**CPU)
    w = s.param([1.0, 2.0], name="w")
    first = s.use(w)
    rows = s.nat_vec([1, 0])
    before, params = held(), list(s.params)

    def f(ops: Any, x: Any) -> Any:
        return ops.sum(ops.mul(ops.square(x), ops.use(w)))

    for call in calls(session=s):
        call(f, [1.0, 3.0])
        with pytest.raises(KeyError):
            call(broken, [1.0])
        assert held() == before
    assert grad(f, session=s)([1.0, 3.0]).tolist() == [2.0, 12.0]
    assert hvp(f, [[1.0, 3.0]], [[1.0, 1.0]], session=s)[0].tolist() == [2.0, 4.0]
    assert (s.params, s.get_nat_vec(rows)) == (params, [1, 0])
    # The second use of the parameter on the session's own tape is still told from the first.
    second = s.use(w)
    with s.backward(s.sum(s.mul(first, s.square(second)))) as grads:
        assert s.grad(grads, first).tolist() == [1.0, 4.0]
        assert s.grad(grads, second).tolist() == [2.0, 8.0]
        s.sgd_step(1.0, grads)
    assert w.value().tolist() == [-2.0, -10.0]


def test_a_pullback_over_an_older_version_is_stale() -> None:
    s = Session(**CPU)
    w = s.param([1.0, 2.0], name="w")
    _, pull = vjp(lambda ops, x: ops.sum(ops.mul(x, ops.use(w))), [3.0, 4.0], session=s)
    assert pull()[0].tolist() == [1.0, 2.0]
    w.set([5.0, 6.0])
    with pytest.raises(Stale, match="'w' was used at version 0"):
        pull()


@pytest.mark.usefixtures("settled")
def test_a_pullback_owns_its_tape_until_it_is_released_or_dropped() -> None:
    before = held()
    _, pull = vjp(well, 2.0, **CPU)
    assert held()[0] > before[0]
    inside = held()
    pull()
    assert held() == inside
    with pytest.raises(KeyError), pull:
        raise KeyError
    assert held()[0] == before[0]
    _, pull = vjp(well, 2.0, **CPU)
    del pull
    gc.collect()
    assert held() == before


def test_transfers_are_the_inputs_and_what_is_asked_for() -> None:
    def crossed(run: Callable[[], object]) -> tuple[int, int]:
        before = counters.snapshot()
        run()
        after = counters.snapshot()
        return after.uploads - before.uploads, after.downloads - before.downloads

    def f(ops: Any, x: Any) -> Any:
        return ops.sum(ops.square(x))

    x = torch.ones(3)
    assert crossed(lambda: grad(f, **CPU)(x)) == (1, 1)
    assert crossed(lambda: value_and_grad(f, **CPU)(x)) == (1, 2)
    assert crossed(lambda: hvp(f, [x], [x], **CPU)) == (2, 1)


@pytest.mark.holds("Higher derivatives, and the functions of programs")
@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (
            lambda: grad(cubic, argnums=2, **CPU)(1.0, 1.0),
            Rejected,
            r"integers in \[-2, 2\).*got 2",
        ),
        (lambda: grad(cubic, argnums=(0, -2), **CPU)(1.0, 1.0), Rejected, "distinct"),
        (lambda: grad(cubic, argnums=(), **CPU)(1.0, 1.0), Rejected, "one at least"),
        (lambda: grad(cubic, argnums=True, **CPU)(1.0, 1.0), Rejected, "got True"),
        (lambda: grad(well, **CPU)([1.0, 2.0]), Rejected, r"result is a scalar, got"),
        (lambda: grad(lambda ops, x: x, **CPU)([1.0, 2.0]), Rejected, r"a scalar, got .*\(2,\)"),
        (lambda: grad(lambda ops, x: 1.0, **CPU)(2.0), Rejected, "returns one ref .*got 1.0"),
        (lambda: vjp(lambda ops, x: Session().input(1.0), 2.0, **CPU), Rejected, "one ref"),
        (lambda: grad(well, session=Session(), device="cpu"), Rejected, "options device are for"),
        (lambda: vjp(well, 1.0, session="s"), Rejected, "a fast.Session, got str"),
        (lambda: vjp(well, "1", **CPU), Rejected, "numbers of the world str"),
        (lambda: vjp(well, 1.0, provider="cuda"), Rejected, "unknown provider"),
        (lambda: hvp(well, [1.0], [], **CPU), Rejected, "one vector for each of the 1 inputs"),
        (lambda: hvp(well, [1.0], [[1.0]], **CPU), Rejected, r"shape \(\), got \(1,\)"),
        (lambda: hvp(well, [1.0], torch.ones(1), **CPU), Rejected, "vectors are a list.*Tensor"),
        (lambda: hvp(well, [1.0], torch.ones(2), **CPU), Rejected, "vectors are a list.*Tensor"),
        (lambda: hvp(well, [1.0], np.ones(1), **CPU), Rejected, "vectors are a list.*ndarray"),
        (lambda: hvp(well, [1.0], None, **CPU), Rejected, "vectors are a list.*NoneType"),
        (lambda: hvp(well, [1.0], 1.0, **CPU), Rejected, "vectors are a list.*float"),
        (lambda: hvp(well, [1.0], "1", **CPU), Rejected, "vectors are a list.*str"),
        (lambda: hvp(well, [1.0], ["1"], **CPU), Rejected, "^hvp: the vector of input 0: .*str"),
        (lambda: hvp(well, torch.ones(1), [1.0], **CPU), Rejected, "inputs are a list.*Tensor"),
        (lambda: hvp(well, 1.0, [1.0], **CPU), Rejected, "inputs are a list.*float"),
        (lambda: hvp(well, None, [], **CPU), Rejected, "inputs are a list.*NoneType"),
        (lambda: hvp(nested, [1.0], [1.0], **CPU), Rejected, "^hvp: .* inside another"),
        (lambda: hvp(lambda ops, x: x, [[1.0]], [[1.0]], **CPU), Rejected, "a scalar, got"),
        (lambda: hvp(well, [1.0], [1.0], provider="triton"), Unavailable, "provider='aten' has"),
        (lambda: hvp(well, [1.0], [1.0], session=Session("triton")), Unavailable, "no forward"),
    ],
)
def test_refusals(run: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run()


def test_a_hessian_is_refused_inside_torchs_forward_mode_and_leaves_it_as_it_is() -> None:
    with forward_ad.dual_level():
        for _ in range(2):
            with pytest.raises(Rejected, match=r"^hvp: .* inside another"):
                hvp(well, [1.0], [1.0], **CPU)
        assert grad(well, **CPU)(2.0).item() == 24.0
    assert hvp(well, [1.0], [1.0], **CPU)[0].item() == 8.0


def test_refs_of_the_sessions_own_tape_are_foreign_to_a_program() -> None:
    s = Session(**CPU)
    outer = s.input(1.0)
    with pytest.raises((Rejected, SessionError)):
        grad(lambda ops, x: ops.add(x, outer), session=s)(1.0)


def test_an_op_without_forward_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.tanh

    def written_out(x: torch.Tensor) -> torch.Tensor:
        # A product that writes to memory of its own has no forward formula.
        out = torch.empty_like(x)
        return plain(x, out=out)

    monkeypatch.setattr(tanh.torch, plain.__name__, written_out)
    f: Any = lambda ops, x: ops.sum(ops.tanh(x))  # noqa: E731
    assert grad(f, **CPU)([0.0]).tolist() == [1.0]
    with pytest.raises(Unavailable, match=r"a function that the op tanh calls.*forward AD"):
        hvp(f, [[0.0]], [[1.0]], **CPU)
    monkeypatch.setattr(tanh.torch, plain.__name__, plain)

    def unfinished(ops: Any, x: Any) -> Any:
        raise NotImplementedError("of the program itself")

    with pytest.raises(NotImplementedError, match="of the program itself"):
        hvp(unfinished, [1.0], [1.0], **CPU)


def test_the_twin_has_the_same_functions() -> None:
    for ours in (grad, value_and_grad, vjp, hvp):
        theirs = getattr(autodiff, ours.__name__)
        parameters = inspect.signature(ours).parameters.values()
        positional = [(p.name, p.default) for p in parameters if p.kind <= p.VAR_POSITIONAL]
        expected = inspect.signature(theirs).parameters.values()
        assert positional == [(p.name, p.default) for p in expected], ours.__name__
