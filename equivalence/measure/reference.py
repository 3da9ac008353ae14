"""One step of an optimizer, as the pages of the reference take it, and what it may leave behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from torch import Tensor

from equivalence.measure.spent import of_oracle
from equivalence.registry import OPTIMIZERS, remembering
from equivalence.worlds.opaque import opaque
from spec.optim import clip
from spec.scalar import lift
from spec.tensor import zip_map

if TYPE_CHECKING:
    from equivalence.budgets.lifting.worlds import World
    from equivalence.worlds.arithmetic import Arithmetic
    from equivalence.worlds.contract import Contract

PROBED = (Fraction(1), Fraction(-2), Fraction(5))
"""The parameters by which a page says how it decays."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What one step may leave of one parameter: its value, its moments, its step count."""

    tensors: Mapping[str, Any]
    step: int | None


@dataclass(frozen=True, slots=True)
class Taken:
    """One step of the reference on tensors of any world; a moment of None is "not yet".

    Where the page repeats something, `made` is what all turns but the last have made, if not None.
    """

    optimizer: str
    parameter: Any
    gradient: Any
    moments: Mapping[str, Any]
    step: int
    hyper: Mapping[str, Any]
    made: Any = None

    def result(self) -> tuple[Any, Any]:
        """Return the parameter and the state after the step."""
        page = OPTIMIZERS[self.optimizer]
        known = {field: moment for field, moment in self.moments.items() if moment is not None}
        counted = {"step": self.step} if page.counted else {}
        start = replace(page.init(self.parameter), **known, **counted)
        taken = self.parameter, self.gradient, start, page.hyper(**self.hyper)
        if self.made is None or page.repeated is None:
            return page.update(*taken)
        return page.repeated.last(*taken, self.made)

    def left(self, store: Callable[[Any], Any]) -> Expected:
        """Return what the step leaves, each tensor stored."""
        left, state = self.result()
        tensors = {"parameter": store(left)}
        for field in OPTIMIZERS[self.optimizer].moments:
            moment = getattr(state, field)
            tensors[field] = None if moment is None else store(moment)
        return Expected(tensors, getattr(state, "step", None))

    def allowed(self, world: World, contract: Contract) -> Expected:
        """Return what the step may leave under a contract: a stable one knows a second program."""
        expected = self.left(world.store)
        apart = self._decayed_apart(world.store) if contract.freedom == "stable" else None
        if apart is None:
            return expected
        joined = world.either(expected.tensors["parameter"], apart)
        return replace(expected, tensors={**expected.tensors, "parameter": joined})

    def _decayed_apart(self, store: Callable[[Any], Any]) -> Any:
        """Return the parameter by another program of decoupled decay: its share is subtracted.

        Where a page takes (1 - r) p, many libraries take p - r p; by how much that may err is seen
        where r is near 1. None where nothing decays apart.
        """
        hyper = self.hyper
        if not (OPTIMIZERS[self.optimizer].decoupled and hyper.get("weight_decay")):
            return None
        share = decayed(self.optimizer, tuple(hyper.items()))
        if share is None:
            return None
        left, _ = replace(self, hyper={**hyper, "weight_decay": 0.0}).result()
        return store(zip_map(lambda x, p: x - lift(p, share) * p, left, self.parameter))


@remembering
def decayed(optimizer: str, hyper: tuple[tuple[str, Any], ...]) -> Fraction | None:
    """Return the share of a parameter that a step takes off, as the page says on fractions.

    None where it takes off no such share: the page decays in another way.
    """
    page, settings = OPTIMIZERS[optimizer], dict(hyper)
    parameter, gradient = map(page.as_parameter, (PROBED, [Fraction(3)] * len(PROBED)))

    def left(**other: float) -> Sequence[Any]:
        own = page.hyper(**{**settings, **other})
        after: Sequence[Any] = page.update(parameter, gradient, page.init(parameter), own)[0].data
        return after

    with opaque():
        try:
            decays, stays = left(), left(weight_decay=0.0)
        except ArithmeticError:
            return None
    shares = {(b - a) / p for a, b, p in zip(decays, stays, PROBED, strict=True)}
    return shares.pop() if len(shares) == 1 else None


def entered(taken: Any, contract: Contract) -> Any:
    """Return a tensor of a world as a step takes it: for a stable contract none of it is exact."""
    from equivalence.worlds.special_values.last import unsettled

    return taken.map(unsettled) if contract.freedom == "stable" else taken


def scaled_gradients(
    gradients: Sequence[Any],
    limits: Sequence[clip.Limits],
    grad_scale: float | Fraction = 1.0,
) -> list[Any]:
    """Divide and clip the gradients of one step, tensors of the reference's worlds or None."""
    there = [(g, limit) for g, limit in zip(gradients, limits, strict=True) if g is not None]
    scaled = iter(clip.scaled([g for g, _ in there], [limit for _, limit in there], grad_scale))
    return [None if g is None else next(scaled) for g in gradients]


@of_oracle
def expected_step(
    optimizer: str,
    parameter: Tensor,
    gradient: Tensor,
    moments: Mapping[str, Tensor | None],
    step: int,
    hyper: Mapping[str, Any],
    contract: Contract,
) -> Expected:
    """Return what the contract allows after one step from the given numbers."""
    from equivalence.budgets.lifting.worlds import Finite

    world = Finite(contract)
    lifted = {field: None if t is None else world.lift(t) for field, t in moments.items()}
    p, g = world.lift(parameter), world.lift(gradient)
    return Taken(optimizer, p, g, lifted, step, hyper).left(world.store)


def held_state(
    moments: Mapping[str, Tensor] | None, step: int, optimizer: str, arithmetic: Arithmetic
) -> Any:
    """Return the page's state of these moments and this count, exactly; None if there are none."""
    if moments is None:
        return None
    from equivalence.budgets.lifting.worlds import lift_one

    page = OPTIMIZERS[optimizer]
    lifted = {field: lift_one(moment, arithmetic) for field, moment in moments.items()}
    return page.state(**lifted, **({"step": step} if page.counted else {}))
