"""A member as a backend: it takes over its rows, and refuses what the page refuses.

Its calls are checked as our own pages check theirs, and calls without elements are answered by
`fast`, so that a member is one formula and nothing else is held against it.
A member whose mistake is about nothing at all (kind "empty") answers for itself.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from torch import Tensor

from equivalence.backends import declared
from equivalence.backends.fast.backend import checked
from equivalence.backends.fast.providers import FastAten
from equivalence.backends.protocol import Capabilities, OptimizerHandle, Results
from equivalence.backends.torch.backend import pulled_back
from equivalence.dtypes import DTYPES
from equivalence.worlds.contract import Contract
from population.record import SESSION, Member
from population.registry import everyone


@cache
def _ours() -> FastAten:
    return FastAten()


class MemberBackend:
    """One member of the population, offering its rows alone."""

    def __init__(self, member: Member) -> None:
        """Make what remembers anew; an optimizer is made with its parameters."""
        self.member = member
        self.name = f"population {member.name}"
        made = inspect.isclass(member.how) and not member.updates
        self.call = member.how() if made else member.how

    def capabilities(self) -> Capabilities:
        """Offer the member's op or optimizer in its dtypes."""
        offered = {self.member.of: self.member.dtypes}
        part = self.member.takes
        takes = {} if part is None else {self.member.of: part}
        if self.member.updates:
            extras = {self.member.of: self.member.extras}
            return Capabilities({}, self._contract, optimizers=offered, takes=takes, extras=extras)
        return Capabilities(offered, self._contract, takes=takes, checks_constraints=True)

    def _contract(self, op: str, dtype: str) -> Contract:
        """Declare torch's arithmetic, in fp32 where storage is narrow, and what is different.

        There members promise to round once, as kernels do. The programs that torch follows in 16
        bits step in storage: no member is allowed them.
        """
        contract = declared("torch")(op, dtype)
        if DTYPES[dtype].narrow:
            functions = declared("aten")(op, dtype).functions
            contract = replace(contract, steps="compute", functions=functions, forms=())
        return replace(contract, **self.member.contract)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Results:
        """Compute the value, or the values, by the member."""
        checked(op, inputs, attrs, "cpu")
        if self._nothing(inputs):
            return _ours().value(op, inputs, attrs)
        result: Results = self.call(*inputs, **attrs)
        return result

    def vjp(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        cotangents: Sequence[Tensor],
    ) -> Sequence[Tensor | None]:
        """Compute the gradients by the member, or by autograd through its value."""
        checked(op, inputs, attrs, "cpu")
        if self._nothing([*inputs, *cotangents]):
            return _ours().vjp(op, inputs, attrs, cotangents)
        if self.member.by_autograd:
            return pulled_back(self.call, cotangents, inputs, attrs)
        seed = cotangents[0] if len(cotangents) == 1 else tuple(cotangents)
        found = self.call(seed, *inputs, **attrs)
        return [found] if isinstance(found, Tensor) else list(found)

    def _nothing(self, given: Sequence[Tensor]) -> bool:
        """Say whether a call without elements is to be answered for the member."""
        return self.member.kind != "empty" and any(x.numel() == 0 for x in given)

    def optimizer(
        self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]
    ) -> OptimizerHandle:
        """Put parameters under the member."""
        del name
        handle: OptimizerHandle = self.member.how(params, hyper)
        return handle


def address(member: Member) -> str:
    """Return what a shell's `--backend` takes to load a member."""
    return shlex.quote(f"population:{member.name}")


def backend(name: str) -> MemberBackend:
    """Return the member of a name as a backend; a session is none."""
    for member in everyone():
        if member.name == name and member.of != SESSION:
            return MemberBackend(member)
    raise AttributeError(f"no member that is a backend is called {name!r}")
