"""Plain torch on exact numbers: what its functions do while the block runs, stated once.

The numbers lie in tensors of fp32 or fp64, as NaNs whose payload is a place in `Memory`. So all
that only moves entries (views, copies, gathers, concatenations) is torch's own, and so is autograd,
which sees nothing of it. Torch asks a mode before it runs each function, and there

* a function of `MOVES`, or one that no float goes into, runs as ever;
* one that `rules_of_torch` knows runs as ever too, for the tensors that it makes or writes, of
  whatever strides; then what they hold is overwritten by what the rule says of exact numbers;
* any other is taken apart by torch's own table of decompositions, and is refused where that has
  none.

What is assumed: that a function which only moves entries keeps the bits of a NaN, and that torch's
decomposition of a function is the formula of the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from equivalence.exact.aten.moves import MOVES, VIEWS
from equivalence.exact.aten.rules import Function, rules_of_torch
from equivalence.exact.memory import Memory, stated
from equivalence.exact.numbers import Beyond, Inexact, Number, whole_part
from equivalence.exact.standins import Rule, of_pi

FLOATS = (torch.float32, torch.float64)
"""The dtypes in which numbers lie."""


class ExactFunctions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, torch's functions compute on exact numbers."""

    def __init__(self, memory: Memory, rules: Mapping[str, Rule]) -> None:
        """Keep the numbers in a memory; rules are the stand-ins of elementary functions."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory = memory
        self._rules: dict[str, Function] = rules_of_torch(rules)
        self._apart: list[Any] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run one function; Inexact where exact numbers cannot follow it."""
        kwargs = kwargs or {}
        name = function._schema.name.partition("::")[2]
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        plain = name.removesuffix("_")
        if name in MOVES or plain in VIEWS or not any(x.is_floating_point() for x in given):
            return function(*args, **kwargs)
        if name == "_local_scalar_dense":
            return self._told(args[0])
        rule = self._rules.get(name) or self._rules.get(plain)
        if rule is None:
            return self._taken_apart(function, args, kwargs)
        exact_args, exact_kwargs = tree_map(self._exact, (args, kwargs))
        result = rule(*exact_args, **{k: v for k, v in exact_kwargs.items() if k != "out"})
        # Run for the tensors that it makes; whatever it makes of the bits is overwritten.
        made = function(*args, **kwargs)
        held, exact = (x if isinstance(x, (tuple, list)) else (x,) for x in (made, result))
        for tensor, numbers in zip(held, exact, strict=True):
            self._write(tensor, numbers)
        return made

    def _taken_apart(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Run what a function consists of, by torch's own account."""
        from torch._decomp import decomposition_table

        # What torch's references are written in is no function of torch, but says what it is.
        whole = decomposition_table.get(function) or getattr(function, "impl_aten", None)
        found = NotImplemented
        if function not in self._apart:
            self._apart.append(function)
            try:
                with self:
                    found = (whole or function.decompose)(*args, **kwargs)
            finally:
                self._apart.pop()
        if found is NotImplemented:
            raise Inexact(
                f"exact numbers cannot follow {function}, which torch does not take apart"
            )
        return found

    def _exact(self, x: Any) -> Any:
        """Return an argument as a rule takes it: a tensor as an array, a float as it is meant."""
        if isinstance(x, float):
            turns = of_pi(x)
            return stated(x) if turns is None else turns
        if not isinstance(x, torch.Tensor):
            return x
        if not x.is_floating_point():
            return x.numpy()
        if x.dtype not in FLOATS:
            raise Inexact(f"exact numbers lie in fp32 and fp64; torch is given {x.dtype}")
        found = np.empty(x.shape, object)
        found.reshape(-1)[:] = self._memory.read(x)
        return found

    def _write(self, tensor: torch.Tensor, numbers: Any) -> None:
        """Let a tensor hold numbers, or what a rule made of them."""
        wanted = np.broadcast_to(np.asarray(numbers, object), tensor.shape)
        if tensor.dtype in FLOATS:
            self._memory.write(tensor, list(wanted.flat))
        elif tensor.is_floating_point():
            raise Inexact(f"exact numbers lie in fp32 and fp64; torch makes {tensor.dtype}")
        else:
            whole = [whole_part(x) for x in wanted.flat]
            tensor.copy_(torch.tensor(whole, dtype=tensor.dtype).reshape(tensor.shape))

    def _told(self, x: torch.Tensor) -> float:
        """Return the number that a tensor of one states: what was drawn has none for the host."""
        (number,) = self._memory.read(x)
        if isinstance(number, Number):
            raise Inexact("a function asks on the host for a number that was drawn")
        return number.float if isinstance(number, Beyond) else float(number)
