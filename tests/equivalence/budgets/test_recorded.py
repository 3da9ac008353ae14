"""Recorded expectations judge as the oracle does: never stricter, hardly looser."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.budgets.judge import fraction_of, judge_tensor, record
from equivalence.budgets.oracle import expected_value
from equivalence.budgets.recorded import Recorded, judge_recorded
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact
from equivalence.worlds.contract import BF16, FP32, FP64, Contract, Format
from spec import scalar
from spec.tensor import Tensor

LOOSEST = 2.0**-40
"""How much looser than the oracle's a recorded verdict may be, relative to itself."""

FORMATS = [(FP32, FP32, torch.float32), (FP32, BF16, torch.bfloat16), (FP64, FP64, torch.float64)]


@pytest.mark.parametrize(("compute", "store", "dtype"), FORMATS)
@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_fractions_agree(compute: Format, store: Format, dtype: torch.dtype, seed: int) -> None:
    rng = random.Random(seed)
    x = torch.tensor([[rng.gauss(0, 3) for _ in range(6)] for _ in range(2)]).to(dtype)
    expected = expected_value("softmax", [x], {}, Contract("c", compute, store))
    recorded = record(expected)
    for entry, k in zip(expected.data, range(len(expected.data)), strict=True):
        for error in (0.0, 1e-9, 0.4, 0.999999999, 1.0, 1.0000000001, 3.0):
            wide = float((entry.v + (entry.w - entry.v).abs_upper() * error).mid())
            got = torch.tensor(wide, dtype=torch.float64).to(dtype)
            true = fraction_of(float(got), entry)
            row = Recorded(
                (),
                recorded.dtype,
                *(getattr(recorded, f)[k : k + 1] for f in ("high", "low", "budget", "kinds")),
            )
            replayed = judge_recorded(got, row).fraction
            assert true is not None and replayed is not None
            assert (1 - LOOSEST) * true <= replayed <= true


def test_the_recorded_verdict_names_the_same_element() -> None:
    one, zero = exact(Arithmetic(Contract("ieee", FP32, FP32)), 1.0, 0.0)
    odd = Tensor((3,), [scalar.divide(one, 3), scalar.divide(one, zero), one])
    recorded = record(odd)
    for got in ([1 / 3, math.nan, 1.0], [1 / 3, 0.0, 1.5], [0.25, 0.0, 1.0]):
        tensor = torch.tensor(got)
        live, replayed = judge_tensor(tensor, odd), judge_recorded(tensor, recorded)
        assert live.status == replayed.status
        assert (live.detail and live.detail.index) == (replayed.detail and replayed.detail.index)
        assert live.unconstrained == replayed.unconstrained == 1
    assert "dtype" in (judge_recorded(torch.ones(3).double(), recorded).problem or "")


def test_replaying_needs_no_oracle() -> None:
    """A machine without python-flint and sympy judges recorded cases."""
    code = (
        "import sys; sys.modules['flint'] = sys.modules['sympy'] = None\n"
        "import equivalence.budgets.recorded, equivalence.budgets.outcome\n"
        "import equivalence.worlds.contract\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
