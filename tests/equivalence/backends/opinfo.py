"""What PyTorch's own samples (OpInfo) mean to the pages: torch's arguments, read as inputs and
attributes.

Each reader has the signature of torch's function. What no page can say is `Beyond`, with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spec.ops import OPS


class Beyond(Exception):
    """A sample asks for what the page does not have."""


Read = tuple[Sequence[Tensor], dict[str, Any]]
"""The inputs and the attributes of a page."""


@dataclass(frozen=True)
class Call:
    """One sample: what the page is given, and torch's call of tensors in their places."""

    inputs: Sequence[Tensor]
    attributes: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    function: Callable[..., Tensor]

    def run(self, *inputs: Tensor) -> Tensor:
        """Call torch as the sample does, with other tensors for the inputs."""
        there = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)}
        args = [_replaced(value, there) for value in self.args]
        kwargs = {name: _replaced(value, there) for name, value in self.kwargs.items()}
        return self.function(*args, **kwargs).to(torch.float64)


def _replaced(value: Any, there: Mapping[int, Tensor]) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
        return type(value)(there.get(id(x), x) for x in value)
    return there.get(id(value), value)


def needs(**given: tuple[Any, Any]) -> None:
    """Raise Beyond unless each argument is what the page takes for granted."""
    for name, (value, wanted) in given.items():
        if value is not None and value != wanted:
            raise Beyond(f"{name}={value!r}")


def _pointwise(*xs: Tensor, alpha: Any = None) -> Read:
    needs(alpha=(alpha, 1))
    return xs, {}


def _product(x: Tensor, y: Tensor) -> Read:
    return (x, y), {}


def _where(a: Tensor, mask: Tensor, b: Tensor) -> Read:
    return (mask, a, b), {}


def _pow(x: Tensor, exponent: Any) -> Read:
    if isinstance(exponent, Tensor) and exponent.dim():
        raise Beyond("an exponent for each entry")
    return (x,), {"c": float(exponent)}


def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Read:
    if any(b is None or (isinstance(b, Tensor) and b.dim()) for b in (min, max)):
        raise Beyond("one bound, or a bound for each entry")
    return (x,), {"lo": float(min), "hi": float(max)}


def _softplus(x: Tensor, beta: Any = 1, threshold: Any = 20) -> Read:
    needs(beta=(beta, 1), threshold=(threshold, 20))
    return (x,), {}


def _leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Read:
    return (x,), {"slope": negative_slope}


def _elu(x: Tensor, alpha: float = 1.0) -> Read:
    return (x,), {"alpha": alpha}


def _gelu(x: Tensor, approximate: str = "none") -> Read:
    return (x,), {"approximate": approximate}


def _hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Read:
    return (x,), {"lo": min_val, "hi": max_val}


