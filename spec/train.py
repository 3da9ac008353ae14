"""Chapter 23. Training: parameters as a list, a loss as a function, a step as a method.

>>> from spec.tensor import tensor
>>> def loss(ops, w, x):
...     return ops.sum(ops.square(ops.sub(w, x)))
>>> trainer = scalar_trainer(loss, [tensor([3.0])])
>>> trainer.step_with_loss(0.25, [tensor([1.0])]), trainer.params.values()
(Tensor(4.0), [Tensor([2.0])])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from spec.op import AnyTensor, Rejected, refuse
from spec.scalar import lift
from spec.session import Ref, Session
from spec.tensor import Tensor
from spec.updates import Param

B = TypeVar("B")
Loss = Callable[..., Ref]
"""loss(ops, *params, *inputs), written once for every interpreter, returns a scalar."""


class ParamList:
    """Parameters in a fixed order, each trainable or frozen."""

    def __init__(
        self, values: Sequence[AnyTensor], requires_grad: Sequence[bool] | None = None
    ) -> None:
        """Hold one parameter per value; as many flags as values, all True unless given."""
        flags = [True] * len(values) if requires_grad is None else list(requires_grad)
        if len(flags) != len(values):
            rule = f"one requires_grad flag for each of the {len(values)} values"
            raise refuse("params", rule, f"{len(flags)} flags")
        self.params = [
            Param(value, f"param{k}", flag)
            for k, (value, flag) in enumerate(zip(values, flags, strict=True))
        ]

    def __len__(self) -> int:
        """Count the parameters."""
        return len(self.params)

    def values(self) -> list[AnyTensor]:
        """Return the current values, in order."""
        return [param.value for param in self.params]

    def set_values(self, values: Sequence[AnyTensor]) -> None:
        """Overwrite all values, or none if one does not fit."""
        if [v.shape for v in values] != [p.value.shape for p in self.params]:
            rule = f"values of the shapes {[p.value.shape for p in self.params]}"
            raise refuse("params", rule, [v.shape for v in values])
        for param, value in zip(self.params, values, strict=True):
            param.set(value)

    def sgd_step(self, lr: float, gradients: Sequence[AnyTensor]) -> None:
        """Subtract lr times its gradient from every trainable parameter."""
        session = Session()
        leaves = use_params(session, self)
        if len(gradients) != len(leaves):
            raise refuse("params", f"one gradient for each of {len(leaves)}", len(gradients))
        session.sgd_step(lr, {r.id: g for r, g in zip(leaves, gradients, strict=True)})


def use_params(session: Session, params: ParamList) -> list[Ref]:
    """Put every parameter on the tape, in order."""
    return [session.use(param) for param in params.params]


def use_inputs(session: Session, inputs: Sequence[AnyTensor]) -> list[Ref]:
    """Put outside tensors on the tape, in order, as leaves that take no gradient."""
    return [session.input(value) for value in inputs]


def gradients_of(session: Session, loss: Ref, refs: Sequence[Ref]) -> list[AnyTensor]:
    """Return the gradients of a scalar loss by each ref, zero where it does not reach."""
    grads = session.backward_dense(loss)
    return [session.grad(grads, ref) for ref in refs]


@dataclass
class ScalarTrainer:
    """A scalar loss, its parameters, and steps that make it smaller."""

    loss: Loss
    params: ParamList
    session: Session

    def _run(self, inputs: Sequence[AnyTensor]) -> tuple[list[Ref], Ref]:
        self.session.reset_tape()
        leaves = use_params(self.session, self.params)
        out = self.loss(self.session, *leaves, *use_inputs(self.session, inputs))
        if out.shape != ():
            raise refuse("trainer", "the loss is a scalar", f"shape {out.shape}")
        return leaves, out

    def forward(self, inputs: Sequence[AnyTensor]) -> AnyTensor:
        """Compute the loss."""
        return self.session.value(self._run(inputs)[1])

    def backward(self, inputs: Sequence[AnyTensor]) -> list[AnyTensor]:
        """Compute the gradient by every parameter, in order."""
        return self.loss_and_backward(inputs)[1]

    def loss_and_backward(self, inputs: Sequence[AnyTensor]) -> tuple[AnyTensor, list[AnyTensor]]:
        """Compute the loss and the gradient by every parameter, in order."""
        leaves, out = self._run(inputs)
        return self.session.value(out), gradients_of(self.session, out, leaves)

    def step(self, lr: float, inputs: Sequence[AnyTensor], **hyper: Any) -> None:
        """Take one step of stochastic gradient descent."""
        self.step_with_loss(lr, inputs, **hyper)

    def step_with_loss(self, lr: float, inputs: Sequence[AnyTensor], **hyper: Any) -> AnyTensor:
        """Take one step of stochastic gradient descent; return the loss before it."""
        _, out = self._run(inputs)
        self.session.sgd_step(lr, self.session.backward(out), **hyper)
        return self.session.value(out)

    def adamw_step(self, inputs: Sequence[AnyTensor], **hyper: Any) -> AnyTensor:
        """Take one step of AdamW; return the loss before it."""
        _, out = self._run(inputs)
        self.session.adamw_step(grads=self.session.backward(out), **hyper)
        return self.session.value(out)


def scalar_trainer(
    loss: Loss, params: Sequence[AnyTensor], requires_grad: Sequence[bool] | None = None
) -> ScalarTrainer:
    """Build a trainer from a loss and the first values of its parameters."""
    return ScalarTrainer(loss, ParamList(params, requires_grad), Session())


def mean_scalar_over(
    session: Session, tag: str, data: Iterable[B], loss_of: Callable[[B], Ref]
) -> Ref:
    """Add up the losses of all examples, left to right, then scale by 1/N.

    The data are read once, in their order, and neither shuffled nor changed.
    Empty data raise Rejected, with the tag in front.
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
    like = session.value(total).data[0]
    share: AnyTensor = Tensor((), (lift(like, Fraction(1, count)),))
    return total * session.const(share)
