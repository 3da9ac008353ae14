"""Bad arguments: one call each that must be refused, and then be as if it had not been made.

What only one side can be asked stands for that side alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

import fast
from equivalence.sessions.pair import RefPair
from equivalence.sessions.stateful.model import Dense, Model, Pieces, Sparse
from equivalence.sessions.stateful.stepwise import StepwisePair, step_of
from fast.errors import Rejected, Released, SessionError, Stale
from spec.optim import OPTIMIZERS
from spec.optim._optimizer import Optimizer
from spec.tensor import tensor

Call = Callable[[], object]
NAN = math.nan


@dataclass(frozen=True)
class Bad:
    """Calls that must be refused: of `fast`, by one of the errors, and of the reference."""

    fast: tuple[Call, ...]
    spec: tuple[Call, ...] = ()
    errors: tuple[type[Exception], ...] = (Rejected,)


class Stranger:
    """Another session, whose refs, parameters and gradients are none of the run's."""

    def __init__(self) -> None:
        """Make one of each."""
        self.session = fast.Session(provider="aten", device="cpu")
        self.param = self.session.param([1.0, 2.0])
        self.ref = self.session.use(self.param)
        self.grads = self.session.backward(self.session.sum(self.ref))
        self.natural = self.session.nat(0)


class Subject(Protocol):
    """What is asked of a run: its sessions, its model, what it holds, and the stranger beside."""

    pair: StepwisePair
    model: Model
    stranger: Stranger
    refs: list[RefPair]
    naturals: list[tuple[Any, int]]
    grads: dict[int, Any]

    def made_up(self, seed: int, form: str) -> tuple[Any, Pieces]:
        """Make gradients up for the present tape."""


def data(run: Subject) -> Iterator[Bad]:
    """Hand in what is no data, or a name that is taken."""
    session = run.pair.fast
    for what in ("text", None, [1.0, "2"], [[1.0], [1.0, 2.0]], 1j, True):
        yield Bad((partial(session.input, what), partial(session.param, what)))
    if run.model.params:
        yield Bad((partial(session.param, [1.0], "p0"),))
    gone = run.stranger.session.upload([1.0])
    gone.release()
    both = partial(session.input, gone), partial(session.const, gone)
    yield Bad(both, errors=(Released,))


def strange(run: Subject) -> Iterator[Bad]:
    """Hand in what belongs to another session."""
    session, other = run.pair.fast, run.stranger
    calls: tuple[Call, ...] = (
        partial(session.value, other.ref),
        partial(session.relu, other.ref),
        partial(session.use, other.param),
        partial(session.backward, other.ref),
        partial(session.get_nat, other.natural),
        *(step_of(session, name, grads=other.grads) for name in OPTIMIZERS),
        *(partial(session.optimizer_state, name, other.param) for name in OPTIMIZERS),
    )
    run.model.optimizers |= {*OPTIMIZERS}
    yield Bad(calls, errors=(SessionError,))
    for serial, model in run.model.grads.items():
        look_up = run.grads[serial].__getitem__
        yield Bad((partial(look_up, other.ref),))
        if isinstance(model, Sparse):
            yield Bad((partial(look_up, other.param),))


