"""Cases of optimizers: parameters, a few steps of gradients, and hyper-parameters drawn widely.

A wrong optimizer hides at the library's defaults, so the hyper-parameters go where each mistake
shows: decay up to 1, betas down to 0, eps from 1e-12 to 1 against gradients of its size, a large
step count, gradients that are zero, and parameters that get no gradient at some step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equivalence.cases import (
    DTYPES,
    Numbers,
    Recipe,
    Shape,
    attribute_pairs,
    read_recipe,
    real_tensor,
)
from equivalence.guard import LAYOUTS, Guarded

if TYPE_CHECKING:
    from hypothesis import strategies as st

OPTIMIZERS = ("sgd", "adamw")

GRADIENTS = ("normal", "integers", "mixed", "zeros", "small", "tiny", "nothing", "offset")
PARAMETERS = ("normal", "integers", "mixed", "zeros", "offset")

CHOICES: dict[str, dict[str, tuple[Any, ...]]] = {
    "sgd": {
        "lr": (0.5, 1e-3, 0.0, 1.0),
        "momentum": (0.0, 0.9, 0.5),
        "dampening": (0.0, 0.5),
        "weight_decay": (0.0, 1e-2, 1.0),
        "nesterov": (False, True),
    },
    "adamw": {
        "lr": (1e-3, 0.5, 1e-5, 0.0),
        "beta1": (0.9, 0.0, 0.6, 0.99),
        "beta2": (0.999, 0.0, 0.6, 0.95),
        "eps": (1e-8, 1e-12, 1e-3, 1.0),
        "weight_decay": (1e-2, 0.0, 0.1, 1.0),
        "start_step": (0, 1, 9, 300),
    },
}
"""What each hyper-parameter is drawn from, plainest first.

No beta is a power of two other than 0: with 1/2 the reference's two products are exact, and then
the usual other form of the same mean, m + (1 - beta) (g - m), would be held to an exact result.
"""


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """Some steps of an optimizer on some parameters, described in a few words.

    missing holds (step, parameter) pairs at which the parameter gets no gradient.
    """

    optimizer: str
    dtype: str
    shapes: tuple[Shape, ...]
    parameters: Recipe
    gradients: Recipe
    hyper: tuple[tuple[str, Any], ...]
    steps: int = 3
    missing: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> str:
        """Return the case as one line of JSON."""
        plain = {
            "optimizer": self.optimizer,
            "dtype": self.dtype,
            "shapes": self.shapes,
            "parameters": [self.parameters.regime, self.parameters.seed, self.parameters.layout],
            "gradients": [self.gradients.regime, self.gradients.seed, self.gradients.layout],
            "hyper": dict(self.hyper),
            "steps": self.steps,
            "missing": self.missing,
        }
        return json.dumps(plain, separators=(",", ":"))

    def hyper_parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters by name, without the number of earlier steps."""
        return {name: value for name, value in self.hyper if name != "start_step"}

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
    )


def describe(case: UpdateSpec) -> str:
    """Return the case as a reader writes it."""
    shapes = ", ".join(f"{case.dtype}[{','.join(map(str, s))}]" for s in case.shapes)
    hyper = ", ".join(f"{name}={value!r}" for name, value in case.hyper)
    return f"{case.optimizer}({hyper}) on {shapes}, {case.steps} steps"


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
        absent = (step, k) in case.missing
        made = (
            None
            if absent
            else real_tensor(case.gradients, where, shape, case.dtype, device, numbers)
        )
        found.append((where, made))
    return found


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
        found.append(
            UpdateSpec(
                optimizer,
                dtype,
                shapes,
                Recipe(PARAMETERS[number % len(PARAMETERS)], number),
                Recipe(GRADIENTS[number % len(GRADIENTS)], number, LAYOUTS[number % len(LAYOUTS)]),
                permitted_pairs(optimizer, hyper),
                3 + number % 2,
                tuple((s, k) for s, k in _GAPS[number % len(_GAPS)] if k < len(shapes)),
            )
        )
    return found


def permitted_pairs(optimizer: str, hyper: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Make settings acceptable: Nesterov's form needs momentum and no dampening."""
    if optimizer == "sgd" and hyper["nesterov"]:
        return attribute_pairs({**hyper, "momentum": hyper["momentum"] or 0.9, "dampening": 0.0})
    return attribute_pairs(hyper)


def update_specs(optimizer: str, dtype: str) -> st.SearchStrategy[UpdateSpec]:
    """Return the strategy that draws cases of an optimizer."""
    from hypothesis import strategies as st

    from equivalence.strategies import recipes

    def finish(shapes: Any, parameters: Any, gradients: Any, hyper: Any, rest: Any) -> UpdateSpec:
        steps, missing = rest
        return UpdateSpec(
            optimizer,
            dtype,
            shapes,
            Recipe(parameters.regime, parameters.seed),
            gradients,
            permitted_pairs(optimizer, hyper),
            steps,
            tuple((step, k) for step, k in missing if step < steps and k < len(shapes)),
        )

    gaps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=2, unique=True)
    return st.builds(
        finish,
        st.sampled_from(_SHAPES),
        recipes(PARAMETERS),
        recipes(GRADIENTS),
        st.fixed_dictionaries({n: st.sampled_from(v) for n, v in CHOICES[optimizer].items()}),
        st.tuples(st.integers(3, 5), gaps),
    )
