"""Two trainers as one: every step of a `fast` trainer is taken by the reference's, and is judged.

Before a step the reference takes over the parameters and the optimizer state that the backend had
after the last one, exactly. It runs the loss and judges it, and the gradient of every parameter;
then it updates by the backend's own gradients, and judges every parameter and moment. So a fault
shows where it is made, and budgets never pile up.
What is taken over is what was seen then, not what is there now: a trainer that loses its momentum
between two steps is found by the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

import fast.train
import spec.train
from equivalence.budgets.violation import check_bits, check_equal
from equivalence.sessions.judge import SessionJudge, State
from fast.compiled.session import ENGINES as ALL
from spec.batches import Batch as SpecBatch
from spec.op import AnyTensor, zeros_like
from spec.optim import OPTIMIZERS

ENGINES = tuple(engine for engine in ALL if engine not in ("replay", "auto"))
"""Engines that compile; one that runs what the eager session runs is an interpreter of its own."""

Loss = Callable[..., Any]
"""loss(ops, *params, *inputs), which both sides run."""


@dataclass(frozen=True)
class Batch:
    """A batch whole, cut by `split` into so many pieces, or in pieces with weights of their own."""

    data: Sequence[Tensor]
    count: int = 1
    reduction: str = "mean"
    weights: Sequence[float | Fraction] | None = None

    def of(self, side: Any, lift: Callable[[Tensor], Any]) -> Any:
        """Write the batch for one side: `fast.train`, or `spec.train`."""
        if self.weights is not None:
            spans = torch.arange(len(self.data[0])).tensor_split(len(self.weights))
            pieces = [[lift(x[rows]) for x in self.data] for rows in spans]
            return side.MicroBatches(pieces, self.weights)
        whole = [lift(x) for x in self.data]
        return whole if self.count == 1 else side.split(whole, self.count, self.reduction)


class Follower(spec.train.ScalarTrainer):
    """The reference's trainer, which shows what its passes found before it updates."""

    adopt: Callable[[AnyTensor, dict[int, AnyTensor]], dict[int, AnyTensor]]

    def _passes(
        self, inputs: SpecBatch, differentiate: bool = True
    ) -> tuple[AnyTensor, dict[int, AnyTensor]]:
        loss, grads = super()._passes(inputs, differentiate)
        return loss, self.adopt(loss, grads)


class Watched(fast.train.ScalarTrainer):
    """A trainer of `fast` whose steps show the gradients by which they have updated."""

    def shown(self, optimizer: str, inputs: Any, hyper: dict[str, Any]) -> tuple[Tensor, Any]:
        """Take a step, and only then look: return the loss, and the gradient by each parameter.

        An engine that compiles a step whole computes them nowhere else.
        """
        step = getattr(self.session, f"{optimizer}_step")
        hyper = self._scheduled(hyper)
        with self._fresh() as loss:
            with self._gradients(inputs, loss) as grads:
                step(grads=grads, **hyper)
                found = self._by_parameter(grads)
            self.steps += 1
            return loss.download(), found


