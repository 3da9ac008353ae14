"""Chapter 23. Training: parameters as a list, a loss as a function, a step as a method.

A trainer runs its loss anew for every call: on a tape, or as a graph. Both give the same numbers.

>>> from spec.tensor import tensor
>>> def loss(ops, w, x):
...     return ops.sum(ops.square(ops.sub(w, x)))
>>> trainer = scalar_trainer(loss, [tensor([3.0])], interpreter="graph")
>>> trainer.step_with_loss(0.25, [tensor([1.0])]), trainer.params.values()
(Tensor(4.0), [Tensor([2.0])])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from spec.batches import Batch, pieces_of
from spec.batches import MicroBatches as MicroBatches
from spec.batches import split as split
from spec.linked import GraphSession
from spec.op import AnyTensor, Rejected, plus, refuse, zeros_like
from spec.ref import Interpreter, Ref
from spec.scalar import lift, sum_terms
from spec.session import Session, Sessions
from spec.tensor import tensor
from spec.updates import Param

B = TypeVar("B")
Loss = Callable[..., Ref]
"""loss(ops, *params, *inputs), written once for every interpreter, returns a scalar."""

INTERPRETERS: dict[str, Callable[[], Sessions[Any]]] = {"eager": Session, "graph": GraphSession}

Rate = float | Callable[[int], float]
"""A learning rate, or a schedule: from the number of steps taken so far to a learning rate."""


class ParamList:
    """Parameters in a fixed order, each trainable or frozen."""

    def __init__(
        self,
        values: Sequence[AnyTensor],
        requires_grad: Sequence[bool] | None = None,
        *,
        session: Sessions[Any] | None = None,
    ) -> None:
        """Hold one parameter per value; as many flags as values, or Rejected; True unless given.

        The states of their updates are kept in the session given, or in a new one.
        """
        flags = [True] * len(values) if requires_grad is None else list(requires_grad)
        if len(flags) != len(values):
            rule = f"one requires_grad flag for each of the {len(values)} values"
            raise refuse("params", rule, f"{len(flags)} flags")
        self.params = [
            Param(value, f"param{k}", flag)
            for k, (value, flag) in enumerate(zip(values, flags, strict=True))
        ]
        self.session = Session() if session is None else session

    def __len__(self) -> int:
        """Count the parameters."""
        return len(self.params)

    def values(self, sync: bool = True) -> list[AnyTensor]:
        """Return the current values, in order; here, none is ever out of date."""
        del sync
        return [param.value for param in self.params]

    def set_values(self, values: Sequence[AnyTensor]) -> None:
        """Overwrite all values; a count or a shape that does not fit is Rejected first."""
        if [v.shape for v in values] != [p.value.shape for p in self.params]:
            rule = f"values of the shapes {[p.value.shape for p in self.params]}"
            raise refuse("params", rule, [v.shape for v in values])
        for param, value in zip(self.params, values, strict=True):
            param.set(value)

    def sgd_step(self, lr: float, gradients: Sequence[AnyTensor | None], **hyper: Any) -> None:
        """Take a step of SGD by one gradient per parameter, all or none; hyper is the session's.

        None stands for a parameter that the loss did not reach. The session's record is left alone.
        """
        if len(gradients) != len(self):
            raise refuse("params", f"one gradient for each of {len(self)}", len(gradients))
        grads = {k: g for k, g in enumerate(gradients) if g is not None}
        session, in_use = self.session, self.session.params_by_leaf
        session.params_by_leaf = dict(enumerate(self.params))
        try:
            session.sgd_step(lr, grads, **hyper)
        finally:
            session.params_by_leaf = in_use


def use_params(session: Sessions[Any], params: ParamList) -> list[Ref]:
    """Record every parameter, in order."""
    return [session.use(param) for param in params.params]


def use_inputs(session: Sessions[Any], inputs: Sequence[AnyTensor]) -> list[Ref]:
    """Record outside tensors, in order, as leaves that take no gradient."""
    return [session.input(value) for value in inputs]


def gradients_of(session: Sessions[Any], loss: Ref, refs: Sequence[Ref]) -> list[AnyTensor]:
    """Return the gradients of a scalar loss by each ref, of its shape, zero if not reached."""
    grads = session.backward_dense(loss)
    return [session.grad(grads, ref) for ref in refs]


@dataclass
class ScalarTrainer:
    """A scalar loss, its parameters, and steps that make it smaller.

    `steps` counts the updates made; schedules read it.
    """

    loss: Loss
    params: ParamList
    session: Sessions[Any]
    steps: int = field(default=0, kw_only=True)

    def forward(self, inputs: Batch) -> AnyTensor:
        """Compute the loss; what is no scalar is Rejected."""
        return self._passes(inputs, differentiate=False)[0]

    def backward(self, inputs: Batch) -> list[AnyTensor]:
        """Compute the gradient by every parameter, of its shape, in order; a frozen one is zero."""
        return self.loss_and_backward(inputs)[1]

    def loss_and_backward(self, inputs: Batch) -> tuple[AnyTensor, list[AnyTensor]]:
        """Compute the loss, and the gradient by every parameter, in order."""
        loss, grads = self._passes(inputs)
        params = enumerate(self.params.params)
        return loss, [grads.get(k) or zeros_like(param.value) for k, param in params]

    def step(self, lr: Rate, inputs: Batch, **hyper: Any) -> None:
        """Take one step of stochastic gradient descent, with the hyper-parameters of `sgd_step`.

        lr may be a schedule, here and in groups, whose 'params' may be positions in the list.
        """
        self._update("sgd_step", inputs, {"lr": lr, **hyper})

    def step_with_loss(self, lr: Rate, inputs: Batch, **hyper: Any) -> AnyTensor:
        """Take one step of stochastic gradient descent; return the loss before it."""
        return self._update("sgd_step", inputs, {"lr": lr, **hyper})

    def adam_step(
        self, inputs: Batch, *, with_loss: bool = False, **hyper: Any
    ) -> AnyTensor | None:
        """Take one step of Adam; return the loss before it if asked to."""
        loss = self._update("adam_step", inputs, hyper)
        return loss if with_loss else None

    def adamw_step(
        self, inputs: Batch, *, with_loss: bool = False, **hyper: Any
    ) -> AnyTensor | None:
        """Take one step of AdamW; return the loss before it if asked to."""
        loss = self._update("adamw_step", inputs, hyper)
        return loss if with_loss else None

    def _run(self, inputs: Sequence[AnyTensor]) -> Ref:
        """Run the loss on an empty record: parameters first, so that leaf k is parameter k."""
        self.session.reset_tape()
        leaves = use_params(self.session, self.params)
        out = self.loss(self.session, *leaves, *use_inputs(self.session, inputs))
        if out.shape != ():
            raise refuse("trainer", "the loss is a scalar", f"shape {out.shape}")
        return out

    def _passes(
        self, inputs: Batch, differentiate: bool = True
    ) -> tuple[AnyTensor, dict[int, AnyTensor]]:
        """Add up the losses of all pieces by their weights, and the gradients by leaf."""
        losses: list[Any] = []
        grads: dict[int, AnyTensor] = {}
        for piece, weight in pieces_of(inputs):
            out = self._run(piece)
            value = self.session.value(out)[()]
            share = lift(value, Fraction(weight))
            losses.append(share * value)
            found = self.session.backward(out, tensor(share)) if differentiate else {}
            for leaf, gradient in found.items():
                grads[leaf] = plus(grads.get(leaf), gradient) or gradient
        return tensor(sum_terms(losses)), grads

    def _update(self, method: str, inputs: Batch, hyper: Mapping[str, Any]) -> AnyTensor:
        """Run, go back, update once; return the loss before the update."""
        loss, grads = self._passes(inputs)
        getattr(self.session, method)(grads=grads, **self._scheduled(hyper))
        self.steps += 1
        return loss

    def _scheduled(self, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the schedules for this step's learning rates, and name the groups' parameters."""
        found = dict(hyper)
        if callable(found.get("lr")):
            found["lr"] = found["lr"](self.steps)
        if found.get("groups"):
            found["groups"] = [self._scheduled(group) for group in found["groups"]]
        if "params" in found:
            every = self.params.params
            found["params"] = [every[p] if isinstance(p, int) else p for p in found["params"]]
        return found


