"""The laws that every optimizer obeys, as functions of a page or of one of its steps.

Each yields the calls at which it is broken, with what is wrong there. They hold of any optimizer:
none of them knows how a step moves, but for what the record says of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from equivalence.budgets.findings import for_row, uncovered
from equivalence.cases.updates.spec import OF_A_CASE, describe, recipes_of
from equivalence.trials.laws import same
from spec.op import AnyTensor, Rejected
from spec.optim import Optimizer
from spec.scalar import less, lift
from spec.tensor import Tensor, tensor, zip_map

Broken = Iterator[tuple[str, str]]
"""The calls at which a law is broken, and what is wrong there."""

RESERVED = (*OF_A_CASE, "groups", "params")
"""What an optimizer is handed beside its hyper-parameters."""


MOST_STEPS = 8
"""How many steps a case has at most at which a page is compared with torch."""


@dataclass(frozen=True)
class Step:
    """One step of a page; first says that the state is that before any update."""

    page: Optimizer
    hyper: dict[str, Any]
    parameter: AnyTensor
    gradient: AnyTensor
    state: Any
    first: bool

    def taken(self, **other: Any) -> tuple[AnyTensor, Any]:
        """Take the step, by other values of some hyper-parameters."""
        own = self.page.hyper(**{**self.hyper, **other})
        return self.page.update(self.parameter, self.gradient, self.state, own)

    def moments(self, state: Any) -> dict[str, AnyTensor | None]:
        """Return the moments of a state by name."""
        return {name: getattr(state, name) for name in self.page.moments}

    def alone(self, k: int) -> Step:
        """Return the step of one entry."""
        known = {n: m for n, m in self.moments(self.state).items() if m is not None}
        state = replace(self.state, **{name: tensor([m.data[k]]) for name, m in known.items()})
        parameter, gradient = (tensor([x.data[k]]) for x in (self.parameter, self.gradient))
        return replace(self, parameter=parameter, gradient=gradient, state=state)

    def __str__(self) -> str:
        """Show the call as one would write it."""
        given = (self.parameter, self.gradient, self.state, self.page.hyper(**self.hyper))
        return f"{self.page.name}.update({', '.join(map(repr, given))})"


def plainest(page: Optimizer) -> dict[str, Any]:
    """Return the plainest choice of every hyper-parameter."""
    return {name: among[0] for name, among in page.tried.items()}


def chosen(page: Optimizer) -> list[dict[str, Any]]:
    """Return the plainest settings, and those that differ from them in one tried choice."""
    plain = plainest(page)
    choices = (*page.tried.items(), *page.extras.items())
    every = [{**plain, name: value} for name, among in choices for value in among]
    found = [dict(page.permitted(hyper)) for hyper in [plain, *every]]
    return [hyper for k, hyper in enumerate(found) if hyper not in found[:k]]


def _made(page: Optimizer, hyper: dict[str, Any]) -> str:
    """Show how hyper-parameters are made."""
    given = ", ".join(f"{name}={value!r}" for name, value in hyper.items())
    return f"{page.hyper.__name__}({given})"


def names(page: Optimizer) -> Broken:
    """What the record names is there, and is not called what the judge calls something else."""
    for made in (page.hyper, page.state):
        if not is_dataclass(made):
            yield made.__name__, "it is no dataclass"
            return
    known = tuple(field.name for field in fields(page.hyper))
    said = {
        "tried": tuple(page.tried),
        "extras": tuple(page.extras),
        "alone": page.alone,
        "order": page.order,
        "refused": tuple(name for _, bad in page.refused for name in bad),
    }
    for part, told in said.items():
        for name in dict.fromkeys(told):
            if name not in known:
                yield f"{page.name}.{part}", f"{name!r} is none of {', '.join(known)}"
    if page.order and set(page.order) != set(known):
        yield f"{page.name}.order", f"it is no order of {', '.join(known)}"
    for name in page.required:
        if name not in page.tried:
            yield f"{page.name}.tried", f"{name!r} has no default, and no value is tried"
    for name, among in page.tried.items():
        if not among:
            yield f"{page.name}.tried", f"{name!r} has no value"
    for name in page.squares:
        if name not in page.moments:
            yield f"{page.name}.squares", f"{name!r} is none of {', '.join(page.moments)}"
    for name in (*known, *page.moments):
        if name in RESERVED or (name in page.moments and name == "parameter"):
            yield page.name, f"{name!r} is what the judge calls something else; choose another name"


def settings(page: Optimizer) -> Broken:
    """The defaults and every tried choice are accepted, once they are made to fit each other."""
    plain = plainest(page)
    usual = {name: value for name, value in plain.items() if name in page.required}
    for hyper in [usual, *chosen(page)]:
        try:
            page.hyper(**hyper)
        except Rejected as error:
            yield _made(page, hyper), f"it is declared, and refused: {error}"
    for hyper in chosen(page):
        if dict(page.permitted(hyper)) != hyper:
            yield f"{page.name}.permitted({hyper})", "what it permits it changes again"


def refusals(page: Optimizer) -> Broken:
    """What the record says is refused is refused, by the label of its constraint."""
    for label, bad in page.refused:
        hyper = {**plainest(page), **bad}
        try:
            page.hyper(**hyper)
        except Rejected as error:
            if not str(error).startswith(f"{page.name} {label}:"):
                yield _made(page, hyper), f"{page.name} {label} refuses it; it says: {error}"
        else:
            yield _made(page, hyper), f"it breaks {label}, and is accepted"


def start(page: Optimizer) -> Broken:
    """The first state is a State with moments of the parameter's shape, and counts from 0."""
    parameter = tensor([[Fraction(1), Fraction(-2)]])
    call = f"{page.name}.init({parameter!r})"
    state = page.init(parameter)
    for says in _misfits(page, state, parameter):
        yield call, says
        return
    if page.counted and state.step != 0:
        yield call, f"step is {state.step!r}, not 0"
    again = page.init(parameter)
    if not all(same(getattr(state, name), getattr(again, name)) for name in page.moments):
        yield call, "a second call returns another state"


