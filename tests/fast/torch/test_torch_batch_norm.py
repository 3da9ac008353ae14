"""batch_norm for torch, beside torch's own on channels whose every step is exact in any order.

A channel is a mean plus or minus one distance, and eps completes a square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as theirs
from torch import Tensor

import fast.torch as ours
from fast import Rejected
from tests.support import same_where_it_fits

SHAPE = (4, 3, 2)
COTANGENT = torch.arange(24).remainder(5).reshape(SHAPE).sub(2).float()


def balanced(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return samples above and below the mean by turns: 1.5 plus or minus 0.5."""
    x = torch.ones(SHAPE, dtype=dtype)
    x[::2] = 2
    return x


def statistics(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.tensor([1.0, 2.0, -1.0], dtype=dtype), torch.full((3,), 0.25, dtype=dtype)


def both_ways(
    function: Callable[..., Tensor], dtype: torch.dtype, training: bool, **options: Any
) -> list[Tensor]:
    """Return a value, the statistics behind it, and the gradients."""
    held = statistics()
    line = torch.tensor([1.0, -2.0, 3.0], dtype=dtype)
    leaves = [x.clone().requires_grad_() for x in (balanced(dtype), line, line.flip(0))]
    x, weight, bias = leaves
    z = function(x, *held, weight, bias, training, 0.5, 0.75, **options)
    return [z.detach(), *held, *torch.autograd.grad(z, leaves, COTANGENT.to(dtype))]


@pytest.mark.parametrize("provider", ["aten", "triton"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_statistics_and_gradients_are_torchs(
    dtype: torch.dtype, training: bool, provider: str
) -> None:
    due = both_ways(theirs.batch_norm, torch.float32, training)
    found = both_ways(ours.batch_norm, dtype, training, provider=provider)
    for one, other in zip(found, due, strict=True):
        assert same_where_it_fits(one, other)
    assert found[1].equal(due[1]) and found[2].equal(due[2])
    assert found[1].equal(statistics()[0]) is not training


def test_a_call_that_is_refused_leaves_the_statistics() -> None:
    mean, var = statistics()
    for options in ({"momentum": 2.0}, {"eps": 0.0}, {"weight": torch.ones(3).double()}):
        with pytest.raises(Rejected):
            ours.batch_norm(balanced(), mean, var, training=True, **options)  # type: ignore[arg-type]
    with pytest.raises(Rejected, match="batch_norm C3"):
        ours.batch_norm(balanced()[:1, :, :1], mean, var, training=True)
    assert mean.equal(statistics()[0]) and var.equal(statistics()[1])


def test_statistics_that_cannot_be_moved_are_refused() -> None:
    x, (mean, var) = balanced(), statistics()
    with pytest.raises(Rejected, match=r"running_mean is moved in place, .* strides are \(0,\)"):
        ours.batch_norm(x, torch.zeros(1).expand(3), var, training=True)
    with pytest.raises(Rejected, match="each by itself; got one tensor twice"):
        ours.batch_norm(x, mean, mean, training=True)
    with pytest.raises(Rejected, match="running_var has no gradient"):
        ours.batch_norm(x, mean, var.requires_grad_())
    with pytest.raises(Rejected, match=r"running_var is torch\.float32 on cpu beside x"):
        ours.batch_norm(x, mean, var.detach().double(), training=True)


def test_statistics_in_any_layout_are_moved() -> None:
    """What lies between the entries of a statistic stays."""
    wide = torch.stack(statistics(), -1)
    ours.batch_norm(balanced(), wide[:, 0], wide[:, 1], training=True, momentum=1.0)
    assert wide[:, 0].equal(torch.full((3,), 1.5)) and wide[:, 1].equal(torch.full((3,), 2 / 7))


def test_gradients_are_those_of_the_statistics_of_their_own_call() -> None:
    """Statistics move between a value and its backward pass, in training and behind given ones."""
    mean, var = statistics()
    x, g = balanced().requires_grad_(), COTANGENT
    given = ours.batch_norm(x, mean, var, eps=0.75)
    first, second = (ours.batch_norm(x, mean, var, training=True, eps=0.75) for _ in range(2))
    of_given = theirs.batch_norm(x, *statistics(), eps=0.75)
    of_batch = theirs.batch_norm(x, None, None, training=True, eps=0.75)
    for found, due in ((given, of_given), (first, of_batch), (second, of_batch)):
        (dx,) = torch.autograd.grad(found, x, g)
        (wanted,) = torch.autograd.grad(due, x, g, retain_graph=True)
        assert dx.equal(wanted)


@pytest.mark.parametrize("training", [True, False])
def test_a_compiled_program_moves_the_statistics_in_its_graph(training: bool) -> None:
    seen: list[str] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        seen.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    def normed(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return ours.batch_norm(x, mean, var, training=training)

    held, kept = statistics(), statistics()
    compiled = torch.compile(normed, backend=backend, fullgraph=True)
    assert compiled(balanced(), *held).equal(normed(balanced(), *kept))
    assert held[0].equal(kept[0]) and held[1].equal(kept[1])
    assert any("twingrad.batch_norm" in target for target in seen)


def test_a_compiled_backward_pass_is_the_usual_one() -> None:
    def step(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return ours.batch_norm(x, mean, var, training=True, eps=0.75).pow(3)

    x, held, kept = balanced().requires_grad_(), statistics(), statistics()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    (found,) = torch.autograd.grad(compiled(x, *held).sum(), x)
    (due,) = torch.autograd.grad(step(x, *kept).sum(), x)
    assert found.equal(due) and held[0].equal(kept[0]) and held[1].equal(kept[1])


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_vmap_normalizes_each_sample_by_itself() -> None:
    x = torch.stack([balanced(), 3 * balanced()])
    z = torch.func.vmap(lambda x: ours.batch_norm(x, None, None, training=True))(x)
    due = [ours.batch_norm(one, None, None, training=True) for one in x]
    assert z.equal(torch.stack(due))


def test_channels_without_entries_and_no_channels() -> None:
    """Without channels there is nothing to do; a batch without samples has no statistics."""
    none = torch.empty(0)
    assert ours.batch_norm(torch.empty(2, 0), none, none.clone(), training=True).shape == (2, 0)
    assert ours.batch_norm(torch.empty(0, 3), *statistics()).shape == (0, 3)
    with pytest.raises(Rejected, match="batch_norm C3"):
        ours.batch_norm(torch.empty(0, 3), *statistics(), training=True)
