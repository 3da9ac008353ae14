"""The ops, a page each, in the reading order of the reference; sessions and `torch` enter."""

from __future__ import annotations

from typing import NoReturn

from fast.answers import unfamiliar
from fast.errors import Unknown
from fast.kernels.page import Op
from fast.ops.abs import op as _abs
from fast.ops.add import op as _add
from fast.ops.add_layer_norm import op as _add_layer_norm
from fast.ops.add_rms_norm import op as _add_rms_norm
from fast.ops.argmax import op as _argmax
from fast.ops.argmin import op as _argmin
from fast.ops.batch_norm import op as _batch_norm
from fast.ops.bce_with_logits import op as _bce_with_logits
from fast.ops.bernoulli_mask import op as _bernoulli_mask
from fast.ops.bmm import op as _bmm
from fast.ops.broadcast_to import op as _broadcast_to
from fast.ops.cast import op as _cast
from fast.ops.chain import op as _chain
from fast.ops.clamp import op as _clamp
from fast.ops.concat import op as _concat
from fast.ops.cos import op as _cos
from fast.ops.cross_entropy import op as _cross_entropy
from fast.ops.cumprod import op as _cumprod
from fast.ops.cumsum import op as _cumsum
from fast.ops.detach import op as _detach
from fast.ops.div import op as _div
from fast.ops.dropout import op as _dropout
from fast.ops.elu import op as _elu
from fast.ops.embedding import op as _embedding
from fast.ops.erf import op as _erf
from fast.ops.exp import op as _exp
from fast.ops.expm1 import op as _expm1
from fast.ops.flatten import op as _flatten
from fast.ops.flip import op as _flip
from fast.ops.gather import op as _gather
from fast.ops.gelu import op as _gelu
from fast.ops.group_norm import op as _group_norm
from fast.ops.hardsigmoid import op as _hardsigmoid
from fast.ops.hardswish import op as _hardswish
from fast.ops.hardtanh import op as _hardtanh
from fast.ops.hinge_embedding_loss import op as _hinge_embedding_loss
from fast.ops.huber_loss import op as _huber_loss
from fast.ops.kl_div import op as _kl_div
from fast.ops.layer_norm import op as _layer_norm
from fast.ops.leaky_relu import op as _leaky_relu
from fast.ops.linear import op as _linear
from fast.ops.linear_activation import op as _linear_activation
from fast.ops.log import op as _log
from fast.ops.log1p import op as _log1p
from fast.ops.log_sigmoid import op as _log_sigmoid
from fast.ops.log_softmax import op as _log_softmax
from fast.ops.logsumexp import op as _logsumexp
from fast.ops.mae_loss import op as _mae_loss
from fast.ops.masked_softmax import op as _masked_softmax
from fast.ops.matmul import op as _matmul
from fast.ops.max import op as _max
from fast.ops.maximum import op as _maximum
from fast.ops.mean import op as _mean
from fast.ops.min import op as _min
from fast.ops.minimum import op as _minimum
from fast.ops.mish import op as _mish
from fast.ops.mse_loss import op as _mse_loss
from fast.ops.mul import op as _mul
from fast.ops.neg import op as _neg
from fast.ops.nll_loss import op as _nll_loss
from fast.ops.norm import op as _norm
from fast.ops.one_hot import op as _one_hot
from fast.ops.pad import op as _pad
from fast.ops.permute import op as _permute
from fast.ops.pow import op as _pow
from fast.ops.prod import op as _prod
from fast.ops.rand_normal import op as _rand_normal
from fast.ops.rand_uniform import op as _rand_uniform
from fast.ops.reciprocal import op as _reciprocal
from fast.ops.relu import op as _relu
from fast.ops.reshape import op as _reshape
from fast.ops.rms_norm import op as _rms_norm
from fast.ops.rsqrt import op as _rsqrt
from fast.ops.safe_log import op as _safe_log
from fast.ops.scale import op as _scale
from fast.ops.scatter_add import op as _scatter_add
from fast.ops.selu import op as _selu
from fast.ops.sigmoid import op as _sigmoid
from fast.ops.silu import op as _silu
from fast.ops.sin import op as _sin
from fast.ops.slice import op as _slice
from fast.ops.smooth_l1_loss import op as _smooth_l1_loss
from fast.ops.softmax import op as _softmax
from fast.ops.softplus import op as _softplus
from fast.ops.softsign import op as _softsign
from fast.ops.sqrt import op as _sqrt
from fast.ops.square import op as _square
from fast.ops.stack import op as _stack
from fast.ops.sub import op as _sub
from fast.ops.sum import op as _sum
from fast.ops.take import op as _take
from fast.ops.tanh import op as _tanh
from fast.ops.tril import op as _tril
from fast.ops.triplet_margin_loss import op as _triplet_margin_loss
from fast.ops.triu import op as _triu
from fast.ops.where import op as _where


class Table(dict[str, Op]):
    """The ops by name, in reading order; a name that is none is refused with the nearest."""

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a row that is asked for as an attribute, saying how it is written."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self[name]
        raise Unknown(f"ops: a row is found by its name: write [{name!r}]; got .{name}")

    def __missing__(self, name: object) -> NoReturn:
        """Refuse a name that no op has."""
        raise unfamiliar("ops", "op", name, self, "list(OPS) has all names")


OPS: dict[str, Op] = Table(
    (op.name, op)
    for op in (
        _add,
        _sub,
        _mul,
        _div,
        _neg,
        _scale,
        _maximum,
        _minimum,
        _abs,
        _square,
        _sqrt,
        _reciprocal,
        _rsqrt,
        _exp,
        _expm1,
        _log,
        _log1p,
        _sin,
        _cos,
        _pow,
        _tanh,
        _erf,
        _sigmoid,
        _log_sigmoid,
        _softplus,
        _safe_log,
        _relu,
        _leaky_relu,
        _elu,
        _selu,
        _gelu,
        _silu,
        _mish,
        _clamp,
        _hardtanh,
        _hardsigmoid,
        _hardswish,
        _softsign,
        _chain,
        _where,
        _sum,
        _mean,
        _cumsum,
        _cumprod,
        _norm,
        _prod,
        _broadcast_to,
        _reshape,
        _flatten,
        _permute,
        _flip,
        _take,
        _gather,
        _embedding,
        _one_hot,
        _scatter_add,
        _slice,
        _concat,
        _stack,
        _pad,
        _triu,
        _tril,
        _detach,
        _cast,
        _max,
        _min,
        _argmax,
        _argmin,
        _logsumexp,
        _matmul,
        _bmm,
        _linear,
        _linear_activation,
        _log_softmax,
        _softmax,
        _masked_softmax,
        _layer_norm,
        _rms_norm,
        _add_layer_norm,
        _add_rms_norm,
        _group_norm,
        _batch_norm,
        _mse_loss,
        _mae_loss,
        _huber_loss,
        _smooth_l1_loss,
        _bce_with_logits,
        _kl_div,
        _hinge_embedding_loss,
        _triplet_margin_loss,
        _nll_loss,
        _cross_entropy,
        _rand_uniform,
        _rand_normal,
        _bernoulli_mask,
        _dropout,
    )
)
"""Every op by its name."""
