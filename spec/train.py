"""Chapter 39. Training: parameters as a list, a loss as a function, a step as a method.

A trainer runs its loss anew for every call: on a tape, or as a graph. Both give the same numbers.

>>> from spec.tensor import tensor
>>> def loss(ops, w, x):
...     return ops.sum(ops.square(ops.sub(w, x)))
>>> trainer = scalar_trainer(loss, [tensor([3.0])], interpreter="graph")
>>> trainer.step_with_loss(0.25, [tensor([1.0])]), trainer.params.values()
(Tensor(4.0), [Tensor([2.0])])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from spec.batches import Batch, pieces_of
from spec.batches import MicroBatches as MicroBatches
from spec.batches import mean_scalar_over as mean_scalar_over
from spec.batches import split as split
from spec.linked import GraphSession
from spec.op import AnyTensor, plus, shape_or_type, zeros_like
from spec.optim._groups import groups_of
from spec.optim._steps import ListSteps, TrainerSteps
from spec.ref import TAKES, Ref
from spec.refusals import called, listed, refuse
from spec.scalar import lift, sum_terms
from spec.session import Session, Sessions
from spec.tensor import tensor
from spec.updates import Param

Loss = Callable[..., Ref]
"""loss(ops, *params, *inputs), written once for every interpreter, returns a scalar."""

INTERPRETERS: dict[str, Callable[[], Sessions[Any]]] = {"eager": Session, "graph": GraphSession}

Rate = float | Callable[[int], float]
"""A learning rate, or a schedule: from the number of steps taken so far to a learning rate."""


class ParamList(ListSteps[Sequence[AnyTensor | None]]):
    """Parameters in a fixed order, each trainable or frozen."""

    def __init__(
        self,
        values: Sequence[AnyTensor],
        requires_grad: Sequence[bool] | None = None,
        *,
        session: Sessions[Any] | None = None,
    ) -> None:
        """Hold one parameter per value; as many flags as values, or Rejected; True unless given.

        What is no tensor, or neither True nor False, is Rejected too.
        The states of their updates are kept in the session given, or in a new one.
        """
        tensors = listed("params", "values are tensors in a list", values)
        rule = f"one requires_grad flag for each of the {len(tensors)} values"
        every = [True] * len(tensors) if requires_grad is None else requires_grad
        flags = listed("params", rule, every)
        if len(flags) != len(tensors):
            raise refuse("params", rule, f"{len(flags)} flags")
        pairs = enumerate(zip(tensors, flags, strict=True))
        self.params = [Param(value, f"param{k}", flag) for k, (value, flag) in pairs]
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
        rule = f"values of the shapes {[p.value.shape for p in self.params]}"
        given = listed("params", rule, values)
        came = [shape_or_type(v) for v in given]
        if came != [p.value.shape for p in self.params]:
            raise refuse("params", rule, came)
        for param, value in zip(self.params, given, strict=True):
            param.set(value)

    def _update(
        self, name: str, gradients: Sequence[AnyTensor | None], hyper: dict[str, Any]
    ) -> None:
        """Update as if each parameter were in use once, as the leaf of its number."""
        rule = f"one gradient for each of {len(self)}"
        given = listed("params", rule, gradients)
        if len(given) != len(self):
            raise refuse("params", rule, len(given))
        grads = {k: g for k, g in enumerate(given) if g is not None}
        session, in_use = self.session, self.session.params_by_leaf
        session.params_by_leaf = dict(enumerate(self.params))
        try:
            getattr(session, f"{name}_step")(grads=grads, **hyper)
        finally:
            session.params_by_leaf = in_use


def use_params(session: Sessions[Any], params: ParamList) -> list[Ref]:
    """Record every parameter, in order; in a graph, one after the first op is Rejected."""
    return [session.use(param) for param in params.params]


def use_inputs(session: Sessions[Any], inputs: Sequence[AnyTensor]) -> list[Ref]:
    """Record outside tensors, in order, as leaves without gradient; what is none is Rejected."""
    given = listed("trainer", "inputs are tensors in a list, or micro-batches", inputs)
    return [session.input(value) for value in given]


def gradients_of(session: Sessions[Any], loss: Ref, refs: Sequence[Ref]) -> list[AnyTensor]:
    """Return the gradients of a scalar loss by each ref, of its shape, zero if not reached.

    A loss of another shape, and a ref that is none of the session's present record, are Rejected.
    """
    grads = session.backward_dense(loss)
    return [session.grad(grads, ref) for ref in listed("grad", "refs are in a list", refs)]


@dataclass
class ScalarTrainer(TrainerSteps[Batch, AnyTensor]):
    """A scalar loss, its parameters, and steps that make it smaller.

    `steps` counts the updates made; schedules read it.
    """

    loss: Loss
    params: ParamList
    session: Sessions[Any]
    steps: int = field(default=0, kw_only=True)

    def get_params(self, sync: bool = True) -> list[AnyTensor]:
        """Return the current values of the parameters, in order, as `params.values` does."""
        return self.params.values(sync)

    def forward(self, inputs: Batch) -> AnyTensor:
        """Compute the loss; what is no scalar ref of the session is Rejected, here and below."""
        return self._passes(inputs, differentiate=False)[0]

    def backward(self, inputs: Batch) -> list[AnyTensor]:
        """Compute the gradient by every parameter, of its shape, in order; a frozen one is zero.

        A loss that `forward` refuses is Rejected, as are pieces that make no batch.
        """
        return self.loss_and_backward(inputs)[1]

    def loss_and_backward(self, inputs: Batch) -> tuple[AnyTensor, list[AnyTensor]]:
        """Compute the loss, and the gradient by every parameter, in order, as `backward` does."""
        loss, grads = self._passes(inputs)
        params = enumerate(self.params.params)
        return loss, [grads.get(k) or zeros_like(param.value) for k, param in params]

    def step(self, lr: Rate, inputs: Batch, **hyper: Any) -> None:
        """Take one step of stochastic gradient descent, with the hyper-parameters of `sgd_step`.

        lr may be a schedule, here and in groups, whose 'params' may be positions in the list.
        What is Rejected, of the loss or of the update, changes no parameter and no count.
        """
        self.sgd_step(inputs, lr=lr, **hyper)

    def step_with_loss(self, lr: Rate, inputs: Batch, **hyper: Any) -> AnyTensor:
        """Take one step of stochastic gradient descent; return the loss before it."""
        loss = self.sgd_step(inputs, with_loss=True, lr=lr, **hyper)
        assert loss is not None
        return loss

    def _run(self, inputs: Sequence[AnyTensor]) -> Ref:
        """Run the loss on an empty record: parameters first, so that leaf k is parameter k."""
        self.session.reset_tape()
        refs = [*use_params(self.session, self.params), *use_inputs(self.session, inputs)]
        found = called("trainer", TAKES, self.loss, self.session, *refs)
        out = self.session.own("trainer", found, "a loss is a ref of this session")
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
            if not differentiate:
                continue
            for leaf, gradient in self.session.backward(out, tensor(share)).items():
                grads[leaf] = plus(grads.get(leaf), gradient) or gradient
        return tensor(sum_terms(losses)), grads

    def _update(
        self, name: str, inputs: Batch, hyper: dict[str, Any], with_loss: bool
    ) -> AnyTensor | None:
        """Run, go back, update once; return the loss before the update if asked to.

        What fails leaves the session's buffers as they were.
        """
        before = [(buffer, buffer.value) for buffer in self.session.buffers]
        try:
            loss, grads = self._passes(inputs)
            getattr(self.session, f"{name}_step")(grads=grads, **self._scheduled(name, hyper))
        except BaseException:
            for buffer, value in before:
                buffer.set(value)
            raise
        self.steps += 1
        return loss if with_loss else None

    def _scheduled(self, who: str, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the schedules for this step's learning rates, and name the groups' parameters."""
        found = dict(hyper)
        if callable(found.get("lr")):
            found["lr"] = found["lr"](self.steps)
        if "groups" in found:
            groups = groups_of(who, found["groups"])
            found["groups"] = [self._scheduled(who, group) for group in groups]
        if "params" in found:
            every = self.params.params
            known = range(-len(every), len(every))
            found["params"] = [
                every[p] if type(p) is int and p in known else p for p in found["params"]
            ]
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
    if interpreter not in list(INTERPRETERS):
        rule = f"the interpreter is one of {', '.join(INTERPRETERS)}"
        raise refuse("trainer", rule, repr(interpreter))
    session = INTERPRETERS[interpreter]()
    return ScalarTrainer(loss, ParamList(params, requires_grad, session=session), session)
