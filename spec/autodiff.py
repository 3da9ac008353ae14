"""Chapter 31. Derivatives of programs.

A program ``f(ops, *refs)`` returns a ref. Here are its derivatives, as functions of tensors.

Reverse mode runs the program on a tape and pulls cotangents back. Forward mode runs it on dual
numbers. Second derivatives are forward over reverse: the tape itself runs on dual numbers, so that
each VJP rule is differentiated by its arithmetic and nothing is traced twice.
All of it is in the world of the given tensors. A Jacobian has the value's shape, then the input's.
A random op counts its calls from 0 in every pass, so that all passes over a program draw alike.

>>> from spec.tensor import tensor
>>> def f(ops, x):  # the sum of x^3
...     return ops.sum(ops.mul(x, ops.square(x)))
>>> x, t = tensor([1.0, 2.0]), tensor([1.0, 10.0])
>>> value_and_grad(f)(x), jvp(f, [x], [t])
((Tensor(9.0), Tensor([3.0, 12.0])), (Tensor(9.0), Tensor(123.0)))
>>> hvp(f, [x], [t]), hessian(f)(x)
((Tensor([6.0, 120.0]),), Tensor([[6.0, 0.0], [0.0, 12.0]]))
>>> jacfwd(grad(f))(x) == hessian(f)(x)
True
"""

# This file is longer than the guide because every derivative of a program stands in it.
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spec.answers import telling
from spec.dual import Dual
from spec.levels import depth, still, world_of
from spec.named import NamedBuffer
from spec.op import AnyTensor, checked, holds_integers, need_shape
from spec.ref import RETURNS, TAKES, Interpreter, Ref
from spec.refusals import called, listed, refuse
from spec.scalar import zero_like
from spec.tape import Tape
from spec.tensor import Tensor, is_tensor, zip_map

Program = Callable[..., Ref]
"""f(ops, *refs), which asks ops for its operations and returns a ref."""

Tensors = Sequence[AnyTensor]
Tangents = Sequence[AnyTensor | None]
Result = Any
"""A tensor, or a tuple of results."""

Argnums = int | tuple[int, ...]
"""Which inputs to differentiate by: one, for one result, or several, for a tuple of results."""


@dataclass(frozen=True, repr=False)
class Function:
    """A function of tensors made from a program; forward mode takes it as it takes programs."""

    run: Callable[[Tensors, int], Tensors]
    """What it computes of tensors, on which forward mode has put so many levels of duals."""
    pack: Callable[[Sequence[Result]], Result]
    """How that is handed out, in the form that a caller expects."""
    name: str = "f"
    """How it was made, such as grad(f)."""

    def __repr__(self) -> str:
        """Show how it was made, and that it waits for tensors."""
        return f"<{self.name}, a function of tensors: call it on them>"

    def __call__(self, *tensors: AnyTensor) -> Result:
        """Compute the result."""
        return self.pack(self.run(tensors, 0))


@telling
def value_and_grad(f: Program, argnums: Argnums = 0) -> Function:
    """Return the function that computes a scalar program's value and its gradient, as grad does."""

    _refuse_tensors("grad", argnums)

    def run(tensors: Tensors, levels: int) -> Tensors:
        chosen = _positions("grad", argnums, tensors)
        done = _Run("grad", f, tensors, chosen, levels)
        if done.result.shape != ():
            rule = "the program returns a scalar (jacrev and jacfwd take any shape)"
            raise refuse("grad", rule, f"shape {done.result.shape}")
        gradients = done.tape.backward_dense(done.out)
        return [done.result, *(gradients[k] for k in chosen)]

    pack = _asked(argnums)
    return Function(run, lambda found: (found[0], pack(found[1:])), _named("value_and_grad", f))


@telling
def grad(f: Program, argnums: Argnums = 0) -> Function:
    """Return the function that computes a scalar program's gradient, of its input's shape.

    Another program, no tensor, and argnums that name none or one twice, are Rejected by the call.
    """
    both = value_and_grad(f, argnums)
    return Function(lambda x, levels: both.run(x, levels)[1:], _asked(argnums), _named("grad", f))


