"""Chapter 21. The session: programs, parameters and steps on one tape.

A program takes its operations from the session it runs in, so that one text serves every
interpreter::

    def loss(ops, w, b, x, labels):
        return ops.cross_entropy(ops.linear(x, w, b), labels)

Here the interpreter is the eager tape: every call computes at once and appends a node.
A parameter outlives the tape; `use` puts its current value on the tape as a leaf.

>>> from spec.tensor import tensor
>>> s = Session()
>>> w = s.param(tensor([1.0, -2.0]), name="w")
>>> x = s.use(w)
>>> y = s.sum(x * x)
>>> s.sgd_step(lr=0.25, grads=s.backward(y))
>>> w.value
Tensor([0.5, -1.0])
"""

from __future__ import annotations

from typing import Any

from spec.naturals import Naturals
from spec.op import AnyTensor, refuse, zeros_like
from spec.ops import OPS
from spec.protocol import Ops
from spec.shape import Shape, broadcast
from spec.tape import Dense, Observer, Tape
from spec.tensor import is_tensor
from spec.updates import Gradients, Param, Updates, look_up


class Ref:
    """A handle on a node of a session's tape, with the operators of a tensor."""

    __slots__ = ("id", "session", "tape")

    def __init__(self, session: Session, id: int) -> None:
        """Point at a node of the session's present tape."""
        self.session = session
        self.tape = session.tape
        self.id = id

    @property
    def shape(self) -> Shape:
        """The shape of the node's value."""
        return tuple(self.tape.value(self.id).shape)

    def __add__(self, other: Ref) -> Ref:
        """Add, broadcasting as NumPy would."""
        return self.session.add(*_aligned(self, other))

    def __sub__(self, other: Ref) -> Ref:
        """Subtract, broadcasting as NumPy would."""
        return self.session.sub(*_aligned(self, other))

    def __mul__(self, other: Ref) -> Ref:
        """Multiply entry by entry, broadcasting as NumPy would."""
        return self.session.mul(*_aligned(self, other))

    def __truediv__(self, other: Ref) -> Ref:
        """Divide entry by entry, broadcasting as NumPy would."""
        return self.session.div(*_aligned(self, other))

    def __matmul__(self, other: Ref) -> Ref:
        """Multiply matrices."""
        return self.session.matmul(self, other)

    def __neg__(self) -> Ref:
        """Subtract from zero."""
        zero = self.session.const(zeros_like(self.session.value(self)))
        return self.session.sub(zero, self)


def _aligned(x: Ref, y: object) -> tuple[Ref, Ref]:
    """Insert the broadcasts that an operator implies."""
    y = x.session.own("operator", y)
    if x.shape == y.shape:
        return x, y
    shape = broadcast(x.shape, y.shape)
    if shape is None:
        raise refuse("operator", "the shapes broadcast to a common one", f"{x.shape}, {y.shape}")
    both = (r if r.shape == shape else r.session.broadcast_to(r, shape=shape) for r in (x, y))
    first, second = both
    return first, second


class Session(Naturals, Updates, Ops[Ref]):
    """An eager session: a tape, the parameters in use on it, and integers that take no gradient."""

    def __init__(self, observer: Observer | None = None) -> None:
        """Start with an empty tape; the observer sees the events of backward passes."""
        Updates.__init__(self)
        self._observer = observer
        self.reset_tape()

    def reset_tape(self) -> None:
        """Forget every node and integer; parameters and optimizer states remain."""
        self.tape = Tape(self._observer)
        self.params_by_leaf = {}
        self.forget_nats()

    def param(self, value: AnyTensor, name: str | None = None, requires_grad: bool = True) -> Param:
        """Make a parameter; it is not on the tape until it is used."""
        return Param(value, name, requires_grad)

    def use(self, param: Param) -> Ref:
        """Put the current value of a parameter on the tape; using it twice makes two leaves."""
        ref = Ref(self, self.tape.leaf(param.value, param.requires_grad, param.name))
        self.params_by_leaf[ref.id] = param
        return ref

    def input(self, value: AnyTensor, name: str | None = None, requires_grad: bool = False) -> Ref:
        """Put an outside tensor on the tape as a leaf."""
        return Ref(self, self.tape.leaf(value, requires_grad, name))

    def const(self, value: AnyTensor) -> Ref:
        """Put a tensor that takes no gradient on the tape."""
        return Ref(self, self.tape.const(value))

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Ref:
        """Apply an op to refs of this session; index inputs may also be tensors of ints."""
        op = OPS.get(name)
        if op is None:
            raise refuse("session", f"an op is one of {', '.join(OPS)}", repr(name))
        given = [
            x if k in op.index_inputs and is_tensor(x) else self.own(name, x)
            for k, x in enumerate(inputs)
        ]
        # Checked before integers become nodes: a refused op leaves the tape as it was.
        op.check(*(self.value(x) if isinstance(x, Ref) else x for x in given), **attributes)
        ids = [x.id if isinstance(x, Ref) else self.tape.const(x) for x in given]
        return Ref(self, self.tape.apply(op, *ids, **attributes))

    def own(self, who: str, ref: object) -> Ref:
        """Return a ref unchanged, or refuse what is none, or none of this session's tape."""
        rule = "arguments are refs of this session, made since its last reset"
        if not isinstance(ref, Ref):
            raise refuse(who, rule, type(ref).__name__)
        if ref.tape is not self.tape:
            raise refuse(who, rule, f"node {ref.id} of another tape")
        return ref

    def value(self, ref: Ref) -> AnyTensor:
        """Return the value of a node."""
        return self.tape.value(self.own("value", ref).id)

    def backward_dense(self, out: Ref, seed: AnyTensor | None = None) -> Dense:
        """Return a cotangent for every node, zero where the seed does not reach."""
        return self.tape.backward_dense(self.own("backward", out).id, seed)

    def backward(self, loss: Ref, seed: AnyTensor | None = None) -> dict[int, AnyTensor]:
        """Return the cotangents of the trainable leaves that the loss reaches, by leaf id."""
        return self.tape.backward(self.own("backward", loss).id, seed)

    def grad(self, grads: Gradients, ref: Ref) -> AnyTensor:
        """Look up the gradient of a ref; a leaf that the loss did not reach has gradient zero."""
        value = self.value(ref)
        found = look_up(grads, ref.id, value.shape)
        return zeros_like(value) if found is None else found
