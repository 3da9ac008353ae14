"""Cases of optimizers: parameters, a few steps of gradients, and hyper-parameters drawn widely.

A wrong optimizer hides at the library's defaults, so the hyper-parameters go where each mistake
shows: decay up to 1, betas down to 0, eps from 1e-12 to 1 against gradients of its size, a large
step count, gradients that are zero, norms that are clipped and norms that are not, groups, and
parameters that get no gradient at some step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equivalence.cases.built import Numbers, real_tensor
from equivalence.cases.call import Recipe, Shape, attribute_pairs, read_recipe
from equivalence.cases.fills import fill
from equivalence.cases.guard import LAYOUTS, Guarded, core_shape
from equivalence.dtypes import DTYPES
from spec.optim import OPTIMIZERS

if TYPE_CHECKING:
    from hypothesis import strategies as st

GRADIENTS = ("normal", "integers", "mixed", "zeros", "small", "tiny", "nothing", "offset")
DRAWN_GRADIENTS = tuple(regime for regime in GRADIENTS if regime != "tiny")
"""The squares of tiny gradients underflow, which leaves most of an update open to a contract in
which subnormal numbers carry no promise: they are among the fixed cases, and not drawn as well."""

PARAMETERS = ("normal", "integers", "mixed", "zeros", "offset")

_NORMS = (None, 1e-7, 1.0)
"""A bound of 1e-7 meets small gradients, where what guards the division by the norm counts."""

_STARTS = (0, 1, 9, 300)
"""How many updates parameters are taken to have had, where that makes a difference."""

CHOICES: dict[str, dict[str, tuple[Any, ...]]] = {
    name: {
        **page.tried,
        **({"start_step": _STARTS} if page.counted else {}),
        "max_norm": _NORMS,
    }
    for name, page in OPTIMIZERS.items()
}
"""What each hyper-parameter is drawn from, plainest first."""

OF_A_CASE = ("start_step", "max_norm")
"""What is drawn with the hyper-parameters and belongs to no group."""

Group = tuple[tuple[int, ...], tuple[tuple[str, Any], ...]]
"""The positions of a group's parameters, and the hyper-parameters that differ for them."""


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """Some steps of an optimizer on some parameters, described in a few words.

    missing holds (step, parameter) pairs at which the parameter gets no gradient; spoiled holds
    (step, parameter, "inf" or "nan") where the first entry of a gradient is no finite number.
    """

    optimizer: str
    dtype: str
    shapes: tuple[Shape, ...]
    parameters: Recipe
    gradients: Recipe
    hyper: tuple[tuple[str, Any], ...]
    steps: int = 3
    missing: tuple[tuple[int, int], ...] = ()
    groups: tuple[Group, ...] = ()
    spoiled: tuple[tuple[int, int, str], ...] = ()

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        plain: dict[str, Any] = {
            "optimizer": self.optimizer,
            "dtype": self.dtype,
            "shapes": self.shapes,
            "parameters": [self.parameters.regime, self.parameters.seed, self.parameters.layout],
            "gradients": [self.gradients.regime, self.gradients.seed, self.gradients.layout],
            "hyper": dict(self.hyper),
            "steps": self.steps,
            "missing": self.missing,
        }
        if self.groups:
            plain["groups"] = [[members, dict(pairs)] for members, pairs in self.groups]
        if self.spoiled:
            plain["spoiled"] = self.spoiled
        return json.dumps(plain, separators=(",", ":"))

    def hyper_parameters(self, parameter: int) -> dict[str, Any]:
        """Return the hyper-parameters of one parameter by name."""
        own = [pair for members, pairs in self.groups if parameter in members for pair in pairs]
        return {name: v for name, v in (*self.hyper, *own) if name not in OF_A_CASE}

    def settings(self) -> dict[str, Any]:
        """Return what a backend's optimizer is made with."""
        found = {name: v for name, v in self.hyper if name != "max_norm" or v is not None}
        if self.groups:
            found["groups"] = [{"params": m, **dict(pairs)} for m, pairs in self.groups]
        return found

    @property
    def max_norm(self) -> float | None:
        """What the gradients' norm is clipped to."""
        found: float | None = dict(self.hyper).get("max_norm")
        return found

    @property
    def start_step(self) -> int:
        """How many updates the parameters are taken to have had."""
        return int(dict(self.hyper).get("start_step", 0))


