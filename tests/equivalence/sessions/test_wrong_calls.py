"""A thousand drawn calls of each session: a wrong one is told so, and changes nothing."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable
from fractions import Fraction
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch

import fast
import fast.errors
import spec.refusals
from spec.session import Session
from spec.tensor import tensor

SENTENCES = (
    spec.refusals.Rejected,
    fast.errors.Rejected,
    fast.errors.SessionError,
    fast.errors.Stale,
    fast.errors.Released,
)

LEFT_OUT = {"run", "collect", "upload", "reset_tape", "buffer", "apply"}
"""Calls that may well be right with anything, or that the ops make; `apply` is one of these."""


class Side:
    """A session with a parameter, refs that live, died, or belong to others, and data."""

    def __init__(self, kind: str) -> None:
        self.fast = kind == "fast"
        self.session, other = self.make(), self.make()
        dead = self.session.input(self.data([1.0]))
        self.session.reset_tape()
        self.param = self.session.param(self.data([1.0, 2.0]), name="w")
        leaf = self.session.use(self.param)
        x = self.session.input(self.data([[1.0, 2.0], [3.0, 4.0]]))
        loss = self.session.sum(leaf * leaf)
        self.session.adamw_step(lr=0.5, grads=self.session.backward(loss))
        self.session.reset_tape()
        leaf = self.session.use(self.param)
        x = self.session.input(self.data([[1.0, 2.0], [3.0, 4.0]]))
        loss = self.session.sum(leaf)
        grads = self.session.backward(loss)
        self.junk: list[Any] = [
            leaf, x, loss, grads, dead, self.param, other.input(self.data([1.0])),
            other.param(self.data([1.0])), self.data([1.0]), self.data([0, 1]),
            self.data([True, False]), None, True, False, 0, 1, -1, 3, 10**30, 1.5, math.nan,
            math.inf, Fraction(1, 3), 1j, "mean", "x", b"x", (), (0,), (1, 0), (0, 0), (2, 2),
            (-1,), [0], [1.5], {}, {"params": 1}, set(), np.float32(0.5), np.int64(1),
            np.ones(2), np.ones((2, 2)), object(), int, math.sin, lambda *_: 1.0, slice(1), ...,
            range(2),
        ]  # fmt: skip

    def make(self) -> Any:
        return fast.Session(provider="aten", precision="fp64") if self.fast else Session()

    def data(self, entries: Any) -> Any:
        return torch.tensor(entries) if self.fast else tensor(entries)

    def state(self) -> Any:
        """Return everything that a refused call must leave as it was."""
        session, param = self.session, self.param
        tape = session._tape if self.fast else session.tape
        value, moments = param.value, None
        if self.fast:
            value = param.value().tolist()
            held = session.optimizer_state("adamw", param)
            moments = [v.tolist() if hasattr(v, "tolist") else v for v in held.values()]
        else:
            moments = session.state(param)
        count = len(session.params) if self.fast else None
        return len(tape), value, param.version, moments, session.random_counter, count


def methods(side: Side) -> list[str]:
    kind = type(side.session)
    return [
        name
        for name in dir(kind)
        if isinstance(inspect.getattr_static(kind, name), FunctionType)
        and not name.startswith("_")
        and name not in LEFT_OUT
    ]


def drawn(side: Side, draw: random.Random) -> tuple[str, Callable[[], Any]]:
    """Draw a call: a method, as many arguments as it takes or one off, some of them by name."""
    name = draw.choice(methods(side))
    takes = list(inspect.signature(getattr(type(side.session), name)).parameters.values())[1:]
    placed = [p for p in takes if p.kind is not p.KEYWORD_ONLY]
    count = max(0, len(placed) + draw.choice((0, 0, 0, 0, 1, -1)))
    named = [p.name for p in takes if p.kind is p.KEYWORD_ONLY and draw.random() < 0.7]
    if draw.random() < 0.2:
        named.append(draw.choice(("dim", "axis", "keepdim", "out", "flavour", "lr", "x")))
    arguments = [draw.choice(side.junk) for _ in range(count)]
    others = {key: draw.choice(side.junk) for key in named}
    return f"{name}(*{arguments}, **{others})", lambda: getattr(side.session, name)(
        *arguments, **others
    )


@pytest.mark.parametrize("kind", ["spec", "fast"])
@pytest.mark.parametrize("part", range(10))
def test_what_is_wrong_is_told_in_a_sentence_and_changes_nothing(kind: str, part: int) -> None:
    refused = 0
    for seed in range(100 * part, 100 * part + 100):
        side, draw = Side(kind), random.Random(seed)
        text, call = drawn(side, draw)
        before = side.state()
        try:
            call()
        except SENTENCES as refusal:
            refused += 1
            assert len(str(refusal)) > 20, text
            assert side.state() == before, text
        except Exception as error:
            raise AssertionError(f"{text}: {type(error).__name__}: {error}") from error
    assert refused > 60, "most calls are wrong"
