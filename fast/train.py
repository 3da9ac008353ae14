"""Twin of spec.train: parameters as a list, a loss as a function, a step as a method.

The interpreter is a `fast.Session`. A call starts on an empty tape, records the parameters in
order, then the inputs, and leaves the tape empty, also when it fails: between calls only the
parameters, their optimizer state and the memory of their gradients are alive.

A step moves the batch in and, if it is asked for, the loss out, and nothing else; parameters,
gradients and optimizer state stay on the device until `values()`.

Inputs of integers or booleans, such as labels and masks, reach the loss as they are; write 1.0, not
1, for a number to compute with. A batch may come in pieces, see `MicroBatches`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import torch
from torch import Tensor

from fast.answers import telling
from fast.batches import Batch, MicroBatches, pieces_of, split
from fast.compiled.session import CompiledSession
from fast.device import bridge
from fast.device.named import kept_if_it_fails
from fast.errors import Rejected
from fast.optim._rule import is_list
from fast.optim._steps import TrainerSteps
from fast.programs.param_list import ParamList, use_inputs, use_params
from fast.programs.total import Total
from fast.ref import Ref
from fast.runtime.gradmap import GradMap
from fast.session import Session

__all__ = [
    "INTERPRETERS",
    "MicroBatches",
    "ParamList",
    "ScalarTrainer",
    "gradients_of",
    "mean_scalar_over",
    "scalar_trainer",
    "split",
    "use_inputs",
    "use_params",
]

INTERPRETERS: dict[str, type[Session]] = {"eager": Session, "compiled": CompiledSession}
"""What a trainer may be asked to run its loss in."""

B = TypeVar("B")
Loss = Callable[..., Ref]
"""loss(ops, *params, *inputs), written once for every interpreter, returns a scalar."""
Rate = float | Callable[[int], float]
"""A learning rate, or a schedule: from the number of steps taken so far to a learning rate."""


@telling
def gradients_of(session: Session, loss: Ref, refs: Sequence[Ref]) -> list[Tensor]:
    """Download the gradients of a scalar loss by each ref, zero where it does not reach.

    They are new host tensors of the refs' shapes; a loss of another shape is Rejected.
    """
    with session.backward_dense(loss) as grads:
        return [session.grad(grads, ref) for ref in refs]


@dataclass
class ScalarTrainer(TrainerSteps[Batch, Tensor]):
    """A scalar loss, its parameters, and steps that make it smaller.

    `steps` counts the updates made; schedules read it, and who resumes a run sets it.
    """

    loss: Loss
    params: ParamList
    session: Session
    steps: int = field(default=0, kw_only=True)

    def get_params(self, sync: bool = True) -> list[Tensor]:
        """Return the current values as new host tensors, in order, as `ParamList.values` does."""
        return self.params.values(sync)

    def forward(self, inputs: Batch) -> Tensor:
        """Compute the loss and download it: a new host scalar. Another shape is Rejected.

        Inputs are host data or device buffers, which stay the caller's, here and in every step.
        """
        with self._fresh() as loss:
            for piece, weight in self._pieces(inputs):
                loss.settle()
                loss.add(self._run(piece), weight)
            return loss.download()

    def backward(self, inputs: Batch) -> list[Tensor]:
        """Compute and download the gradient by every parameter, in order; frozen ones have zero.

        Each is a new host tensor of its parameter's shape. A loss that is no scalar, an index out
        of range, data that `fast.device.bridge` does not read and a malformed `MicroBatches` are
        Rejected; that, and what the loss raises, leaves the tape empty and nothing else changed.
        """
        with self._fresh(), self._gradients(inputs, None) as grads:
            return self._by_parameter(grads)

    def loss_and_backward(self, inputs: Batch) -> tuple[Tensor, list[Tensor]]:
        """Compute and download the loss, and the gradient by every parameter, in order.

        Both are new host tensors; the gradients and the refusals are `backward`'s.
        """
        with self._fresh() as loss, self._gradients(inputs, loss) as grads:
            return loss.download(), self._by_parameter(grads)

    def step(self, lr: Rate, inputs: Batch, **hyper: Any) -> None:
        """Take one step of SGD; nothing is downloaded. Hyper-parameters are `sgd_step`'s.

        What is refused, or fails, changes no parameter, buffer or count, and leaves the tape empty:
        what `backward` refuses, and hyper-parameters that the session's step does.

        `lr` may be a schedule, here and in `groups`, whose 'params' may be positions in the list,
        from 0; another position is Rejected.
        """
        self.sgd_step(inputs, lr=lr, **hyper)

    def step_with_loss(self, lr: Rate, inputs: Batch, **hyper: Any) -> Tensor:
        """Take one step of SGD; return the loss before it."""
        loss = self.sgd_step(inputs, with_loss=True, lr=lr, **hyper)
        assert loss is not None
        return loss

    @contextmanager
    def _fresh(self) -> Iterator[Total]:
        """Hand out a total, and free it and the tape on any exit; `_run` starts on a fresh one."""
        loss = Total(self.session)
        try:
            with kept_if_it_fails(self.session.buffers):
                yield loss
        finally:
            loss.release()
            self.session.reset_tape()

    def _run(self, inputs: Sequence[Any]) -> Ref:
        """Run the loss on an empty tape: parameters first, then inputs."""
        session = self.session
        out = session.run(self.loss, self.params.params, inputs)
        if session.shape_of(out) != ():
            raise Rejected(f"trainer: the loss is a scalar; got the shape {out.shape}")
        return out

    def _pieces(self, inputs: Batch) -> Iterator[tuple[Sequence[Any], float | Fraction]]:
        """Iterate over the pieces; a weight that the session cannot hold is Rejected."""
        compute = self.session.options.compute
        for piece, weight in pieces_of(inputs):
            if weight != 1 and math.isinf(bridge.round_number(weight, compute)):
                raise Rejected(f"trainer: a weight is finite in {compute}, got {weight}")
            yield piece, weight

    def _gradients(self, inputs: Batch, loss: Total | None) -> GradMap:
        """Return the gradients of all pieces, added up; add the losses up as well if asked to."""
        grads: GradMap | None = None
        try:
            for piece, weight in self._pieces(inputs):
                if loss is not None:
                    loss.settle()
                out = self._run(piece)
                grads = self.session.backward(out, self._seed(weight), into=grads)
                if loss is not None:
                    loss.add(out, weight)
            assert grads is not None
            return grads
        except BaseException:
            if grads is not None:
                grads.release()
            raise

    def _seed(self, weight: float | Fraction) -> Tensor | None:
        """Make a seed on the device: one that came from the host would be a transfer."""
        if weight == 1:
            return None
        options = self.session.options
        number = bridge.round_number(weight, options.compute)
        return torch.full((), number, dtype=options.compute, device=options.device)

    def _by_parameter(self, grads: GradMap) -> list[Tensor]:
        """Download the gradient of every parameter; a frozen one is no leaf, and has zero."""
        return [
            bridge.download(grads[param])
            if param.requires_grad
            else torch.zeros(param.shape, dtype=param.dtype)
            for param in self.params.params
        ]

    def _update(
        self, name: str, inputs: Batch, hyper: dict[str, Any], with_loss: bool
    ) -> Tensor | None:
        """Run, go back, update once, and free everything but what the session keeps."""
        step = getattr(self.session, f"{name}_step")
        hyper = self._scheduled(hyper)
        with self._fresh() as loss:
            with self._gradients(inputs, loss if with_loss else None) as grads:
                step(grads=grads, **hyper)
            self.steps += 1
            return loss.download() if with_loss else None

    def _scheduled(self, hyper: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the schedules for this step's learning rates, and name the groups' parameters."""
        found = self._rated(hyper)
        if isinstance(found.get("groups"), (list, tuple)):
            found["groups"] = [self._group(group) for group in found["groups"]]
        return found

    def _rated(self, hyper: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(hyper)
        if callable(found.get("lr")):
            found["lr"] = found["lr"](self.steps)
        return found

    def _group(self, group: Any) -> Any:
        """Return a group as the session takes it; what is no group is the session's to refuse."""
        if not isinstance(group, Mapping):
            return group
        found = self._rated(group)
        if is_list(found.get("params")):
            found["params"] = [self._member(p) for p in found["params"]]
        return found

    def _member(self, given: Any) -> Any:
        if not isinstance(given, int):
            return given
        if isinstance(given, bool) or not 0 <= given < len(self.params):
            raise Rejected(
                "trainer: a group names a parameter by itself or by its position, from 0 to "
                f"{len(self.params) - 1}; got {given!r}"
            )
        return self.params.params[given]


@telling
def scalar_trainer(
    loss: Loss,
    params: Sequence[Any],
    requires_grad: Sequence[bool] | None = None,
    interpreter: str | None = None,
    *,
    session: Session | None = None,
    **options: Any,
) -> ScalarTrainer:
    """Build a trainer from a loss and the first values of its parameters.

    The interpreter is "eager", a tape, or "compiled", which records the loss once and replays it
    (fast.compiled). It works in the session given, which says what it is, or in a new one with the
    options `provider`, `precision`, `device` and `deterministic`, eager unless named.
    """
    own = "compiled" if isinstance(session, CompiledSession) else "eager"
    named = own if interpreter is None else interpreter
    if named not in [*INTERPRETERS] or (session is not None and named != own):
        raise Rejected(
            f"trainer: the interpreter is one of {', '.join(INTERPRETERS)}, and that of a session "
            f"which is given; got {interpreter!r} and {type(session).__name__}"
        )
    if session is None:
        session, options = INTERPRETERS[named](**options), {}
    held = ParamList(params, requires_grad, session=session, **options)
    return ScalarTrainer(loss, held, held.session)


@telling
def mean_scalar_over(
    session: Session, tag: str, data: Iterable[B], loss_of: Callable[[B], Ref]
) -> Ref:
    """Add up the losses of all examples, left to right, then scale by 1/N, rounded once.

    The data are read once, in their order, and neither shuffled nor changed.
    Empty data raise Rejected, with the tag in front, and so does a loss that is no scalar.
    """
    total: Ref | None = None
    count = 0
    for example in data:
        loss = loss_of(example)
        if session.shape_of(loss) != ():
            raise Rejected(f"{tag}: the loss of an example is a scalar; got the shape {loss.shape}")
        total = loss if total is None else session.add(total, loss)
        count += 1
    if total is None:
        raise Rejected(f"{tag}: empty dataset")
    return session.mul(total, session.constant(Fraction(1, count)))