def update_from_dict(plain: Mapping[str, Any]) -> UpdateSpec:
    """Read a case back from plain data; ValueError says what is wrong with it."""
    if plain.get("optimizer") not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        raise ValueError(f"unknown optimizer {plain.get('optimizer')!r}; known: {known}")
    if plain.get("dtype") not in DTYPES:
        raise ValueError(f"unknown dtype {plain.get('dtype')!r}; known: {', '.join(DTYPES)}")
    return UpdateSpec(
        optimizer=plain["optimizer"],
        dtype=plain["dtype"],
        shapes=tuple(tuple(int(n) for n in shape) for shape in plain["shapes"]),
        parameters=read_recipe(plain["parameters"]),
        gradients=read_recipe(plain["gradients"]),
        hyper=attribute_pairs(plain["hyper"]),
        steps=int(plain.get("steps", 3)),
        missing=tuple((int(step), int(k)) for step, k in plain.get("missing", ())),
        groups=tuple(
            (tuple(map(int, members)), attribute_pairs(pairs))
            for members, pairs in plain.get("groups", ())
        ),
        spoiled=tuple((int(s), int(k), str(what)) for s, k, what in plain.get("spoiled", ())),
    )


def describe(case: UpdateSpec) -> str:
    """Return the case as a reader writes it."""
    shapes = ", ".join(f"{case.dtype}[{','.join(map(str, s))}]" for s in case.shapes)
    hyper = ", ".join(f"{name}={value!r}" for name, value in case.hyper)
    groups = "".join(f", {dict(pairs)} for {list(members)}" for members, pairs in case.groups)
    return f"{case.optimizer}({hyper}{groups}) on {shapes}, {case.steps} steps"


def build_parameters(
    case: UpdateSpec, device: str, numbers: Numbers | None = None
) -> list[tuple[str, Guarded]]:
    """Construct the parameters before the first step, by their positions."""
    positions = [f"parameter {k}" for k in range(len(case.shapes))]
    return [
        (where, real_tensor(case.parameters, where, shape, case.dtype, device, numbers))
        for where, shape in zip(positions, case.shapes, strict=True)
    ]


def build_gradients(
    case: UpdateSpec, step: int, device: str, numbers: Numbers | None = None
) -> list[tuple[str, Guarded | None]]:
    """Construct the gradients of one step; None where a parameter gets none."""
    found: list[tuple[str, Guarded | None]] = []
    for k, shape in enumerate(case.shapes):
        where = f"gradient {k} at step {step}"
        if (step, k) in case.missing:
            found.append((where, None))
            continue
        given = _spoiled(case, step, k, where, shape) if numbers is None else numbers
        made = real_tensor(case.gradients, where, shape, case.dtype, device, given)
        found.append((where, made))
    return found


def _spoiled(case: UpdateSpec, step: int, k: int, where: str, shape: Shape) -> Numbers | None:
    """Return the numbers of a gradient with a first entry that is not finite, if it has one."""
    what = next((what for s, parameter, what in case.spoiled if (s, parameter) == (step, k)), None)
    if what is None:
        return None
    stored = core_shape(shape, case.gradients.layout)
    reach = DTYPES[case.dtype].reach
    drawn = fill(case.gradients.regime, case.gradients.seed, where, stored, reach)
    return {where: [float(what), *drawn[1:]]}


_SHAPES: tuple[tuple[Shape, ...], ...] = (
    ((9,),),
    ((3, 5), (4,)),
    ((65,), (1,), (2, 3)),
    ((8, 8), (8,)),
)

_GAPS: tuple[tuple[tuple[int, int], ...], ...] = ((), ((0, 1),), ((1, 0),), ())


