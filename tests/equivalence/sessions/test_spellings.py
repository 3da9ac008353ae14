"""Both sessions take what people write, and answer alike to what neither takes."""

from __future__ import annotations

import inspect
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import fast
import fast.errors
import fast.ref
import spec.ref
import spec.refusals
from fast.protocol import Ops
from spec.answers import ABSENT, INSTEAD
from spec.ops import OPS
from spec.session import Session
from spec.tensor import tensor

Ask = Callable[[Any, Any, Any, Any], Any]
"""ask(session, x, y, made): x and y are refs of 2 x 2; what is made is `Given`."""

SENTENCES = (spec.refusals.Rejected, fast.Rejected, fast.SessionError)


@dataclass(frozen=True)
class Given:
    """What a call finds beside x and y: tensors of its side, a scalar of y, and a ref of (3,)."""

    tensor: Callable[[Any], Any]
    total: Any
    three: Any

    def __call__(self, data: Any) -> Any:
        return self.tensor(data)


def sides() -> list[tuple[Any, Callable[[Any], Any]]]:
    return [(Session(), tensor), (fast.Session(provider="aten", precision="fp64"), torch.tensor)]


def answers(ask: Ask) -> list[Any]:
    """Return what each session says: a value as nested lists, or a refusal."""
    found = []
    for session, made in sides():
        x = session.input(made([[1.0, 2.0], [3.0, 4.0]]), name="x")
        y = session.input(made([[5.0, 6.0], [7.0, 8.0]]), requires_grad=True)
        given = Given(made, session.sum(y), session.input(made([1.0, 2.0, 3.0])))
        before = entries(session)
        try:
            result = ask(session, x, y, given)
        except SENTENCES as refusal:
            found.append(refusal)
            assert entries(session) == before, "a refusal has left a trace"
        else:
            found.append(plain(session, result))
    return found


def entries(session: Any) -> int:
    return len(session.tape if isinstance(session, Session) else session._tape)


def plain(session: Any, result: Any) -> Any:
    if hasattr(result, "tape") and hasattr(result, "id"):
        result = session.value(result)
    return (
        result.tolist()
        if isinstance(result, torch.Tensor)
        else getattr(result, "nested", lambda: result)()
    )


def kind(refusal: Any) -> str:
    return type(refusal).__name__


