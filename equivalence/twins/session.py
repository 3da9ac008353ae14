"""Two sessions as one: every call goes to a session of `fast` and to the reference, and is judged.

A `TwinSession` is what a program receives as `ops`. It runs each op on the device tape and, on
Bounded scalars, on the reference's tape; values, gradients, parameters and optimizer states are
judged wherever the caller asks for them.
After an update the reference takes over the backend's own parameters and state, exactly, so that
each step is judged by itself and budgets never pile up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from equivalence.backends.fast.contract import family_of
from equivalence.backends.fast.programs import of_program, of_update
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.oracle import lift_one, store
from equivalence.budgets.outcome import Outcome, merged
from equivalence.registry import OPTIMIZERS
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import Bounded, constant
from spec.op import AnyTensor
from spec.optim._groups import Groups
from spec.optim._steps import SessionSteps
from spec.protocol import Ops
from spec.session import Ref as SpecRef
from spec.session import Session as SpecSession
from spec.tape import Observer
from spec.updates import Param as SpecParam

if TYPE_CHECKING:
    from fast.ref import Ref as FastRef
    from fast.runtime.gradmap import GradMap
    from fast.runtime.param import Param as FastParam
    from fast.session import Session as FastSession


@dataclass(frozen=True, slots=True)
class TwinRef:
    """A handle on one value computed twice."""

    session: TwinSession
    fast: FastRef
    spec: SpecRef

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, on which both sides agree or `apply` has already failed."""
        return tuple(self.spec.shape)

    def __add__(self, other: TwinRef) -> TwinRef:
        """Add, as both sides' operators do."""
        return TwinRef(self.session, self.fast + other.fast, self.spec + other.spec)

    def __mul__(self, other: TwinRef) -> TwinRef:
        """Multiply, as both sides' operators do."""
        return TwinRef(self.session, self.fast * other.fast, self.spec * other.spec)


@dataclass(frozen=True, slots=True)
class TwinParam:
    """A parameter of both sessions."""

    fast: FastParam
    spec: SpecParam


@dataclass(frozen=True, slots=True)
class TwinGrads:
    """The gradients that both sides found."""

    fast: GradMap
    spec: Mapping[int, AnyTensor]


