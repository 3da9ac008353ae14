"""What other people check implementations by, with the tolerances that they type.

This is the one file in which tolerances stand (the house rule names it): they are not ours, they
are quoted, so that the matrix can say what each of them sees of the same population.
Each policy says whether it accepts a member in one direction and dtype, or None where it does not
apply.
A member that raises is not accepted. A call that the reference refuses is none: nobody could have
compared anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.fast.providers import FastAten
from equivalence.backends.torch.backend import OPS as TORCH_OPS
from equivalence.backends.torch.backend import TorchBackend
from equivalence.backends.torch.optim import offered
from equivalence.cases.call import TORCH
from population.judged.member import MemberBackend
from population.record import Member
from population.rivals.samples import Sampler, hyper
from spec.ops import OPS

Policy = Callable[[Member, str, str], bool | None]
Pair = tuple[Tensor, Tensor]
"""What a member gave, and what it is compared with."""

KERNELBENCH = {"fp32": 1e-4, "fp64": 1e-4, "bf16": 1e-2, "fp16": 1e-2}
"""KernelBench's tolerance, relative and absolute, by precision (its eval.py)."""

SEEDS = 5
"""With how many seeds KernelBench draws its inputs."""

SHAPES = 20
"""How many shapes are fuzzed."""

STEPS = 3
"""How many steps an optimizer is taken through."""

ITERATED_OTHERWISE = frozenset({"muon"})
"""Optimizers of torch that compute another step than the page: Muon, which iterates in bfloat16."""

GRADCHECKED = (4, 5)
"""The rows and columns that finite differences are taken of: they cost a call per entry."""


def default_closeness(member: Member, direction: str, dtype: str) -> bool | None:
    """One call, compared with torch by torch.testing.assert_close and its defaults."""
    pairs = _pairs(member, direction, Sampler(0, TORCH[dtype]))
    return all(_close(*pair) for pair in pairs)


def kernelbench(member: Member, direction: str, dtype: str) -> bool | None:
    """Five calls of one shape, compared with torch by allclose at 1e-4 (fp32) or 1e-2 (16 bits)."""
    bound = KERNELBENCH[dtype]
    drawn = [_pairs(member, direction, Sampler(seed, TORCH[dtype])) for seed in range(SEEDS)]
    return all(
        got.shape == due.shape and torch.allclose(got, due, rtol=bound, atol=bound)
        for pairs in drawn
        for got, due in pairs
    )


def fuzzed(member: Member, direction: str, dtype: str) -> bool | None:
    """Twenty fuzzed shapes, compared with torch in fp64 by assert_close's tolerances."""
    drawn = []
    for seed in range(SHAPES):
        with suppress(NoCall):
            sampler = Sampler(seed, TORCH[dtype], None)
            drawn.append(_pairs(member, direction, sampler, torch.float64))
    if not drawn:
        return None
    return all(_close(got, due.to(got.dtype)) for pairs in drawn for got, due in pairs)


def gradcheck(member: Member, direction: str, dtype: str) -> bool | None:
    """Finite differences in fp64, by torch.autograd.gradcheck with its defaults."""
    if direction != "vjp" or dtype != "fp32":
        return None
    sampler = Sampler(0, torch.float64, GRADCHECKED)
    inputs, attrs = sampler.call(member.of)
    backend = MemberBackend(member)
    page = OPS[member.of]
    real = [k for k in range(len(inputs)) if k not in (*page.index_inputs, *page.buffers)]
    results = reference(member.of, inputs, attrs)
    if any(result.dtype != torch.float64 for result in results):
        return None
    found = backend.vjp(member.of, inputs, attrs, [torch.ones_like(z) for z in results])
    if any(g is None or g.dtype != torch.float64 for g in (found[k] for k in real)):
        return None

    class Checked(torch.autograd.Function):
        """The reference's value, with the member's gradient."""

        @staticmethod
        def forward(ctx: Any, *given: Tensor) -> Tensor | tuple[Tensor, ...]:
            ctx.given = given
            made = reference(member.of, given, attrs)
            ctx.mark_non_differentiable(*made[len(made) - len(page.buffers) :])
            return made[0] if len(made) == 1 else tuple(made)

        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor) -> Any:
            return tuple(backend.vjp(member.of, ctx.given, attrs, cotangents))

    for k in real:
        inputs[k].requires_grad_()
    accepted: bool = torch.autograd.gradcheck(Checked.apply, tuple(inputs), raise_exception=False)
    return accepted


