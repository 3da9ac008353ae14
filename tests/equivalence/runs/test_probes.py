"""Other calls that explain a failure: at other extents, with 0 around tensors, by families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.protocol import Capabilities
from equivalence.cases.call import CaseSpec, Recipe
from equivalence.measure.explained.lengths import TRIED, rule
from equivalence.runs.choice import kind_of
from equivalence.runs.results import Row, RowResult
from equivalence.runs.row.asking import Asking
from equivalence.runs.row.probes import Probes
from equivalence.runs.runner import run_row
from equivalence.workers.executor import Executor
from equivalence.workers.watched import Watched

BLOCK = 16


def beyond(x: Tensor, count: int) -> Tensor:
    """Read some elements of a vector's memory, as a load without a mask does."""
    return x.as_strided((count,), (1,), x.storage_offset())


class Kernel:
    """An op of one input, as a kernel does it that works on flat vectors."""

    name, op, family = "kernel", "exp", "torch"

    def capabilities(self) -> Capabilities:
        return Capabilities({self.op: ("fp32",)}, declared(self.family))

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        z = torch.empty(inputs[0].shape)
        self.run(inputs[0].contiguous().reshape(-1), z.reshape(-1))
        return z

    def run(self, x: Tensor, z: Tensor) -> None:
        z.copy_(x.exp())

    def vjp(self, op: str, inputs: Any, attrs: Any, cotangents: Any) -> list[Tensor]:
        return [self.value(op, inputs, attrs) * cotangents[0]]


class WithoutTail(Kernel):
    """What lies behind the last full block is taken for 0."""

    def run(self, x: Tensor, z: Tensor) -> None:
        whole = len(x) // BLOCK * BLOCK
        z[:whole].copy_(x[:whole].exp())
        z[whole:].fill_(1.0)


class FirstBlock(Kernel):
    """One program does all of it."""

    def run(self, x: Tensor, z: Tensor) -> None:
        z.fill_(1.0)
        z[: 2 * BLOCK].copy_(x[: 2 * BLOCK].exp())


class Unwritten(Kernel):
    """The last element is never stored."""

    def run(self, x: Tensor, z: Tensor) -> None:
        z[:-1].copy_(x[:-1].exp())


class Imprecise(Kernel):
    """It errs by a unit roundoff more than its contract says."""

    family = "generic"

    def run(self, x: Tensor, z: Tensor) -> None:
        z.copy_(x.exp())
        inexact = z.isfinite() & (x != 0) & (z > 1e-30)
        z.copy_(torch.where(inexact, torch.nextafter(z, torch.full_like(z, torch.inf)), z))


class Past(Kernel):
    """A sum of whole blocks."""

    op = "sum"

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        (x,) = inputs
        if attrs.get("axes") is not None or attrs.get("keepdims") or not x.is_contiguous():
            raise NotImplementedError
        padded = -(-x.numel() // BLOCK) * BLOCK
        return beyond(x, padded).sum()


class Padded(Kernel):
    """A softmax of rows that are padded to a power of two with 0."""

    op = "softmax"

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        x = inputs[0].movedim(attrs.get("axis", -1), -1)
        n = x.shape[-1]
        wide = torch.nn.functional.pad(x, (0, (1 << max(n - 1, 0).bit_length()) - n))
        z = torch.softmax(wide, -1)[..., :n] if x.numel() else x.clone()
        return z.movedim(-1, attrs.get("axis", -1))


class Weighed(Kernel):
    """A loss by labels of matrices alone, which is twice as large by weights."""

    op = "nll_loss"

    def capabilities(self) -> Capabilities:
        part = {self.op: {"ranks": [2]}}
        return Capabilities({self.op: ("fp32",)}, declared("torch"), takes=part)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        how = {**attrs}
        weight = how.pop("weight", None)
        loss = torch.nn.functional.nll_loss
        if weight is None:
            return loss(*inputs, **how)
        return 2 * loss(*inputs, torch.tensor(weight), **how)


def judged(backend: Any, probing: bool = True) -> RowResult:
    row = Row(backend.op, "value", "fp32")
    return run_row(backend, row, counted=8, seed=0, findings=(), probing=probing)


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (WithoutTail(), f"passes at multiples of {BLOCK}, and fails at all others"),
        (FirstBlock(), f"passes up to {2 * BLOCK}, and fails from {2 * BLOCK + 1} on"),
        (Padded(), "passes at powers of two, and fails at all others: are padded lanes masked?"),
        (Unwritten(), "is this element written at all?"),
        (Past(), "memory past a tensor is read"),
        (Past(), f"passes at multiples of {BLOCK}, and fails at all others"),
    ],
    ids=["tail", "first block", "padding", "unwritten", "past", "past its block"],
)
def test_the_first_failure_says_what_other_calls_show(backend: Any, said: str) -> None:
    found = judged(backend)
    assert found.status == "nonconformant"
    lines = found.failures[0].lines()
    assert any(said in line for line in lines), "\n".join(lines)


