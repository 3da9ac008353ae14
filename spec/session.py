"""Chapter 36. The session: programs, parameters and steps on one tape.

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

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from spec.named import NamedBuffer
from spec.naturals import Naturals
from spec.op import AnyTensor, checked, zeros_like
from spec.params import Leaves, Param, param_of
from spec.ref import Interpreter, T
from spec.ref import Ref as Ref
from spec.refusals import need_name, refuse
from spec.tape import Dense, Observer, Tape, flag
from spec.updates import Cotangents, Gradients, Updates, look_up


class Sessions(Naturals, Updates, Interpreter[T]):
    """What sessions of every kind share: a record, parameters in use on it, and integers."""

    def __init__(self) -> None:
        """Start with an empty record, without integers and without optimizer states."""
        Naturals.__init__(self)
        Updates.__init__(self)
        self.buffers: list[NamedBuffer] = []
        self.reset_tape()

    @abstractmethod
    def _fresh(self) -> T:
        """Make an empty record."""

    def reset_tape(self) -> None:
        """Forget every entry and integer; parameters, buffers and optimizer states remain.

        Refs and handles of integers from before are Rejected from then on.
        """
        self.tape = self._fresh()
        self.params_by_leaf = Leaves()
        self._unasked: set[int] = set()
        self.forget_nats()

    def param(self, value: AnyTensor, name: str | None = None, requires_grad: bool = True) -> Param:
        """Make a parameter of the value's shape and world; it is not recorded until it is used.

        It belongs to who holds it, outlives the tape, and may be used in other sessions too.
        What is no tensor, and a requires_grad that is neither True nor False, are Rejected.
        """
        return Param(value, name, requires_grad)

    def buffer(self, value: AnyTensor, name: str | None = None) -> NamedBuffer:
        """Make a buffer of the value's shape: state that ops update and no gradient reaches.

        It outlives the tape, as running statistics do. What is no tensor is Rejected.
        """
        self.buffers.append(NamedBuffer(value, name))
        return self.buffers[-1]

    def use(self, param: Param) -> Ref:
        """Record the current value of a parameter as a leaf; using it twice makes two leaves.

        Both gradients add up in the one update. The leaf keeps its value if the parameter changes,
        and takes no gradient if the parameter is frozen now. What is no Param is Rejected.
        """
        param_of("use", param)
        ref = Ref(self, self.tape.leaf(param.value, param.requires_grad, param.name))
        self.params_by_leaf[ref.id] = param
        return ref

    def input(self, value: AnyTensor, name: str | None = None, requires_grad: bool = False) -> Ref:
        """Record an outside tensor as a leaf, which takes a gradient if it requires one.

        Its entries are numbers of any one world; updates do not write it. What is no tensor, and a
        requires_grad that is neither True nor False, are Rejected.
        """
        wanted = flag("input", requires_grad)
        need_name("input", name)
        ref = Ref(self, self.tape.leaf(checked("input", value), wanted, name))
        if not wanted:
            self._unasked.add(ref.id)
        return ref

    def backward_dense(self, out: Ref, seed: AnyTensor | None = None) -> Dense:
        """Return a cotangent for every entry, of its shape, zero where the seed does not reach.

        The seed has the shape of out; a scalar's is 1 unless given. What does not fit is Rejected.
        """
        return self.tape.backward_dense(self.own("backward", out).id, seed)

    def backward(self, loss: Ref, seed: AnyTensor | None = None) -> Cotangents:
        """Return the cotangents of the trainable leaves that the loss reaches, by leaf id.

        Each has its leaf's shape; what is absent is zero, and updates skip it. The seed has the
        shape of the loss; a scalar's is 1 unless given. What does not fit is Rejected.
        """
        return Cotangents(self.tape.backward(self.own("backward", loss).id, seed))

    def grad(self, grads: Gradients, ref: Ref) -> AnyTensor:
        """Look up the gradient of a ref, of its shape; a leaf that was not reached has zero.

        What `backward` keeps no gradient of is Rejected: an op's result, which `backward_dense` has
        one of, and an input that was recorded without requires_grad. So are an id that dense
        gradients lack, and a gradient of another shape, naming both.
        """
        asked: Any = ref
        if isinstance(grads, Ref) or not isinstance(asked, Ref):
            rule = "write grad(grads, x), where x is a ref, such as use(param) returns"
            raise refuse("grad", rule, f"{type(grads).__name__} and {type(asked).__name__}")
        value = self.value(ref)
        found = look_up(grads, ref.id, value.shape)
        if found is not None:
            return found
        if isinstance(grads, Mapping):
            self._refuse_unkept(ref)
        return zeros_like(value)

    def _refuse_unkept(self, ref: Ref) -> None:
        """Refuse an entry that `backward` never keeps a gradient of: zero would be a lie."""
        if self.tape.maker(ref.id) is not None:
            advice = "backward_dense() keeps those of results too"
        elif ref.id in self._unasked:
            advice = "input(..., requires_grad=True) makes one of an input"
        else:
            return
        rule = "backward() keeps the gradients of leaves that take one"
        raise refuse("grad", rule, f"x{ref.id} {self.tape.label(ref.id)}; {advice}")


class Session(Sessions[Tape]):
    """An eager session: a tape, the parameters in use on it, and integers that take no gradient."""

    def __init__(self, observer: Observer | None = None) -> None:
        """Start with an empty tape; the observer sees the events of backward passes."""
        self._observer = observer
        super().__init__()

    def _fresh(self) -> Tape:
        return Tape(self._observer)
