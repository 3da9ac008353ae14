"""What a page of `fast.ops` hands over: one frozen record per op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from torch import Tensor

from fast.errors import Rejected

Saved = tuple[Any, ...]
Gradients = tuple[Tensor | None, ...]
Value = Callable[..., tuple[Any, Saved]]
"""Returns the result, or a tuple of what an op makes, and what is saved for the VJP."""
Vjp = Callable[..., Gradients]
"""Takes what was saved, the cotangent and, per parent, whether it is needed."""
Places = Sequence[Tensor | None]
"""Per parent, the memory where a leaf's gradient is kept and nothing is yet."""


class _Required:
    """The mark of an attribute that has no default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True, repr=False)
class Op:
    """One operation: its checks, its kernels' hosts, and their ATen twins.

    `value` and `vjp` of either provider trust `check`, which a caller runs first.
    Those of the index inputs that `mask_inputs` names hold booleans, the others integers.
    Where `aten_writes` is set, `aten_vjp` takes `places` as well, and returns what it wrote there.
    A `plain` op makes fresh storage and saves no tensor but its inputs and its result, so that a
    tape need not weigh what it saves. An `entrywise` op is one that refuses nothing but inputs
    of different shapes, dtypes and devices. One that `stops_gradients` passes no cotangent on, so
    that a tape need not look behind it.
    An op of several `results` returns a tuple of so many tensors, of the inputs' dtype; its VJPs
    take as cotangent a tuple with None where no cotangent came. Those of them that are `fixed`,
    such as statistics, never have one. Nor have `indices`, the positions of results that are
    int64, such as where a maximum was: a program gets an `IndexRef`, which ops take for indices.
    Those inputs that `buffers` names are named buffers of the session, in the dtype of parameters.
    The op reads their contents, and its value returns, after the results and in one tuple with
    them, the new contents of each, or None where they stay; they are copied, once the op has
    succeeded. No gradient reaches them, and a VJP returns None for them.
    An op with `indices` or `buffers` returns a tuple even of one result; its cotangent is a tuple
    only where there are several results.
    A `variadic` op takes any number of inputs, for which `inputs` has one name.
    A `random` op has the attribute `counter`, which a session supplies; a `source` has no inputs
    but indices, and its check and values take `dtype` and `device` as well.
    """

    name: str
    check: Callable[..., None]
    value: Value
    vjp: Vjp
    aten_value: Value
    aten_vjp: Vjp
    inputs: tuple[str, ...]
    index_inputs: tuple[int, ...] = ()
    aten_writes: bool = False
    variadic: bool = False
    attributes: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    mask_inputs: tuple[int, ...] = ()
    random: bool = False
    source: bool = False
    plain: bool = False
    entrywise: bool = False
    stops_gradients: bool = False
    results: int = 1
    fixed: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    buffers: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Op({self.name}{self.usage()})"

    def hosts(self, provider: str) -> tuple[Value, Vjp]:
        """Return the value and the VJP of a provider, `triton` or `aten`."""
        if provider == "triton":
            return self.value, self.vjp
        if provider == "aten":
            return self.aten_value, self.aten_vjp
        raise Rejected(f"{self.name}: unknown provider {provider!r}; there are 'triton' and 'aten'")

    def bind(
        self, args: Sequence[Any], given: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Sort a call into the inputs, in order, and every attribute, defaults filled in."""
        if not given and not self.attributes and len(args) == len(self.inputs):
            return tuple(args), {}
        inputs, named = list(args), () if self.variadic else self.inputs
        for name in named[len(inputs) :]:
            if name in given:
                inputs.append(given[name])
        for name in given:
            late = name in named and named.index(name) >= len(args)
            if not late and name not in self.attributes:
                raise Rejected(f"{self.name}: got an unexpected {name!r}; it takes {self.usage()}")
        attributes = {name: given.get(name, value) for name, value in self.attributes.items()}
        missing = [name for name, value in attributes.items() if value is REQUIRED]
        if missing or (len(inputs) != len(self.inputs) and not self.variadic):
            raise Rejected(
                f"{self.name}: takes {self.usage()}, got {len(inputs)} inputs"
                + (f" and no {', '.join(missing)}" if missing else "")
            )
        return tuple(inputs), attributes

    def usage(self) -> str:
        """Write the inputs and attributes as a signature."""
        attributes = [
            name if value is REQUIRED else f"{name}={value!r}"
            for name, value in self.attributes.items()
        ]
        if self.variadic:
            return f"(*{', '.join((*self.inputs, *attributes))})"
        return f"({', '.join((*self.inputs, *(('*', *attributes) if attributes else ())))})"

    def named(self, position: int) -> str:
        """Name one input of a call."""
        return f"{self.inputs[0]}[{position}]" if self.variadic else self.inputs[position]