def vjp(f: Program, *inputs: AnyTensor) -> tuple[AnyTensor, Callable[..., Any]]:
    """Return a program's value, and the map from its cotangents to those of its inputs, a tuple.

    A cotangent has the value's shape, or is Rejected; a scalar's is 1 unless given. Integers that
    the program reads as indices or as a mask have None; those with which it calculates are numbers.
    """
    _check(inputs, "vjp")
    done = _Run("vjp", f, inputs, range(len(inputs)), 0)
    labels = [k for k, x in enumerate(inputs) if holds_integers(x)]

    def pull(cotangent: AnyTensor | None = None) -> tuple[AnyTensor | None, ...]:
        """Pull a cotangent (a scalar's is 1) back to every input; labels have None."""
        found = done.tape.backward_dense(done.out, cotangent)
        # What no cotangent reaches is zero if it is of numbers, and else was read as labels.
        none = [k for k in labels if k not in found.reached]
        return tuple(None if k in none else found[k] for k in range(len(inputs)))

    return done.result, pull


@telling
def jvp(f: Program | Function, inputs: Tensors, tangents: Tangents) -> tuple[Result, Result]:
    """Return a program's value, and its tangent along those of its inputs (None: zero).

    There is one for each input, of its shape; else it is Rejected, naming the position.
    """
    _check(inputs, "jvp")
    _check_count(inputs, tangents)
    for k, (x, t) in enumerate(zip(inputs, tangents, strict=True)):
        if t is not None:
            need_shape("jvp", f"tangent {k} has the shape {x.shape} of its input", x.shape, t)
    function = _function(f)
    values, moved = _pushed(function, inputs, tangents, 0)
    return function.pack(values), function.pack(moved)


@telling
def jacrev(f: Program, argnums: Argnums = 0) -> Function:
    """Return the function that computes a Jacobian by rows: pulls, refused as those of grad are."""

    _refuse_tensors("jacrev", argnums)

    def run(tensors: Tensors, levels: int) -> Tensors:
        chosen = _positions("jacrev", argnums, tensors)
        done = _Run("jacrev", f, tensors, chosen, levels)
        rows = [done.tape.backward_dense(done.out, e) for e in _basis(done.result)]
        shapes = ((k, (*done.result.shape, *tensors[k].shape)) for k in chosen)
        return [Tensor(shape, [a for row in rows for a in row[k].data]) for k, shape in shapes]

    return Function(run, _asked(argnums), _named("jacrev", f))


@telling
def jacfwd(f: Program | Function, argnums: Argnums = 0) -> Function:
    """Return the function that computes a Jacobian by columns, one push per entry of the input.

    Where the function has several results, each is replaced by its Jacobian, or its Jacobians.
    Inputs and argnums are Rejected as in grad.
    """
    _refuse_tensors("jacfwd", argnums)
    function = _function(f)

    def run(tensors: Tensors, levels: int) -> Tensors:
        def columns(k: int) -> list[Tensors]:
            along = ([e if j == k else None for j in every] for e in _basis(tensors[k]))
            return [_pushed(function, tensors, tangents, levels)[1] for tangents in along]

        every = range(len(tensors))
        blocks = [(tensors[k].shape, columns(k)) for k in _positions("jacfwd", argnums, tensors)]
        return [
            Tensor((*v.shape, *shape), [c[n].data[i] for i in range(len(v.data)) for c in block])
            for n, v in enumerate(function.run(tensors, levels))
            for shape, block in blocks
        ]

    def pack(found: Sequence[Result]) -> Result:
        count = 1 if isinstance(argnums, int) else len(argnums)
        groups = (found[k : k + count] for k in range(0, len(found), count))
        return function.pack([_asked(argnums)(group) for group in groups])

    return Function(run, pack, _named("jacfwd", f))


@telling
def hvp(f: Program, inputs: Tensors, vectors: Tangents) -> tuple[AnyTensor | None, ...]:
    """Return a scalar program's Hessian times a vector: its gradient's tangent, by every input.

    A vector of None is zero. Integers without a vector, such as labels, have None for a result.
    Vectors are tangents of jvp, and Rejected as those.
    """
    _check(inputs, "hvp")
    _check_count(inputs, vectors)
    pairs = enumerate(zip(inputs, vectors, strict=True))
    numbers = tuple(k for k, (x, v) in pairs if v is not None or not holds_integers(x))
    if not numbers:
        rule = "an input holds numbers, or integers with a vector of their shape beside them"
        raise refuse("hvp", rule, "integers and None only" if inputs else "no input")
    found = dict(zip(numbers, jvp(grad(f, numbers), inputs, vectors)[1], strict=True))
    return tuple(found.get(k) for k in range(len(inputs)))


@telling
def hessian(f: Program, argnums: Argnums = 0) -> Function:
    """Return the function that computes a scalar program's Hessian; refusals are those of grad."""
    return jacfwd(grad(f, argnums), argnums)


