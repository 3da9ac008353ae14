"""Programs of calls: what is compiled of a page, many of them at once, and how one of them is run.

A program is a page's value, or its value and the VJP behind it, at fixed shapes, strides, dtypes
and attributes. Numbers, indices and the counter of a random op are its arguments. An artifact holds
several programs that share nothing. It runs all of them: the one that is asked on the arguments of
the call, the others on stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from equivalence.backends.fast.backend import list_of
from fast.compiled import artifacts, inductor, lowering, naming
from fast.errors import Unavailable
from fast.ops import OPS

Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
"""The shape, the strides and the dtype of an argument."""


@dataclass(frozen=True)
class Program:
    """One page's value or VJP at fixed forms; two that are equal are the same machine code.

    seeds counts the cotangents behind the inputs; attributes are those of the page but the counter,
    as pairs, and a random op has its counter for a last argument.
    """

    op: str
    seeds: int
    forms: tuple[Form, ...]
    attributes: tuple[tuple[str, Any], ...]

    @property
    def inputs(self) -> int:
        """The number of the page's inputs."""
        return len(self.forms) - self.seeds - OPS[self.op].random

    @cached_property
    def stands(self) -> list[Tensor]:
        """The arguments for a run in which nobody asks for the results."""
        return [_stand(form) for form in self.forms]

    @property
    def run(self) -> Callable[..., list[Tensor]]:
        """The function that is compiled: it returns every result, and every gradient there is."""
        return self._vjp if self.seeds else self._value

    def _call(self, given: Sequence[Tensor]) -> tuple[Any, tuple[Any, ...]]:
        page, attributes = OPS[self.op], dict(self.attributes)
        if page.random:
            attributes["counter"] = given[-1]
        return page.aten_value(*given[: self.inputs], **attributes)

    def _value(self, *given: Tensor) -> list[Tensor]:
        result = self._call(given)[0]
        made = list_of(self.op, given, result)
        return lowering.own(made, given)

    def _vjp(self, *given: Tensor) -> list[Tensor]:
        page, saved = OPS[self.op], self._call(given)[1]
        seeds = given[self.inputs : self.inputs + self.seeds]
        seed = tuple(seeds) if page.results > 1 else seeds[0]
        gradients = page.aten_vjp(saved, seed, self.needs)
        wanted = zip(gradients, self.needs, strict=True)
        return lowering.own([g for g, need in wanted if need and g is not None], given)

    @property
    def needs(self) -> list[bool]:
        """Whether each input has a gradient that is computed."""
        page = OPS[self.op]
        return [k not in (*page.index_inputs, *page.buffers) for k in range(self.inputs)]


def form_of(tensor: Tensor) -> Form:
    """Return what a program fixes of an argument."""
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _stand(form: Form) -> Tensor:
    """Return a tensor of some form, of ones; indices are 0, which is in range wherever any is."""
    shape, strides, dtype = form
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    fill = 1 if dtype.is_floating_point else 0
    memory = torch.full((last + 1 if 0 not in shape else 0,), fill, dtype=dtype)
    return memory.as_strided(shape, strides)


class Artifact:
    """The machine code of several programs."""

    def __init__(self, programs: Sequence[Program]) -> None:
        """Compile programs, or load what was compiled; what cannot be is Unavailable."""
        self._stands = [program.stands for program in programs]
        self._counts: list[int] = []
        self._taken = [0, *accumulate(len(program.forms) for program in programs)]
        given = [tensor for stands in self._stands for tensor in stands]
        graph = self._traced(programs, given)
        key = naming.key(graph, ("calls", tuple(programs), sorted(inductor.BRIEF.items())), given)
        package = artifacts.fetch(key, lambda: inductor.built(graph, given, brief=True))
        self._run = inductor.loaded(package)
        self._given = [0, *accumulate(self._counts)]

    def _traced(self, programs: Sequence[Program], given: Sequence[Tensor]) -> Any:
        """Write down all programs as one, and note how many results each has."""
        places = [*pairwise(self._taken)]

        def together(*given: Tensor) -> list[Tensor]:
            parts = [p.run(*given[a:b]) for p, (a, b) in zip(programs, places, strict=True)]
            self._counts[:] = map(len, parts)
            return [result for part in parts for result in part]

        try:
            return inductor.traced(together, given)
        except Exception as error:
            raise Unavailable(f"cannot be traced: {type(error).__name__}: {error}") from error

    def run(self, position: int, given: Sequence[Tensor]) -> list[Tensor]:
        """Run the program at a position on the arguments of a call, and return its results."""
        stands = [tensor for k, own in enumerate(self._stands) if k != position for tensor in own]
        first = self._taken[position]
        found = self._run([*stands[:first], *given, *stands[first:]])
        return found[self._given[position] : self._given[position + 1]]
