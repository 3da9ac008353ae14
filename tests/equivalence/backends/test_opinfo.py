"""PyTorch's own samples: its values, gradients and tangents stay within the budgets of the pages.

Where they do not, torch computes otherwise, and `opinfo.toml` says how; it is strict.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from equivalence.backends.torch.backend import TorchBackend, pulled_back
from equivalence.budgets import oracle
from equivalence.budgets.judge import judge_tensor
from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.cases.families.signatures import refusal
from equivalence.worlds.contract import Contract
from spec.op import Op
from spec.ops import OPS
from spec.several import lone
from tests.equivalence.backends.opinfo import reader, samples
from tests.equivalence.backends.opinfo_calls import Call
from tests.turns import of_pages

methods = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations",
    reason="this build of torch comes without the samples of its own tests",
    exc_type=ImportError,
)

LARGEST = 1500
"""The entries that a sample may have: each is evaluated in balls."""

DIFFERENCES = tomllib.loads((Path(__file__).parent / "opinfo.toml").read_text(encoding="utf-8"))
"""What torch does otherwise on its own samples, and why some are no calls of a page."""

CONTRACT = TorchBackend().capabilities().contract


def contract_of(op: Op) -> Contract:
    """Return what torch is held to; its forms are those of all results of an op."""
    contract = CONTRACT(op.name, "fp64")
    return contract if OPS[op.name].results is None else replace(contract, forms=())


def value(op: Op, call: Call) -> Outcome:
    """Judge the value of a sample."""
    expected = oracle.expected_value(op, call.inputs, call.attributes, contract_of(op))
    found = call.run(*call.inputs)
    return judged(found.long() if op.kind == "positions" else found, expected)


def gradient(op: Op, call: Call) -> Outcome:
    """Judge the gradients by autograd, for a random cotangent."""
    cotangent = random_like(call.run(*call.inputs))
    contract = contract_of(op)
    expected = oracle.expected_vjp(op, call.inputs, call.attributes, cotangent, contract)
    found = pulled_back(call.run, cotangent, call.inputs, {})
    pairs = zip(found, expected, strict=True)
    return merged(*(judged(got, want) for got, want in pairs if got is not None))


def tangent(op: Op, call: Call) -> Outcome:
    """Judge the tangent by forward mode, for random tangents of all that is real."""
    tangents = [
        random_like(x, k) if x.is_floating_point() else None for k, x in enumerate(call.inputs)
    ]
    pairs = zip(call.inputs, tangents, strict=True)
    with forward_ad.dual_level():
        moved = (x if t is None else forward_ad.make_dual(x, t) for x, t in pairs)
        found = forward_ad.unpack_dual(call.run(*moved)).tangent
    contract = contract_of(op)
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


def known(op: Op) -> bool:
    """Say whether OpInfo has samples of the function that a page names, which has its results."""
    found = reader(op) if op.results is None else None
    return found is not None and bool(found.infos(methods.op_db))


KNOWN = [name for name, op in OPS.items() if known(op)]


def explained(op: str, question: str) -> list[str]:
    """Return the reasons that `opinfo.toml` has for what torch does otherwise in an op."""
    return [
        row["reason"]
        for row in DIFFERENCES["difference"]
        if op in row["ops"] and question in row["questions"]
    ]


@cache
def of_page(op: str) -> tuple[tuple[Call, ...], tuple[str, ...]]:
    """Return the calls that samples are of a page, and why the others are none."""
    found = list(samples(OPS[op], methods.op_db, LARGEST))
    reasons = (f"{type(x).__name__}: {x}" for x in found if not isinstance(x, Call))
    return tuple(x for x in found if isinstance(x, Call)), tuple(reasons)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("op", of_pages(KNOWN, 4))
def test_samples_are_left_out_for_the_reasons_that_are_said(op: str) -> None:
    """A page's own refusal says its constraint, which is enough; no reason is said in vain.

    A new page needs no entry: the reader says which argument of torch it lacks, and has tried it.
    """
    _, reasons = of_page(op)
    said = [row["says"] for row in DIFFERENCES["left"] if op in row["ops"]]
    told = (*said, rf"Rejected: {op} C\d", *(() if said else ("Beyond: ",)))
    unsaid = Counter(r for r in reasons if not any(re.match(s, r) for s in told))
    assert not unsaid, f"samples of {op} are left out, and opinfo.toml does not say why: {unsaid}"
    idle = [s for s in said if not any(re.match(s, r) for r in reasons)]
    assert not idle, f"no sample of {op} is left out for this reason: {idle}"


# torch's own forward mode still loads what it scripted.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
# The page's mean is torch's of today, and torch says that it may change.
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize(("op", "question"), of_pages(product(KNOWN, QUESTIONS), 8))
def test_torch_agrees_on_its_own_samples(op: str, question: str) -> None:
    """Every sample that a page can say is judged."""
    if question != "value" and not OPS[op].moves:
        pytest.skip("nothing moves its result")
    read, reasons = of_page(op)
    if any(op in row["ops"] for row in DIFFERENCES["unread"]):
        assert not read, f"a sample is read now, of {op}"
        pytest.skip(f"{len(reasons)} samples are no calls of the page: {Counter(reasons)}")
    assert read, f"no sample of OpInfo is read for {op}: {Counter(reasons)}"
    outcomes = [QUESTIONS[question](OPS[op], call) for call in read]
    failed = [k for k, outcome in enumerate(outcomes) if outcome.failed]
    if otherwise := explained(op, question):
        assert failed, f"torch agrees now: {otherwise}"
        return
    shown = [
        (read[k].inputs, read[k].attributes, outcomes[k].problem or outcomes[k].detail)
        for k in failed
    ]
    assert not failed, (len(failed), shown[0])


# torch's own forward mode still loads what it scripted.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("question", QUESTIONS)
def test_torchs_instance_norm_is_group_norm_with_a_group_for_each_channel(question: str) -> None:
    """By statistics of the input: running ones are left out, which the result does not read.

    A session fills in ones and zeros for parameters, and so does this test.
    """
    (info,) = (i for i in methods.op_db if i.name == "nn.functional.instance_norm")
    judged: list[Outcome] = []
    for sample in info.sample_inputs("cpu", torch.float64, requires_grad=False):
        x, given = sample.input, sample.kwargs
        if given.get("use_input_stats") is False:
            continue
        channels, eps = x.shape[1], given.get("eps", 1e-5)
        gamma, beta = (
            given.get(name) if given.get(name) is not None else x.new_full((channels,), number)
            for name, number in (("weight", 1.0), ("bias", 0.0))
        )

        def run(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = eps) -> Tensor:
            return torch.nn.functional.instance_norm(x, None, None, gamma, beta, eps=eps)

        attributes = {"groups": channels, "eps": eps}
        call = Call([x, gamma, beta], attributes, ((x, gamma, beta), {}), run)
        judged.append(QUESTIONS[question](OPS["group_norm"], call))
    assert len(judged) >= 8
    failed = [outcome for outcome in judged if outcome.failed]
    assert not failed, failed[0]


# torch's own forward mode still loads what it scripted.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("question", QUESTIONS)
def test_torchs_samples_of_batch_norm_by_its_first_result(question: str) -> None:
    """What torch returns; into the running statistics it writes, as the backend's cases show.

    A session fills in ones and zeros for parameters, and so does this test.
    """
    (info,) = (
        i
        for i in methods.op_db
        if (i.name, i.variant_test_name) == ("nn.functional.batch_norm", "")
    )
    page, outcomes = OPS["batch_norm"], list[Outcome]()
    for sample in info.sample_inputs("cpu", torch.float64, requires_grad=False):
        x, channels = sample.input, sample.input.shape[1:2]
        lines = [x.new_full(channels, n) if a is None else a
                 for a, n in zip(sample.args, (0.0, 1.0, 1.0, 0.0), strict=True)]  # fmt: skip
        inputs = [x, *lines[2:], *lines[:2]]
        told = {"training": False, **sample.kwargs}
        if refusal(page, (tuple(tuple(one.shape) for one in inputs), told)) is not None:
            continue

        def run(x: Tensor, *rest: Tensor, told: dict[str, Any] = told) -> Tensor:
            gamma, beta, *held = rest
            mean, var = (one.detach().clone() for one in held)
            return torch.nn.functional.batch_norm(x, mean, var, gamma, beta, **told)

        call = Call(inputs, told, (tuple(inputs), {}), run)
        outcomes.append(QUESTIONS[question](lone(page, 0), call))
    assert len(outcomes) >= 5
    failed = [outcome for outcome in outcomes if outcome.failed]
    assert not failed, failed[0]
