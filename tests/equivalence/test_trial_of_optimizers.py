"""An optimizer of one's own is tried before it judges: right pages pass, broken ones are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from torch import Tensor

from equivalence import FP32, Capabilities, Contract, Request, Unusable, perform, registered
from equivalence.trials.trial import Trial, trial_of_steps
from spec.op import AnyTensor, refuse, zeros_like
from spec.optim import OPTIMIZERS, Optimizer
from spec.scalar import divide, less, lift, maximum, select, sqrt, square, sum_over
from spec.tensor import zip_map


@dataclass(frozen=True)
class Hyper:
    """What most of the planted optimizers take."""

    lr: float = 0.01
    alpha: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what breaks C1 or C2."""
        if not (0 <= self.lr < 8 and 0 <= self.weight_decay < 8):
            raise refuse("own C1", "lr and weight_decay are sizes", self)
        if not 0 <= self.alpha < 1:
            raise refuse("own C2", "alpha lies in [0, 1)", self.alpha)


@dataclass(frozen=True)
class Averaged:
    """One mean."""

    average: AnyTensor


@dataclass(frozen=True)
class Squared:
    """One mean of squares and the count, by torch's names."""

    square_avg: AnyTensor
    step: int = 0


def scaled(factor: float, x: AnyTensor) -> AnyTensor:
    return x.map(lambda a: lift(a, Fraction(factor)) * a)


def added(x: AnyTensor, y: AnyTensor) -> AnyTensor:
    return zip_map(lambda a, b: a + b, x, y)


def sign(x: Any) -> Any:
    zero, one = lift(x, Fraction(0)), lift(x, Fraction(1))
    return select(less(zero, x), one, select(less(x, zero), -one, zero))


def averaged(p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper) -> tuple[AnyTensor, Averaged]:
    """Follow the sign of a mean, and decay apart."""
    average = added(scaled(h.alpha, state.average), scaled(1 - h.alpha, g))
    kept = scaled(1 - h.lr * h.weight_decay, p)
    return added(kept, scaled(-h.lr, average.map(sign))), Averaged(average)


def rms(p: AnyTensor, g: AnyTensor, state: Squared, h: Hyper) -> tuple[AnyTensor, Squared]:
    """Do as torch's RMSprop, at its default eps."""
    g = added(g, scaled(h.weight_decay, p))
    alpha = Fraction(h.alpha)
    mean = zip_map(
        lambda v, a: lift(v, alpha) * v + lift(a, 1 - alpha) * square(a), state.square_avg, g
    )
    step = zip_map(lambda a, v: divide(a, sqrt(v) + lift(v, Fraction(1e-8))), g, mean)
    return added(p, scaled(-h.lr, step)), Squared(mean, state.step + 1)


def clipped(p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper) -> tuple[AnyTensor, Averaged]:
    """Clip the gradient of a parameter by its norm, and then average it."""
    norm = sqrt(sum_over(len(g.data), lambda k: square(g.data[k])))
    scale = divide(lift(norm, Fraction(1)), maximum(norm, lift(norm, Fraction(1))))
    average = added(scaled(h.alpha, state.average), g.map(lambda a: a * scale))
    return added(p, scaled(-h.lr, average)), Averaged(average)


SIGNS = Optimizer(
    "own",
    Hyper,
    Averaged,
    lambda p: Averaged(zeros_like(p)),
    averaged,
    tried={"lr": (0.01, 0.5, 0.0), "alpha": (0.9, 0.0), "weight_decay": (0.0, 0.5)},
    alone=("lr",),
    refused=(("C1", {"lr": -1.0}), ("C2", {"alpha": 1.0})),
    decoupled=True,
)

RMS = replace(
    SIGNS,
    state=Squared,
    init=lambda p: Squared(zeros_like(p)),
    update=rms,
    tried={**SIGNS.tried, "alpha": (0.9, 0.5)},
    decoupled=False,
    squares=("square_avg",),
    torch="RMSprop",
)

CLIPPED = replace(
    SIGNS,
    update=clipped,
    tried={"lr": (0.01, 0.0), "alpha": (0.9, 0.0)},
    decoupled=False,
    elementwise=False,
)


def tried(page: Optimizer) -> Trial:
    """Try a page that is registered for the while."""
    with registered(page):
        return trial_of_steps(page.name)


RIGHT = {"signs": SIGNS, "rms": RMS, "clipped": CLIPPED}


@pytest.mark.parametrize("what", RIGHT)
def test_a_right_page_is_not_accused(what: str) -> None:
    found = tried(RIGHT[what])
    assert found.broken == {} and found.tried > 20 and not found.untried, found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_pages_of_the_book_are_not_accused(name: str) -> None:
    found = trial_of_steps(name)
    assert found.broken == {} and not found.untried, found


def drifting(p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper) -> tuple[AnyTensor, Averaged]:
    """Move by a little at any rate."""
    left, after = averaged(p, g, state, h)
    return left.map(lambda a: a + lift(a, Fraction(1, 64))), after


def coupled(p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper) -> tuple[AnyTensor, Averaged]:
    """Let the decay join the gradient."""
    own = replace(h, weight_decay=0.0)
    return averaged(p, added(g, scaled(h.weight_decay, p)), state, own)


