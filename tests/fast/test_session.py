"""A session's life: leaves, ops, operators, naturals, readback, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from equivalence.cases import domains
from fast import Rejected, Session, SessionError, Unavailable, Unmoved
from fast.device.counters import counters
from fast.device.mode import described
from fast.ops import OPS
from fast.session import Ref
from spec.ops import OPS as PAGES
from spec.session import Session as Reference
from spec.tensor import tensor

PROVIDERS = ["aten", "triton"]


def session(provider: str = "aten", precision: str = "fp32") -> Session:
    return Session(provider=provider, precision=precision, device="cpu")


@pytest.mark.holds(
    "A session: its options, its tape, its parameters, its naturals",
    "One program, every interpreter",
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_program_runs_on_every_provider(provider: str) -> None:
    s = session(provider)
    w, b = s.param([[1.0, 2.0], [0.0, -1.0]]), s.param([1.0, -4.0])
    x = s.input([[1.0, 2.0], [3.0, 4.0]], name="x", requires_grad=True)
    weights, biases = s.use(w), s.use(b)
    hidden = s.relu(s.linear(x, weights, biases))
    loss = s.sum(s.mul(hidden, hidden))
    assert s.value(hidden).tolist() == [[6.0, 0.0], [12.0, 0.0]]
    assert s.value(loss).item() == 180.0
    with s.backward(loss) as grads:
        assert s.grad(grads, weights).tolist() == [[84.0, 120.0], [0.0, 0.0]]
        assert s.grad(grads, biases).tolist() == [36.0, 0.0]
        assert s.grad(grads, x).tolist() == [[12.0, 24.0], [24.0, 48.0]]
        s.sgd_step(0.25, grads)
    assert w.value().tolist() == [[-20.0, -28.0], [0.0, -1.0]]
    assert b.value().tolist() == [-8.0, -4.0]
    assert s.providers() == dict.fromkeys(["linear", "relu", "mul", "sum"], described(provider))


@pytest.mark.holds("Upload, download, one number", "Constants")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (2, 2.0),
        ([[1, 2.5], [Fraction(1, 2), -0.0]], [[1.0, 2.5], [0.5, -0.0]]),
        (np.arange(4, dtype=np.int32).reshape(2, 2).T, [[0.0, 2.0], [1.0, 3.0]]),
        (np.array([1.0, 2.0], dtype=">f8"), [1.0, 2.0]),
        (torch.arange(3), [0.0, 1.0, 2.0]),
        (torch.ones(2, requires_grad=True), [1.0, 1.0]),
        ([], []),
    ],
)
def test_data_of_every_kind_comes_in(data: Any, expected: Any) -> None:
    s = session()
    assert s.value(s.input(data)).tolist() == expected
    assert s.value(s.const(data)).tolist() == expected


@pytest.mark.holds("Constants")
def test_a_constant_is_the_references_and_takes_no_gradient() -> None:
    s, reference = session(precision="fp64"), Reference()
    shape, entries = (2, 2), [Fraction(n, 4) for n in (3, -2, 0, 5)]
    data = [entries[:2], entries[2:]]

    def run(ops: Any, x: Any, c: Any) -> tuple[Any, Any, Any]:
        loss = ops.sum(ops.mul(ops.mul(x, c), c))
        return c, loss, ops.backward(loss)

    x, y = s.input(data, requires_grad=True), reference.input(tensor(data), requires_grad=True)
    c, loss, grads = run(s, x, s.const(data))
    known, expected, theirs = run(reference, y, reference.const(tensor(data)))
    for ours, exact in ((c, known), (loss, expected)):
        assert s.value(ours).tolist() == reference.value(exact).nested()
    assert s.grad(grads, x).tolist() == reference.grad(theirs, y).nested()
    assert list(grads) == list(theirs) == [x.id]
    assert not c.requires_grad and c.shape == known.shape == shape


def test_a_number_beyond_every_format_is_an_infinity() -> None:
    s = session(precision="fp64")
    for number in (10**400, Fraction(10**400, 3)):
        assert s.value(s.constant(number)).item() == math.inf
        assert s.value(s.input([-number])).tolist() == [-math.inf]


@pytest.mark.parametrize("shape", [(-1,), (2.0,), (2, True)])
def test_a_constant_has_a_shape(shape: Any) -> None:
    s = session()
    with pytest.raises(Rejected, match=r"^constant: every extent is an integer >= 0, got"):
        s.constant(1, shape)
    assert s.input(1.0).id == 0


@pytest.mark.holds("Read a value back", "Inputs, with a gradient or without")
def test_what_comes_in_is_a_copy() -> None:
    s = session()
    host, buffer = torch.ones(2), s.upload([3.0])
    x, y = s.input(host), s.input(buffer)
    host.zero_()
    buffer.tensor.zero_()
    s.value(x).zero_()
    assert s.value(x).tolist() == [1.0, 1.0]
    assert s.value(y).tolist() == [3.0]


@pytest.mark.holds("Upload, download, one number")
def test_numbers_are_rounded_once() -> None:
    # By way of a double, this would be a tie, and round to 1.
    hard = 1 + Fraction(1, 2**24) + Fraction(1, 2**60)
    s = session()
    assert s.value(s.const(hard)).item() == 1 + 2.0**-23
    s = session(precision="bf16")
    half = 1 + 2.0**-8
    assert s.value(s.input([half, half + 2.0**-40])).tolist() == [1.0, 1 + 2.0**-7]
    assert s.value(s.input(torch.tensor([half + 2.0**-40], dtype=torch.float64))) == 1 + 2.0**-7


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda x, y: x + y, [[11.0, 12.0], [13.0, 14.0]]),
        (lambda x, y: x - y, [[-9.0, -8.0], [-7.0, -6.0]]),
        (lambda x, y: y * x, [[10.0, 20.0], [30.0, 40.0]]),
        (lambda x, y: 12 / x, [[12.0, 6.0], [4.0, 3.0]]),
        (lambda x, y: x / 2, [[0.5, 1.0], [1.5, 2.0]]),
        (lambda x, y: 1 - x, [[0.0, -1.0], [-2.0, -3.0]]),
        (lambda x, y: Fraction(1, 2) + x, [[1.5, 2.5], [3.5, 4.5]]),
        (lambda x, y: x @ x, [[7.0, 10.0], [15.0, 22.0]]),
        (lambda x, y: -x, [[-1.0, -2.0], [-3.0, -4.0]]),
    ],
)
def test_operators_broadcast(run: Callable[[Ref, Ref], Ref], expected: list[list[float]]) -> None:
    s = session()
    x, y = s.input([[1.0, 2.0], [3.0, 4.0]]), s.input([10.0, 10.0])
    assert s.value(run(x, y)).tolist() == expected


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "fp64"])
def test_a_number_in_an_operator_does_not_cross(precision: str) -> None:
    s = session(precision=precision)
    x = s.input([1.0, -2.0])
    before = counters.host_transfers
    refs = [x * 0.5, 0.1 + x, -x, x - Fraction(1, 3), 2 / x]
    assert counters.host_transfers == before
    compute = s.options.compute
    for ref, due in zip(refs, (0.5, 0.1, -1.0, 1 / 3, 2.0), strict=True):
        constants = [s._tape.values[k] for k in (ref.id - 1, ref.id - 2)]
        assert all(value.dtype is compute for value in constants)
        number = torch.tensor(due, dtype=torch.float64).to(compute)
        assert any(value.numel() and value.reshape(-1)[0] == number for value in constants)


@pytest.mark.holds("Inputs, with a gradient or without")
def test_broadcast_gradients_have_the_operands_shapes() -> None:
    s = session()
    x, y = s.input([[1.0], [2.0]], requires_grad=True), s.input([3.0, 4.0, 5.0], requires_grad=True)
    grads = s.backward(s.sum(x * y))
    assert s.grad(grads, x).tolist() == [[12.0], [12.0]]
    assert s.grad(grads, y).tolist() == [3.0, 3.0, 3.0]


def test_negation_turns_the_sign_of_zero() -> None:
    s = session()
    assert torch.signbit(s.value(-s.const([0.0, -0.0]))).tolist() == [True, False]


def test_operators_refuse_what_numpy_would() -> None:
    s = session()
    x, y = s.input([1.0, 2.0]), s.input([1.0, 2.0, 3.0])
    with pytest.raises(Rejected, match=r"^add: the shapes broadcast to .* got \(2,\) and \(3,\)$"):
        x + y
    with pytest.raises(TypeError):
        x + "1"  # type: ignore[operator]
    with pytest.raises(TypeError):
        x @ 2  # type: ignore[operator]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_op_leaves_the_tape_as_it_was(provider: str) -> None:
    s = session(provider)
    x, y = s.input([1.0, 2.0], requires_grad=True), s.input([1.0, 2.0, 3.0])
    for label, run in (
        ("add: the shapes broadcast", lambda: s.add(x, y)),
        ("matmul C2", lambda: s.matmul(x, y)),
        ("reshape C1", lambda: s.reshape(x, shape=(3,))),
        ("take C3", lambda: s.take(x, [0, 2], axis=0)),
    ):
        with pytest.raises(Rejected, match=label):
            run()
    assert s.value(s.add(x, x)).tolist() == [2.0, 4.0]
    assert s.add(x, x).id == 3


@pytest.mark.holds(
    "A session: its options, its tape, its parameters, its naturals", "Read a value back"
)
def test_refs_belong_to_one_session_and_one_tape() -> None:
    s, other = session(), session()
    x = s.input([1.0])
    y = other.input([1.0])
    with pytest.raises(SessionError, match="belongs to another session"):
        s.add(x, y)
    with pytest.raises(SessionError, match="belongs to another session"):
        x + y
    with pytest.raises(SessionError, match="another session"):
        s.value(y)
    with pytest.raises(Rejected, match=r"matmul: y is a ref of this session; got float"):
        s.matmul(x, 1.0)  # type: ignore[arg-type]
    s.reset_tape()
    for use in (lambda: s.value(x), lambda: s.add(x, x), lambda: -x, lambda: x.shape):
        with pytest.raises(SessionError, match="before reset_tape"):
            use()
    assert repr(x) == "Ref(x0, dead)"


@pytest.mark.holds("Use a parameter, once or more often")
def test_a_parameter_used_twice_is_updated_once_by_both_gradients() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    first, second = s.use(w), s.use(w)
    loss = s.sum(s.add(s.mul(first, first), s.mul(second, s.const([3.0, 3.0]))))
    for grads in (s.backward(loss), s.backward_dense(loss)):
        assert s.grad(grads, first).tolist() == [2.0, 4.0]
        assert s.grad(grads, second).tolist() == [3.0, 3.0]
    s.sgd_step(1.0, s.backward(loss))
    assert w.value().tolist() == [-4.0, -5.0]
    assert w.version == 1


@pytest.mark.holds("Naturals", "Vectors of naturals")
def test_naturals_are_read_when_an_op_runs() -> None:
    s = session()
    x = s.input([10.0, 20.0, 30.0])
    rows, at = s.nat_vec(torch.tensor([2, 0])), s.nat(1)
    taken, one = s.take(x, rows, axis=0), s.take(x, at, axis=0)
    s.set_nat_vec(rows, [1, 1])
    s.set_nat(at, 2)
    assert s.value(taken).tolist() == [30.0, 10.0]
    assert s.value(one).item() == 20.0
    assert (s.get_nat_vec(rows), s.get_nat_vec(rows, 1), s.get_nat(at)) == ([1, 1], [1], 2)
    assert s.value(s.take(x, s.indices(rows), axis=0)).tolist() == [20.0, 20.0]
    s.reset_tape()
    with pytest.raises(SessionError, match="before reset_tape"):
        s.get_nat(at)


@pytest.mark.holds("Naturals", "Vectors of naturals")
@pytest.mark.parametrize("bad", [-1, True, 1.0])
def test_what_is_no_natural_is_refused(bad: Any) -> None:
    s = session()
    with pytest.raises(Rejected, match="natural"):
        s.nat(bad)
    with pytest.raises(Rejected):
        s.nat_vec([0, bad])
    with pytest.raises(Rejected, match="2 entries, got 1"):
        s.set_nat_vec(s.nat_vec([1, 2]), [1])


@pytest.mark.holds("Let no gradient pass")
def test_detach_stops_gradients_and_leaves_no_mark() -> None:
    s = session()
    w = s.param([1.0, 2.0])
    x = s.use(w)
    grads = s.backward(s.sum(s.detach(x)))
    assert not grads.reached(x)
    assert s.grad(grads, x).tolist() == [0.0, 0.0]
    with pytest.warns(
        Unmoved, match=r"^adamw_step: no parameter was updated: the gradients do not "
    ):
        s.adamw_step(grads=grads)
    assert w.version == 0


@pytest.mark.holds("What crosses between host and device")
@pytest.mark.usefixtures("settled")
def test_a_training_step_moves_the_batch_in_and_nothing_else() -> None:
    s = session()
    params = [s.param([[1.0, 2.0]]), s.param([0.0])]

    def step() -> None:
        w, b = map(s.use, params)
        loss = s.cross_entropy(s.linear(s.input([[1.0, 2.0]]), w, b), s.nat_vec([0]))
        with s.backward(loss) as grads:
            s.adamw_step(grads=grads)
        s.reset_tape()

    step()
    before = counters.snapshot()
    step()
    after = counters.snapshot()
    # The input, and the labels.
    assert after.host_transfers - before.host_transfers == 2
    assert after.live_bytes == before.live_bytes
    assert after.live_buffers == before.live_buffers


@pytest.mark.holds("Free a tape's values, keep the mirrors")
@pytest.mark.usefixtures("settled")
def test_a_reset_frees_values_and_keeps_parameters() -> None:
    s = session()
    w = s.param([1.0, 2.0, 3.0])
    s.use(w)
    s.reset_tape()
    before = counters.snapshot()
    x = s.use(w)
    for aliasing in (s.reshape(x, shape=(3, 1)), s.detach(x), s.reshape(x, shape=(3,))):
        s.add(aliasing, aliasing)
    assert counters.live_bytes > before.live_bytes
    s.reset_tape()
    assert counters.live_bytes == before.live_bytes
    assert s.value(s.use(w)).tolist() == [1.0, 2.0, 3.0]


def test_ops_that_need_no_weighing_save_only_inputs_and_result() -> None:
    samples: dict[int, list[torch.Tensor]] = {
        0: [],
        1: [torch.ones(2, 2)],
        2: [torch.ones(2, 2), torch.ones(2, 2)],
        3: [torch.ones(2, 2), torch.ones(2, 2), torch.ones(2)],
    }
    batches = {"bmm": [torch.ones(2, 2, 2)] * 2}
    calls = {"shape": (2, 2), "keep_prob": 0.5, "p": 0.5, "seed": 7, "counter": 0, "training": True}
    calls["classes"] = 2
    for name in (name for name, op in OPS.items() if op.plain or op.source):
        for provider in PROVIDERS:
            inputs = batches.get(name, samples[len(OPS[name].inputs)])
            inputs = [x.long() if k in OPS[name].index_inputs else x for k, x in enumerate(inputs)]
            usual = domains.usual(PAGES[name])
            call = {name: {**calls, **usual}[name] for name in OPS[name].attributes}
            if OPS[name].source:
                call |= {"dtype": torch.float32, "device": torch.device("cpu")}
            result, saved = OPS[name].hosts(provider)[0](*inputs, **call)
            known = [id(tensor) for tensor in (result, *inputs)]
            kept = [item for item in saved if isinstance(item, torch.Tensor)]
            assert all(id(item) in known for item in kept), (name, provider)
            pointers = [tensor.data_ptr() for tensor in inputs]
            assert result.data_ptr() not in pointers, (name, provider)


@pytest.mark.holds("A new session, empty")
def test_bf16_computes_on_rounded_parameters_and_updates_the_masters() -> None:
    s = session(precision="bf16")
    w = s.param([1 + 2.0**-10, 2.0])
    x = s.use(w)
    assert s.value(x).tolist() == [1.0, 2.0]
    assert s.value(x).dtype is torch.bfloat16
    s.sgd_step(2.0**-10, s.backward(s.sum(x)))
    assert w.value().tolist() == [1.0, 2 - 2.0**-10]
    s.reset_tape()
    assert s.value(s.use(w)).tolist() == [1.0, 2.0]


def test_fp64_is_exact_where_fp32_is_not() -> None:
    s = session(precision="fp64")
    w = s.param([1 + 2.0**-40])
    x = s.use(w)
    s.sgd_step(2.0**-41, s.backward(s.sum(s.mul(x, s.const([2.0])))))
    assert w.value().tolist() == [1.0]


@pytest.mark.holds("A new session, empty")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"provider": "cuda"}, Rejected, "unknown provider 'cuda'; there are aten, triton"),
        ({"precision": "fp8"}, Rejected, "unknown precision 'fp8'"),
        ({"device": "moon"}, Rejected, "names no device"),
        ({"device": "meta"}, Unavailable, "not supported"),
        ({"provider": "triton", "precision": "fp64"}, Unavailable, "'aten' only"),
        ({"deterministic": 1}, Rejected, "True or False"),
        ({"device": object()}, Rejected, "names no device; try 'cpu' or 'cuda'"),
        ({"device": ["cpu"]}, Rejected, "names no device"),
        ({"precision": []}, Rejected, r"unknown precision \[\]; there are fp32"),
        ({"precision": None}, Rejected, "unknown precision None"),
        ({"provider": []}, Rejected, r"unknown provider \[\]; there are aten"),
        ({"provider": "aten", "precision": "tf32", "device": "cpu"}, Unavailable, "TF32"),
    ],
)
def test_what_cannot_run_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Session(**options)


@pytest.mark.holds("A new session, empty")
@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_missing_device_is_refused() -> None:
    with pytest.raises(Unavailable, match="no CUDA device is present; device 'cpu' runs here"):
        Session(device="cuda")


def test_an_unknown_op_is_refused_by_name() -> None:
    s = session()
    with pytest.raises(Rejected, match=r"there is no op 'conct'; the nearest are concat$"):
        s.apply("conct", (s.input([1.0]),), {})


def test_a_name_that_there_is_not_costs_the_others_nothing() -> None:
    s = session()
    with pytest.raises(AttributeError, match="'Session' object has no attribute 'matmull'"):
        s.matmull  # type: ignore[attr-defined] # noqa: B018
    assert not hasattr(s, "matmull")
    assert not hasattr(Session, "__getattr__"), "every look-up of a method would pay for it"


@pytest.mark.holds("Optimizer state, one for each parameter, by leaf id")
def test_optimizer_state_is_found_by_leaf_id() -> None:
    s = session()
    w, frozen = s.param([1.0, 2.0], "w"), s.param([3.0, 4.0], "f", requires_grad=False)
    x, y, again = s.use(w), s.use(frozen), s.use(w)
    assert s.params_by_leaf == {x.id: w, y.id: frozen, again.id: w}
    s.adamw_step(grads=s.backward(s.sum(s.mul(s.mul(x, y), again))))
    for leaf, steps in ((x, 1), (y, 0), (again, 1)):
        assert s.optimizer_state("adamw", s.params_by_leaf[leaf.id])["step"] == steps
    s.reset_tape()
    assert s.params_by_leaf == {}
