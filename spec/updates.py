"""Chapter 35. Updates: steps that replace the values of parameters, all or none.

A step adds up the gradients of the leaves by which a tape used it,
clips them by value and by norm if it is asked to, computes every new value and state, and only then
writes them.

>>> from spec.tensor import tensor
>>> w = Param(tensor([1.0, -2.0]), "w", requires_grad=True)
>>> steps = Updates()
>>> steps.params_by_leaf = {0: w}
>>> steps.sgd_step(lr=0.25, grads={0: tensor([2.0, 4.0])})
>>> w.value, w.version
(Tensor([0.5, -3.0]), 1)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn, Self

from spec.op import AnyTensor, need_shape, plus, refuse
from spec.optim import OPTIMIZERS, Optimizer, clip
from spec.optim._groups import Groups, groups_of
from spec.optim._steps import SessionSteps
from spec.params import Leaves, param_of
from spec.params import Param as Param
from spec.refusals import Rejected, Unknown, Unmoved, outside, unknown
from spec.shape import Shape
from spec.tape import Dense

Gradients = Mapping[int, AnyTensor] | Sequence[AnyTensor]
"""Sparse, by leaf id, as `backward` gives them; or dense, one per node."""


class Cotangents(dict[int, AnyTensor]):
    """The cotangents that a backward pass has found, by leaf id.

    `with` is taken, so that one loop runs here and in `fast`, where memory is released by it.
    """

    def __missing__(self, key: object) -> NoReturn:
        """Refuse what is no leaf that was reached, saying how a gradient is looked up."""
        found = "write session.grad(grads, x), of a ref x"
        rule = f"cotangents are kept by the ids of the leaves, {sorted(self)}"
        raise Unknown(f"backward: {rule}; got {key!r}; {found}")

    def __enter__(self) -> Self:
        """Return the cotangents themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release nothing: Python does, when nobody holds them."""


def look_up(grads: Gradients, id: int, shape: Shape) -> AnyTensor | None:
    """Return the gradient of a node, None where the seed did not reach it; its shape is checked."""
    _refuse_no_gradients(grads)
    if isinstance(grads, Mapping):
        found = grads.get(id)
    elif not 0 <= id < len(grads):
        raise refuse("grad", f"ids lie in [0, {len(grads)})", id)
    else:
        found = None if isinstance(grads, Dense) and id not in grads.reached else grads[id]
    if found is not None:
        need_shape("grad", f"the gradient of node {id} has its shape {shape}", shape, found)
    return found


def _refuse_no_gradients(grads: object) -> None:
    if not isinstance(grads, (Mapping, Sequence)):
        raise refuse("grad", "gradients are a mapping by id or a list", type(grads).__name__)


class Updates(SessionSteps[Gradients]):
    """The optimizers of a session, whose states belong to its parameters.

    Every step updates, once, the parameters in use that are trainable and that the gradients reach;
    grad_scale divides their gradients, max_value clips each entry, and max_norm scales all of them
    together, or those of a group that has its own alone (see spec.optim.clip).
    """

    def __init__(self) -> None:
        """Start without parameters in use and without states."""
        self.params_by_leaf: dict[int, Param] = {}
        self._states: dict[Param, dict[str, Any]] = {}

    def state(self, param: Param, optimizer: str | None = None) -> Any:
        """Return a parameter's state in one optimizer, or in the one that it was last given to.

        It is None before the first step. Its moments have the parameter's shape; it is the page's
        `State`, which nobody can change. The name of an optimizer that there is not is Rejected.
        """
        known = self._states.get(param_of("state", param), {})
        if optimizer is not None:
            asked: Any = optimizer
            page = OPTIMIZERS[asked if isinstance(asked, str) else repr(asked)]
            return known.get(page.name)
        return next(reversed(known.values()), None)

    def load_state(self, param: Param, state: Any) -> None:
        """Replace a parameter's state in its optimizer by what `state` returned, here or elsewhere.

        None starts afresh, in all optimizers. Anything but the `State` of a page, with moments of
        the parameter's shape and a step that is an integer >= 0, is Rejected, and nothing is
        changed. Entries need not be finite: updates go on with those that are not, and not every
        world can tell.
        """
        param_of("load_state", param)
        if state is None:
            self._states.pop(param, None)
        else:
            page = _page_of(param.name or "the parameter", param.value.shape, state)
            self._hold(param, page.name, state)

    def gradient_norm(self, grads: Gradients) -> Any:
        """Return the norm of all gradients by which an update would write, as one vector.

        It is a scalar of their world, 0 where there is no gradient; `max_norm` bounds it, where no
        entry is clipped and no group has a norm of its own. What a step refuses of gradients is
        Rejected.
        """
        _refuse_no_gradients(grads)
        return clip.norm_of([*self._gradients(grads).values()])

    def _hold(self, param: Param, optimizer: str, state: Any) -> None:
        """Keep a parameter's state in one optimizer, as the last that it was given to."""
        known = self._states.setdefault(param, {})
        known.pop(optimizer, None)
        known[optimizer] = state

    def _update(
        self,
        name: str,
        hyper: dict[str, Any],
        grads: Gradients,
        groups: Groups,
        max_norm: float | None,
        grad_scale: float,
        max_value: float | None,
    ) -> None:
        """Update all parameters in use by an optimizer's page, or none if one is refused."""
        page = OPTIMIZERS[name]
        usual = page.hyper(**hyper)
        _refuse_no_gradients(grads)
        limits = clip.Limits(max_norm, max_value)
        by_param = _by_param(name, usual, limits, groups)
        clip.check_scale(grad_scale)
        totals = self._gradients(grads)
        each = [by_param.get(param, (usual, limits)) for param in totals]
        scaled = clip.scaled([*totals.values()], [limit for _, limit in each], grad_scale)
        done: list[tuple[Param, AnyTensor, Any]] = []
        for param, gradient, (own, _) in zip(totals, scaled, each, strict=True):
            state = self._states.get(param, {}).get(name) or page.init(param.value)
            done.append((param, *page.update(param.value, gradient, state, own)))
        if not done:
            self._say_unmoved(name)
        for param, value, state in done:
            param.set(value)
            self._hold(param, name, state)

    def _say_unmoved(self, name: str) -> None:
        """Warn of a step without effect; where no parameters are in use, none is expected."""
        params = list(dict.fromkeys(self.params_by_leaf.values()))
        trained = [param.name or "a parameter" for param in params if param.requires_grad]
        why = f"the gradients do not reach {', '.join(trained)}" if trained else "all are frozen"
        if params:
            said = f"{name}_step: no parameter was updated: {why}"
            warnings.warn(said, Unmoved, stacklevel=outside())

    def _gradients(self, grads: Gradients) -> dict[Param, AnyTensor]:
        """Add up each trainable parameter's gradients over its leaves; leave out the unreached."""
        totals: dict[Param, AnyTensor] = {}
        leaves = self.params_by_leaf
        frozen = leaves.frozen if isinstance(leaves, Leaves) else ()
        for leaf, param in leaves.items():
            gradient = look_up(grads, leaf, param.value.shape)
            if param.requires_grad and leaf not in frozen and gradient is not None:
                totals[param] = plus(totals.get(param), gradient) or gradient
        return totals


