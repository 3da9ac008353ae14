"""Recorded expectations: judged on a machine that has neither the oracle nor its libraries.

An expectation of n elements is three arrays of n float64, in row-major order:

    high, low   the exact value is high + low, to 2^-106 of itself
    budget      the largest allowed distance from it; inf where the contract leaves it unconstrained

together with the shape and the name of the result's dtype ("fp32", "bf16", "fp16", "fp64"; empty
where there is no element).
What high + low misses is added to the budget, and the budget is then enlarged by 2^-45 of itself,
which is more than the rounding errors of judging in double precision.
So a recorded verdict is never stricter than the original one, and never looser than 2^-40 of it.
A budget of 0 stays 0, for its exact value is a number of the format and high alone is that value.

`save` writes any number of named expectations to one compressed .npz file, without pickled objects:
for each name the members name/high, name/low, name/budget, name/shape (int64), name/dtype (text).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from equivalence.budgets.verdict import Element, Verdict, decide, mismatch
from equivalence.dtypes import TORCH

Doubles = npt.NDArray[np.float64]

OUTWARD = 2.0**-45
"""How much a recorded budget is enlarged, relative to itself."""

FIELDS = ("high", "low", "budget")


@dataclass(frozen=True, slots=True)
class Recorded:
    """An expectation as numbers."""

    shape: tuple[int, ...]
    dtype: str
    high: Doubles
    low: Doubles
    budget: Doubles

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays under their names in a file."""
        return {
            **{f"{name}/{field}": getattr(self, field) for field in FIELDS},
            f"{name}/shape": np.array(self.shape, dtype=np.int64),
            f"{name}/dtype": np.array(self.dtype),
        }

    @classmethod
    def read(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Recorded:
        """Read an expectation back by its name."""
        missing = [f for f in (*FIELDS, "shape", "dtype") if f"{name}/{f}" not in arrays]
        if missing:
            raise ValueError(f"the recorded case has no {name}/{missing[0]}; record it again")
        shape = tuple(int(n) for n in arrays[f"{name}/shape"])
        high, low, budget = (arrays[f"{name}/{field}"].astype(np.float64) for field in FIELDS)
        return cls(shape, str(arrays[f"{name}/dtype"]), high, low, budget)


def form_problem(got: torch.Tensor, shape: tuple[int, ...], dtype: str) -> str:
    """Say what is wrong with a result's shape or dtype; nothing if they are the expected ones."""
    if tuple(got.shape) != shape:
        return f"shape {list(got.shape)} came where {list(shape)} is due"
    if dtype and got.dtype != TORCH[dtype]:
        return f"dtype {got.dtype} came where {TORCH[dtype]} is due"
    return ""


def judge_recorded(got: torch.Tensor, expected: Recorded) -> Verdict:
    """Judge every element of a result against recorded numbers."""
    problem = form_problem(got, expected.shape, expected.dtype)
    if problem:
        return mismatch(problem)
    values = got.detach().cpu().double().reshape(-1).numpy()
    fractions = _fractions(values, expected)

    def element(k: int) -> Element:
        exact = repr(float(expected.high[k]))
        return Element(float(values[k]), exact, float(expected.budget[k]))

    return decide(fractions, expected.shape, element)


def _fractions(values: Doubles, expected: Recorded) -> list[float | None]:
    with np.errstate(all="ignore"):
        error = np.abs((values - expected.high) - expected.low)
        fraction = np.where(error == 0, 0.0, error / expected.budget)
    fraction = np.where(np.isfinite(values), fraction, np.inf)
    free = np.isinf(expected.budget)
    return [None if f else float(x) for x, f in zip(fraction, free, strict=True)]


def save(path: Path, expectations: Mapping[str, Recorded]) -> None:
    """Write named expectations to a .npz file."""
    arrays: dict[str, Any] = {}
    for name, expected in expectations.items():
        arrays.update(expected.arrays(name))
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load(path: Path) -> dict[str, Recorded]:
    """Read all named expectations of a .npz file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file.items())
    names = sorted({key.rsplit("/", 1)[0] for key in arrays})
    return {name: Recorded.read(name, arrays) for name in names}
