"""Chapter 17. The session: programs, parameters and steps on one tape.

A program takes its operations from the session it runs in, so that one text serves every
interpreter::

    def loss(ops, w, b, x, labels):
        return ops.cross_entropy(ops.linear(x, w, b), labels)

Here the interpreter is the eager tape: every call computes at once and appends a node.
`Param` holds what outlives the tape; `use` puts its current value on the tape as a leaf.

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

from collections.abc import Mapping, Sequence
from typing import Any, cast

from spec.naturals import Naturals
from spec.op import AnyTensor, Op, refuse, zeros_like
from spec.ops import OPS
from spec.optim import adamw, sgd
from spec.protocol import Ops
from spec.shape import Shape, broadcast
from spec.tape import Observer, Tape
from spec.tensor import Tensor

Gradients = Mapping[int, AnyTensor] | Sequence[AnyTensor]
"""Sparse, by leaf id, as `backward` gives them; or dense, one per node."""


class Param:
    """A tensor that outlives the tape; optimizers update it unless requires_grad is False."""

    def __init__(self, value: AnyTensor, name: str | None, requires_grad: bool) -> None:
        """Hold a first value."""
        self.name = name
        self.requires_grad = requires_grad
        self.version = 0
        self._value = value

    @property
    def value(self) -> AnyTensor:
        """The current value."""
        return self._value

    def set(self, value: AnyTensor) -> None:
        """Overwrite the value by one of the same shape."""
        if value.shape != self._value.shape:
            rule = f"a value of {self.name or 'the parameter'} has the shape {self._value.shape}"
            raise refuse("param", rule, value.shape)
        self._value = value
        self.version += 1


class Ref:
    """A handle on a node of a session's tape, with the operators of a tensor."""

    __slots__ = ("id", "session")

    def __init__(self, session: Session, id: int) -> None:
        """Point at a node."""
        self.session = session
        self.id = id

    @property
    def shape(self) -> Shape:
        """The shape of the node's value."""
        return tuple(self.session.tape.value(self.id).shape)

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


def _aligned(x: Ref, y: Ref) -> tuple[Ref, Ref]:
    """Insert the broadcasts that an operator implies."""
    if x.shape == y.shape:
        return x, y
    shape = broadcast(x.shape, y.shape)
    if shape is None:
        raise refuse("operator", "the shapes broadcast to a common one", f"{x.shape}, {y.shape}")
    both = (r if r.shape == shape else r.session.broadcast_to(r, shape=shape) for r in (x, y))
    first, second = both
    return first, second


class Session(Naturals, Ops[Ref]):
    """An eager session: a tape, the parameters in use on it, and integers that take no gradient."""

    def __init__(self, observer: Observer | None = None) -> None:
        """Start with an empty tape; the observer sees the events of backward passes."""
        self._observer = observer
        self._states: dict[int, Any] = {}
        self.reset_tape()

    def reset_tape(self) -> None:
        """Forget every node and integer; parameters and optimizer states remain."""
        self.tape = Tape(self._observer)
        self.params_by_leaf: dict[int, Param] = {}
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
        op: Op = OPS[name]
        for k, x in enumerate(inputs):
            if isinstance(x, Ref) and x.session is not self:
                rule = "the inputs are refs of this session"
                raise refuse(name, rule, f"input {k} of another session")
        ids = [self._id(op, k, x) for k, x in enumerate(inputs)]
        return Ref(self, self.tape.apply(op, *ids, **attributes))

    def _id(self, op: Op, k: int, x: Any) -> int:
        if isinstance(x, Ref):
            return x.id
        if k in op.index_inputs and isinstance(x, Tensor):
            return self.tape.const(cast("AnyTensor", x))
        raise refuse(op.name, "the inputs are refs of this session", f"input {k}, {type(x)}")

    def value(self, ref: Ref) -> AnyTensor:
        """Return the value of a node."""
        return self.tape.value(ref.id)

    def backward_dense(self, out: Ref, seed: AnyTensor | None = None) -> list[AnyTensor]:
        """Return a cotangent for every node, zero where the seed does not reach."""
        return self.tape.backward_dense(out.id, seed)

    def backward(self, loss: Ref, seed: AnyTensor | None = None) -> dict[int, AnyTensor]:
        """Return the cotangents of the trainable leaves that the loss reaches, by leaf id."""
        return self.tape.backward(loss.id, seed)

    def grad(self, grads: Gradients, ref: Ref) -> AnyTensor:
        """Look up the gradient of a ref; a leaf that the loss did not reach has gradient zero."""
        value = self.tape.value(ref.id)
        found = _lookup(grads, ref.id)
        if found is None:
            return zeros_like(value)
        if found.shape != value.shape:
            rule = f"the gradient of node {ref.id} has its shape {value.shape}"
            raise refuse("grad", rule, found.shape)
        return found

    def sgd_step(self, lr: float, grads: Gradients, **hyper: Any) -> None:
        """Update every parameter in use by stochastic gradient descent; see spec.optim.sgd."""
        chosen = sgd.Sgd(lr, **hyper)
        for param, gradient in self._totals(grads):
            state = self._states.get(id(param), sgd.init())
            value, state = sgd.update(param.value, gradient, state, chosen)
            self._commit(param, value, state)

    def adamw_step(self, lr: float = 1e-3, *, grads: Gradients, **hyper: Any) -> None:
        """Update every parameter in use by AdamW; see spec.optim.adamw."""
        chosen = adamw.AdamW(lr, **hyper)
        for param, gradient in self._totals(grads):
            state = self._states.get(id(param)) or adamw.init(param.value)
            value, state = adamw.update(param.value, gradient, state, chosen)
            self._commit(param, value, state)

    def state(self, param: Param) -> Any:
        """Return the optimizer state of a parameter, None before its first step."""
        return self._states.get(id(param))

    def _commit(self, param: Param, value: AnyTensor, state: Any) -> None:
        param.set(value)
        self._states[id(param)] = state

    def _totals(self, grads: Gradients) -> list[tuple[Param, AnyTensor]]:
        """Add up each trainable parameter's gradients over its leaves; unreached ones are left out.

        Everything is checked before anything is updated.
        """
        totals: dict[int, tuple[Param, AnyTensor]] = {}
        for leaf, param in self.params_by_leaf.items():
            if not param.requires_grad or _lookup(grads, leaf) is None:
                continue
            gradient = self.grad(grads, Ref(self, leaf))
            if id(param) in totals:
                before = totals[id(param)][1]
                gradient = OPS["add"](before, gradient)
            totals[id(param)] = (param, gradient)
        return list(totals.values())


def _lookup(grads: Gradients, id: int) -> AnyTensor | None:
    if isinstance(grads, Mapping):
        return grads.get(id)
    if not 0 <= id < len(grads):
        raise refuse("grad", f"ids lie in [0, {len(grads)})", id)
    return grads[id]
