"""PyTorch's own samples: its values, gradients and tangents stay within the budgets of the pages.

Where they do not, torch computes otherwise, and `DIFFERENCES` says how; it is strict.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from equivalence.backends.torch.backend import TorchBackend, pulled_back
from equivalence.budgets import oracle
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.outcome import Outcome, merged, mismatch
from spec.ops import OPS
from tests.equivalence.backends.opinfo import NONE, Call, calls

methods = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations",
    reason="this build of torch comes without the samples of its own tests",
    exc_type=ImportError,
)

LARGEST = 1500
"""The entries that a sample may have: each is evaluated in balls."""

SIXTH = "torch's hardsigmoid multiplies by the float32 nearest to 1/6, in float64 too"
LERP = "torch's tangent is y' + w (x' - y'), rounded where the page hands one on"
QUOTIENTS = "torch's tangent is z times a running sum of x' / x, where the page divides by nothing"
AS_GRADIENT = "torch's tangent follows the form of its gradient (equivalence.backends.torch.forms)"

DIFFERENCES = {
    ("hardsigmoid", "gradient"): SIXTH,
    ("hardsigmoid", "tangent"): SIXTH,
    ("maximum", "tangent"): LERP,
    ("minimum", "tangent"): LERP,
    ("cumprod", "tangent"): QUOTIENTS,
    ("expm1", "tangent"): AS_GRADIENT,
    ("sigmoid", "tangent"): AS_GRADIENT,
    ("softsign", "tangent"): AS_GRADIENT,
}
"""By op and question: what torch does otherwise on its own samples."""

CONTRACT = TorchBackend().capabilities().contract


def value(op: str, call: Call) -> Outcome:
    """Judge the value of a sample."""
    expected = oracle.expected_value(op, call.inputs, call.attributes, CONTRACT(op, "fp64"))
    found = call.run(*call.inputs)
    return judged(found.long() if OPS[op].kind == "positions" else found, expected)


def gradient(op: str, call: Call) -> Outcome:
    """Judge the gradients by autograd, for a random cotangent."""
    cotangent = random_like(call.run(*call.inputs))
    contract = CONTRACT(op, "fp64")
    expected = oracle.expected_vjp(op, call.inputs, call.attributes, cotangent, contract)
    found = pulled_back(call.run, cotangent, call.inputs, {})
    pairs = zip(found, expected, strict=True)
    return merged(*(judged(got, want) for got, want in pairs if got is not None))


def tangent(op: str, call: Call) -> Outcome:
    """Judge the tangent by forward mode, for random tangents of all that is real."""
    tangents = [
        random_like(x, k) if x.is_floating_point() else None for k, x in enumerate(call.inputs)
    ]
    pairs = zip(call.inputs, tangents, strict=True)
    with forward_ad.dual_level():
        moved = (x if t is None else forward_ad.make_dual(x, t) for x, t in pairs)
        found = forward_ad.unpack_dual(call.run(*moved)).tangent
    contract = CONTRACT(op, "fp64")
    return judged(found, oracle.expected_jvp(op, call.inputs, call.attributes, tangents, contract))


def judged(got: Tensor | None, expected: oracle.Expected | None) -> Outcome:
    """Judge every element, or a result that is not there, or has another shape."""
    if got is None or expected is None:
        return mismatch(f"expected {expected}, got {got}")
    if tuple(got.shape) != tuple(expected.shape):
        return mismatch(f"expected shape {expected.shape}, got {tuple(got.shape)}")
    return judge_tensor(got, expected)


def random_like(x: Tensor, seed: int = 0) -> Tensor:
    """Draw normal numbers of a shape."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(x.shape, dtype=torch.float64, generator=generator)


QUESTIONS = {"value": value, "gradient": gradient, "tangent": tangent}


# torch's own forward mode still loads what it scripted.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
# The page's mean is torch's of today, and torch says that it may change.
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("op", [op for op in OPS if op not in NONE])
def test_torch_agrees_on_its_own_samples(op: str, question: str) -> None:
    """Every sample that a page can say is judged; there is one at least."""
    if question != "value" and not OPS[op].moves:
        pytest.skip("nothing moves its result")
    samples = [c for c in calls(op, methods.op_db) if sum(x.numel() for x in c.inputs) <= LARGEST]
    assert samples, f"no sample of OpInfo is read for {op}; say why in NONE"
    outcomes = [QUESTIONS[question](op, call) for call in samples]
    failed = [outcome for outcome in outcomes if outcome.failed]
    if (op, question) in DIFFERENCES:
        assert failed, f"torch agrees now: {DIFFERENCES[op, question]}"
        return
    assert not failed, failed[0].problem or failed[0].detail


@pytest.mark.parametrize("op", NONE)
def test_what_is_left_out_has_no_sample(op: str) -> None:
    """Who is left out is so for a reason that holds."""
    if "draws" in NONE[op]:
        assert OPS[op].random
    else:
        assert not [*calls(op, methods.op_db)]