POLICIES: dict[str, Policy] = {
    "assert_close": default_closeness,
    "KernelBench": kernelbench,
    "gradcheck": gradcheck,
    "fuzzed": fuzzed,
}
"""The policies by the names that the matrix has for them."""


class NoCall(Exception):
    """The reference refuses what was drawn."""


def reference(op: str, inputs: Sequence[Tensor], attrs: Any) -> list[Tensor]:
    """Compute the results that everybody compares with, or raise NoCall."""
    try:
        return _listed(_judge(op).value(op, inputs, attrs))
    except Exception as error:
        raise NoCall(f"{op} is not called so: {error}") from error


def _listed(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else list(found)


def accepts(policy: str, member: Member) -> bool | None:
    """Say whether a policy accepts a member in all its rows; None where it applies to none."""
    if member.of not in OPS and not member.updates:
        return None
    said = [
        _asked(POLICIES[policy], member, direction, dtype)
        for direction in member.directions
        for dtype in member.dtypes
    ]
    heard = [word for word in said if word is not None]
    return all(heard) if heard else None


def _asked(policy: Policy, member: Member, direction: str, dtype: str) -> bool | None:
    """Ask a policy; a member that raises is refused by every one."""
    try:
        return policy(member, direction, dtype)
    except NoCall:
        return None
    except Exception:
        return False


def _close(got: Tensor, due: Tensor) -> bool:
    try:
        torch.testing.assert_close(got, due)
    except AssertionError:
        return False
    return True


def _pairs(
    member: Member, direction: str, sampler: Sampler, wide: torch.dtype | None = None
) -> Iterable[Pair]:
    """Run a member and the reference, which may compute in a wider dtype."""
    backend = MemberBackend(member)
    if member.updates:
        return _updates(backend, sampler, wide or sampler.dtype)
    inputs, attrs = sampler.call(member.of)
    exact = [_widened(x, wide) for x in inputs]
    due = reference(member.of, exact, attrs)
    if direction == "value":
        return [*zip(_listed(backend.value(member.of, inputs, attrs)), due, strict=True)]
    seeds = [sampler.cotangent(z) for z in due]
    if OPS[member.of].converts:
        seeds, wide = [seeds[0].to(due[0].dtype)], None
    got = backend.vjp(member.of, inputs, attrs, seeds)
    further = [_widened(seed, wide) for seed in seeds]
    gradients = _judge(member.of).vjp(member.of, exact, attrs, further)
    return [(g, d) for g, d in zip(got, gradients, strict=True) if g is not None and d is not None]


def _widened(x: Tensor, wide: torch.dtype | None) -> Tensor:
    return x.to(wide) if wide is not None and x.is_floating_point() else x


def _judge(name: str) -> Any:
    """Return torch, or `fast` for what torch has not, or draws or iterates otherwise."""
    known = name in TORCH_OPS or name in offered().keys() - ITERATED_OTHERWISE
    return TorchBackend() if known else FastAten()


def _updates(backend: MemberBackend, sampler: Sampler, wide: torch.dtype) -> list[Pair]:
    """Take some steps on two parameters, and compare the parameters."""
    name = backend.member.of
    params = sampler.parameters(name)
    handle = backend.optimizer(name, params, hyper(name))
    other = _judge(name).optimizer(name, [p.to(wide) for p in params], hyper(name))
    for _ in range(STEPS):
        grads = [sampler.normal(*p.shape) for p in params]
        handle.step(grads)
        other.step([g.to(wide) for g in grads])
    return list(zip(handle.params(), other.params(), strict=True))
