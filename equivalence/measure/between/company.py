"""Other handles of an optimizer that live beside the one that is judged, and step in turn with it.

A backend may keep something by an optimizer's name or by shapes: a kernel with constants in it, a
plan, a buffer. A mistake in it shows where two handles of one name differ in something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from equivalence.cases.call import TORCH, attribute_pairs
from equivalence.cases.guard import Trespass, controlled
from equivalence.cases.updates.levels import another
from equivalence.cases.updates.spec import COMPANY, UpdateSpec

Turn = Callable[[], None]
"""Lets every other handle take a step."""


def company(backend: Any, case: UpdateSpec) -> Turn:
    """Make the other handles of a case, if it has any, and return what lets them step.

    They may refuse or fail: what they do is judged where they are cases of their own.
    """
    turns = [_turn(backend, other) for other in others(backend, case)]

    def step() -> None:
        for turn in turns:
            _leniently(turn)

    return step


def others(backend: Any, case: UpdateSpec) -> list[UpdateSpec]:
    """Return the cases of the other handles: of other hyper-parameters, and of another dtype."""
    if case.company == COMPANY[0]:
        return []
    known = backend.capabilities().optimizers.get(case.optimizer, ())
    dtypes = [dtype for dtype in TORCH if dtype in known and dtype != case.dtype]
    alone = replace(case, groups=(), company=COMPANY[0])
    changed = {**dict(case.hyper), **another(case.optimizer, dict(case.hyper))}
    found = [replace(alone, hyper=attribute_pairs(changed))]
    return [*found, *(replace(alone, dtype=dtype) for dtype in dtypes[:1])]


def _turn(backend: Any, case: UpdateSpec) -> Turn:
    """Make one handle, of plain tensors, and return what lets it step."""
    device, made = backend.capabilities().device, list[Any]()

    def tensors() -> list[torch.Tensor]:
        whole = {"dtype": TORCH[case.dtype], "device": device}
        return [torch.full(shape, 0.5, **whole) for shape in case.shapes]

    def make() -> None:
        made.append(backend.optimizer(case.optimizer, tensors(), case.settings()))

    def turn() -> None:
        for handle in made:
            handle.step(tensors())

    _leniently(make)
    return turn


def _leniently(act: Turn) -> None:
    """Do something with a backend, whatever it raises but a trespass."""
    try:
        with controlled():
            act()
    except Trespass:
        raise
    except Exception:
        return