def ops(run: Subject) -> Iterator[Bad]:
    """Break a constraint of an op, and run one on integers, and on a leaf that has changed."""
    numbers = run.model.tape.numbers()
    places = [ref for here, ref in enumerate(run.refs) if here not in numbers]
    for place in places[-1:]:
        yield Bad(
            (partial(run.pair.fast.exp, place.fast),), (partial(run.pair.spec.exp, place.spec),)
        )
        yield Bad((partial(run.pair.fast.backward, place.fast),))
    if not run.refs:
        return
    ref = run.refs[numbers[-1]]
    if run.model.unreadable(numbers[-1]):
        alone = partial(run.pair.fast.exp, ref.fast)
        beside = partial(run.pair.fast.apply, "concat", (ref.fast, ref.fast), {"axis": 0})
        yield Bad((alone, beside), errors=(Stale,))
        return
    wrong = (math.prod(ref.shape) + 1,)
    cases: list[tuple[str, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]] = [
        ("reshape", (), (), {"shape": wrong}),
        ("reshape", (), (), {"shape": (-1,)}),
        ("sum", (), (), {"axes": (7,)}),
        ("take", ([10**6],), (tensor([10**6]),), {"axis": 0}),
        ("broadcast_to", (), (), {"shape": () if ref.shape else (-1,)}),
        ("add", (1.0,), (1.0,), {}),
        ("nothing", (), (), {}),
    ]
    if len(ref.shape) != 2:
        cases.append(("matmul", (ref.fast,), (ref.spec,), {}))
    for name, one, other, attributes in cases:
        on_fast = partial(run.pair.fast.apply, name, (ref.fast, *one), attributes)
        on_spec = partial(run.pair.spec.apply, name, (ref.spec, *other), attributes)
        yield Bad((on_fast,), (on_spec,))


def backwards(run: Subject) -> Iterator[Bad]:
    """Start where a pass cannot start, or add to what takes no addition."""
    f, s = run.pair.fast, run.pair.spec
    numbers = run.model.tape.numbers()
    if not run.refs or run.model.stale(numbers[-1]):
        return
    ref = run.refs[numbers[-1]]
    wrong = torch.zeros((*ref.shape, 2))
    runs = partial(f.backward, ref.fast, wrong), partial(f.backward_dense, ref.fast, wrong)
    yield Bad(runs, (partial(s.backward, ref.spec, run.pair.lift(wrong)),))
    if ref.shape:
        yield Bad((partial(f.backward, ref.fast),), (partial(s.backward, ref.spec),))
        return
    foreign = partial(f.backward, ref.fast, into=run.stranger.grads)
    yield Bad((foreign,), errors=(SessionError,))
    for serial, model in run.model.grads.items():
        if isinstance(model, Dense):
            yield Bad((partial(f.backward, ref.fast, into=run.grads[serial]),))


def gradients(run: Subject) -> Iterator[Bad]:
    """Ask gradients for what they do not have."""
    for grads in run.grads.values():
        yield Bad((partial(grads.__getitem__, 10**6),))


def hypers(run: Subject) -> Iterator[Bad]:
    """Update by hyper-parameters that break a rule."""
    run.model.optimizers |= {*OPTIMIZERS}
    for name, page in OPTIMIZERS.items():
        norms = [{key: bad} for key in ("max_norm", "max_value") for bad in (0.0, NAN)]
        for change in (*(bad for _, bad in page.refused), *norms):
            both = (run.pair.fast, run.pair.spec)
            on_fast, on_spec = (step_of(side, name, grads={}, **change) for side in both)
            yield Bad((on_fast,), (on_spec,))


def groups(run: Subject) -> Iterator[Bad]:
    """Update by groups of which the second breaks a rule."""
    if not run.model.params:
        return
    run.model.optimizers |= {*OPTIMIZERS}
    given, _ = run.made_up(0, "mapping")
    lifted = {run.refs[k].spec.id: run.pair.lift(g) for k, g in given.items() if g is not None}
    first = run.pair.params[0]
    for name, page in OPTIMIZERS.items():
        key = page.arguments[0]
        fits = {key: page.tried[key][-1]}
        again = {"params": "again"}
        for change in (*(bad for _, bad in page.refused), {"speed": 1.0}, again, {}):
            sides = []
            for session, param, grads in (
                (run.pair.fast, first.fast, given),
                (run.pair.spec, first.spec, lifted),
            ):
                second = {"params": [], **change}
                if change is again:
                    second["params"] = [param]
                if not change:
                    del second["params"]
                pair = [{"params": [param], **fits}, second]
                sides.append(step_of(session, name, grads=grads, groups=pair))
            yield Bad((sides[0],), (sides[1],))
        yield Bad((step_of(run.pair.fast, name, grads=given, groups=[fits]),))