def _misfits(page: Optimizer, state: Any, parameter: AnyTensor) -> Iterator[str]:
    """Say what of a state does not fit its parameter."""
    if not isinstance(state, page.state):
        yield f"the state is {type(state).__name__}, not {page.state.__name__}"
        return
    for name in page.moments:
        moment = getattr(state, name)
        if moment is None and page.may_lack(name):
            continue
        shape = getattr(moment, "shape", None)
        if shape is None or tuple(shape) != tuple(parameter.shape):
            yield f"{name} is {moment!r}, no tensor of the parameter's shape"


def types(step: Step) -> Iterator[str]:
    """A step returns a tensor of the parameter's shape and a State of it, and counts one more."""
    found: Any = step.taken()
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Tensor)):
        yield f"a step returns a parameter and a state; it is {found!r}"
        return
    left, state = found
    if tuple(left.shape) != tuple(step.parameter.shape):
        yield f"the parameter becomes {left!r}, of another shape"
    yield from _misfits(step.page, state, step.parameter)
    counted = step.page.counted and isinstance(state, step.page.state)
    if counted and state.step != step.state.step + 1:
        yield f"step is {state.step!r} after {step.state.step!r}"


def pure(step: Step) -> Iterator[str]:
    """The same step twice gives the same."""
    if not _alike(step, *step.taken(), *step.taken()):
        yield "the same step gives something else the second time"


def _alike(step: Step, one: AnyTensor, state: Any, two: AnyTensor, other: Any) -> bool:
    """Say whether two steps leave the same."""
    moments = zip(step.moments(state).values(), step.moments(other).values(), strict=True)
    return same(one, two) and all(same(a, b) for a, b in moments)


def elementwise(step: Step) -> Iterator[str]:
    """Every entry goes where it would go alone, unless the record says that they look around."""
    if not step.page.elementwise or len(step.parameter.data) < 2:
        return
    left, state = step.taken()
    for k in range(len(left.data)):
        one, own = step.alone(k).taken()
        mine = {"the parameter": one, **step.moments(own)}
        every = {"the parameter": left, **step.moments(state)}
        parts = {what: (every[what], mine[what]) for what in every}
        for what, (whole, part) in parts.items():
            entry = None if whole is None else tensor([whole.data[k]])
            if not same(entry, part):
                yield (
                    f"entry {k} of {what} becomes another one alone; "
                    "where entries look at each other, the record says elementwise=False"
                )
                return


def squares(step: Step) -> Iterator[str]:
    """What the record says is never below 0 is not below 0."""
    moments = step.moments(step.taken()[1])
    for name in step.page.squares:
        moment = moments[name]
        if moment is not None and any(less(x, lift(x, Fraction(0))) is True for x in moment.data):
            yield f"{name} becomes {moment!r}, and the record says that it is never below 0"


