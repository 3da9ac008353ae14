"""PyTorch's own samples (OpInfo) as calls of pages: what a record names, read backwards.

A record's statement, ``torch.sum(x, dim=axes, keepdim=keepdims)``, says which of torch's arguments
is which input or attribute of the page. What it does not say is left out, and arguments that are
expressions are computed; a sample stands for a call of the page where that changes no bit of
torch's result. Else it is `Beyond`, with what the page does not have; and where the page refuses
the call it is `Rejected`, in the page's words. A reason is found by calls of torch, and a sample
that differs for no reason is an error. Tensors are copied first, as torch's last bits depend on
the layout and the pages know none.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor

from spec.op import Op, Rejected
from tests.equivalence.backends.opinfo_calls import (
    Arguments,
    Call,
    Caught,
    copied,
    equal,
    exact,
    is_wrapper,
    same_bits,
    short,
)
from tests.spec import sources


class Beyond(Exception):
    """A sample asks for what the page does not have."""


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
        if info.op is self.function or info.name != own or not is_wrapper(info.op):
            return arguments
        with Caught(self.function) as caught:
            info.op(*arguments[0], **arguments[1])
        if not caught.arguments:
            raise Beyond("torch calls another function")
        return caught.arguments[0]

    def read(self, given: Arguments) -> Call:
        """Read one call of torch as one of the page; raises Beyond or Rejected."""
        args, kwargs = given = copied(given)
        values, rest, names = self._bound(args, kwargs)
        inputs, attributes = self._named(values, names)
        inputs, refusal = self._accepted(inputs, attributes)
        arguments = self._rebuilt(values, inputs, attributes)
        call = Call(inputs, attributes, arguments, self.function)
        own = self.function(*args, **kwargs)
        read = self.function(*arguments[0], **arguments[1])
        if refusal is not None and own.shape != read.shape:
            raise refusal
        if not same_bits(own, read):
            raise Beyond(self._difference(given, own, rest, values, attributes, inputs))
        if self.op.elsewhere is not None and self.op.elsewhere.formula is not None:
            of_page = sources.value(self.op, inputs, attributes)
            if (call.run(*inputs).isnan() & ~of_page.isnan()).any():
                raise Beyond("torch makes NaN of it, and the page does not")
        return call

    def _difference(
        self,
        given: Arguments,
        own: Tensor,
        rest: Mapping[str, Any],
        values: Mapping[int, Any],
        attributes: Mapping[str, Any],
        inputs: Sequence[Tensor],
    ) -> str:
        """Say what the page does not have, for lack of which its call has other bits than torch's.

        Raises AssertionError where nothing of the sample is different: then the reader is wrong.
        """
        if own.dtype is not torch.float64 and dtype_of(self.op) is torch.float64:
            return f"a result of {own.dtype}"
        args, kwargs = given
        without = {n: {k: v for k, v in kwargs.items() if k != n} for n in rest if n in kwargs}
        idle = {n for n, left in without.items() if same_bits(own, self.function(*args, **left))}
        if matter := [f"{n}={short(v)}" for n, v in rest.items() if n not in idle]:
            return ", ".join(matter)
        names = sources.named(self.op, inputs) | sources.told(self.op, attributes, inputs)
        for k, (_, said) in enumerate(self.said):
            text = ast.unparse(said)
            if k in values and not equal(values[k], sources.evaluated(text, names)):
                return f"argument {k} is not {text}"
        raise AssertionError(f"a sample of {self.name} is read as another call: {given}")

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[int, Any], dict[str, Any], dict[str, Any]]:
        """Return the arguments by their place in the statement, the others, and all by name.

        Those by name have torch's defaults among them, where torch calls its arguments.
        """
        words = {word: k for k, (word, _) in enumerate(self.said)}
        if self.signature is None:
            placed = dict(enumerate(args[: len(self.said)]))
            rest = {f"argument {k}": v for k, v in enumerate(args) if k >= len(self.said)}
            known = {f"argument {k}": v for k, v in enumerate(args)} | {**kwargs}
            named = kwargs
        else:
            bound = self.signature.bind(*args, **kwargs)
            named = dict(bound.arguments)
            bound.apply_defaults()
            known = bound.arguments
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
        required = [n for n, default in self.op.attributes.items() if default is Parameter.empty]
        if missing := [name for name in wanted if by_name.get(name) is None]:
            raise Beyond(f"no {missing[0]}")
        if missing := [name for name in required if name not in by_name]:
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
        return x

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

    def _accepted(
        self, inputs: list[Tensor], attributes: Mapping[str, Any]
    ) -> tuple[list[Tensor], Rejected | None]:
        """Return inputs that the page accepts: as they are, or as torch broadcasts them.

        With those that are broadcast comes what the page said of them as they were.
        """
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
            return wide, refusal
        return inputs, None

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
