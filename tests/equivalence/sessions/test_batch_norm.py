"""Running statistics in both sessions, on numbers of which every step is exact."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fast
import spec
from fast import checkpoint
from fast.train import scalar_trainer
from spec.tensor import Tensor as SpecTensor
from spec.tensor import tensor
from spec.train import ParamList, ScalarTrainer
from tests.equivalence.sessions.test_einsum import read

BATCHES = ([[1.0, 4.0], [3.0, 2.0]], [[-1.0, 0.0], [1.0, 2.0]], [[5.0, 7.0], [3.0, 5.0]])
TOLD: dict[str, Any] = {"momentum": 0.5, "eps": 3.0}


def loss(ops: Any, gamma: Any, x: Any, mean: Any, var: Any, training: bool = True) -> Any:
    z = ops.batch_norm(x, gamma, None, mean, var, training=training, **TOLD)
    return ops.sum(ops.square(z))


def both(kind: type[fast.Session]) -> list[tuple[list[Tensor], ...]]:
    """Return what three batches leave in both sessions, each after a step of SGD."""
    there, here = spec.Session(), kind(provider="aten", device="cpu")
    held = [there.buffer(tensor(line)) for line in ([0.0, 0.0], [1.0, 1.0])]
    kept = [here.buffer(line) for line in ([0.0, 0.0], [1.0, 1.0])]
    gamma, line = there.param(tensor([1.0, 2.0])), here.param([1.0, 2.0])

    def program(ops: Any, g: Any, x: Any) -> Any:
        return loss(ops, g, x, *kept)

    found: list[tuple[list[Tensor], ...]] = []
    for batch in BATCHES:
        there.reset_tape()
        out = loss(there, there.use(gamma), there.input(tensor(batch)), *held)
        own = here.run(program, [line], [batch])
        grads, gradients = there.backward(out), here.backward(own)
        pair = [read(there.value(out))], [here.value(own)]
        there.sgd_step(0.25, grads)
        here.sgd_step(0.25, gradients)
        pair[0].extend(read(one.value) for one in (gamma, *held))
        pair[1].extend(one.value() for one in (line, *kept))
        found.append(pair)
    if isinstance(here, fast.CompiledSession):
        assert here.recordings == 1
    return found


@pytest.mark.parametrize("kind", [fast.Session, fast.CompiledSession])
def test_both_keep_the_same_statistics(kind: type[fast.Session]) -> None:
    for ours, theirs in both(kind):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    mean, var = theirs[2:]
    assert mean.tolist() == [0.5 * 4 + 0.25 * 0 + 0.125 * 2, 0.5 * 6 + 0.25 * 1 + 0.125 * 3]
    assert var.tolist() == [0.5 * 2 + 0.25 * 2 + 0.125 * 2 + 0.125] * 2


def test_evaluation_reads_the_statistics_and_leaves_them() -> None:
    there, here = spec.Session(), fast.Session(provider="aten", device="cpu")
    held = [there.buffer(tensor(line)) for line in ([2.0], [1.0])]
    kept = [here.buffer(line) for line in ([2.0], [1.0])]
    x, y = there.input(tensor([[6.0]]), requires_grad=True), here.input([[6.0]], requires_grad=True)
    values = []
    for s, entry, buffers in ((there, x, held), (here, y, kept)):
        one = s.constant(1.0, (1,), like=entry) if s is there else s.constant(1.0, (1,))
        out = loss(s, one, entry, *buffers, training=False)
        values.append((read(s.value(out)), read(s.grad(s.backward(out), entry))))
    assert values[0][0].item() == values[1][0].item() == 4.0
    assert values[0][1].item() == values[1][1].item() == 2.0
    assert held[0].value == tensor([2.0]) and kept[1].value().item() == 1.0


def trainer(side: str, failing: list[bool]) -> tuple[Any, Any, Any]:
    """Return a trainer of either side whose loss fails on demand, and its buffers."""
    made: Any
    if side == "spec":
        there = spec.Session()
        held = [there.buffer(tensor(line)) for line in ([0.0, 0.0], [1.0, 1.0])]
        params = ParamList([tensor([1.0, 2.0])], session=there)
    else:
        here = fast.Session(provider="aten", device="cpu")
        held = [here.buffer(line) for line in ([0.0, 0.0], [1.0, 1.0])]  # type: ignore[misc]

    def own(ops: Any, gamma: Any, x: Any) -> Any:
        out = loss(ops, gamma, x, *held)
        if failing[0]:
            raise RuntimeError("in the middle of a step")
        return out

    if side == "spec":
        made = ScalarTrainer(own, params, there)
    else:
        made = scalar_trainer(own, [[1.0, 2.0]], session=here)
    return made, held, (lambda b: read(b.value)) if side == "spec" else (lambda b: b.value())


@pytest.mark.parametrize("side", ["spec", "fast"])
def test_a_failed_step_leaves_the_statistics(side: str) -> None:
    failing = [False]
    made, held, value = trainer(side, failing)
    batch = tensor(BATCHES[0]) if side == "spec" else BATCHES[0]
    made.step(0.25, [batch])
    before = [value(b).tolist() for b in held]
    assert before == [[1.0, 1.5], [1.5, 1.5]]
    failing[0] = True
    with pytest.raises(RuntimeError, match="in the middle"):
        made.step(0.25, [batch])
    failing[0] = False
    # The pass succeeds, and then the update is refused.
    with pytest.raises((fast.Rejected, spec.Rejected)):
        made.step(-1.0, [batch])
    assert [value(b).tolist() for b in held] == before
    made.step(0.25, [batch])
    assert [value(b).tolist() for b in held] != before


def test_a_program_that_fails_leaves_the_statistics() -> None:
    for kind in (fast.Session, fast.CompiledSession):
        s = kind(provider="aten", device="cpu")
        held = [s.buffer(line) for line in ([0.0, 0.0], [1.0, 1.0])]

        def program(ops: Any, x: Any, held: Any = held) -> Any:
            ops.batch_norm(x, None, None, *held)
            return ops.reshape(x, shape=(7,))

        with pytest.raises(fast.Rejected, match="reshape"):
            s.run(program, [], [BATCHES[0]])
        assert [b.value().tolist() for b in held] == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("side", ["spec", "fast"])
def test_a_refused_call_records_nothing(side: str) -> None:
    s: Any = spec.Session() if side == "spec" else fast.Session(provider="aten", device="cpu")
    line = (lambda values: tensor(values)) if side == "spec" else list
    mean, var, short = (s.buffer(line(v)) for v in ([0.0, 0.0], [1.0, 1.0], [0.0]))
    x, alone = s.input(line(BATCHES[0])), s.input(line([[1.0, 2.0]]))
    count = len(s.tape) if side == "spec" else len(s._tape)
    for inputs, told, said in (
        ((x, None, None, short, var), {}, "C2"),
        ((alone, None, None, mean, var), {}, "C3"),
        ((x, None, None, mean, var), {"momentum": 2}, "C4"),
        ((x, None, None, mean, var), {"eps": 0}, "C5"),
        ((x, None, None, mean, mean), {}, "once"),
        ((x, None, None, x, var), {}, "running_mean is a buffer"),
        ((x, None, None, [0.0, 0.0], var), {}, "running_mean is a buffer"),
    ):
        with pytest.raises((fast.Rejected, spec.Rejected), match=said):
            s.batch_norm(*inputs, **told)
    assert count == (len(s.tape) if side == "spec" else len(s._tape))
    values = [b.value for b in (mean, var)]
    assert [read(v if side == "spec" else v()).tolist() for v in values] == [[0, 0], [1, 1]]


def test_checkpoints_bring_the_statistics_back(tmp_path: Path) -> None:
    def fresh() -> tuple[Any, Any, Any]:
        s = fast.Session(provider="aten", device="cpu", precision="bf16")
        return s, s.param([1.0, 2.0], name="w"), [s.buffer([0.0, 1.0], name=n) for n in "mv"]

    s, w, held = fresh()
    with s.backward(s.run(lambda o, g, x: loss(o, g, x, *held), [w], [BATCHES[0]])) as grads:
        s.sgd_step(0.25, grads)
    checkpoint.save(tmp_path / "run", s)
    other, v, kept = fresh()
    checkpoint.load(tmp_path / "run", other)
    assert torch.equal(w.value(), v.value())
    for a, b in zip(held, kept, strict=True):
        assert a.value().dtype is torch.float32 and torch.equal(a.value(), b.value())


def test_fractions_stay_exact_in_the_reference() -> None:
    s = spec.Session()
    mean, var = (s.buffer(SpecTensor((1,), (Fraction(k),))) for k in (0, 1))
    s.batch_norm(
        s.input(tensor([[Fraction(1)], [Fraction(2)], [Fraction(6)]])),
        None, None, mean, var, momentum=Fraction(1, 3), eps=Fraction(13, 3),
    )  # fmt: skip
    assert mean.value == tensor([Fraction(1)]) and var.value == tensor([Fraction(3)])