class TrainerPair(SessionJudge):
    """A trainer of `fast` and one of `spec`, on the same loss and parameters."""

    def __init__(
        self,
        loss: Loss,
        values: Sequence[Tensor],
        requires_grad: Sequence[bool] | None = None,
        interpreters: tuple[str, str] = ("eager", "eager"),
        provider: str = "aten",
        precision: str = "fp32",
    ) -> None:
        """Start both, each with its interpreter, from the same values; an engine is one, too."""
        ours, theirs = interpreters
        self.engine = ours if ours in ENGINES else None
        options: dict[str, Any] = {"provider": provider, "precision": precision, "device": "cpu"}
        if self.engine is not None:
            ours, options["engine"] = "compiled", self.engine
        found = fast.train.scalar_trainer(loss, values, requires_grad, ours, **options)
        self.ours = Watched(found.loss, found.params, found.session)
        super().__init__(self.ours.session.options, self.engine)
        self.values = self.ours.params.values()
        self.states = [State() for _ in values]
        made = spec.train.scalar_trainer(
            loss, [self.lift(self.seen(v)) for v in self.values], requires_grad, theirs
        )
        self.theirs = Follower(made.loss, made.params, made.session)
        self.bound(self.theirs.session)

    def step(self, label: str, optimizer: str, batch: Batch, **hyper: Any) -> None:
        """Take a step on both sides, and judge the loss, the gradients, and what it leaves."""
        given, same = self._both(batch)
        method = f"{optimizer}_step"
        if self.engine is not None:
            loss, grads = self.ours.shown(optimizer, given, hyper)
        else:
            counter = self.ours.session.random_counter
            loss, grads = self.ours.loss_and_backward(given)
            self.ours.session.random_counter = counter
            again = getattr(self.ours, method)(inputs=given, with_loss=True, **hyper)
            check_bits(f"{label}: the loss of the step itself", again, loss)

        def adopt(exact: AnyTensor, found: dict[int, AnyTensor]) -> dict[int, AnyTensor]:
            self._judge_passes(label, loss, grads, exact, found)
            self._take_over(optimizer)
            return {k: self.gradient(grads[k], optimizer) for k in found}

        self._see()
        self.theirs.adopt = adopt
        getattr(self.theirs, method)(inputs=same, **hyper)
        self._judge_updates(label, optimizer)

    def look(self, label: str, batch: Batch) -> None:
        """Ask both sides for the loss alone, and for the gradients alone."""
        given, same = self._both(batch)
        loss, grads = self.ours.forward(given), self.ours.backward(given)

        def judge(exact: AnyTensor, found: dict[int, AnyTensor]) -> dict[int, AnyTensor]:
            if found:
                self._judge_gradients(label, grads, found)
            return found

        self._see()
        self.theirs.adopt = judge
        exact = self.theirs.forward(same)
        self.judge(f"{label}: loss", loss, exact, self.options.compute)
        self.theirs.backward(same)

    def step_by(
        self, label: str, optimizer: str, gradients: Sequence[Tensor | None], **hyper: Any
    ) -> None:
        """Let both lists take a step by given gradients."""
        method = f"{optimizer}_step"
        getattr(self.ours.params, method)(gradients=gradients, **hyper)
        self._take_over(optimizer)
        lifted = [None if g is None else self.gradient(g, optimizer) for g in gradients]
        getattr(self.theirs.params, method)(gradients=lifted, **hyper)
        self._judge_updates(label, optimizer)

    def set_values(self, values: Sequence[Tensor]) -> None:
        """Overwrite all parameters on both sides."""
        self.ours.params.set_values(values)
        self.theirs.params.set_values([self.lift(self.seen(value)) for value in values])
        self.values = [value.clone() for value in values]

    def freeze(self, k: int, frozen: bool = True) -> None:
        """Freeze a parameter on both sides, or let it be trained again."""
        for side in (self.ours, self.theirs):
            side.params.params[k].requires_grad = not frozen

    def _both(self, batch: Batch) -> tuple[Any, Any]:
        return batch.of(fast.train, lambda x: x), batch.of(spec.train, self.lift)

    def _judge_passes(
        self,
        label: str,
        loss: Tensor,
        grads: Sequence[Tensor],
        exact: AnyTensor,
        found: Mapping[int, AnyTensor],
    ) -> None:
        self.judge(f"{label}: loss", loss, exact, self.options.compute)
        self._judge_gradients(label, grads, found)

    def _judge_gradients(
        self, label: str, grads: Sequence[Tensor], found: Mapping[int, AnyTensor]
    ) -> None:
        """Judge the gradient of every parameter, which is zero where nothing reached it."""
        for k, param in enumerate(self.theirs.params.params):
            due = found.get(k) or zeros_like(param.value)
            where = f"{label}: gradient of parameter {k}"
            self.judge(where, grads[k], due, self.options.master)

    def _see(self) -> None:
        """Let the reference's passes see the backend's parameters."""
        for param, value in zip(self.theirs.params.params, self.values, strict=True):
            param.set(self.lift(self.seen(value)))

    def _take_over(self, optimizer: str) -> None:
        """Let the reference update what the backend had after the last step."""
        params = self.theirs.params.params
        for param, value, state in zip(params, self.values, self.states, strict=True):
            self.hand_over(self.theirs.session, param, value, state, optimizer)
        self._versions = [param.version for param in self.theirs.params.params]

    def _judge_updates(self, label: str, optimizer: str) -> None:
        for k, param in enumerate(self.theirs.params.params):
            where = f"{label}: parameter {k}"
            self._judge_update(where, optimizer, k, param.version != self._versions[k])
        ours, theirs = self.ours, self.theirs
        check_equal(f"{label}: steps", ours.steps, theirs.steps)
        check_equal(
            f"{label}: random calls", ours.session.random_counter, theirs.session.random_counter
        )

    def _judge_update(self, label: str, optimizer: str, k: int, updated: bool) -> None:
        """Judge a parameter and its state after a step; what was not updated is as it was."""
        param, ours = self.theirs.params.params[k], self.ours.params.params[k]
        value, found = ours.value(), self.ours.session.optimizer_state(optimizer, ours)
        if not updated:
            check_bits(label, value, self.values[k])
            self.check_state(label, optimizer, found, self.states[k])
            return
        state, fields = self.theirs.session.state(param), OPTIMIZERS[optimizer].moments
        moments = {name: found[name] for name in fields if getattr(state, name) is not None}
        due = param.value, state
        before = self.states[k]
        self.states[k] = self.judge_update(label, optimizer, (value, moments), due, before)
        self.values[k] = value
        if OPTIMIZERS[optimizer].counted:
            check_equal(f"{label}: step", int(found["step"]), self.states[k].step)
