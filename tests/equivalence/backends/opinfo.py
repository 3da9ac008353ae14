"""PyTorch's own samples (OpInfo) as calls of pages: what a record names, read backwards.

A record's statement, ``torch.sum(x, dim=axes, keepdim=keepdims)``, says which of torch's arguments
is which input or attribute of the page. What it does not say is left out, and arguments that are
expressions are computed; a sample stands for a call of the page where that changes no bit of
torch's result. Else it is `Beyond`, with the argument that the page does not have; and where the
page refuses the call it is `Rejected`, in the page's words.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from spec.op import Op, Rejected
from spec.tensor import Tensor as Exact
from tests.spec import sources


class Beyond(Exception):
    """A sample asks for what the page does not have."""


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""What a function is called with."""


@dataclass(frozen=True)
class Call:
    """One sample: what the page is given, and torch's call of tensors in their places."""

    inputs: Sequence[Tensor]
    attributes: Mapping[str, Any]
    arguments: Arguments
    function: Callable[..., Tensor]

    def run(self, *inputs: Tensor) -> Tensor:
        """Call torch as the sample does, with other tensors for the inputs."""
        there = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)}
        args, kwargs = self.arguments
        moved = [_replaced(value, there) for value in args]
        named = {name: _replaced(value, there) for name, value in kwargs.items()}
        return self.function(*moved, **named).to(torch.float64)


def _replaced(value: Any, there: Mapping[int, Tensor]) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
        return type(value)(there.get(id(x), x) for x in value)
    return there.get(id(value), value)


class _Caught(TorchFunctionMode):
    """Notes with which arguments a wrapper calls a function."""

    def __init__(self, wanted: Callable[..., Any]) -> None:
        super().__init__()
        self.wanted, self.arguments = wanted, list[Arguments]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self.wanted:
            self.arguments.append((tuple(args), dict(kwargs or {})))
        return func(*args, **(kwargs or {}))