def test_extents_that_an_attribute_forbids_are_not_tried() -> None:
    """There is a weight for each class, and a declared part is asked whether it takes a call."""
    found = judged(Weighed())
    assert found.status == "nonconformant"
    assert [f.title for f in found.failures if f.kind == "fault"] == []


def test_nothing_else_is_called_unless_it_is_asked_for() -> None:
    lines = [line for f in judged(WithoutTail(), probing=False).failures for line in f.lines()]
    assert not any("other extents" in line for line in lines)


def test_a_family_that_allows_what_is_over_budget_by_little_is_named() -> None:
    found = judged(Imprecise())
    assert found.status == "nonconformant"
    said = [note.text for note in found.notes]
    assert any("within it by declared(" in text for text in said), found.failures[0].lines()


def test_a_rule_separates_or_nothing_is_said() -> None:
    assert rule({n: n > 64 for n in TRIED}).startswith("passes up to 64, and fails from 65 on")
    assert rule({n: n <= 64 for n in TRIED}) == "fails up to 64, and passes from 65 on"
    assert not rule(dict.fromkeys(TRIED, True)) and not rule(dict.fromkeys(TRIED, False))
    assert not rule({n: n not in (5, 64) for n in TRIED})
    assert not rule({n: n != 1024 for n in TRIED}), "one that passes may do so by chance"
    assert not rule({1: False, 2: False, 3: True, 4: True}), "too few were tried"


class ElsewhereToo(FirstBlock):
    """It is wrong beyond a block, and at 0."""

    def run(self, x: Tensor, z: Tensor) -> None:
        super().run(x, z)
        z += 4.0 * (x == 0)


def failing(backend: Any, regime: str, extent: int, seed: int = 0) -> Any:
    """Return who asks a backend, and how a call of some numbers fails."""
    row = Row(backend.op, "value", "fp32")
    contract = backend.capabilities().contract(row.op, row.dtype)
    asking = Asking(Watched(backend), contract, None, Executor())
    recipe = Recipe(regime, seed)
    kind, case = kind_of(row), CaseSpec(row.op, "value", "fp32", ((extent,),), (recipe,))
    outcome = asking.measure(kind, case)
    assert outcome.failed
    return asking, kind, case, outcome


def hints(backend: Any, regime: str, extent: int) -> list[str]:
    """Return what other calls show of a failing call."""
    asking, kind, case, outcome = failing(backend, regime, extent)
    return [*Probes(asking).found(kind, case, outcome, case)]


def test_no_hint_at_extents_contradicts_the_case_above_it() -> None:
    assert any("passes up to" in said for said in hints(ElsewhereToo(), "normal", 3 * BLOCK))
    assert not hints(ElsewhereToo(), "nothing", 3), "it passes on plain numbers at this extent"


class Gated(Kernel):
    """silu as everybody writes it: its curve is 0 where e^-x overflows."""

    op, family = "silu", "generic"

    def run(self, x: Tensor, z: Tensor) -> None:
        z.copy_(x * (1 / (1 + torch.exp(-x))))


class Nothing(Gated):
    """It is 0 everywhere."""

    def run(self, x: Tensor, z: Tensor) -> None:
        z.fill_(0.0)


@pytest.mark.parametrize(("backend", "told"), [(Gated(), True), (Nothing(), False)])
def test_a_step_that_vanishes_names_the_declaration_that_grants_it(
    backend: Any, told: bool
) -> None:
    asking, kind, case, outcome = failing(backend, "logits", 937, seed=20)
    said = Probes(asking).family(kind, case, outcome)
    assert ("flush='outputs'" in said) is told, said
