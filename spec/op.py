"""Chapter 8. What an operation is.

An `Op` is a record: a rule for types, a value, and one derivative from which forward and reverse
mode are both read.
Which derivative a page states depends on its kind:

=========== =============================== ========================= ==========================
kind        the page states                 JVP                       VJP
=========== =============================== ========================= ==========================
pointwise   a scalar function, its partials sum of partial * tangent  partial * cotangent
linear      the map and its transpose       the map                   the transpose
bilinear    the map, a transpose per slot   f(x', y) + f(x, y')       two transposes
composite   a program over earlier pages    through the program       through the program
irregular   both maps, by a named choice    explicit                  explicit
source      numbers, but of no numbers      0                         none
positions   indices, of numbers             0                         none
=========== =============================== ========================= ==========================

A tangent is a direction of an input; a cotangent is a direction of the result.
Index inputs (labels, positions, masks) are integers or truth values: they have neither, and None
stands in their place.

>>> type_of(Tensor((2, 3), range(6))), str(Type((4,), index=True))
(Type(shape=(2, 3), index=False, mask=False), 'index[4]')
"""

# This file is longer than the guide because what an operation is stands in one place.

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from spec.refusals import Miss
from spec.refusals import Rejected as Rejected
from spec.refusals import refuse as refuse
from spec.scalar import Extent, lift, zero_like
from spec.shape import Shape
from spec.tensor import Nested, Tensor, is_tensor, zip_map
from spec.worlds import NoFraction

AnyTensor = Tensor[Any, *tuple[Any, ...]]
"""A tensor whose shape is known only at run time."""

Kind = Literal["pointwise", "linear", "bilinear", "composite", "irregular", "source", "positions"]
Jvp = Callable[..., AnyTensor]
Vjp = Callable[..., "tuple[AnyTensor | None, ...]"]


class Misstated(Exception):
    """A page is not written as its kind has to be; the message says what to write."""


@dataclass(frozen=True)
class Type:
    """What the type rules know of a tensor: its shape, and whether it holds indices or truths."""

    shape: Shape
    index: bool = False
    mask: bool = False

    def __str__(self) -> str:
        """Show as ``real[2,3]``, ``index[4]`` or ``mask[4]``."""
        entries = "index" if self.index else "mask" if self.mask else "real"
        return f"{entries}[{','.join(map(str, self.shape))}]"


def type_of(tensor: AnyTensor, index: bool = False, mask: bool = False) -> Type:
    """Read the type off a tensor; index and mask say how an op reads its entries."""
    return Type(tuple(tensor.shape), index, mask)


def holds(tensor: AnyTensor, kind: type) -> bool:
    """Tell whether every entry is of a type; a symbolic shape, which none can list, may be."""
    if not all(isinstance(extent, int) for extent in tensor.shape):
        return True
    return all(type(entry) is kind for entry in tensor.data)


def type_read_off(who: str, value: AnyTensor) -> Type:
    """Return what a tensor may serve as: integers as indices, truth values as a mask."""
    return type_of(checked(who, value), holds(value, int), holds(value, bool))


def holds_integers(x: AnyTensor) -> bool:
    """Tell labels and masks from numbers."""
    return len(x.data) > 0 and (holds(x, int) or holds(x, bool))


@dataclass(frozen=True)
class Integers:
    """Those from the lowest to the highest, of which there are none where these cross, and others.

    >>> [n in Integers(-8, 7, also=(99,)) for n in (-9, -8, 7, 8, 99)]
    [False, True, True, False, True]
    """

    lowest: Extent
    highest: Extent
    also: tuple[int, ...] = ()

    def __contains__(self, number: Any) -> bool:
        """Tell whether an integer is one of these."""
        return self.lowest <= number <= self.highest or number in self.also


@dataclass(frozen=True)
class IndexRange:
    """What an index input that is no mask may hold: labels, positions, codes.

    label is that of the page's constraint, such as "C3".
    bounds(*types, **attributes) returns the lowest and the highest integer.
    also are others that are allowed, or the names of attributes that hold one each.
    called is an entry in refusals.
    """

    label: str
    bounds: Callable[..., tuple[Extent, Extent]]
    also: tuple[int | str, ...] = ()
    called: str = "index"

    def rule(self, attributes: Mapping[str, Any], allowed: Integers) -> str:
        """Say what is allowed, in a sentence."""
        named = (f"{n} {attributes[n]}" if isinstance(n, str) else str(n) for n in self.also)
        interval = f"[{allowed.lowest}, {allowed.highest + 1})"
        return " or equals ".join((f"every {self.called} lies in {interval}", *named))


