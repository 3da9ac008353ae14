"""Chapter 15. The operations, one page each.

`OPS` is the table, in reading order: pointwise, moving and adding, products, programs over these,
random numbers.

>>> from spec.tensor import tensor
>>> OPS["matmul"](tensor([[1, 2]]), tensor([[10], [1]]))
Tensor([[12]])
>>> "matmul" in OPS, len(OPS["matmul"].inputs)
(True, 2)
"""

# This file is longer than the guide because it names every page, twice.

from __future__ import annotations

from spec.answers import unfamiliar
from spec.op import Op
from spec.ops.abs import op as _abs
from spec.ops.add import op as _add
from spec.ops.add_layer_norm import op as _add_layer_norm
from spec.ops.add_rms_norm import op as _add_rms_norm
from spec.ops.argmax import op as _argmax
from spec.ops.argmin import op as _argmin
from spec.ops.batch_norm import op as _batch_norm
from spec.ops.bce_with_logits import op as _bce_with_logits
from spec.ops.bernoulli_mask import op as _bernoulli_mask
from spec.ops.bmm import op as _bmm
from spec.ops.broadcast_to import op as _broadcast_to
from spec.ops.cast import op as _cast
from spec.ops.chain import op as _chain
from spec.ops.clamp import op as _clamp
from spec.ops.concat import op as _concat
from spec.ops.cos import op as _cos
from spec.ops.cross_entropy import op as _cross_entropy
from spec.ops.cumprod import op as _cumprod
from spec.ops.cumsum import op as _cumsum
from spec.ops.detach import op as _detach
from spec.ops.div import op as _div
from spec.ops.dropout import op as _dropout
from spec.ops.elu import op as _elu
from spec.ops.embedding import op as _embedding
from spec.ops.erf import op as _erf
from spec.ops.exp import op as _exp
from spec.ops.expm1 import op as _expm1
from spec.ops.flatten import op as _flatten
from spec.ops.flip import op as _flip
from spec.ops.gather import op as _gather
from spec.ops.gelu import op as _gelu
from spec.ops.group_norm import op as _group_norm
from spec.ops.hardsigmoid import op as _hardsigmoid
from spec.ops.hardswish import op as _hardswish
from spec.ops.hardtanh import op as _hardtanh
from spec.ops.hinge_embedding_loss import op as _hinge_embedding_loss
from spec.ops.huber_loss import op as _huber_loss
from spec.ops.kl_div import op as _kl_div
from spec.ops.layer_norm import op as _layer_norm
from spec.ops.leaky_relu import op as _leaky_relu
from spec.ops.linear import op as _linear
from spec.ops.linear_activation import op as _linear_activation
from spec.ops.log import op as _log
from spec.ops.log1p import op as _log1p
from spec.ops.log_sigmoid import op as _log_sigmoid
from spec.ops.log_softmax import op as _log_softmax
from spec.ops.logsumexp import op as _logsumexp
from spec.ops.mae_loss import op as _mae_loss
from spec.ops.masked_softmax import op as _masked_softmax
from spec.ops.matmul import op as _matmul
from spec.ops.max import op as _max
from spec.ops.maximum import op as _maximum
from spec.ops.mean import op as _mean
from spec.ops.min import op as _min
from spec.ops.minimum import op as _minimum
from spec.ops.mish import op as _mish
from spec.ops.mse_loss import op as _mse_loss
from spec.ops.mul import op as _mul
from spec.ops.neg import op as _neg
from spec.ops.nll_loss import op as _nll_loss
from spec.ops.norm import op as _norm
from spec.ops.one_hot import op as _one_hot
from spec.ops.pad import op as _pad
from spec.ops.permute import op as _permute
from spec.ops.pow import op as _pow
from spec.ops.prod import op as _prod
from spec.ops.rand_normal import op as _rand_normal
from spec.ops.rand_uniform import op as _rand_uniform
from spec.ops.reciprocal import op as _reciprocal
from spec.ops.relu import op as _relu
from spec.ops.reshape import op as _reshape
from spec.ops.rms_norm import op as _rms_norm
from spec.ops.rsqrt import op as _rsqrt
from spec.ops.safe_log import op as _safe_log
from spec.ops.scale import op as _scale
from spec.ops.scatter_add import op as _scatter_add
from spec.ops.selu import op as _selu
from spec.ops.sigmoid import op as _sigmoid
from spec.ops.silu import op as _silu
from spec.ops.sin import op as _sin
from spec.ops.slice import op as _slice
from spec.ops.smooth_l1_loss import op as _smooth_l1_loss
from spec.ops.softmax import op as _softmax
from spec.ops.softplus import op as _softplus
from spec.ops.softsign import op as _softsign
from spec.ops.sqrt import op as _sqrt
from spec.ops.square import op as _square
from spec.ops.stack import op as _stack
from spec.ops.sub import op as _sub
from spec.ops.sum import op as _sum
from spec.ops.take import op as _take
from spec.ops.tanh import op as _tanh
from spec.ops.tril import op as _tril
from spec.ops.triplet_margin_loss import op as _triplet_margin_loss
from spec.ops.triu import op as _triu
from spec.ops.where import op as _where
from spec.refusals import Table

OPS: dict[str, Op] = Table(
    "op",
    {
        op.name: op
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
    },
    unfamiliar,
)
"""Every operation of the book by its name, in reading order."""