# What both take, and give the same numbers for.
TAKEN: dict[str, Ask] = {
    "sum(dim)": lambda s, x, y, made: s.sum(x, dim=0),
    "sum(dim, keepdim)": lambda s, x, y, made: s.sum(x, dim=(0, 1), keepdim=True),
    "mean(axis, keepdims)": lambda s, x, y, made: s.mean(x, axis=1, keepdims=True),
    "max(dim)": lambda s, x, y, made: s.max(x, dim=1),
    "argmax(dim)": lambda s, x, y, made: s.argmax(x, dim=1, keepdim=True),
    "norm(dim)": lambda s, x, y, made: s.norm(x, ord=1, dim=1),
    "softmax(dim)": lambda s, x, y, made: s.softmax(x, dim=0),
    "cumsum(dim)": lambda s, x, y, made: s.cumsum(x, dim=0),
    "permute(dims)": lambda s, x, y, made: s.permute(x, dims=(1, 0)),
    "flip(dims)": lambda s, x, y, made: s.flip(x, dims=(0,)),
    "concat(dim)": lambda s, x, y, made: s.concat(x, y, dim=1),
    "concat of a list": lambda s, x, y, made: s.concat([x, y], axis=0),
    "stack of a list": lambda s, x, y, made: s.stack([x, y], dim=0),
    "gather(dim)": lambda s, x, y, made: s.gather(x, made([[0, 0]]), dim=0),
    "x.sum(dim)": lambda s, x, y, made: x.sum(dim=0),
    "x.sum(axes)": lambda s, x, y, made: x.sum(axes=(0,)),
    "x.max(dim, keepdim)": lambda s, x, y, made: x.max(dim=1, keepdim=True),
    "x.argmin(dim)": lambda s, x, y, made: x.argmin(dim=1),
    "np.sum(ref)": lambda s, x, y, made: np.sum(x),
    "np.mean(ref, axis)": lambda s, x, y, made: np.mean(x, axis=1),
    "np.max(ref, keepdims)": lambda s, x, y, made: np.max(x, axis=0, keepdims=True),
    "x.sum of nothing set": lambda s, x, y, made: x.sum(dtype=None, out=None, keepdims=False),
    "np.shape(ref)": lambda s, x, y, made: np.shape(x),
    "x.split(dim)": lambda s, x, y, made: x.split(1, dim=1)[1],
    "axes of NumPy": lambda s, x, y, made: s.sum(x, axes=(np.int64(1),)),
    "an axis of NumPy": lambda s, x, y, made: s.softmax(x, axis=np.int64(1)),
    "a factor of NumPy": lambda s, x, y, made: s.scale(x, c=np.float32(0.5)),
    "NumPy's number beside a ref": lambda s, x, y, made: np.float32(2) * x - np.float64(1),
    "a ref beside NumPy's number": lambda s, x, y, made: x / np.float32(2) + np.int64(1),
    "a power of NumPy": lambda s, x, y, made: x ** np.float32(2),
    "constant of NumPy": lambda s, x, y, made: s.constant(np.float32(0.1)),
    "a place of NumPy": lambda s, x, y, made: x[np.int64(1)],
    "add(x, number)": lambda s, x, y, made: s.add(x, 1.0),
    "mul(number, x)": lambda s, x, y, made: s.mul(2, x),
    "sub that broadcasts": lambda s, x, y, made: s.sub(x, y[0]),
    "div of a column": lambda s, x, y, made: s.div(x[:, :1], y),
    "maximum(x, 2.5)": lambda s, x, y, made: s.maximum(x, 2.5),
    "minimum(row, y)": lambda s, x, y, made: s.minimum(x[0], y),
    "where(mask, x, 0.0)": lambda s, x, y, made: s.where(made([[True, False]] * 2), x, 0.0),
    "where(mask, 1, y)": lambda s, x, y, made: s.where(made([[True, False]] * 2), 1, y),
    "where(mask, 1, 0.0)": lambda s, x, y, made: s.where(made([[True, False]] * 2), 1, 0.0),
    "where of a row and a column": lambda s, x, y, made: s.where(
        made([[True, False], [False, True]]), x[0], y[:, :1]
    ),
    "linear without a bias": lambda s, x, y, made: s.linear(x, y),
    "linear of a row, without a bias": lambda s, x, y, made: s.linear(x[0], y, None),
    "a matrix and a vector": lambda s, x, y, made: x @ y[0],
    "a vector and a matrix": lambda s, x, y, made: s.matmul(x[0], y),
    "a batch and a matrix": lambda s, x, y, made: s.stack(x, y, axis=0) @ y,
    "dot": lambda s, x, y, made: s.dot(x[0], y[1]),
    "outer": lambda s, x, y, made: s.outer(made.three, y[1]),
    "linear of a batch, without a bias": lambda s, x, y, made: s.linear(s.stack(x, y, axis=0), y),
    "layer_norm without both": lambda s, x, y, made: s.layer_norm(x, normalized_shape=(2,)),
    "layer_norm of two axes": lambda s, x, y, made: s.layer_norm(x, y, eps=0.5),
    "layer_norm without gamma": lambda s, x, y, made: s.layer_norm(x, beta=y[0], eps=1),
    "layer_norm of a list": lambda s, x, y, made: s.layer_norm(
        x, y[0], y[1], normalized_shape=[2], eps=1e-3
    ),
    "rms_norm without gamma": lambda s, x, y, made: s.rms_norm(x, normalized_shape=(2, 2)),
    "rms_norm": lambda s, x, y, made: s.rms_norm(x, y[0], normalized_shape=(2,)),
    "add_layer_norm without beta": lambda s, x, y, made: s.concat(
        s.add_layer_norm(x, y, x[0], normalized_shape=(2,)), axis=0
    ),
    "add_layer_norm without both": lambda s, x, y, made: s.concat(
        s.add_layer_norm(x, y, normalized_shape=(2, 2), eps=0.5), axis=0
    ),
    "add_rms_norm of both": lambda s, x, y, made: s.concat(s.add_rms_norm(x, y, y[0]), axis=0),
    "add_rms_norm without gamma": lambda s, x, y, made: s.concat(
        s.add_rms_norm(x, y, normalized_shape=(2,)), axis=0
    ),
    "group_norm without both": lambda s, x, y, made: s.group_norm(x, groups=1),
    "group_norm without gamma": lambda s, x, y, made: s.group_norm(x, beta=y[0], groups=1, eps=1),
    "instance_norm": lambda s, x, y, made: s.instance_norm(s.stack(x, y, axis=0), x[0], x[1]),
    "instance_norm without both": lambda s, x, y, made: s.instance_norm(s.stack(x, y, axis=1)),
    "x[integers]": lambda s, x, y, made: x[made([1, 0, 1])],
    "x[:, integers]": lambda s, x, y, made: x[:, [1, 1]],
    "x[argmax]": lambda s, x, y, made: x[s.argmax(x, axis=0)],
    "x[array]": lambda s, x, y, made: x[np.array([[0, 1]])],
    "labels in a list": lambda s, x, y, made: s.cross_entropy(x, [0, 1]),
    "labels in an array": lambda s, x, y, made: s.cross_entropy(x, np.array([0, 1])),
    "take by a list": lambda s, x, y, made: s.take(x, [1, 0], axis=1),
    "reshape to a list": lambda s, x, y, made: s.reshape(x, shape=[4]),
    "a ref in a text": lambda s, x, y, made: f"{x} {x + y} {s.use(s.param(made([1.0]), 'w'))}",
    "a rate of NumPy": lambda s, x, y, made: s.sgd_step(np.float32(0.5), s.backward(made.total)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_both_sessions_take_what_people_write(name: str) -> None:
    ours, theirs = answers(TAKEN[name])
    if isinstance(ours, str) or ours is None:
        assert ours == theirs
    else:
        # What exp and its like differ by in fp64 is lost in fp32.
        assert np.shape(ours) == np.shape(theirs)
        assert np.array_equal(np.float32(ours), np.float32(theirs))


# What neither takes. Both say the same words.
REFUSED: dict[str, Ask] = {
    "layer_norm of what?": lambda s, x, y, made: s.layer_norm(x),
    "layer_norm of 2": lambda s, x, y, made: s.layer_norm(x, normalized_shape=2),
    "layer_norm of no axis": lambda s, x, y, made: s.layer_norm(x, normalized_shape=()),
    "layer_norm of two shapes": lambda s, x, y, made: s.layer_norm(x, y, normalized_shape=(2,)),
    "layer_norm of another shape": lambda s, x, y, made: s.layer_norm(x, beta=made.three),
    "layer_norm by no eps": lambda s, x, y, made: s.layer_norm(x, y, eps=0.0),
    "instance_norm by no eps": lambda s, x, y, made: s.instance_norm(x, eps=0.0),
    "rms_norm of an array": lambda s, x, y, made: s.rms_norm(x, np.ones(2), normalized_shape=(2,)),
    "rms_norm of what?": lambda s, x, y, made: s.rms_norm(x),
    "add_rms_norm of what?": lambda s, x, y, made: s.add_rms_norm(x, y),
    "add_rms_norm of another residual": lambda s, x, y, made: s.add_rms_norm(
        x, made.three, normalized_shape=(2,)
    ),
    "add_rms_norm of a number": lambda s, x, y, made: s.add_rms_norm(x, 1.0, normalized_shape=(2,)),
    "add_layer_norm of an array": lambda s, x, y, made: s.add_layer_norm(
        x, np.ones((2, 2)), normalized_shape=(2,)
    ),
    "array * ref": lambda s, x, y, made: np.ones((2, 2)) * x,
    "ref * array": lambda s, x, y, made: x * np.ones((2, 2)),
    "np.array(ref)": lambda s, x, y, made: np.array(x),
    "np.exp(ref)": lambda s, x, y, made: np.exp(x),
    "np.add.reduce(ref)": lambda s, x, y, made: np.add.reduce(x),
    "np.dot(ref, ref)": lambda s, x, y, made: np.dot(x, y),
    "np.where(ref)": lambda s, x, y, made: np.where([[True, False]], x, y),
    "np.concatenate(refs)": lambda s, x, y, made: np.concatenate([x, y]),
    "np.arctan(ref)": lambda s, x, y, made: np.arctan(x),
    "np.linalg.det(ref)": lambda s, x, y, made: np.linalg.det(x),
    "x.sum(dtype=float)": lambda s, x, y, made: x.sum(dtype=float),
    "math.exp(ref)": lambda s, x, y, made: math.exp(x),
    "truth": lambda s, x, y, made: bool(x),
    "ref > 0": lambda s, x, y, made: x > 0,
    "0 < ref": lambda s, x, y, made: 0 < x,  # noqa: SIM300
    "ref >= ref": lambda s, x, y, made: x >= y,
    "float": lambda s, x, y, made: float(x),
    "int": lambda s, x, y, made: int(x),
    "complex": lambda s, x, y, made: complex(x),
    "round": lambda s, x, y, made: round(x),
    "len": lambda s, x, y, made: len(x),
    "2 ** ref": lambda s, x, y, made: 2**x,
    "ref ** ref": lambda s, x, y, made: x**y,
    "ref // ref": lambda s, x, y, made: x // y,
    "ref % 2": lambda s, x, y, made: x % 2,
    "2 % ref": lambda s, x, y, made: 2 % x,
    "divmod": lambda s, x, y, made: divmod(x, y),
    "number @ ref": lambda s, x, y, made: 1.0 @ x,
    "ref @ number": lambda s, x, y, made: x @ 1.0,
    "ref & ref": lambda s, x, y, made: x & y,
    "ref | ref": lambda s, x, y, made: x | y,
    "ref ^ ref": lambda s, x, y, made: x ^ y,
    "~ref": lambda s, x, y, made: ~x,
    "ref << 1": lambda s, x, y, made: x << 1,
    "1 in ref": lambda s, x, y, made: 1.0 in x,
    "ref[0] = 1": lambda s, x, y, made: x.__setitem__(0, 1.0),
    "del ref[0]": lambda s, x, y, made: x.__delitem__(0),
    "list[ref]": lambda s, x, y, made: [1, 2, 3][x],
    "a format": lambda s, x, y, made: f"{x:.3f}",
    "ref + list": lambda s, x, y, made: operator.add(x, [1.0]),
    "ref + None": lambda s, x, y, made: x + None,
    "ref + text": lambda s, x, y, made: x + "1",
    "ref + complex": lambda s, x, y, made: x + 1j,
    "ref - tensor": lambda s, x, y, made: x - made([1.0]),
    "add of numbers": lambda s, x, y, made: s.add(1.0, 2.0),
    "shapes that do not fit": lambda s, x, y, made: x + made.three,
    "where of shapes that do not fit": lambda s, x, y, made: s.where(made([True] * 3), x, y),
    "matmul that does not fit": lambda s, x, y, made: x @ made.three,
    "matmul of a scalar": lambda s, x, y, made: x @ made.total,
    "dot of matrices": lambda s, x, y, made: s.dot(x, y),
    "outer of a matrix": lambda s, x, y, made: s.outer(made.three, y),
    "linear that does not fit": lambda s, x, y, made: s.linear(x, made.three),
    "x.item()": lambda s, x, y, made: x.item(),
    "x.numpy()": lambda s, x, y, made: x.numpy(),
    "x.grad": lambda s, x, y, made: x.grad,
    "x.backward()": lambda s, x, y, made: x.backward(),
    "x.detach()": lambda s, x, y, made: x.detach(),
    "x.view()": lambda s, x, y, made: x.view(4),
    "x.size()": lambda s, x, y, made: x.size(),
    "x.dim()": lambda s, x, y, made: x.dim(),
    "x.relu()": lambda s, x, y, made: x.relu(),
    "x.unsqueeze()": lambda s, x, y, made: x.unsqueeze(0),
    "x.permute()": lambda s, x, y, made: x.permute(1, 0),
    "x.where()": lambda s, x, y, made: x.where(made([[True, False]] * 2), y),
    "x.value": lambda s, x, y, made: x.value,
    "np.maximum(ref)": lambda s, x, y, made: np.maximum(x, y),
    "x[mask]": lambda s, x, y, made: x[made([True, False])],
    "x[0.5]": lambda s, x, y, made: x[0.5],
    "x['a']": lambda s, x, y, made: x["a"],
    "x[[0], [1]]": lambda s, x, y, made: x[[0], [1]],
    "x[0, [1]]": lambda s, x, y, made: x[0, [1]],
    "x.sum(by=0)": lambda s, x, y, made: x.sum(by=0),
    "matmul of a list": lambda s, x, y, made: s.matmul(x, [[1.0]]),
    "matmul of a tensor": lambda s, x, y, made: s.matmul(x, made([[1.0]])),
    "matmul of a Param": lambda s, x, y, made: s.matmul(x, s.param(made([[1.0]]))),
    "labels first": lambda s, x, y, made: s.cross_entropy(made([0, 1]), x),
    "labels first, in a list": lambda s, x, y, made: s.cross_entropy([0, 1], x),
    "labels first, in an array": lambda s, x, y, made: s.cross_entropy(np.array([0, 1]), x),
    "integers for numbers": lambda s, x, y, made: s.bce_with_logits(x, made([[0, 1], [1, 0]])),
    "an array of integers for numbers": lambda s, x, y, made: s.bce_with_logits(
        x, np.array([[0, 1], [1, 0]])
    ),
    "lists of integers for numbers": lambda s, x, y, made: s.bce_with_logits(x, [[0, 1], [1, 0]]),
    "an array for a ref": lambda s, x, y, made: s.bce_with_logits(x, np.ones((2, 2))),
    "indices second": lambda s, x, y, made: s.embedding(x, made([0, 1])),
    "gelu of another approximation": lambda s, x, y, made: s.gelu(x, approximate="Tanh"),
    "clamp by None": lambda s, x, y, made: s.clamp(x, lo=None, hi=1.0),
    "adamw_step(betas)": lambda s, x, y, made: s.adamw_step(betas=(0.9, 0.99), grads={}),
    "adamw_step without gradients": lambda s, x, y, made: s.adamw_step(lr=0.1),
    "a rate below 0": lambda s, x, y, made: s.sgd_step(-1.0, s.backward(made.total)),
    "dropout without a seed": lambda s, x, y, made: s.dropout(x, p=0.5),
    "input of nothing": lambda s, x, y, made: s.input(),
    "value of a number": lambda s, x, y, made: s.value(2.0),
    "value of a Param": lambda s, x, y, made: s.value(s.param(made([1.0]))),
    "backward of a number": lambda s, x, y, made: s.backward(2.0),
    "reset_tape(True)": lambda s, x, y, made: s.reset_tape(True),
    "both names": lambda s, x, y, made: s.sum(x, axes=(0,), dim=0),
    "an op that there is not": lambda s, x, y, made: s.apply("softmaxx", (x,), {}),
    "param + 1": lambda s, x, y, made: s.param(made([1.0])) + 1,
    "param * ref": lambda s, x, y, made: s.param(made([1.0])) * x,
    "ref * param": lambda s, x, y, made: x * s.param(made([1.0])),
    "param[0]": lambda s, x, y, made: s.param(made([1.0]))[0],
    "param.grad": lambda s, x, y, made: s.param(made([1.0])).grad,
    "param.T": lambda s, x, y, made: s.param(made([1.0])).T,
}

REFUSED |= {
    f"s.{name}": lambda s, x, y, made, name=name: getattr(s, name)  # type: ignore[misc]
    for name in (*INSTEAD, *sorted(ABSENT))
    if not hasattr(Session, name)
}
REFUSED |= {
    f"x.{name}": lambda s, x, y, made, name=name: getattr(x, name)  # type: ignore[misc]
    for name in INSTEAD
}

READING = [name for name, op in OPS.items() if 0 < len(op.index_inputs) < len(op.inputs)]
"""The ops that read integers or truth values beside numbers."""


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("way", ["tensor", "array", "list"])
def test_swapped_inputs_are_told_their_order(name: str, way: str) -> None:
    op = OPS[name]
    method = inspect.signature(getattr(Session, name))
    needed = [one.name for one in method.parameters.values() if one.kind is one.KEYWORD_ONLY]
    needed = [one for one in needed if method.parameters[one].default is inspect.Parameter.empty]

    def ask(s: Any, x: Any, y: Any, made: Any) -> Any:
        ways = {"tensor": made, "array": np.array, "list": lambda data: data}
        integers = ways[way]([[True, False]] * 2 if op.mask_inputs else [[0, 1]] * 2)
        given = [x if k in op.index_inputs else integers for k in range(len(op.inputs))]
        return getattr(s, name)(*given, **dict.fromkeys(needed, 0))

    ours, theirs = answers(ask)
    assert str(ours) == str(theirs) and kind(ours) == kind(theirs) == "Unsupported"
    assert re.search(rf"; the order is {name}\({', '.join(op.inputs)}\)$", str(ours))


@pytest.mark.parametrize("way", ["tensor", "list"])
def test_integers_beside_a_ref_are_told_how_they_become_one(way: str) -> None:
    """A world of `spec` computes with integers, so that nobody is told to write 1.0."""
    for one in answers(lambda s, x, y, made: x * ([1, 2] if way == "list" else made([1, 2]))):
        assert str(one).endswith("; ops.input(...) makes a ref of numbers to compute with")


SAID = re.compile(r"write (.*?)(?:, where .*|, or .*|, with .*|, which .*| for .*)?$")
"""What a refusal advises to write; what comes after it says what the names in it stand for."""


def advised(asked: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """Return what is advised, by the name of what a ref has not."""
    found = {}
    for name, ask in asked.items():
        with pytest.raises(SENTENCES) as refused:
            ask()
        said = SAID.search(str(refused.value))
        # Some names stand for no call, or for one whose data only the caller has ("...").
        if said is not None and said.group(1)[0] in "ox" and "..." not in said.group(1):
            found[name] = said.group(1)
    return found


def operators(x: Any, y: Any) -> dict[str, Callable[[], Any]]:
    return {
        "2**x": lambda: 2**x,
        "len": lambda: len(x),
        "x // y": lambda: x // y,
        "bool": lambda: bool(x),
        "x**y": lambda: x**y,
        "np.exp": lambda: np.exp(x),
        "np.maximum": lambda: np.maximum(x, y),
        "np.sign": lambda: np.sign(x),
        "np.array": lambda: np.array(x),
    }


def meant(session: Any, made: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what the names in an advice stand for, and where that depends on the name asked."""
    x = session.input(made([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    y, loss = session.input(made([[1.0, 2.0], [3.0, 4.0]])), session.sum(x)
    named: dict[str, Any] = {
        "ops": session, "x": x, "y": y, "w": y, "target": y, "positive": y, "negative": y,
        "weight": y, "source": y, "gamma": x[0], "beta": x[1], "labels": made([0, 1]),
        "residual": y, "indices": made([0, 1]), "mask": made([[True, False], [False, True]]),
        "axis": 0, "axes": (1, 0), "groups": 1, "shape": (2, 2), "before": (1, 0), "after": (0, 0),
        "start": 0, "length": 1, "c": 2.0, "lo": 0.0, "hi": 2.0, "p": 0.5, "seed": 3,
        "lowest": 0.0, "highest": 2.0, "b": x[0], "activation": "relu",
        "running_mean": session.buffer(made([0.0, 0.0])),
        "power": 2.0, "number": 1.0, "lr": 0.5, "math": math,
        "running_var": session.buffer(made([1.0, 1.0])),
        "steps": ("exp",), "to": "fp32", "constant": 0.5, "grads": session.backward(loss),
    }  # fmt: skip
    otherwise = {name: {"x": loss} for name in ("item", "backward", "bool")}
    otherwise["gather"] = {"indices": made([[0, 1], [1, 0]])}
    otherwise["hinge_embedding_loss"] = {"y": named["mask"]}
    otherwise["bmm"] = {"x": session.stack(x, y, axis=0), "y": session.stack(y, x, axis=0)}
    otherwise |= {name: {"x": x[0], "y": y[0]} for name in ("dot", "outer")}
    otherwise["einsum"] = {"equation": "ij,jk->ik"}
    return named, otherwise


def test_what_is_advised_runs() -> None:
    both = []
    for session, made in sides():
        named, otherwise = meant(session, made)
        x = named["x"]
        names = {*fast.ref.INSTEAD, *spec.ref.INSTEAD, *OPS, *dir(session)} - {*dir(x)}
        asked: dict[str, Callable[[], Any]] = {
            name: partial(getattr, x, name) for name in sorted(names) if name[0] != "_"
        }
        found = advised({**asked, **operators(x, named["y"])})
        for name, advice in found.items():
            try:
                eval(advice, {}, named | otherwise.get(name, {}))
            except Exception as error:
                raise AssertionError(f"{name}: {advice}: {error}") from error
        both.append(found)
    ours, theirs = both
    assert ours == theirs and {*operators(None, None)} <= {*ours} and len(ours) > 80
    assert ours["permute"] == "ops.permute(x, axes=axes)"
    assert ours["embedding"] == "ops.embedding(indices, x)"
    assert ours["concat"] == "ops.concat(x, y, axis=axis)"
    assert "one_hot" not in ours and "reset_tape" not in ours


METHODS = [name for name in OPS if name in vars(Ops)]


def calls_of(name: str) -> dict[str, Ask]:
    """Return calls of an op that lack an input, have one too many, or name what there is not."""
    takes = inspect.signature(getattr(Session, name)).parameters.values()
    count = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in takes) - 1
    several = any(p.kind is p.VAR_POSITIONAL for p in takes)
    needed = any(p.default is p.empty and p.kind is p.KEYWORD_ONLY for p in takes)
    calls: dict[str, Ask] = {
        f"{name}(flavour=1)": lambda s, x, y, made: getattr(s, name)(*[x] * count, flavour=1)
    }
    if not several and count:
        calls[f"{name} of nothing"] = lambda s, x, y, made: getattr(s, name)()
    if not several:
        calls[f"{name} of too many"] = lambda s, x, y, made: getattr(s, name)(*[x] * (count + 1))
    elif needed:
        calls[f"{name} without its attribute"] = lambda s, x, y, made: getattr(s, name)(x, y)
    return calls


CALLS = {title: ask for name in METHODS for title, ask in calls_of(name).items()}


def test_there_are_many_wrong_spellings() -> None:
    assert len(REFUSED) + len(CALLS) >= 300


@pytest.mark.parametrize("name", [*REFUSED, *CALLS])
def test_both_sessions_answer_a_wrong_spelling_in_the_same_words(name: str) -> None:
    ours, theirs = answers({**REFUSED, **CALLS}[name])
    assert isinstance(ours, spec.refusals.Rejected), ours
    assert (kind(theirs), str(theirs)) == (kind(ours), str(ours))


# What the two sides hold differs, and so do the words: the kind of refusal and its label agree.
OTHERWISE: dict[str, Ask] = {
    "group_norm of 3 groups": lambda s, x, y, made: s.group_norm(x, groups=3),
    "group_norm of other channels": lambda s, x, y, made: s.group_norm(x, made.three, groups=1),
    "group_norm of a row": lambda s, x, y, made: s.group_norm(made.three, groups=1),
    "instance_norm of a row": lambda s, x, y, made: s.instance_norm(made.three),
    "param.data": lambda s, x, y, made: s.param(made([1.0])).data,
    "float(param)": lambda s, x, y, made: float(s.param(made([1.0]))),
    "np.array(param)": lambda s, x, y, made: np.array(s.param(made([1.0]))),
    "a rate that is a function": lambda s, x, y, made: s.adamw_step(
        lr=lambda step: 0.1, grads=s.backward(made.total)
    ),
    "a rate that is a text": lambda s, x, y, made: s.adamw_step(
        "0.1", grads=s.backward(made.total)
    ),
    "dropout of 2": lambda s, x, y, made: s.dropout(x, p=2.0, seed=1),
    "labels that are numbers": lambda s, x, y, made: s.cross_entropy(x, y),
    "labels that are numbers, in an array": lambda s, x, y, made: s.cross_entropy(x, np.ones(2)),
    "labels that are numbers, in a list": lambda s, x, y, made: s.cross_entropy(x, [0.0, 1.0]),
    "labels that are truths": lambda s, x, y, made: s.cross_entropy(x, made([True, False])),
    "labels that are truths, in an array": lambda s, x, y, made: s.cross_entropy(
        x, np.array([True, False])
    ),
    "indices that are numbers": lambda s, x, y, made: s.gather(x, np.zeros((1, 2)), axis=0),
    "labels out of range": lambda s, x, y, made: s.cross_entropy(x, made([0, 7])),
    "where by a ref": lambda s, x, y, made: s.where(x, x, y),
    "a name that is no text": lambda s, x, y, made: s.param(made([1.0]), name=3),
    "an input's name that is no text": lambda s, x, y, made: s.input(made([1.0]), name=3),
    "a shape that is none": lambda s, x, y, made: s.constant(1.0, shape=2),
    "reshape to a number": lambda s, x, y, made: s.reshape(x, shape=4),
    "an attribute of apply": lambda s, x, y, made: s.apply("softmax", (x,), {"foo": 1}),
    "inputs of apply": lambda s, x, y, made: s.apply("matmul", (x,), {}),
    "a missing attribute of apply": lambda s, x, y, made: s.apply("scale", (x,), {}),
    "axes that are an axis": lambda s, x, y, made: s.sum(x, axes=0),
    "an axis that there is not": lambda s, x, y, made: s.softmax(x, axis=2),
    "backward from many": lambda s, x, y, made: s.backward(x),
    "backward(retain_graph)": lambda s, x, y, made: s.backward(made.total, retain_graph=True),
    "natural below 0": lambda s, x, y, made: s.nat(-1),
    "split by 0": lambda s, x, y, made: s.split(x, 0),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_both_sessions_refuse_the_same_by_a_sentence(name: str) -> None:
    ours, theirs = answers(OTHERWISE[name])
    assert isinstance(ours, spec.refusals.Rejected), ours
    assert kind(theirs) == kind(ours)
    label = str(ours).split(":")[0].split()[0]
    assert name.startswith("backward from") or str(theirs).startswith(label), (ours, theirs)


def test_a_schedule_that_was_not_called_is_told_so() -> None:
    for refusal in answers(OTHERWISE["a rate that is a function"]):
        assert "as in lr=schedule(step)" in str(refusal) and " at 0x" not in str(refusal)


def test_what_is_swapped_is_told_where_it_goes() -> None:
    for refusal in answers(REFUSED["labels first, in an array"]):
        assert str(refusal).startswith(
            "cross_entropy: logits is a ref of this session, and labels takes integers as they are"
        )
    for refusal in answers(REFUSED["an array of integers for numbers"]):
        assert "ops.input(...) makes a ref of numbers to compute with" in str(refusal)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.ones(1), "integers are needed, such as int64; got a numpy array of float64"),
        (np.array([True]), "integers are needed, such as int64; got a numpy array of bool"),
        (np.array(["a"]), "integers are needed, such as int64; got a numpy array of <U1"),
        (torch.ones(1), "integers are needed, such as int64; got a tensor of torch.float32"),
        (torch.tensor([True]), "integers are needed, such as int64; got a tensor of torch.bool"),
        ([1.0], "every entry must be an int; got float"),
        ([[0], 1], "nested lists must be rectangular; got parts of shapes [(), (1,)]"),
        ([2**63], "every entry must fit int64, [-2^63, 2^63); got 9223372036854775808"),
    ],
)
def test_what_are_no_labels_are_named_as_they_came(labels: Any, says: str) -> None:
    for session in (fast.Session(provider="aten"), fast.CompiledSession(provider="aten")):
        with pytest.raises(fast.Rejected) as caught:
            session.cross_entropy(session.input([[1.0, 2.0]]), labels)
        assert str(caught.value) == f"cross_entropy: labels: {says}"
        with pytest.raises(fast.Rejected, match=r"^masked_softmax: mask: .*; got a numpy array of"):
            session.masked_softmax(session.input([[1.0, 2.0]]), np.ones((1, 2)), axis=1)


def test_labels_through_input_are_explained() -> None:
    session = fast.Session(provider="aten")
    x, labels = session.input([[1.0, 2.0]]), session.input(torch.tensor([1]))
    with pytest.raises(fast.Rejected, match=r"labels is a ref, .*: integers go in as they are"):
        session.cross_entropy(x, labels)
    with pytest.raises(fast.Rejected, match=r"mask is a ref, .*: truth values go in as they are"):
        session.where(session.input([[1.0, 0.0]]), x, x)


def test_refs_params_and_ops_print_short() -> None:
    for session, made in sides():
        x = session.use(session.param(made([1.0, 2.0]), name="w"))
        shown = [repr(x), repr(x + 1.0), repr(session.input(made([1.0])))]
        assert shown[:2] == ["Ref(x0 w, shape (2,))", "Ref(x3 add, shape (2,))"]
        assert shown[2].startswith("Ref(x4 ")
        assert repr(session.param(made([[1.0]]), name="v")).startswith("Param(")
    for name, op in OPS.items():
        for shown_op in (repr(op), repr(fast.OPS[name])):
            assert shown_op.startswith(f"Op({name}") and len(shown_op) < 160
    assert repr(OPS["softmax"]) == "Op(softmax, composite: x, axis=-1)"
    assert repr(fast.OPS["softmax"]) == "Op(softmax(x, *, axis=-1))"


def test_a_step_that_updates_nothing_says_why() -> None:
    said = []
    for session, made in sides():
        w = session.param(made([1.0, 2.0]), name="w")
        loss = session.sum(session.square(session.use(w)))
        grads = session.backward(loss)
        w.requires_grad = False
        with pytest.warns((spec.refusals.Unmoved, fast.Unmoved)) as told:
            session.sgd_step(0.5, grads=grads)
        assert [warning.filename for warning in told] == [__file__]
        said += [str(warning.message) for warning in told]
        w.requires_grad = True
        session.sgd_step(0.5, grads=grads)
    assert said == ["sgd_step: no parameter was updated: all are frozen"] * 2


def test_tensors_go_over_to_pytorch_and_come_back() -> None:
    for data in ([[1.0, 2.0], [3.0, 4.5]], [[1, 2]], [True, False], 0.1, []):
        x = tensor(data)
        for there in (torch.as_tensor(x), torch.from_dlpack(x)):
            assert there.shape == x.shape and there.tolist() == x.nested()
            assert tensor(there) == x
    assert tensor([torch.tensor(1.0), 2.0]) == tensor([1.0, 2.0])
    assert tensor(torch.arange(6).reshape(2, 3).T) == tensor([[0, 3], [1, 4], [2, 5]])
    for dtype in (torch.float16, torch.float32, torch.int8):
        assert tensor(torch.tensor([1, 2], dtype=dtype)) == tensor([1, 2])


def test_tensors_that_cannot_go_over_say_how() -> None:
    with pytest.raises(spec.refusals.Rejected, match=r"Tensor of torch.float32: .*detach\(\)"):
        tensor(torch.tensor([1.0], requires_grad=True))
    with pytest.raises(spec.refusals.Rejected, match=r"x.tolist\(\) makes; got .*bfloat16"):
        tensor(torch.tensor([1.0], dtype=torch.bfloat16))
    with pytest.raises(spec.refusals.Rejected, match=r"floats, integers and truth values are "):
        torch.as_tensor(tensor([Fraction(1, 2)]))
    session = Session()
    for ask in (session.input(tensor(1.0)), session.param(tensor(1.0))):
        with pytest.raises(
            spec.refusals.Rejected, match=r"numpy.array\(x\) is not offered; write "
        ):
            tensor(ask)


def test_the_page_of_matrices_tells_a_vector_to_be_one() -> None:
    advice = "a vector v is a column as v[:, None], a row as v[None]; got "
    for one in answers(lambda s, x, y, made: s.apply("matmul", (x, made.three), {})):
        assert advice in str(one)
    ours, theirs = answers(lambda s, x, y, made: x @ x[0][:, None] + x[0][None] @ x)
    assert np.array_equal(ours, theirs)