def rate(step: Step) -> Iterator[str]:
    """The first step of a rate of 0 moves nothing, where 0 is tried and nothing decays."""
    page = step.page
    if not step.first or 0 not in page.tried.get("lr", ()):
        return
    still = {"lr": 0.0, **({"weight_decay": 0.0} if "weight_decay" in page.arguments else {})}
    hyper = {**step.hyper, **still}
    if dict(page.permitted(hyper)) == hyper and not same(step.taken(**still)[0], step.parameter):
        yield "with lr=0 and no decay the parameter moves"


def decay(step: Step) -> Iterator[str]:
    """Decay joins the gradient, or else it is decoupled and moments see nothing of it."""
    page, share = step.page, step.hyper.get("weight_decay")
    if not share:
        return
    left, state = step.taken()
    if page.decoupled:
        without = step.taken(weight_decay=0.0)[1]
        if not _alike(step, left, state, left, without):
            yield "the record says decoupled, and a moment sees the decay"
        return
    # Who maximizes negates the gradient first, and adds the decay then.
    factor = Fraction(share) * (-1 if step.hyper.get("maximize") else 1)

    def joined(g: Any, p: Any) -> Any:
        return g + lift(p, factor) * p

    by_hand = replace(step, gradient=zip_map(joined, step.gradient, step.parameter))
    if not _alike(step, left, state, *by_hand.taken(weight_decay=0.0)):
        yield (
            "it is no step by the gradient and weight_decay times the parameter; "
            "where decay does not join the gradient, the record says decoupled=True"
        )


def like_torch(page: Optimizer) -> Broken:
    """The class of torch.optim that the record names takes the same steps, within its budgets."""
    from equivalence.backends.libraries import shipped
    from equivalence.backends.torch.backend import TorchBackend
    from equivalence.cases.covering import SINGLES
    from equivalence.cases.declared.inside import all_of
    from equivalence.cases.updates.design import update_strata
    from equivalence.cases.updates.tensors import long
    from equivalence.measure.update import measure_update

    if page.torch is None:
        return
    backend = TorchBackend()
    capabilities = backend.capabilities()
    if page.name not in capabilities.optimizers:
        yield f"torch.optim.{page.torch}", "torch has no such class"
        return
    contract = capabilities.contract(page.name, "fp32")
    known = for_row(shipped(), "torch", page.name, "update", "fp32")
    for case in update_strata(page.name, "fp32", SINGLES, inside=all_of(page.name, "fp32")):
        if case.steps > MOST_STEPS or any(long(math.prod(shape)) for shape in case.shapes):
            continue
        outcome = measure_update(backend, case, contract)
        if outcome.crash:
            raise ArithmeticError(f"torch.optim.{page.torch} at {describe(case)}: {outcome.crash}")
        if (
            outcome.failed
            and uncovered(
                known, [(where, recipe.regime) for where, recipe in recipes_of(case)], outcome
            )
            != []
        ):
            says = outcome.problem or (outcome.detail.line() if outcome.detail else "")
            yield describe(case), f"torch.optim.{page.torch} leaves something else: {says}"
            return


OF_A_PAGE: dict[str, Callable[[Optimizer], Broken]] = {
    "names": names,
    "settings": settings,
    "refusals": refusals,
    "start": start,
}
"""The laws of a page, each of which only makes sense where those before it hold."""

OF_A_STEP: dict[str, Callable[[Step], Iterator[str]]] = {
    "types": types,
    "pure": pure,
    "elementwise": elementwise,
    "squares": squares,
    "rate": rate,
    "decay": decay,
}
"""The laws of every step, of which only the first may be asked where it does not hold."""

NUMBERS = tuple(Fraction(n, d) for n, d in ((3, 2), (-1, 1), (0, 1), (2, 3), (-5, 4), (1, 7)))
"""What parameters and gradients are made of."""


def steps(page: Optimizer) -> Iterator[Step]:
    """Yield steps of a page on fractions, the smallest first: three in a row by every choice."""
    for count in (1, 2, 4):
        for hyper in chosen(page):
            parameter = _taken(page, 0, count)
            state = page.init(parameter)
            for number in range(3):
                gradient = _taken(page, 2 * number + 1, count)
                step = Step(page, hyper, parameter, gradient, state, not number)
                yield step
                parameter, state = step.taken()


def _taken(page: Optimizer, start: int, count: int) -> AnyTensor:
    """Return a parameter of some of the numbers, from a place on; four of them are a square."""
    found: Sequence[Any] = [NUMBERS[(start + k) % len(NUMBERS)] for k in range(count)]
    return page.as_parameter(found) if count < 4 else tensor([found[:2], found[2:]])