def update_strata(optimizer: str, dtype: str) -> list[UpdateSpec]:
    """Return the fixed cases of an optimizer's row: every choice of every setting occurs."""
    choices = CHOICES[optimizer]
    found: list[UpdateSpec] = []
    for number in range(12):
        hyper = {
            name: among[(number // (1 + position % 3)) % len(among)]
            for position, (name, among) in enumerate(choices.items())
        }
        shapes = _SHAPES[number % len(_SHAPES)]
        regime = GRADIENTS[number % len(GRADIENTS)]
        found.append(
            UpdateSpec(
                optimizer,
                dtype,
                shapes,
                Recipe(PARAMETERS[number % len(PARAMETERS)], number),
                Recipe(regime, number, LAYOUTS[number % len(LAYOUTS)]),
                permitted_pairs(optimizer, _with_a_norm(hyper, regime)),
                3 + number % 2,
                tuple((s, k) for s, k in _GAPS[number % len(_GAPS)] if k < len(shapes)),
                _last_alone(optimizer, hyper, shapes, number) if number % 3 else (),
            )
        )
    return [*found, _guarded_case(optimizer, dtype)]


def _remembering(optimizer: str) -> dict[str, Any]:
    """Take the first of all choices but for one, if need be, so that there is some state."""
    page, hyper = OPTIMIZERS[optimizer], plainest(optimizer)
    changed = ({**hyper, name: v} for name, among in page.tried.items() for v in among)
    return next((found for found in (hyper, *changed) if page.stateful(found)), hyper)


def _plainest(optimizer: str, max_norm: float | None) -> tuple[tuple[str, Any], ...]:
    """Take the plainest settings that remember something, without weight decay."""
    hyper = {name: among[0] for name, among in CHOICES[optimizer].items()}
    hyper |= {**_remembering(optimizer), "max_norm": max_norm}
    if "weight_decay" in hyper:
        hyper["weight_decay"] = 0.0
    return permitted_pairs(optimizer, hyper)


def _guarded_case(optimizer: str, dtype: str) -> UpdateSpec:
    """Return the case in which the norm is no larger than what guards the division by it."""
    return UpdateSpec(
        optimizer,
        dtype,
        ((3, 5), (4,)),
        Recipe("nothing"),
        Recipe("small", 3),
        _plainest(optimizer, 1e-7),
    )


def _last_alone(
    optimizer: str, hyper: Mapping[str, Any], shapes: tuple[Shape, ...], number: int
) -> tuple[Group, ...]:
    """Put the last of several parameters in a group that differs in one hyper-parameter."""
    alone = OPTIMIZERS[optimizer].alone
    if len(shapes) < 2 or not alone:
        return ()
    name = alone[number % len(alone)]
    others = other_choices(optimizer, hyper, name)
    return (((len(shapes) - 1,), ((name, others[number % len(others)]),)),)


def spoiled_cases(optimizer: str, dtype: str) -> list[UpdateSpec]:
    """Return the cases with gradients that are not finite, which no budget is defined for."""
    return [
        UpdateSpec(
            optimizer,
            dtype,
            ((3, 5), (4,)),
            Recipe("normal", 1),
            Recipe("normal", 2),
            _plainest(optimizer, max_norm),
            spoiled=((1, 0, what),),
        )
        for max_norm in (None, 1.0)
        for what in ("inf", "nan")
    ]


def permitted_pairs(optimizer: str, hyper: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Make settings acceptable that were drawn one by one."""
    return attribute_pairs(OPTIMIZERS[optimizer].permitted(hyper))


def plainest(optimizer: str) -> dict[str, Any]:
    """Take the first choice of every hyper-parameter."""
    return {name: among[0] for name, among in OPTIMIZERS[optimizer].tried.items()}


def other_choices(optimizer: str, hyper: Mapping[str, Any], name: str) -> list[Any]:
    """List what else a hyper-parameter may be beside all others."""
    page = OPTIMIZERS[optimizer]
    kept = page.permitted({**plainest(optimizer), **hyper})
    others = [value for value in page.tried[name] if value != hyper[name]]
    return [v for v in others if page.permitted({**kept, name: v}) == {**kept, name: v}]


def _with_a_norm(hyper: dict[str, Any], regime: str) -> dict[str, Any]:
    """Clip no norm whose square may underflow: its budget would leave everything open."""
    return {**hyper, "max_norm": None} if regime == "tiny" else hyper


def update_specs(optimizer: str, dtype: str) -> st.SearchStrategy[UpdateSpec]:
    """Return the strategy that draws cases of an optimizer."""
    from hypothesis import strategies as st

    from equivalence.cases.strategies import recipes

    def finish(shapes: Any, parameters: Any, gradients: Any, hyper: Any, rest: Any) -> UpdateSpec:
        steps, missing, number = rest
        return UpdateSpec(
            optimizer,
            dtype,
            shapes,
            Recipe(parameters.regime, parameters.seed),
            gradients,
            permitted_pairs(optimizer, _with_a_norm(hyper, gradients.regime)),
            steps,
            tuple((step, k) for step, k in missing if step < steps and k < len(shapes)),
            () if number is None else _last_alone(optimizer, hyper, shapes, number),
        )

    gaps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=2, unique=True)
    return st.builds(
        finish,
        st.sampled_from(_SHAPES),
        recipes(PARAMETERS),
        recipes(DRAWN_GRADIENTS),
        st.fixed_dictionaries({n: st.sampled_from(v) for n, v in CHOICES[optimizer].items()}),
        st.tuples(st.integers(3, 5), gaps, st.none() | st.integers(0, 11)),
    )