def host_gradients(run: Subject) -> Iterator[Bad]:
    """Update by gradients of which the last is missing, or of another shape: none is used."""
    run.model.optimizers |= {*OPTIMIZERS}
    given, _ = run.made_up(0, "mapping")
    cases: list[Any] = ["gradients", None]
    if given:
        last = max(given)
        cases.append({leaf: value for leaf, value in given.items() if leaf != last})
        cases.append({**given, last: torch.zeros(5, 5)})
        cases.append({**given, last: "text"})
    for name in OPTIMIZERS:
        yield Bad(tuple(step_of(run.pair.fast, name, grads=case) for case in cases))


def writes(run: Subject) -> Iterator[Bad]:
    """Write to a parameter what does not fit it."""
    if not run.model.params:
        return
    param: Any = run.pair.params[-1]
    shape = run.model.params[-1].shape
    wrong = torch.zeros((*shape, 2))
    other = torch.zeros(shape, dtype=torch.float16)
    calls = (
        partial(param.fast.set, wrong),
        partial(param.fast.set, "text"),
        partial(param.fast.set_device, wrong),
        partial(param.fast.set_device, other),
        partial(param.fast.set_device, [1.0]),
        partial(setattr, param.fast, "requires_grad", 1),
    )
    yield Bad(calls, (partial(param.spec.set, run.pair.lift(wrong)),))


def states(run: Subject) -> Iterator[Bad]:
    """Load a state with a part that is missing, not finite or of another shape."""
    if not run.model.params:
        return
    param, shape = run.pair.params[-1].fast, run.model.params[-1].shape
    load = run.pair.fast.load_optimizer_state
    for name, page in OPTIMIZERS.items():
        run.model.fit_states(name)
        calls = [partial(load, name, param, state) for state in broken_states(page, shape)]
        yield Bad((*calls, partial(load, "nothing", param, {})))


def broken_states(page: Optimizer, shape: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Break each part of a state, one at a time; what an update need not keep may be left out."""
    lacking = {name for name in page.moments[1:] if page.may_lack(name)}
    count = {"step": 1} if page.counted else {}
    right: dict[str, Any] = {moment: torch.ones(shape) for moment in page.moments} | count
    for part in (name for name in right if name not in lacking):
        yield {name: value for name, value in right.items() if name != part}
    for moment in page.moments:
        yield {**right, moment: torch.zeros((*shape, 2))}
        if (len(page.moments) > 1 or page.counted) and moment not in lacking:
            yield {**right, moment: None}
        if math.prod(shape):
            yield {**right, moment: torch.full(shape, NAN)}
    if math.prod(shape):
        yield from ({**right, moment: -torch.ones(shape)} for moment in page.squares)
    if page.counted:
        yield {**right, "step": 0.5}


def naturals(run: Subject) -> Iterator[Bad]:
    """Record or write what is no natural."""
    f: Any = run.pair.fast
    s = run.pair.spec
    on_fast = partial(f.nat, -1), partial(f.nat, 1.0), partial(f.nat_vec, [1, -1])
    on_spec = partial(s.nat, -1), partial(s.nat_vec, [1, -1]), partial(s.get_nat, 10**6)
    yield Bad((*on_fast, partial(f.get_nat, 0)), on_spec)
    for (one, other), held in zip(run.naturals, run.model.tape.naturals, strict=True):
        if isinstance(held, list):
            yield Bad((partial(f.set_nat_vec, one, [0] * 9),))
        else:
            yield Bad((partial(f.set_nat, one, -1),), (partial(s.set_nat, other, -1),))


KINDS: dict[str, Callable[[Any], Iterator[Bad]]] = {
    kind.__name__: kind
    for kind in (
        data, strange, ops, backwards, gradients, hypers, groups, host_gradients, writes, states,
        naturals,
    )
}  # fmt: skip
"""The kinds of bad arguments, by name."""
