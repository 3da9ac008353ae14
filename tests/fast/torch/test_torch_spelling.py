"""A function stands where torch's stood, with torch's arguments: it works, or a sentence says why.

Values are computed in float64 and compared in float32, or are exact in float32: how near each
function is, is judged elsewhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as theirs
from torch import Tensor

import fast.torch as ours
from fast import Rejected

NAMES = [
    *("softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "instance_norm"),
    *("batch_norm", "cross_entropy"),
]
X = torch.linspace(-2, 3, 24, dtype=torch.float64).sin().reshape(2, 3, 4)
LOGITS, LABELS = X[0], torch.tensor([1, -100, 3])
GAMMA, BETA = X[0] + 2, X[1]
SMALL = torch.tensor([2.0**-11, 0.0, -(2.0**-11), 0.0]).repeat(2, 3, 1)
"""Its mean square is float32's machine epsilon, the usual eps of rms_norm: with that added the root
is 2^-11, and nothing is rounded."""

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("softmax", (X, 1), {}),
    ("softmax", (X,), {"dim": 1}),
    ("softmax", (), {"input": X, "dim": -1, "dtype": torch.float32}),
    ("softmax", (X.float(), 0, 3, torch.float64), {}),
    ("log_softmax", (X,), {"dim": 0, "_stacklevel": 5}),
    ("log_softmax", (X.float(),), {"dim": -1, "dtype": torch.float64}),
    ("layer_norm", (X, (4,), GAMMA[0], BETA[0]), {}),
    ("layer_norm", (X, [4]), {"eps": 0.5}),
    ("layer_norm", (X, (3, 4), GAMMA, BETA, 1e-3), {}),
    ("layer_norm", (X, X.shape), {}),
    ("layer_norm", (X, X.shape[-1:]), {"weight": GAMMA[0]}),
    ("layer_norm", (), {"input": X, "normalized_shape": (4,), "bias": BETA[0]}),
    ("rms_norm", (X, (4,), GAMMA[0]), {}),
    ("rms_norm", (SMALL, (3, 4)), {}),
    ("rms_norm", (X, [3, 4], GAMMA, 0.5), {}),
    ("rms_norm", (), {"input": X, "normalized_shape": (4,), "eps": 1e-3}),
    ("group_norm", (X, 3), {}),
    ("group_norm", (X, 1, GAMMA[:, 0], BETA[:, 0], 0.5), {}),
    ("group_norm", (), {"input": X, "num_groups": 3, "bias": BETA[:, 0]}),
    ("instance_norm", (X,), {}),
    ("instance_norm", (X, None, None, GAMMA[:, 0], BETA[:, 0], True, 0.3, 0.5), {}),
    ("instance_norm", (), {"input": X, "weight": GAMMA[:, 0], "momentum": 0.0, "eps": 1e-3}),
    ("batch_norm", (X, None, None, GAMMA[:, 0], BETA[:, 0], True, 0.3, 0.5), {}),
    ("batch_norm", (X, BETA[:, 1], GAMMA[:, 1], GAMMA[:, 0], BETA[:, 0]), {}),
    ("batch_norm", (LOGITS, BETA[0], GAMMA[0]), {"bias": BETA[1], "eps": 1e-3}),
    ("batch_norm", (), {"input": X, "running_mean": BETA[:, 1], "running_var": GAMMA[:, 1]}),
    ("cross_entropy", (LOGITS, LABELS), {}),
    ("cross_entropy", (), {"input": LOGITS, "target": LABELS, "reduction": "sum"}),
    ("cross_entropy", (LOGITS, LABELS.abs() % 4, None, None, 3, None, "none", 0.25), {}),
    ("cross_entropy", (LOGITS, LABELS), {"ignore_index": -100, "label_smoothing": 0.5}),
    ("cross_entropy", (LOGITS, LABELS, GAMMA[0]), {}),
    ("cross_entropy", (LOGITS, LABELS), {"weight": GAMMA[0], "label_smoothing": 0.5}),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_torchs_call_is_taken_as_it_is(number: int) -> None:
    name, arguments, options = CALLS[number]
    found, expected = (getattr(f, name)(*arguments, **options) for f in (ours, theirs))
    assert found.dtype is expected.dtype and found.shape == expected.shape
    assert found.float().equal(expected.float())


@pytest.mark.parametrize("name", NAMES)
def test_the_arguments_are_torchs_in_torchs_order(name: str) -> None:
    expected = inspect.signature(getattr(theirs, name)).parameters
    found = inspect.signature(getattr(ours, name)).parameters
    assert [*found] == [*expected, "provider"]
    for argument, parameter in expected.items():
        assert found[argument].default == parameter.default
        assert found[argument].kind is parameter.kind


def test_weight_and_bias_of_several_axes_have_gradients() -> None:
    inputs = [x.clone().requires_grad_() for x in (X, GAMMA, BETA)]
    x = inputs[0]

    def normed(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return ours.layer_norm(x, (3, 4), gamma, beta)

    assert torch.autograd.gradcheck(normed, inputs)
    assert torch.autograd.gradcheck(lambda x: ours.layer_norm(x, (4,)), (x,))


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: ours.softmax(X), "fast.torch.softmax: dim is needed, such as -1"),
    (lambda: ours.log_softmax(X), "fast.torch.log_softmax: dim is needed"),
    (lambda: ours.softmax(X, 3), "softmax C1: "),
    (lambda: ours.layer_norm(X, GAMMA[0]), "layer_norm: normalized_shape is a tuple .*torch's"),
    (lambda: ours.layer_norm(X, ()), r"layer_norm: normalized_shape is a tuple .* got \(\)"),
    (lambda: ours.layer_norm(X, 4), "layer_norm: normalized_shape is a tuple .* got 4"),
    (lambda: ours.layer_norm(X, (3,)), r"layer_norm: normalized_shape .* got \(3,\) for an"),
    (lambda: ours.layer_norm(X, (1, 2, 3, 4)), "layer_norm: normalized_shape is that of the last"),
    (lambda: ours.layer_norm(X, (4,), BETA), r"weight is a tensor of the normalized shape \(4,\)"),
    (lambda: ours.layer_norm(X, (4,), None, 3.0), "bias is a tensor .* or None; got 3.0"),
    (lambda: ours.layer_norm(X, (4,), eps="a"), "layer_norm: eps must be a number, got 'a'"),
    (lambda: ours.rms_norm(X, (3,)), r"rms_norm: normalized_shape .* got \(3,\) for an"),
    (lambda: ours.rms_norm(X, 4), r"got 4; .*torch's \(input, normalized_shape, weight, eps\)"),
    (lambda: ours.rms_norm(X, (4,), eps=0.0), "rms_norm C3"),
    (lambda: ours.group_norm(X, 2), "group_norm C2: .* got 2 for 3 channels"),
    (lambda: ours.group_norm(X, 3.0), "group_norm C2: groups is an integer >= 1, got 3.0"),
    (lambda: ours.group_norm(X[0, 0], 1), "group_norm C1: x has axes"),
    (
        lambda: ours.group_norm(X, 3, BETA),
        r"weight is .* \(3,\), or None; got a tensor of .* \(3, 4\)",
    ),
    (lambda: ours.group_norm(X, 3, None, 2.0), "bias is a tensor .* or None; got 2.0"),
    (lambda: ours.group_norm(X, 3, eps=0.0), "group_norm C4"),
    (lambda: ours.instance_norm(X, GAMMA[:, 0]), "running_mean is not supported; leave it out"),
    (lambda: ours.instance_norm(X, running_var=GAMMA[:, 0]), "running_var is not supported"),
    (lambda: ours.instance_norm(X, use_input_stats=False), "use_input_stats is True"),
    (lambda: ours.instance_norm(X[0, 0]), "group_norm C1: x has axes"),
    (lambda: ours.batch_norm(X[0, 0], None, None, training=True), "batch_norm C1: x has axes"),
    (lambda: ours.batch_norm(X, None, None), "both None; got running_mean=None and running_var="),
    (
        lambda: ours.batch_norm(X, None, GAMMA[:, 0], training=True),
        "got running_mean=None and running_var=a tensor with training=True",
    ),
    (lambda: ours.batch_norm(X, BETA, BETA), r"running_mean is a tensor .* of shape \(3,\)"),
    (lambda: ours.batch_norm(X, None, None, BETA, training=True), r"weight is a tensor .* \(3,\)"),
    (lambda: ours.batch_norm(X, None, None, training=1), "training is True or False, got 1"),
    (lambda: ours.batch_norm(X[:1, :, :1], None, None, training=True), "batch_norm C3: in"),
    (
        lambda: ours.batch_norm(X, None, None, training=True, momentum=None),
        "batch_norm: momentum must be a number, got None",
    ),
    (lambda: ours.batch_norm(X, None, None, training=True, momentum=2), "batch_norm C4"),
    (lambda: ours.batch_norm(X, None, None, training=True, eps=0), "batch_norm C5"),
    (
        lambda: ours.cross_entropy(LOGITS, LABELS, GAMMA),
        r"weight is .* got a tensor of shape \(3, 4\)",
    ),
    (lambda: ours.cross_entropy(LOGITS, LABELS, GAMMA[0, :3]), "cross_entropy C6: there are 4"),
    (lambda: ours.cross_entropy(LOGITS, LABELS, -GAMMA[0]), "cross_entropy C6: there are 4"),
    (
        lambda: ours.cross_entropy(LOGITS, LABELS, reduce=True),
        "reduce is not supported; leave it out, and use reduction",
    ),
    (lambda: ours.cross_entropy(LOGITS, LABELS, size_average=True), "size_average is not"),
    (lambda: ours.cross_entropy(LOGITS, LABELS, reduction="batchmean"), "cross_entropy C4"),
    (lambda: ours.cross_entropy(LOGITS, LOGITS), "cross_entropy C2"),
    (lambda: ours.cross_entropy(X, LABELS), "cross_entropy C2"),
    (lambda: ours.cross_entropy(LOGITS[0], LABELS[0]), "cross_entropy C1"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_not_taken_is_refused_by_a_sentence(number: int) -> None:
    call, message = REFUSED[number]
    with pytest.raises(Rejected, match=message):
        call()


NUMBERS = [np.float32(0.25), np.float64(0.25), Fraction(1, 4), torch.tensor(0.25), np.array(0.25)]


@pytest.mark.parametrize("quarter", NUMBERS, ids=lambda value: type(value).__name__)
def test_a_number_is_a_number_whoever_made_it(quarter: Any) -> None:
    assert ours.layer_norm(X, (4,), eps=quarter).equal(ours.layer_norm(X, (4,), eps=0.25))
    smoothed = ours.cross_entropy(LOGITS, LABELS, label_smoothing=quarter)
    assert smoothed.equal(ours.cross_entropy(LOGITS, LABELS, label_smoothing=0.25))


@pytest.mark.parametrize("quarter", NUMBERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_an_optimizer_takes_any_real_number(name: str, quarter: Any) -> None:
    first, second = (torch.ones(3, requires_grad=True) for _ in range(2))
    kind = getattr(ours, name)
    pair = [(first, kind([first], lr=quarter)), (second, kind([second], lr=0.25))]
    for p, optimizer in pair:
        for _ in range(2):
            p.grad = torch.tensor([1.0, -2.0, 0.5])
            optimizer.step()
    assert first.equal(second)


def test_a_learning_rate_that_is_a_tensor_may_change_between_steps() -> None:
    rate, p = torch.tensor(1.0), torch.zeros(1, requires_grad=True)
    optimizer = ours.SGD([p], lr=rate)
    for _ in range(2):
        p.grad = torch.ones(1)
        optimizer.step()
        rate.mul_(0.5)
    assert p.item() == -1.5


@pytest.mark.parametrize("strange", ["0.1", None, True, 1j, torch.ones(2), [0.1]])
def test_what_is_no_number_is_refused_before_anything_is_written(strange: Any) -> None:
    p = torch.ones(3, requires_grad=True)
    with pytest.raises(Rejected, match="sgd: lr must be a number"):
        ours.SGD([p], lr=strange)
