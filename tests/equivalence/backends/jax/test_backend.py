"""JAX as a backend: what it computes, and what it promises; where JAX is installed."""

from __future__ import annotations

import pytest
import torch

from equivalence.backends import load
from equivalence.backends.jax.contract import ASKED
from equivalence.backends.libraries import shipped
from equivalence.backends.protocol import Backend, HasJvp
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row
from spec.ops import OPS

pytest.importorskip("jax", reason="JAX comes with the extra jax: pip install 'twingrad[jax]'")


def test_it_follows_the_protocol_and_offers_what_jax_has() -> None:
    backend = load("jax")
    assert isinstance(backend, Backend) and isinstance(backend, HasJvp)
    assert set(backend.capabilities().ops) == ASKED <= set(OPS)
    assert backend.capabilities().contract("softmax", "bf16").freedom == "stable"


def test_it_computes_in_all_three_directions() -> None:
    backend = load("jax")
    assert isinstance(backend, HasJvp)
    x, g = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 5.0]])
    assert backend.value("relu", [x], {}).tolist() == [[1.0, 0.0]]
    assert backend.jvp("relu", [x], {}, [g]).tolist() == [[3.0, 0.0]]
    gradients = backend.vjp("take", [x, torch.tensor([1, 1])], {"axis": 1}, [g])
    assert gradients[1] is None
    assert gradients[0] is not None and gradients[0].tolist() == [[0.0, 8.0]]


def test_it_has_memory_of_its_own_at_every_dtype() -> None:
    backend = load("jax")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype).T
        moved = backend.value("permute", [x], {"axes": (1, 0)})
        assert moved.dtype is dtype and moved.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        x.fill_(0.0)
        assert moved.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_rows_are_conformant_or_declared() -> None:
    for row in (Row("softmax", "vjp", "fp32"), Row("max", "value", "bf16")):
        result = run_row(load("jax"), row, counted=3, seed=0, findings=shipped())
        assert (result.status, result.failures) in (("conformant", ()), ("declared", ()))
