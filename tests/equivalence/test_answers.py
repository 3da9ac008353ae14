"""A result is a plain tensor, read through its strides; a tensor that lies is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from equivalence import FP32, Capabilities, Contract
from equivalence.answers import Malformed, in_memory, is_plain
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row

CONTRACT = Contract("own", FP32, FP32)


class Liar(Tensor):
    """A tensor of zeros that shows the squares to everyone who reads it."""

    shown: Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unveiled(one: Any) -> Any:
            return one.__dict__["shown"] if isinstance(one, Liar) else one

        return func(*map(unveiled, args), **(kwargs or {}))


def lying(shown: Tensor) -> Tensor:
    """Return zeros that look like a tensor."""
    made = torch.zeros_like(shown).as_subclass(Liar)
    made.__dict__["shown"] = shown
    return made


class Square:
    """Squares, returned in some wrapping."""

    name = "square"

    def __init__(self, wrap: Any) -> None:
        self.wrap = wrap

    def capabilities(self) -> Capabilities:
        return Capabilities({"square": ("fp32",)}, lambda op, dtype: CONTRACT)

    def value(self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
        return self.wrap(inputs[0] * inputs[0])

    def vjp(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], seeds: Sequence[Tensor]
    ) -> Any:
        return [self.wrap(2 * inputs[0] * seeds[0])]


def verdicts(wrap: Any) -> dict[str, tuple[str, str]]:
    """Judge the squares in a wrapping: the statuses and the first failures."""
    found = {}
    for direction in ("value", "vjp"):
        row = Row("square", direction, "fp32")
        result = run_row(Square(wrap), row, counted=8, seed=0, findings=())
        said = "\n".join(line for failure in result.failures for line in failure.lines())
        found[direction] = (result.status, said)
    return found


def strided(z: Tensor) -> Tensor:
    """Return the same numbers with gaps of NaN between them."""
    wide = torch.full((*z.shape, 2), float("nan"))
    wide[..., 0] = z
    return wide[..., 0]


@pytest.mark.parametrize("wrap", [Parameter, strided, lambda z: z.view_as(z)])
def test_parameters_and_views_are_plain(wrap: Any) -> None:
    assert {status for status, _ in verdicts(wrap).values()} == {"conformant"}


def test_a_subclass_is_refused_by_the_name_of_its_type() -> None:
    for status, said in verdicts(lying).values():
        assert status == "nonconformant"
        assert "expected a torch.Tensor, got the subclass" in said and "Liar" in said


@pytest.mark.parametrize(
    ("made", "kind"),
    [(lambda: torch.zeros(2, device="meta"), "meta"), (lambda: torch.eye(2).to_sparse(), "sparse")],
)
def test_a_tensor_without_dense_memory_is_refused(made: Any, kind: str) -> None:
    with pytest.raises(Malformed, match=f"expected a dense tensor, got a {kind}"):
        is_plain("result", made())


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.tensor([1.0]).expand(3, 4),
        torch.arange(6.0)[1::2],
        torch.zeros(0, 3),
        torch.complex(torch.ones(3), torch.ones(3)).conj().imag,
        torch.arange(4, dtype=torch.bfloat16).requires_grad_(),
    ],
)
def test_numbers_are_read_through_the_strides(tensor: Tensor) -> None:
    found = in_memory(tensor)
    assert torch.equal(found, tensor) and found.is_contiguous() and type(found) is Tensor
    assert not found.numel() or found.data_ptr() != tensor.data_ptr()
