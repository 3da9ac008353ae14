"""How every op is called at three sizes, and the call of torch with the same value.

Tensors of numbers have `ROWS[size]` rows and columns, unless the op takes others; a product takes
squares. Numbers are drawn between 3/4 and 5/4, where every op is defined and no product of a row
leaves the format. What torch calls an op is what its page in `spec` says of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fast import OPS
from spec import OPS as PAGES
from spec.op import Op as Page

ROWS = {"small": (25, 40), "middle": (250, 400), "large": (2000, 2000)}
"""Rows and columns: 10^3, 10^5 and 4 * 10^6 numbers."""

SIDES = {"small": 32, "middle": 256, "large": 1024}
"""The side of the squares that a product takes."""

STEPS = (("scale", (("c", 0.5),)), "tanh")

ATTRIBUTES: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "scale": lambda rows, columns: {"c": 0.5},
    "pow": lambda rows, columns: {"c": 3.0},
    "safe_log": lambda rows, columns: {"eps": 1e-6},
    "clamp": lambda rows, columns: {"lo": 0.8, "hi": 1.0},
    "chain": lambda rows, columns: {"steps": STEPS},
    "broadcast_to": lambda rows, columns: {"shape": (rows, columns)},
    "reshape": lambda rows, columns: {"shape": (rows * columns,)},
    "permute": lambda rows, columns: {"axes": (1, 0)},
    "one_hot": lambda rows, columns: {"classes": columns},
    "scatter_add": lambda rows, columns: {"axis": 0},
    "take": lambda rows, columns: {"axis": 0},
    "kl_div": lambda rows, columns: {"reduction": "sum"},  # Torch warns of its mean.
    "slice": lambda rows, columns: {"axis": 1, "start": 1, "length": columns - 2},
    "pad": lambda rows, columns: {"before": (1, 1), "after": (1, 1)},
    "group_norm": lambda rows, columns: {"groups": columns // 10},
    "cast": lambda rows, columns: {"to": "bf16"},
    "linear_activation": lambda rows, columns: {"activation": "gelu"},
    "dropout": lambda rows, columns: {"p": 0.3, "seed": 7},
    "bernoulli_mask": lambda rows, columns: {"shape": (rows, columns), "keep_prob": 0.7, "seed": 7},
    "rand_uniform": lambda rows, columns: {"shape": (rows, columns), "seed": 7},
    "rand_normal": lambda rows, columns: {"shape": (rows, columns), "seed": 7},
}
"""Attributes that an op needs, where it is not told along which axis to go."""

INPUTS: dict[str, str] = {
    "matmul": "squares squares",
    "bmm": "batch batch",
    "linear": "squares squares side",
    "linear_activation": "squares squares side",
    "layer_norm": "numbers columns columns",
    "rms_norm": "numbers columns",
    "add_layer_norm": "numbers numbers columns columns",
    "add_rms_norm": "numbers numbers columns",
    "group_norm": "numbers columns columns",
    "batch_norm": "numbers columns columns columns columns",
    "broadcast_to": "columns",
    "gather": "numbers places",
    "concat": "numbers numbers",
    "stack": "numbers numbers",
}
"""What an op takes, in `MADE`'s words, where that is not what its page says of each input: numbers
and masks are matrices, and integers are a vector of those that the page accepts."""

MADE: dict[str, Callable[[int, int, int, torch.Generator], Tensor]] = {
    "numbers": lambda rows, columns, side, draw: _near_one((rows, columns), draw),
    "columns": lambda rows, columns, side, draw: _near_one((columns,), draw),
    "squares": lambda rows, columns, side, draw: _near_one((side, side), draw),
    "batch": lambda rows, columns, side, draw: _near_one((2, side, side), draw),
    "side": lambda rows, columns, side, draw: _near_one((side,), draw),
    "places": lambda rows, columns, side, draw: torch.randint(
        columns, (rows, columns), generator=draw
    ),
    "mask": lambda rows, columns, side, draw: _near_one((rows, columns), draw) > 0.8,
}

DRAWN: dict[str, Callable[..., Tensor]] = {
    "rand_uniform": lambda shape, **_: torch.rand(shape),
    "rand_normal": lambda shape, **_: torch.randn(shape),
    "bernoulli_mask": lambda shape, keep_prob, **_: torch.empty(shape).bernoulli_(keep_prob),
    "dropout": lambda x, p, **_: torch.nn.functional.dropout(x, p),
}
"""Torch's calls that draw numbers of their own."""

OTHERWISE: dict[str, Callable[..., Tensor]] = {
    **DRAWN,
    "chain": lambda x, **_: torch.tanh(x * 0.5),
    "cast": lambda x, **_: x.to(torch.bfloat16),
    "one_hot": lambda indices, classes: torch.nn.functional.one_hot(indices, classes).float(),
    "linear_activation": lambda x, w, b, **_: torch.nn.functional.gelu(
        torch.nn.functional.linear(x, w, b)
    ),
    "prod": lambda x, axes: torch.prod(x, dim=axes[0]),
    "add_layer_norm": lambda x, residual, *line, **_: _and_added(
        torch.nn.functional.layer_norm, x + residual, *line
    ),
    "add_rms_norm": lambda x, residual, *line, **_: _and_added(
        functools.partial(torch.nn.functional.rms_norm, eps=2**-23), x + residual, *line
    ),
    "safe_log": lambda x, eps: torch.log(torch.nn.functional.softplus(x) + eps),
}
"""Torch's calls where the page names none that takes the arguments as they are.

Several results of one shape are added up, on both sides.
"""