def _page_of(name: str, shape: Shape, state: object) -> Optimizer:
    """Return the page of a state, or refuse what is none of a parameter of this shape."""
    page = next((page for page in OPTIMIZERS.values() if isinstance(state, page.state)), None)
    if page is None:
        *others, last = OPTIMIZERS
        rule = f"a state is None or the State of {', '.join(others)} or {last}"
        raise refuse("load_state", rule, type(state).__name__)
    for part in page.moments:
        found = getattr(state, part)
        if found is not None or not page.may_lack(part):
            rule = f"{part} is a tensor of the shape {shape} of {name}"
            need_shape("load_state", rule, shape, found)
    step = getattr(state, "step", 0)
    if type(step) is not int or step < 0:
        raise refuse("load_state", "step is an integer >= 0", repr(step))
    return page


def _by_param(
    name: str, hyper: Any, limits: clip.Limits, groups: Groups
) -> dict[Param, tuple[Any, clip.Limits]]:
    """Return the hyper-parameters and the limits of every parameter that is in a group."""
    found: dict[Param, tuple[Any, clip.Limits]] = {}
    group_of: dict[Param, int] = {}
    known = [field.name for field in fields(hyper)]
    for number, group in enumerate(groups_of(name, groups), 1):
        own = {key: value for key, value in group.items() if key != "params"}
        bounds = {key: own.pop(key) for key in ("max_norm", "max_value") if key in own}
        for key in own:
            if key not in known:
                raise unknown(name, "hyper-parameter", key, known)
        apart = {"apart": number} if "max_norm" in bounds else {}
        changed = replace(hyper, **own), replace(limits, **bounds, **apart)
        for param in group["params"]:
            if not isinstance(param, Param):
                raise refuse(f"{name}: group {number}", "a parameter is a Param", repr(param))
            if param in group_of:
                raise Rejected(
                    f"{name}: the parameter {param.name!r} is in groups "
                    f"{group_of[param]} and {number}; groups must not overlap"
                )
            found[param], group_of[param] = changed, number
    return found