@dataclass(frozen=True)
class Edge:
    """One row about the edge of an op's domain, judged by equality or set membership.

    inputs are nested lists of floats (or ints at index positions).
    allowed lists every acceptable result as nested lists; with a cotangent, every acceptable tuple
    of gradients, None at index inputs. Several results, and their cotangents, are joined in one.
    source says who decided: the IEEE 754 standard, or a CHOICE of ours.
    """

    inputs: tuple[Nested, ...]
    allowed: tuple[Nested, ...]
    source: Literal["IEEE", "CHOICE"]
    why: str
    cotangent: Nested | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Elsewhere:
    """What other libraries call an op; None: there is no such thing.

    torch is a call by the names of the page's inputs and attributes, ``torch.sum(x, dim=axes)``,
    whose value is the op's. A name that is not called promises no equal values.
    formula has the op's value where that call does not have all of it: an expression of torch,
    numpy or mpmath, in which `called` is the call's value.
    reads are expressions of torch's arguments, for attributes that stand in no argument alone.
    """

    torch: str | None
    jax: str | None
    formula: str | None = None
    reads: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """An operation: its name, its kind, its rule for types, its value and its two derivatives.

    jvp(inputs, tangents, **attributes) returns the tangent of the result;
    vjp(inputs, cotangent, **attributes) returns one cotangent per input.
    mask_inputs are those of the index inputs that hold truth values.
    index_ranges say what the other index inputs may hold, one each, in their order.
    uses are the ops of a composite's program: pages, and steps that are its own.
    stops_gradients says that no cotangent ever passes, so that a tape need not look behind.
    tried: by attribute of an op of single numbers, values that show mistakes, the plainest first.
    elsewhere names the op's independent source; None says nothing of one.
    results(*types, **attributes) returns the types of several results by name. The op's one result
    is then all of them, flattened and joined in this order (`spec.several`); None: there is one.
    buffers are the inputs that a session keeps as state (`spec.named`), constants to every
    derivative; the last results are what it keeps in them from then on, in their order.
    """

    name: str
    kind: Kind
    type_rule: Callable[..., Type]
    value: Callable[..., Any]
    jvp: Jvp
    vjp: Vjp
    index_inputs: tuple[int, ...] = ()
    edges: tuple[Edge, ...] = ()
    program: Callable[..., Any] | None = None
    index_ranges: tuple[IndexRange, ...] = ()
    stops_gradients: bool = False
    mask_inputs: tuple[int, ...] = ()
    refused: tuple[Miss, ...] = ()
    tried: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    uses: tuple[Op, ...] = ()
    elsewhere: Elsewhere | None = None
    results: Callable[..., Mapping[str, Type]] | None = None
    buffers: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Show the name and the kind, what the op is called with, and the defaults."""
        shown = [f"*{self.inputs[0]}"] if self.variadic else list(self.inputs)
        for name, default in self.attributes.items():
            needed = default is inspect.Parameter.empty
            shown.append(name if needed else f"{name}={default!r}")
        return f"Op({self.name}, {self.kind}: {', '.join(shown)})"

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the tensor inputs, in order."""
        rule = inspect.signature(self.value)
        return tuple(n for n, p in rule.parameters.items() if p.kind is not p.KEYWORD_ONLY)

    @cached_property
    def variadic(self) -> bool:
        """Whether the op takes any number of inputs; its value's signature says so by a star."""
        rule = inspect.signature(self.value)
        return any(p.kind is p.VAR_POSITIONAL for p in rule.parameters.values())

    def names(self, count: int) -> tuple[str, ...]:
        """Name the inputs of a call; those of a variadic op are counted, as in ``xs[1]``."""
        return tuple(map(self.input_name, range(count))) if self.variadic else self.inputs

    def input_name(self, k: int) -> str:
        """Name one input of a call, or count one that is too many."""
        if self.variadic:
            return f"{self.inputs[0]}[{k}]"
        return self.inputs[k] if k < len(self.inputs) else f"input {k}"

    @cached_property
    def integer_inputs(self) -> tuple[int, ...]:
        """The index inputs that are no masks."""
        return tuple(k for k in self.index_inputs if k not in self.mask_inputs)

    @property
    def moves(self) -> bool:
        """Whether any direction of an input moves the result."""
        return self.kind not in ("source", "positions")

    @property
    def random(self) -> bool:
        """Whether the op draws: its value then takes the call counter, which a session supplies."""
        return "counter" in self.attributes

    @property
    def converts(self) -> bool:
        """Whether the result is kept in a format of its own, which the attribute `to` names."""
        return "to" in self.attributes

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The keyword attributes with their defaults (inspect.Parameter.empty: required)."""
        rule = inspect.signature(self.value)
        return {n: p.default for n, p in rule.parameters.items() if p.kind is p.KEYWORD_ONLY}

    def check(self, *inputs: AnyTensor, **attributes: Any) -> Type:
        """Return the type of the result, or raise Rejected with the label of the broken rule."""
        read = (checked(f"{self.name}: input {k}", x) for k, x in enumerate(inputs))
        types = [self._type_of(k, x) for k, x in enumerate(read)]
        result = self.check_types(*types, **attributes)
        self.refuse_indices(*inputs, **attributes)
        return result

    def refuse_indices(self, *inputs: AnyTensor, **attributes: Any) -> None:
        """Raise Rejected where an integer of an input is none of those that it may hold."""
        types = self.types_at(*(tuple(x.shape) for x in inputs))
        for k, stated in zip(self.integer_inputs, self.index_ranges, strict=False):
            allowed = self.integers(k, *types, **attributes)
            for number in inputs[k].data:
                if number not in allowed:
                    rule = stated.rule({**self.attributes, **attributes}, allowed)
                    raise refuse(f"{self.name} {stated.label}", rule, number)

    def integers(self, k: int, *types: Type, **attributes: Any) -> Integers:
        """Return what input k, which holds integers, may hold in a call that the rule accepts."""
        stated = self.index_ranges[self.integer_inputs.index(k)]
        given = {**self.attributes, **attributes}
        also = tuple(given[n] if isinstance(n, str) else n for n in stated.also)
        return Integers(*stated.bounds(*types, **attributes), also)

    def check_types(self, *types: Type, **attributes: Any) -> Type:
        """Return the type of the result for inputs of these types; their entries are not asked."""
        self._check_call(len(types), attributes)
        try:
            return one_type(self.name, self.type_rule(*types, **attributes))
        except Rejected:
            raise
        except (TypeError, ValueError) as error:
            # An array has no single truth, and what is no number no order.
            raise self._refused_kinds(attributes) from error

    def types_of_results(self, *types: Type, **attributes: Any) -> Mapping[str, Type]:
        """Return the types of all results by name; a lone one is called ``result``."""
        whole = self.check_types(*types, **attributes)
        return {"result": whole} if self.results is None else self.results(*types, **attributes)

    def wants_cotangent(self, *wanted: bool) -> bool:
        """Whether its cotangent is of use: the op hands it on, and to an input that wants one."""
        takes = (want for k, want in enumerate(wanted) if k not in self.index_inputs)
        return not self.stops_gradients and any(takes)

    def __call__(self, *inputs: AnyTensor, **attributes: Any) -> AnyTensor:
        """Check types and indices, then compute the value; several results come as one tensor."""
        self.check(*inputs, **attributes)
        try:
            result: AnyTensor = self.value(*inputs, **attributes)
        except NoFraction as error:
            raise NoFraction(f"{self.name}: {error.reason}", _in_floats(inputs)) from error
        return result

    def type_at(self, k: int, shape: Shape) -> Type:
        """Return the type that input k has to have, given its shape."""
        mask = k in self.mask_inputs
        return Type(shape, k in self.index_inputs and not mask, mask)

    def types_at(self, *shapes: Shape) -> tuple[Type, ...]:
        """Return the types that the inputs have to have, given their shapes."""
        places = (0 if self.variadic else k for k in range(len(shapes)))
        return tuple(map(self.type_at, places, shapes))

    def _type_of(self, k: int, x: AnyTensor) -> Type:
        """Read the type of input k off its entries."""
        if k not in self.index_inputs:
            return type_of(x)
        mask = k in self.mask_inputs and holds(x, bool)
        return type_of(x, not mask and holds(x, int), mask)

    def _refused_kinds(self, attributes: Mapping[str, Any]) -> Rejected:
        """Say of which types the attributes are, for a rule that could not read one."""
        declared = inspect.signature(self.value).parameters
        takes = ", ".join(f"{name}: {declared[name].annotation}" for name in self.attributes)
        came = ", ".join(f"{name}={value!r}" for name, value in attributes.items())
        return refuse(self.name, f"its attributes are {takes}; a tuple of one is (2,)", came)

    def _check_call(self, count: int, attributes: Mapping[str, Any]) -> None:
        if count != len(self.inputs) and not self.variadic:
            takes = f"{len(self.inputs)} inputs ({', '.join(self.inputs)})"
            raise Rejected(f"{self.name}: takes {takes}, got {count}")
        known = self.attributes
        for name in attributes:
            if name not in known:
                those = ", ".join(known) or "none"
                raise Rejected(f"{self.name}: no attribute {name!r}; accepted: {those}")
        missing = [n for n in known if known[n] is inspect.Parameter.empty and n not in attributes]
        if missing:
            raise Rejected(f"{self.name}: the attribute {missing[0]!r} is required")
        for name, given in attributes.items():
            if isinstance(known[name], bool) and type(given) is not bool:
                raise refuse(self.name, f"{name} is True or False", repr(given))


def _in_floats(inputs: tuple[AnyTensor, ...]) -> str:
    """Say how the first number that is no float would be written as one."""
    entries = (entry for x in inputs for entry in x.data if type(entry) in (int, Fraction))
    number = Fraction(next(entries, 1))
    return f"Write {lift(0.0, number)!r} for {number}, and so on, to compute in floats."


def misstated(name: str, rule: str, came: object) -> Misstated:
    """Say of a page with one result that it has to have one; who wants more is told how."""
    remedy = "an op of several results is made by spec.several.several"
    return Misstated(f"{name}: {rule}; got {type(came).__name__}; {remedy}")


def one_type(name: str, result: Any) -> Type:
    """Return the type of a page with one result, or say that it has to be one."""
    if not isinstance(result, Type):
        raise misstated(name, "the type rule returns one Type", result)
    return result


def one_tensor(name: str, value: Any) -> AnyTensor:
    """Return the value of a page with one result, or say that it has to be a tensor."""
    if not is_tensor(value):
        raise misstated(name, "the value is one tensor", value)
    return value


def shape_or_type(x: object) -> Any:
    """Return a tensor's shape, and of what is no tensor the name of its type, for refusals."""
    return tuple(x.shape) if is_tensor(x) else type(x).__name__


def need_shape(who: str, rule: str, shape: Shape, x: object) -> None:
    """Refuse what is no tensor of a shape; the rule names it."""
    if shape_or_type(x) != shape:
        raise refuse(who, rule, _came(x))


_READ: tuple[type, ...] = (list, tuple, int, float, Fraction)


def _came(x: object) -> str:
    """Say what came in a tensor's place; of what `tensor` reads, that it has to be called."""
    reads = isinstance(x, _READ) or hasattr(x, "__array_interface__")
    return f"{shape_or_type(x)}; write tensor(...)" if reads else str(shape_or_type(x))


def checked(who: str, value: AnyTensor) -> AnyTensor:
    """Return a value unchanged, or refuse what is no tensor."""
    if not is_tensor(value):
        raise refuse(who, "a value is a tensor", _came(value))
    return value


def plus(x: AnyTensor | None, y: AnyTensor | None) -> AnyTensor | None:
    """Add two tensors of one shape; None stands for zero."""
    if x is None or y is None:
        return y if x is None else x
    return zip_map(operator.add, x, y)


def zeros_like(x: AnyTensor) -> AnyTensor:
    """Return the zero of x's space: the same shape, the zero of the same world."""
    return x.map(zero_like)