class TwinSession(Ops[TwinRef], SessionSteps[TwinGrads]):
    """A session of `fast` beside the reference; `verdicts` holds what was judged, by label.

    Every step updates both sides, judges parameters and states, and shadows; labels number it.
    """

    def __init__(self, session: FastSession, observer: Observer | None = None) -> None:
        """Drive a fresh session; the contract is that of a program at its precision."""
        self._family = family_of(session.options.provider)
        self._arithmetic = Arithmetic(of_program(self._family, session.options.precision))
        self.fast = session
        self.spec = SpecSession(observer)
        self.spec.like = constant(self._arithmetic, 0)
        self.params: list[TwinParam] = []
        self.verdicts: dict[str, Outcome] = {}
        self._leaves: dict[int, TwinRef] = {}
        self._updates = 0

    def param(self, value: torch.Tensor, name: str, requires_grad: bool = True) -> TwinParam:
        """Make a parameter on both sides."""
        param = TwinParam(
            self.fast.param(value, name, requires_grad),
            self.spec.param(self._lift(value), name, requires_grad),
        )
        self.params.append(param)
        return param

    def set(self, param: TwinParam, value: torch.Tensor) -> None:
        """Overwrite a parameter on both sides."""
        param.fast.set(value)
        param.spec.set(self._lift(value))

    def use(self, param: TwinParam) -> TwinRef:
        """Put a parameter on both tapes."""
        return self._leaf(TwinRef(self, self.fast.use(param.fast), self.spec.use(param.spec)))

    def input(self, value: torch.Tensor, requires_grad: bool = False) -> TwinRef:
        """Put an outside tensor on both tapes."""
        fast = self.fast.input(value, requires_grad=requires_grad)
        spec = self.spec.input(self._lift(value), requires_grad=requires_grad)
        return self._leaf(TwinRef(self, fast, spec))

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> TwinRef:
        """Run an op on both sides; tensors of integers are indices."""
        fast = tuple(x.fast if isinstance(x, TwinRef) else x for x in inputs)
        spec = tuple(x.spec if isinstance(x, TwinRef) else self._lift(x) for x in inputs)
        return TwinRef(
            self,
            self.fast.apply(name, fast, attributes),
            self.spec.apply(name, spec, attributes),
        )

    def reset_tape(self) -> None:
        """Forget both tapes."""
        self.fast.reset_tape()
        self.spec.reset_tape()
        self._leaves.clear()

    def check(self, label: str, ref: TwinRef) -> None:
        """Judge a value."""
        self._judge(label, self.fast.value(ref.fast), self.spec.value(ref.spec))

    def backward(self, label: str, loss: TwinRef, seed: torch.Tensor | None = None) -> TwinGrads:
        """Run both backward passes and judge the gradient of every trainable leaf."""
        grads = TwinGrads(
            self.fast.backward(loss.fast, seed),
            self.spec.backward(loss.spec, None if seed is None else self._lift(seed)),
        )
        for leaf, exact in grads.spec.items():
            self._judge(f"{label}: gradient of leaf {leaf}", self._found(grads, leaf), exact)
        return grads

    def summary(self) -> Outcome:
        """Return one outcome of everything that was judged."""
        return merged(*self.verdicts.values())

    def _leaf(self, ref: TwinRef) -> TwinRef:
        self._leaves[ref.spec.id] = ref
        return ref

    def _own(self, grads: TwinGrads) -> dict[int, AnyTensor]:
        """Lift the backend's own gradient of every leaf that was reached."""
        return {leaf: self._lift(self._found(grads, leaf)) for leaf in grads.spec}

    def _found(self, grads: TwinGrads, leaf: int) -> torch.Tensor:
        found: torch.Tensor = grads.fast[self._leaves[leaf].fast].tensor
        return found

    def _update(
        self,
        name: str,
        hyper: dict[str, Any],
        grads: TwinGrads,
        groups: Groups,
        max_norm: float | None,
        grad_scale: float,
    ) -> None:
        """Update on both sides, from the backend's own gradients; judge, and shadow."""
        with self.updating(name):
            self._enter_params()
            for side, given in (("fast", grads.fast), ("spec", self._own(grads))):
                more: dict[str, Any] = {"max_norm": max_norm, "grad_scale": grad_scale}
                more["groups"] = _of_side(side, groups)
                getattr(getattr(self, side), f"{name}_step")(**hyper, **more, grads=given)
            self._judge_params(f"update {self._updates}", name)
        self._enter_params()
        self._updates += 1

    @contextmanager
    def updating(self, optimizer: str) -> Iterator[Arithmetic]:
        """Judge, for a while, by the contract of an update."""
        before = self._arithmetic
        contract = of_update(self._family, optimizer, self.fast.options.precision)
        self._arithmetic = Arithmetic(contract)
        try:
            yield self._arithmetic
        finally:
            self._arithmetic = before

    def _enter_params(self) -> None:
        """Let the reference's parameters, which are exact, be read by the present contract."""

        def entered(x: Bounded) -> Bounded:
            return x.under(self._arithmetic)

        for param in self.params:
            param.spec.set(param.spec.value.map(entered))

    def _judge_params(self, label: str, optimizer: str) -> None:
        for param in self.params:
            name, value = param.fast.name, param.fast.value()
            self._judge(f"{label}: {name}", value, param.spec.value)
            param.spec.set(self._lift(value))
            state = self.spec.state(param.spec)
            got = self.fast.optimizer_state(optimizer, param.fast)
            if state is not None:
                self.spec.load_state(
                    param.spec, self._judge_state(label, name, optimizer, got, state)
                )

    def _judge_state(self, label: str, name: str, optimizer: str, got: Any, state: Any) -> Any:
        page = OPTIMIZERS[optimizer]
        found = {field: got[field] for field in page.moments if getattr(state, field) is not None}
        for field, moment in found.items():
            self._judge(f"{label}: {name} {field}", moment, getattr(state, field))
        if page.counted and int(got["step"]) != state.step:
            raise AssertionError(f"{label}: {name} counts step {got['step']}, due is {state.step}")
        return replace(state, **{field: self._lift(moment) for field, moment in found.items()})

    def _lift(self, value: torch.Tensor) -> AnyTensor:
        return lift_one(value, self._arithmetic)

    def _judge(self, label: str, got: torch.Tensor, exact: AnyTensor) -> None:
        if label in self.verdicts:
            raise AssertionError(f"the label {label!r} was used before; labels are unique")
        self.verdicts[label] = judge_tensor(got, store(exact, self._arithmetic))


def _of_side(side: str, groups: Groups) -> list[dict[str, Any]]:
    """Name the parameters of groups as one side knows them."""
    return [
        {**group, "params": [getattr(param, side) for param in group["params"]]}
        for group in groups or ()
    ]