class Reader:
    """Reads samples as calls of one page."""

    def __init__(self, op: Op, statement: ast.Call, reads: Mapping[str, str]) -> None:
        self.op, self.reads = op, reads
        self.name = ast.unparse(statement.func)
        self.function = sources.found(self.name)
        given = [*((None, said) for said in statement.args)]
        self.said = [*given, *((word.arg, word.value) for word in statement.keywords)]
        """Torch's arguments in their order, by keyword or by place, as the page says them."""

    @cached_property
    def signature(self) -> inspect.Signature | None:
        """How torch calls its arguments, where it is Python."""
        try:
            return inspect.signature(self.function)
        except ValueError:
            return None

    def infos(self, known: Sequence[Any]) -> list[Any]:
        """Return OpInfo's records of the function, which may have aliases."""
        own = self.name.removeprefix("torch.")
        return [i for i in known if own in (i.name, *(alias.name for alias in i.aliases))]

    def called(self, info: Any, sample: Any) -> Arguments:
        """Return the arguments of the function itself, which a record may wrap."""
        arguments = (sample.input, *sample.args), dict(sample.kwargs)
        own = self.name.removeprefix("torch.")
        if info.op is self.function or info.name != own or not _is_wrapper(info.op):
            return arguments
        with _Caught(self.function) as caught:
            info.op(*arguments[0], **arguments[1])
        if not caught.arguments:
            raise Beyond("torch calls another function")
        return caught.arguments[0]

    def read(self, given: Arguments) -> Call:
        """Read one call of torch as one of the page; raises Beyond or Rejected."""
        args, kwargs = given
        values, rest, names = self._bound(args, kwargs)
        inputs, attributes = self._named(values, names)
        inputs = self._accepted(inputs, attributes)
        arguments = self._rebuilt(values, inputs, attributes)
        call = Call(inputs, attributes, arguments, self.function)
        if not same_bits(
            self.function(*args, **kwargs), self.function(*arguments[0], **arguments[1])
        ):
            raise Beyond(
                ", ".join(f"{n}={_short(v)}" for n, v in rest.items()) or "other arguments"
            )
        if self.op.elsewhere is not None and self.op.elsewhere.formula is not None:
            of_page = sources.value(self.op, inputs, attributes)
            if (call.run(*inputs).isnan() & ~of_page.isnan()).any():
                raise Beyond("torch makes NaN of it, and the page does not")
        return call

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[int, Any], dict[str, Any], dict[str, Any]]:
        """Return the arguments by their place in the statement, the others, and all by name."""
        words = {word: k for k, (word, _) in enumerate(self.said)}
        if self.signature is None:
            placed = dict(enumerate(args[: len(self.said)]))
            rest = {f"argument {k}": v for k, v in enumerate(args) if k >= len(self.said)}
            known = {f"argument {k}": v for k, v in enumerate(args)} | {**kwargs}
            named = kwargs
        else:
            known = named = self.signature.bind(*args, **kwargs).arguments
            parameters = list(self.signature.parameters)
            words |= {parameters[k]: k for k, (word, _) in enumerate(self.said) if word is None}
            placed, rest = {}, {}
        placed |= {words[name]: value for name, value in named.items() if name in words}
        rest |= {name: value for name, value in named.items() if name not in words}
        return placed, rest, dict(known)

    def _named(
        self, values: Mapping[int, Any], names: Mapping[str, Any]
    ) -> tuple[list[Tensor], dict[str, Any]]:
        """Return the inputs and attributes of the page, those that the page reads among them."""
        by_name = {
            said.id: values[k]
            for k, (_, said) in enumerate(self.said)
            if isinstance(said, ast.Name) and k in values
        }
        by_name |= {name: sources.evaluated(text, names) for name, text in self.reads.items()}
        wanted = self.op.inputs
        if missing := [name for name in wanted if by_name.get(name) is None]:
            raise Beyond(f"no {missing[0]}")
        found = by_name[wanted[0]] if self.op.variadic else [by_name[name] for name in wanted]
        inputs = [self._input(k, x) for k, x in enumerate(found)]
        return inputs, {n: self._attribute(n, v) for n, v in by_name.items() if n not in wanted}

    def _input(self, k: int, x: Any) -> Tensor:
        """Return an input, a number as a tensor of it; refuse those of another dtype."""
        if isinstance(x, complex):
            raise Beyond(f"{self.op.names(k + 1)[k]} is complex")
        if not isinstance(x, Tensor):
            x = torch.tensor(x, dtype=torch.float64)
        wanted = {torch.int64, torch.bool} if k in self.op.index_inputs else {torch.float64}
        if x.dtype not in wanted:
            raise Beyond(f"{self.op.names(k + 1)[k]} of {x.dtype}")
        # Forward mode refuses tensors that hold an entry in several places.
        return x.clone()

    def _attribute(self, name: str, value: Any) -> Any:
        """Return an attribute as the page declares it; torch has 0-d tensors, lists and floats."""
        declared = sources.annotation(self.op, name)
        if isinstance(value, Tensor) and value.dim() and "tuple" not in declared:
            raise Beyond(f"{name} for each entry")
        if isinstance(value, Tensor):
            value = value.tolist()
        if name == "axes" and isinstance(value, int):
            return (value,)
        if name == "axes" and not value and "keepdims" in self.op.attributes:
            return None
        if isinstance(value, (list, tuple)):
            return tuple(value)
        if declared == "float" and isinstance(value, int):
            return float(value)
        if declared == "int" and isinstance(value, float) and value.is_integer():
            return int(value)
        if value is None and "None" not in declared:
            raise Beyond(f"no {name}")
        return value

    def _accepted(self, inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
        """Return inputs that the page accepts: as they are, or as torch broadcasts them."""
        try:
            self.op.check(*map(exact, inputs), **attributes)
        except Rejected as refusal:
            try:
                wide = [x.clone() for x in torch.broadcast_tensors(*inputs)]
            except RuntimeError:
                raise refusal from None
            if all(x.shape == y.shape for x, y in zip(wide, inputs, strict=True)):
                raise
            try:
                self.op.check(*map(exact, wide), **attributes)
            except Rejected:
                raise refusal from None
            return wide
        return inputs

    def _rebuilt(
        self, values: Mapping[int, Any], inputs: Sequence[Tensor], attributes: Mapping[str, Any]
    ) -> Arguments:
        """Return torch's arguments that the statement says."""
        tensors = sources.named(self.op, inputs)
        names = tensors | sources.told(self.op, attributes, inputs)
        args, kwargs = list[Any](), dict[str, Any]()
        for k, (word, said) in enumerate(self.said):
            if isinstance(said, ast.Name) and k not in values:
                continue
            is_own = isinstance(said, ast.Name) and said.id not in tensors
            value = values[k] if is_own else sources.evaluated(ast.unparse(said), names)
            if word is None:
                args.append(value)
            else:
                kwargs[word] = value
        return tuple(args), kwargs


def _is_wrapper(function: Any) -> bool:
    return getattr(function, "__name__", "") == "<lambda>"


def _short(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else repr(value)


def exact(x: Tensor) -> Any:
    """Return a tensor as a page takes it."""
    return Exact(tuple(x.shape), x.flatten().tolist())


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Say whether two results are the same, NaN as NaN."""
    if one.dtype is not other.dtype:
        return False
    return torch.equal(one.nan_to_num(), other.nan_to_num()) and torch.equal(
        one.isnan(), other.isnan()
    )


def reader(op: Op) -> Reader | None:
    """Return what reads samples for an op; None where its record names no call of torch."""
    said = op.elsewhere
    call = None if said is None else sources.call_of(said.torch)
    return None if call is None or said is None else Reader(op, call, said.reads)


def dtype_of(op: Op) -> torch.dtype:
    """Return the dtype of an op's inputs."""
    return torch.int64 if len(op.index_inputs) == len(op.inputs) else torch.float64


Sampled = Call | Beyond | Rejected


def samples(op: Op, known: Sequence[Any], largest: int) -> Iterator[Sampled]:
    """Yield what each sample and each reference input, of no more entries, is to the page."""
    found = reader(op)
    for info in found.infos(known) if found else ():
        if dtype_of(op) not in info.supported_dtypes("cpu"):
            continue
        for sample in info.reference_inputs("cpu", dtype_of(op), requires_grad=False):
            if entries((sample.input, *sample.args, *sample.kwargs.values())) > largest:
                continue
            try:
                assert found is not None
                yield found.read(found.called(info, sample))
            except (Beyond, Rejected) as reason:
                yield reason


def entries(values: Sequence[Any]) -> int:
    """Count the entries of the tensors among some arguments."""
    flat = [x for v in values for x in (v if isinstance(v, (list, tuple)) else [v])]
    return sum(x.numel() for x in flat if isinstance(x, Tensor))