def _axes(dim: Any) -> tuple[int, ...] | None:
    """Read axes, none of which are all of them to torch."""
    if dim is None or dim == () or dim == []:
        return None
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _reduction(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Read:
    needs(dtype=(dtype, x.dtype))
    if x.dim() == 0:
        return (x,), {"axes": (), "keepdims": keepdim}
    return (x,), {"axes": _axes(dim), "keepdims": keepdim}


def _norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Read:
    if ord not in (1, 2):
        raise Beyond(f"ord={ord!r}")
    inputs, attributes = _reduction(x, dim, keepdim, dtype)
    return inputs, {**attributes, "ord": int(ord)}


def _scan(x: Tensor, dim: int, dtype: Any = None) -> Read:
    needs(dtype=(dtype, x.dtype))
    return (_of_axes(x),), {"axis": dim}


def _of_axes(x: Tensor) -> Tensor:
    if x.dim() == 0:
        raise Beyond("an axis of a number")
    return x


def _masked(x: Tensor, dim: int, dtype: Any = None, mask: Tensor | None = None) -> Read:
    inputs, attributes = _scan(x, dim, dtype)
    if mask is None or mask.shape != x.shape:
        raise Beyond("no mask, or one that is broadcast")
    if not mask.any(dim).all():
        raise Beyond("a row that is masked throughout: torch makes NaN of it")
    return (*inputs, mask), attributes


def _flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Read:
    return (x,), {"start": start_dim, "end": end_dim}


def _reshape(x: Tensor, shape: Sequence[int]) -> Read:
    return (x,), {"shape": tuple(x.reshape(shape).shape)}


def _permute(x: Tensor, dims: Sequence[int]) -> Read:
    return (x,), {"axes": tuple(dims)}


def _broadcast_to(x: Tensor, size: Sequence[int]) -> Read:
    return (x,), {"shape": tuple(x.broadcast_to(size).shape)}


def _flip(x: Tensor, dims: Any) -> Read:
    return (x,), {"axes": (dims,) if isinstance(dims, int) else tuple(dims)}


def _pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Read:
    if min(pad) < 0:
        raise Beyond("a negative width")
    widths = [(0, 0)] * (x.dim() - len(pad) // 2)
    widths += [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    before, after = zip(*widths, strict=True)
    return (x,), {"before": before, "after": after, "value": float(value or 0.0)}


def _gather(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Read:
    needs(sparse_grad=(sparse_grad, False))
    if index.dim() != x.dim():
        raise Beyond("indices of another rank, of which torch takes those that are empty")
    return (_of_axes(x), index), {"axis": dim}


def _embedding(weight: Tensor, indices: Tensor, **options: Any) -> Read:
    needs(**{name: (value, False) for name, value in options.items()})
    return (indices, weight), {}


def _one_hot(indices: Tensor, num_classes: int = -1) -> Read:
    if num_classes < 0:
        raise Beyond("as many classes as there seem to be")
    return (indices,), {"classes": num_classes}


def _place(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Read:
    if x.dim() == 0 and dim is not None:
        raise Beyond("an axis of a scalar")
    return (x,), {"axis": dim, "keepdims": keepdim}


def _joined(xs: Sequence[Tensor], dim: int = 0) -> Read:
    if len({x.dim() for x in xs}) > 1:
        raise Beyond("a tensor of another rank, of which torch takes one that is empty")
    return tuple(xs), {"axis": dim}


def _triangle(x: Tensor, diagonal: int = 0) -> Read:
    return (x,), {"diagonal": diagonal}


def _take(x: Tensor, dim: int, index: Tensor) -> Read:
    return (_of_axes(x), index), {"axis": dim}


def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Read:
    needs(alpha=(alpha, 1))
    return (_of_axes(x), index, source), {"axis": dim}


def _slice(x: Tensor, dim: int, start: Any, length: int) -> Read:
    return (x,), {"axis": dim, "start": int(start) % max(x.shape[dim], 1), "length": length}


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Read:
    if bias is None:
        raise Beyond("no bias")
    if bias.dim() == 0 or weight.dim() == 1:
        raise Beyond("a weight, or a bias, of fewer axes")
    return (x, weight, bias), {}


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Read:
    if weight is None or bias is None or len(shape) != 1:
        raise Beyond("no weight, no bias, or an axis more")
    return (x, weight, bias), {"eps": eps}


def _pair(x: Tensor, y: Tensor, reduction: str = "mean", **attributes: float) -> Read:
    return (x, y), {"reduction": reduction, **attributes}


def _divergence(x: Tensor, target: Tensor, reduction: str = "mean", **attributes: bool) -> Read:
    if reduction == "batchmean":
        raise Beyond("a mean over rows")
    return _pair(x, target, reduction, **attributes)


def _alike(x: Tensor, y: Tensor, reduction: str = "mean", **attributes: float) -> Read:
    if not (y.abs() == 1).all():
        raise Beyond("pairs that are neither alike nor not")
    return _pair(x, y == 1, reduction, **attributes)


def _triplets(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    p: float = 2.0,
    reduction: str = "mean",
    **attributes: Any,
) -> Read:
    if p not in (1, 2):
        raise Beyond(f"p={p!r}")
    if len({anchor.shape, positive.shape, negative.shape}) > 1:
        raise Beyond("rows that are broadcast")
    return (anchor, positive, negative), {"p": int(p), "reduction": reduction, **attributes}


def _bce(x: Tensor, y: Tensor, reduction: str = "mean", **weights: Any) -> Read:
    needs(**{name: (value, ()) for name, value in weights.items()})
    return (x, y), {"reduction": reduction}


def _labelled(
    x: Tensor, labels: Tensor, reduction: str = "mean", weight: Any = None, **attributes: Any
) -> Read:
    if labels.is_floating_point():
        raise Beyond("a probability for each class")
    if x.dim() == 1:
        raise Beyond("one row without a batch")
    given = {} if weight is None else {"weight": tuple(weight.tolist())}
    return (x, labels), {"reduction": reduction, **given, **attributes}


SHARED: dict[str, tuple[str, Callable[..., Read]]] = {
    "where": ("where", _where),
    "pow": ("pow", _pow),
    "clamp": ("clamp", _clamp),
    "softplus": ("nn.functional.softplus", _softplus),
    "leaky_relu": ("nn.functional.leaky_relu", _leaky_relu),
    "elu": ("nn.functional.elu", _elu),
    "gelu": ("nn.functional.gelu", _gelu),
    "hardtanh": ("nn.functional.hardtanh", _hardtanh),
    "log_sigmoid": ("nn.functional.logsigmoid", _pointwise),
    "sum": ("sum", _reduction),
    "mean": ("mean", _reduction),
    "max": ("amax", _reduction),
    "min": ("amin", _reduction),
    "argmax": ("argmax", _place),
    "argmin": ("argmin", _place),
    "logsumexp": ("logsumexp", _reduction),
    "prod": ("prod", _reduction),
    "norm": ("linalg.vector_norm", _norm),
    "cumsum": ("cumsum", _scan),
    "cumprod": ("cumprod", _scan),
    "softmax": ("softmax", _scan),
    "log_softmax": ("log_softmax", _scan),
    "masked_softmax": ("masked.softmax", _masked),
    "flatten": ("flatten", _flatten),
    "reshape": ("reshape", _reshape),
    "permute": ("permute", _permute),
    "broadcast_to": ("broadcast_to", _broadcast_to),
    "flip": ("flip", _flip),
    "pad": ("nn.functional.pad", _pad),
    "gather": ("gather", _gather),
    "embedding": ("nn.functional.embedding", _embedding),
    "one_hot": ("nn.functional.one_hot", _one_hot),
    "concat": ("cat", _joined),
    "stack": ("stack", _joined),
    "triu": ("triu", _triangle),
    "tril": ("tril", _triangle),
    "take": ("index_select", _take),
    "scatter_add": ("index_add", _scatter_add),
    "slice": ("narrow", _slice),
    "matmul": ("mm", _product),
    "linear": ("nn.functional.linear", _linear),
    "layer_norm": ("nn.functional.layer_norm", _layer_norm),
    "mse_loss": ("nn.functional.mse_loss", _pair),
    "mae_loss": ("nn.functional.l1_loss", _pair),
    "huber_loss": ("nn.functional.huber_loss", _pair),
    "smooth_l1_loss": ("nn.functional.smooth_l1_loss", _pair),
    "triplet_margin_loss": ("nn.functional.triplet_margin_loss", _triplets),
    "kl_div": ("nn.functional.kl_div", _divergence),
    "hinge_embedding_loss": ("nn.functional.hinge_embedding_loss", _alike),
    "bce_with_logits": ("nn.functional.binary_cross_entropy_with_logits", _bce),
    "nll_loss": ("nn.functional.nll_loss", _labelled),
    "cross_entropy": ("nn.functional.cross_entropy", _labelled),
}
"""By op: the name that OpInfo has for it, and how its arguments are read."""

NONE = {
    "scale": "torch multiplies tensors",
    "safe_log": "torch has no such function",
    "detach": "OpInfo has no such function",
    "cast": "OpInfo has no such function",
    "chain": "torch fuses none that are called so",
    "clamp": "the bounds of each sample are tensors",
    "softplus": "each sample has a beta and a threshold",
    "scatter_add": "each sample scales what it adds",
    "dropout": "torch draws other numbers",
    "rand_uniform": "torch draws other numbers",
    "rand_normal": "torch draws other numbers",
    "bernoulli_mask": "torch draws other numbers",
}
"""The ops that OpInfo has no sample for, and why."""


VARIANTS = ("", "no_rounding_mode", "constant")
"""The variants of OpInfo that are the functions of the pages."""


def infos(op: str, known: Sequence[Any]) -> list[Any]:
    """Return OpInfo's records of an op, which has its own name or that of its function."""
    names = (SHARED[op][0],) if op in SHARED else (op, f"nn.functional.{op}")
    return [info for info in known if info.name in names and info.variant_test_name in VARIANTS]


def calls(op: str, known: Sequence[Any]) -> Iterator[Call]:
    """Yield the samples of an op that its page can say: in fp64, or of integers alone."""
    reader = SHARED[op][1] if op in SHARED else _pointwise
    for info in infos(op, known):
        for sample in info.sample_inputs("cpu", dtype_of(op), requires_grad=False):
            args = (sample.input, *sample.args)
            if reader in (_pointwise, _where):
                args = tuple(x.clone() for x in torch.broadcast_tensors(*args))
            try:
                inputs, attributes = reader(*args, **sample.kwargs)
            except Beyond:
                continue
            yield Call(inputs, attributes, args, sample.kwargs, info.op)


def dtype_of(op: str) -> torch.dtype:
    """Return the dtype of an op's inputs."""
    page = OPS[op]
    return torch.int64 if len(page.index_inputs) == len(page.inputs) else torch.float64