def scalar_trainer(
    loss: Loss,
    params: Sequence[AnyTensor],
    requires_grad: Sequence[bool] | None = None,
    interpreter: str = "eager",
) -> ScalarTrainer:
    """Build a trainer from a loss and the first values of its parameters.

    The interpreter is "eager", a tape, or "graph"; any other name is Rejected.
    """
    if interpreter not in INTERPRETERS:
        rule = f"the interpreter is one of {', '.join(INTERPRETERS)}"
        raise refuse("trainer", rule, repr(interpreter))
    session = INTERPRETERS[interpreter]()
    return ScalarTrainer(loss, ParamList(params, requires_grad, session=session), session)


def mean_scalar_over(
    session: Interpreter[Any], tag: str, data: Iterable[B], loss_of: Callable[[B], Ref]
) -> Ref:
    """Add up the losses of all examples, left to right, then scale by 1/N.

    The data are read once, in their order, and neither shuffled nor changed: a list, a tuple, a
    dataset, whatever can be iterated over. Empty data raise Rejected, with the tag in front.
    In a graph session, what loss_of records of an example is constant, since leaves come first.
    """
    total: Ref | None = None
    count = 0
    for example in data:
        loss = loss_of(example)
        if loss.shape != ():
            raise refuse(tag, "the loss of an example is a scalar", f"shape {loss.shape}")
        total = loss if total is None else total + loss
        count += 1
    if total is None:
        raise Rejected(f"{tag}: empty dataset")
    return total * session.constant(Fraction(1, count), like=total)