class _Run(Interpreter[Tape]):
    """A program that has run on a tape, whose first nodes are its inputs, in their world."""

    def __init__(self, who: str, f: Any, x: Tensors, chosen: Sequence[int], levels: int) -> None:
        if isinstance(f, Function):
            rule = "a program is asked for; derivatives are differentiated again by jvp or jacfwd"
            raise refuse(who, rule, "a derivative")
        super().__init__(Tape())
        self.like = world_of(x)
        self._levels = levels
        self._kept: dict[NamedBuffer, AnyTensor] = {}
        refs = [Ref(self, self.tape.leaf(value, k in chosen)) for k, value in enumerate(x)]
        self.out = self.own(who, called(who, TAKES, f, self, *refs), RETURNS).id
        self.result = self.tape.value(self.out)

    def const(self, value: AnyTensor) -> Ref:
        return super().const(self._still(checked("const", value)))

    def _still(self, value: AnyTensor) -> AnyTensor:
        deep = depth(self.like)
        return still(value, max(deep - self._levels, 0), deep)

    def _read(self, buffer: NamedBuffer) -> AnyTensor:
        return self._still(self._kept.get(buffer, buffer.value))

    def _keep(self, buffer: NamedBuffer, value: AnyTensor) -> None:
        # A derivative leaves a buffer as it was; what its own program reads of it has moved on.
        self._kept[buffer] = value


def _function(f: Program | Function) -> Function:
    """Return a program as the function that computes its value."""
    if isinstance(f, Function):
        return f
    return Function(lambda x, levels: [_Run("jvp", f, x, (), levels).result], _asked(0))


def _pushed(
    function: Function, inputs: Tensors, tangents: Tangents, levels: int
) -> tuple[Tensors, Tensors]:
    """Run a function on dual numbers; return the values and the tangents of what it computes."""
    pairs, deep = zip(inputs, tangents, strict=True), depth(world_of(inputs))
    moving = [still(x, deep, deep + 1) if t is None else zip_map(Dual, x, t) for x, t in pairs]
    found = function.run(moving, levels + 1)
    values = [x.map(lambda a: a.value if isinstance(a, Dual) else a) for x in found]
    moved = [x.map(lambda a: a.tangent if isinstance(a, Dual) else zero_like(a)) for x in found]
    return values, moved


def _basis(x: AnyTensor) -> list[AnyTensor]:
    """List the tensors of x's shape and world with a single 1 and otherwise 0, row by row."""
    zero = [zero_like(a) for a in x.data]
    return [Tensor(x.shape, [*zero[:k], z + 1, *zero[k + 1 :]]) for k, z in enumerate(zero)]


def _asked(argnums: Argnums) -> Callable[[Sequence[Result]], Result]:
    """Return how to hand out what was found: one result, or a tuple."""
    return (lambda found: found[0]) if isinstance(argnums, int) else tuple


def _named(maker: str, f: Program | Function) -> str:
    """Say how a function was made; a lambda is called f."""
    own = f.name if isinstance(f, Function) else getattr(f, "__name__", "f")
    return f"{maker}({'f' if own == '<lambda>' else own})"


def _refuse_tensors(who: str, argnums: object) -> None:
    """Refuse a tensor in the place of an option, at once: without one nothing would be computed."""
    if is_tensor(argnums):
        rule = f"tensors are given to the function that {who} returns: write {who}(f)(x)"
        raise refuse(who, rule, f"{argnums!r} as argnums, which says by which inputs, such as 0")


def _positions(who: str, argnums: Argnums, tensors: Tensors) -> tuple[int, ...]:
    """Return the chosen inputs, counted from the front, or refuse."""
    _check(tensors, who)
    chosen, count = argnums if isinstance(argnums, Sequence) else (argnums,), len(tensors)
    normal = tuple(k % count for k in chosen if type(k) is int and -count <= k < count)
    if not chosen or len(set(normal)) != len(chosen):
        raise refuse(who, f"argnums names distinct inputs in [{-count}, {count})", argnums)
    return normal


def _check_count(inputs: Tensors, tangents: Tangents) -> None:
    came = len(tangents) if isinstance(tangents, (list, tuple)) else type(tangents).__name__
    if came != len(inputs):
        raise refuse("jvp", f"one tangent for each of the {len(inputs)} inputs", came)


def _check(inputs: Tensors, who: str) -> None:
    """Refuse inputs that are no tensors, naming the first."""
    for k, x in enumerate(listed(who, "inputs are tensors in a list", inputs)):
        checked(f"{who}: input {k}", x)