def _named(op: str) -> str | None:
    """Return torch's call of an op as its page in `spec` writes it down, if it does."""
    elsewhere = PAGES[op].elsewhere
    return None if elsewhere is None else elsewhere.torch


COMPARED = tuple(op for op in PAGES if op in OTHERWISE or _named(op) is not None)
"""The ops beside which torch has a call; of another one only kernels are measured."""


@dataclass(frozen=True)
class Call:
    """One op at one size: what it takes, and what torch is asked for."""

    op: str
    size: str
    inputs: tuple[Tensor, ...]
    attributes: dict[str, Any]

    @cached_property
    def torch(self) -> Callable[..., Tensor]:
        """Torch's call, which the `COMPARED` ops have; ValueError for others."""
        return OTHERWISE.get(self.op) or _theirs(self.op, self.attributes)

    @cached_property
    def cotangent(self) -> Tensor | None:
        """A cotangent of the result; None where none goes back to an input."""
        pairs = zip(self.copies(), self.moving, strict=True)
        inputs = [x.requires_grad_() if moves else x for x, moves in pairs]
        found = self.torch(*inputs, **self.attributes)
        if not found.requires_grad:
            return None
        draw = torch.Generator().manual_seed(1)
        return _near_one(tuple(found.shape), draw).to(found.dtype)

    @property
    def buffers(self) -> tuple[int, ...]:
        """Those of the inputs that a session keeps as state."""
        return PAGES[self.op].buffers

    @property
    def moving(self) -> list[bool]:
        """Whether each input is one of numbers that has a gradient."""
        return [x.is_floating_point() and k not in self.buffers for k, x in enumerate(self.inputs)]

    @property
    def drawn(self) -> bool:
        """Whether the numbers are drawn at random, so that those of two libraries differ."""
        return self.op in DRAWN

    def copies(self) -> list[Tensor]:
        """Return the inputs, with memory of their own."""
        return [x.clone() for x in self.inputs]


def call(op: str, size: str) -> Call:
    """Return how an op is called at a size; KeyError for a name that is neither."""
    return call_of(op, size, ROWS[size], SIDES[size])


def call_of(op: str, size: str, extents: tuple[int, int], side: int) -> Call:
    """Return how an op is called on so many rows and columns, or on squares of that side."""
    rows, columns = extents
    known = inspect.signature(OPS[op].aten_value).parameters
    attributes = ATTRIBUTES.get(op, lambda rows, columns: {})(rows, columns)
    if op not in ATTRIBUTES:
        axes = {"axis": 1, "axes": (1,)}
        attributes = {name: value for name, value in axes.items() if name in known}
    draw = torch.Generator().manual_seed(0)
    if op in INPUTS:
        inputs = [MADE[word](rows, columns, side, draw) for word in INPUTS[op].split()]
    else:
        inputs = _inputs(PAGES[op], attributes, rows, columns, draw)
    return Call(op, size, tuple(inputs), attributes)


def _inputs(
    page: Page, attributes: dict[str, Any], rows: int, columns: int, draw: torch.Generator
) -> list[Tensor]:
    """Return a matrix for each input that holds numbers or a mask, and integers for each row."""
    places = page.integer_inputs
    shapes = [(rows,) if k in places else (rows, columns) for k in range(len(page.inputs))]
    types = page.types_at(*shapes)

    def made(k: int) -> Tensor:
        if k in places:
            within = page.integers(k, *types, **attributes)
            return torch.randint(within.lowest, within.highest + 1, shapes[k], generator=draw)
        return MADE["mask" if k in page.mask_inputs else "numbers"](rows, columns, 0, draw)

    return [made(k) for k in range(len(shapes))]


def _theirs(op: str, attributes: dict[str, Any]) -> Callable[..., Tensor]:
    """Return torch's call of an op, as its page in `spec` writes it down."""
    page, text = PAGES[op], _named(op)
    if text is None:
        raise ValueError(f"{op}: its page names no call of torch; OTHERWISE takes one")
    signature = inspect.signature(page.value).parameters.values()
    usual = {x.name: x.default for x in signature if x.default is not x.empty}
    names = {"torch": torch, **usual, **attributes}
    several = page.inputs == ("xs",)
    taken = "*xs" if several else ", ".join(page.inputs)
    # The attributes are in the names that the page's own text is read with.
    found: Callable[..., Tensor] = eval(f"lambda {taken}, **_: {text}", names)
    return found


def _and_added(norm: Callable[..., Tensor], x: Tensor, *parameters: Tensor) -> Tensor:
    return norm(x, parameters[0].shape, *parameters) + x


def _near_one(shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    return torch.empty(shape).uniform_(0.75, 1.25, generator=draw)
