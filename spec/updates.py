"""Chapter 20. Updates: parameters, and steps that replace their values, all or none.

A parameter outlives every tape. A step adds up the gradients of the leaves by which a tape used it,
computes every new value and state, and only then writes them.

>>> from spec.tensor import tensor
>>> w = Param(tensor([1.0, -2.0]), "w", requires_grad=True)
>>> steps = Updates()
>>> steps.params_by_leaf = {0: w}
>>> steps.sgd_step(lr=0.25, grads={0: tensor([2.0, 4.0])})
>>> w.value, w.version
(Tensor([0.5, -3.0]), 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from spec.op import AnyTensor, plus, refuse
from spec.optim import adamw, sgd
from spec.shape import Shape
from spec.tape import Dense

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


def look_up(grads: Gradients, id: int, shape: Shape) -> AnyTensor | None:
    """Return the gradient of a node, None where the seed did not reach it; its shape is checked."""
    if isinstance(grads, Mapping):
        found = grads.get(id)
    elif not 0 <= id < len(grads):
        raise refuse("grad", f"ids lie in [0, {len(grads)})", id)
    else:
        found = None if isinstance(grads, Dense) and id not in grads.reached else grads[id]
    if found is not None and found.shape != shape:
        raise refuse("grad", f"the gradient of node {id} has its shape {shape}", found.shape)
    return found


class Updates:
    """The optimizers of a session, whose states belong to its parameters."""

    def __init__(self) -> None:
        """Start without parameters in use and without states."""
        self.params_by_leaf: dict[int, Param] = {}
        self._states: dict[Param, Any] = {}

    def sgd_step(self, lr: float, grads: Gradients, **hyper: Any) -> None:
        """Update every parameter in use by stochastic gradient descent; see spec.optim.sgd."""
        self._step(grads, sgd, sgd.Sgd(lr, **hyper))

    def adamw_step(self, lr: float = 1e-3, *, grads: Gradients, **hyper: Any) -> None:
        """Update every parameter in use by AdamW; see spec.optim.adamw."""
        self._step(grads, adamw, adamw.AdamW(lr, **hyper))

    def state(self, param: Param) -> Any:
        """Return the optimizer state of a parameter, None before its first step."""
        return self._states.get(param)

    def load_state(self, param: Param, state: Any) -> None:
        """Replace the optimizer state of a parameter by what `state` returned."""
        self._states[param] = state

    def _step(self, grads: Gradients, page: ModuleType, hyper: Any) -> None:
        """Update all parameters in use by an optimizer's page, or none if one is refused."""
        done: list[tuple[Param, AnyTensor, Any]] = []
        for param, gradient in self._totals(grads).items():
            state = self._states.get(param) or page.init(param.value)
            if not isinstance(state, page.State):
                rule = "a parameter keeps to one optimizer; its state is of another"
                raise refuse(page.__name__.rpartition(".")[2], rule, type(state).__module__)
            done.append((param, *page.update(param.value, gradient, state, hyper)))
        for param, value, state in done:
            param.set(value)
            self._states[param] = state

    def _totals(self, grads: Gradients) -> dict[Param, AnyTensor]:
        """Add up each trainable parameter's gradients over its leaves; leave out the unreached."""
        totals: dict[Param, AnyTensor] = {}
        for leaf, param in self.params_by_leaf.items():
            gradient = look_up(grads, leaf, param.value.shape) if param.requires_grad else None
            if gradient is not None:
                totals[param] = plus(totals.get(param), gradient) or gradient
        return totals