def forgetful(p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper) -> tuple[AnyTensor, Averaged]:
    """Remember the steps outside of the state."""
    SEEN.append(g)
    return averaged(scaled(len(SEEN), p), g, state, h)


SEEN: list[AnyTensor] = []


def by_the_mean(
    p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper
) -> tuple[AnyTensor, Averaged]:
    """Let every entry see the first."""
    return averaged(p, g.map(lambda a: a + g.data[0]), state, h)


def flat(p: AnyTensor, g: AnyTensor, state: Averaged, h: Hyper) -> tuple[AnyTensor, Averaged]:
    """Return a state of another shape."""
    left, after = averaged(p, g, state, h)
    return left, Averaged(sum_of(after.average))


def sum_of(x: AnyTensor) -> AnyTensor:
    return zeros_like(x).map(lambda a: a) if len(x.shape) == 0 else type(x)((), [x.data[0]])


def below(p: AnyTensor, g: AnyTensor, state: Squared, h: Hyper) -> tuple[AnyTensor, Squared]:
    """Take the mean of gradients for one of squares."""
    left, after = rms(p, g, state, h)
    return left, replace(after, square_avg=scaled(1.0, g))


def late(p: AnyTensor, g: AnyTensor, state: Squared, h: Hyper) -> tuple[AnyTensor, Squared]:
    """Forget to count."""
    left, after = rms(p, g, state, h)
    return left, replace(after, step=state.step)


def inside(p: AnyTensor, g: AnyTensor, state: Squared, h: Hyper) -> tuple[AnyTensor, Squared]:
    """Add eps where the root is taken."""
    _, after = rms(p, g, state, h)
    eps = Fraction(1e-8)
    g = added(g, scaled(h.weight_decay, p))
    step = zip_map(lambda a, v: divide(a, sqrt(v + lift(v, eps))), g, after.square_avg)
    return added(p, scaled(-h.lr, step)), after


WRONG: dict[str, tuple[Optimizer, str]] = {
    "a tried choice is refused": (
        replace(SIGNS, tried={**SIGNS.tried, "alpha": (0.9, 1.0)}),
        "settings",
    ),
    "a choice of nothing": (replace(SIGNS, tried={**SIGNS.tried, "beta": (0.9,)}), "names"),
    "what is refused is accepted": (
        replace(SIGNS, refused=(("C1", {"lr": 2.0}),)),
        "refusals",
    ),
    "another label refuses": (replace(SIGNS, refused=(("C2", {"lr": -1.0}),)), "refusals"),
    "permitted changes its mind": (
        replace(SIGNS, permitted=lambda h: {**h, "lr": h["lr"] / 2}),
        "settings",
    ),
    "a state of another parameter": (
        replace(SIGNS, init=lambda p: Averaged(sum_of(p))),
        "start",
    ),
    "a state of another shape": (replace(SIGNS, update=flat), "types"),
    "no count": (replace(RMS, update=late), "types"),
    "a memory of its own": (replace(SIGNS, update=forgetful), "pure"),
    "entries see each other": (replace(SIGNS, update=by_the_mean), "elementwise"),
    "a square below zero": (replace(RMS, update=below), "squares"),
    "a rate of nothing moves": (replace(SIGNS, update=drifting), "rate"),
    "decay joins the gradient": (replace(SIGNS, update=coupled), "decay"),
    "decay is apart": (replace(SIGNS, decoupled=False), "decay"),
    "torch does otherwise": (replace(RMS, update=inside), "torch"),
    "torch has none": (replace(SIGNS, torch="Signs"), "torch"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_broken_page_is_told_its_law(what: str) -> None:
    page, law = WRONG[what]
    found = tried(page)
    assert list(found.broken) == [law] and found.call, found


class Still:
    """A backend that offers the optimizer, and counts who asks for it."""

    name = "still"

    def __init__(self) -> None:
        self.calls = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(
            {}, lambda op, dtype: Contract("still", FP32, FP32), optimizers={"own": ["fp32"]}
        )

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Tensor:
        raise NotImplementedError

    vjp: Callable[..., Any] = value

    def optimizer(self, name: str, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> Any:
        self.calls += 1
        raise NotImplementedError


def test_a_broken_page_judges_nobody() -> None:
    backend = Still()
    says = (
        r"^the page own breaks the law decay \(it is no step by the gradient.*decoupled=True\) at "
        r"own\.update\(Tensor\(.*Hyper\(lr=0\.01, alpha=0\.9, weight_decay=0\.5\)\); fix the page"
    )
    with (
        registered(replace(SIGNS, decoupled=False)),
        pytest.raises(Unusable, match=says),
    ):
        perform(Request("still", ops=["own"], profile="quick"), backend)
    assert backend.calls == 0


def test_what_cannot_be_tried_is_not_accused() -> None:
    def by_floats(p: AnyTensor, g: AnyTensor, state: Any, h: Hyper) -> tuple[AnyTensor, Any]:
        return zip_map(lambda a, b: a - h.lr * b.nothing, p, g), state

    found = tried(replace(SIGNS, update=by_floats))
    assert not found.broken and "AttributeError" in found.untried
