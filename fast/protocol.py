"""What a program may ask of the session it runs in: one method per operation.

Written by tools/generate_protocols.py from the pages in fast/ops; do not edit.
"""

# This file is longer than the guide because it has a method for each operation.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Ops(ABC, Generic[R]):
    """The operations on refs of type R; a session supplies `apply`, and each op is a method."""

    __slots__ = ()

    @abstractmethod
    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> R:
        """Apply the op of this name to refs and return the ref of its result."""

    def add(self, x: R, y: R) -> R:
        """Twin of spec.ops.add."""
        return self.apply("add", (x, y), {})

    def sub(self, x: R, y: R) -> R:
        """Twin of spec.ops.sub."""
        return self.apply("sub", (x, y), {})

    def mul(self, x: R, y: R) -> R:
        """Twin of spec.ops.mul."""
        return self.apply("mul", (x, y), {})

    def div(self, x: R, y: R) -> R:
        """Twin of spec.ops.div."""
        return self.apply("div", (x, y), {})

    def neg(self, x: R) -> R:
        """Twin of spec.ops.neg."""
        return self.apply("neg", (x,), {})

    def scale(self, x: R, *, c: float) -> R:
        """Twin of spec.ops.scale."""
        return self.apply("scale", (x,), {"c": c})

    def maximum(self, x: R, y: R) -> R:
        """Twin of spec.ops.maximum."""
        return self.apply("maximum", (x, y), {})

    def minimum(self, x: R, y: R) -> R:
        """Twin of spec.ops.minimum."""
        return self.apply("minimum", (x, y), {})

    def abs(self, x: R) -> R:
        """Twin of spec.ops.abs."""
        return self.apply("abs", (x,), {})

    def square(self, x: R) -> R:
        """Twin of spec.ops.square."""
        return self.apply("square", (x,), {})

    def sqrt(self, x: R) -> R:
        """Twin of spec.ops.sqrt."""
        return self.apply("sqrt", (x,), {})

    def reciprocal(self, x: R) -> R:
        """Twin of spec.ops.reciprocal."""
        return self.apply("reciprocal", (x,), {})

    def rsqrt(self, x: R) -> R:
        """Twin of spec.ops.rsqrt."""
        return self.apply("rsqrt", (x,), {})

    def exp(self, x: R) -> R:
        """Twin of spec.ops.exp."""
        return self.apply("exp", (x,), {})

    def expm1(self, x: R) -> R:
        """Twin of spec.ops.expm1."""
        return self.apply("expm1", (x,), {})

    def log(self, x: R) -> R:
        """Twin of spec.ops.log."""
        return self.apply("log", (x,), {})

    def log1p(self, x: R) -> R:
        """Twin of spec.ops.log1p."""
        return self.apply("log1p", (x,), {})

    def sin(self, x: R) -> R:
        """Twin of spec.ops.sin."""
        return self.apply("sin", (x,), {})

    def cos(self, x: R) -> R:
        """Twin of spec.ops.cos."""
        return self.apply("cos", (x,), {})

    def pow(self, x: R, *, c: float) -> R:
        """Twin of spec.ops.pow."""
        return self.apply("pow", (x,), {"c": c})

    def tanh(self, x: R) -> R:
        """Twin of spec.ops.tanh."""
        return self.apply("tanh", (x,), {})

    def erf(self, x: R) -> R:
        """Twin of spec.ops.erf."""
        return self.apply("erf", (x,), {})

    def sigmoid(self, x: R) -> R:
        """Twin of spec.ops.sigmoid."""
        return self.apply("sigmoid", (x,), {})

    def log_sigmoid(self, x: R) -> R:
        """Twin of spec.ops.log_sigmoid."""
        return self.apply("log_sigmoid", (x,), {})

    def softplus(self, x: R) -> R:
        """Twin of spec.ops.softplus."""
        return self.apply("softplus", (x,), {})

    def safe_log(self, x: R, *, eps: float = 1e-06) -> R:
        """Twin of spec.ops.safe_log."""
        return self.apply("safe_log", (x,), {"eps": eps})

    def relu(self, x: R) -> R:
        """Twin of spec.ops.relu."""
        return self.apply("relu", (x,), {})

    def leaky_relu(self, x: R, *, slope: float = 0.01) -> R:
        """Twin of spec.ops.leaky_relu."""
        return self.apply("leaky_relu", (x,), {"slope": slope})

    def elu(self, x: R, *, alpha: float = 1.0) -> R:
        """Twin of spec.ops.elu."""
        return self.apply("elu", (x,), {"alpha": alpha})

    def selu(self, x: R) -> R:
        """Twin of spec.ops.selu."""
        return self.apply("selu", (x,), {})

    def gelu(self, x: R, *, approximate: str = "none") -> R:
        """Twin of spec.ops.gelu."""
        return self.apply("gelu", (x,), {"approximate": approximate})

    def silu(self, x: R) -> R:
        """Twin of spec.ops.silu."""
        return self.apply("silu", (x,), {})

    def mish(self, x: R) -> R:
        """Twin of spec.ops.mish."""
        return self.apply("mish", (x,), {})

    def clamp(self, x: R, *, lo: float, hi: float) -> R:
        """Twin of spec.ops.clamp."""
        return self.apply("clamp", (x,), {"lo": lo, "hi": hi})

    def hardtanh(self, x: R, *, lo: float = -1.0, hi: float = 1.0) -> R:
        """Twin of spec.ops.hardtanh."""
        return self.apply("hardtanh", (x,), {"lo": lo, "hi": hi})

    def hardsigmoid(self, x: R) -> R:
        """Twin of spec.ops.hardsigmoid."""
        return self.apply("hardsigmoid", (x,), {})

    def hardswish(self, x: R) -> R:
        """Twin of spec.ops.hardswish."""
        return self.apply("hardswish", (x,), {})

    def softsign(self, x: R) -> R:
        """Twin of spec.ops.softsign."""
        return self.apply("softsign", (x,), {})

    def chain(self, x: R, *, steps: Sequence[object]) -> R:
        """Twin of spec.ops.chain."""
        return self.apply("chain", (x,), {"steps": steps})

    def where(self, mask: Any, x: R, y: R) -> R:
        """Twin of spec.ops.where."""
        return self.apply("where", (mask, x, y), {})

    def sum(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Twin of spec.ops.sum."""
        return self.apply("sum", (x,), {"axes": axes, "keepdims": keepdims})

    def mean(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Twin of spec.ops.mean."""
        return self.apply("mean", (x,), {"axes": axes, "keepdims": keepdims})

    def cumsum(self, x: R, *, axis: int, reverse: bool = False, exclusive: bool = False) -> R:
        """Twin of spec.ops.cumsum."""
        return self.apply(
            "cumsum", (x,), {"axis": axis, "reverse": reverse, "exclusive": exclusive}
        )

    def cumprod(self, x: R, *, axis: int) -> R:
        """Twin of spec.ops.cumprod."""
        return self.apply("cumprod", (x,), {"axis": axis})

    def norm(
        self,
        x: R,
        *,
        ord: int = 2,
        axes: tuple[int, ...] | None = None,
        keepdims: bool = False,
    ) -> R:
        """Twin of spec.ops.norm."""
        return self.apply("norm", (x,), {"ord": ord, "axes": axes, "keepdims": keepdims})

    def prod(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Twin of spec.ops.prod."""
        return self.apply("prod", (x,), {"axes": axes, "keepdims": keepdims})

    def broadcast_to(self, x: R, *, shape: Sequence[int]) -> R:
        """Twin of spec.ops.broadcast_to."""
        return self.apply("broadcast_to", (x,), {"shape": shape})

    def reshape(self, x: R, *, shape: Sequence[int]) -> R:
        """Twin of spec.ops.reshape."""
        return self.apply("reshape", (x,), {"shape": shape})

    def flatten(self, x: R, *, start: int = 0, end: int = -1) -> R:
        """Twin of spec.ops.flatten."""
        return self.apply("flatten", (x,), {"start": start, "end": end})

    def permute(self, x: R, *, axes: Sequence[int]) -> R:
        """Twin of spec.ops.permute."""
        return self.apply("permute", (x,), {"axes": axes})

    def flip(self, x: R, *, axes: Sequence[int] | None = None) -> R:
        """Twin of spec.ops.flip."""
        return self.apply("flip", (x,), {"axes": axes})

    def take(self, x: R, indices: Any, *, axis: int) -> R:
        """Twin of spec.ops.take."""
        return self.apply("take", (x, indices), {"axis": axis})

    def gather(self, x: R, indices: Any, *, axis: int) -> R:
        """Twin of spec.ops.gather."""
        return self.apply("gather", (x, indices), {"axis": axis})

    def embedding(self, indices: Any, weight: R) -> R:
        """Twin of spec.ops.embedding."""
        return self.apply("embedding", (indices, weight), {})

    def one_hot(self, indices: Any, *, classes: int) -> R:
        """Twin of spec.ops.one_hot."""
        return self.apply("one_hot", (indices,), {"classes": classes})

    def scatter_add(self, x: R, indices: Any, source: R, *, axis: int) -> R:
        """Twin of spec.ops.scatter_add."""
        return self.apply("scatter_add", (x, indices, source), {"axis": axis})

    def slice(self, x: R, *, axis: int, start: int, length: int) -> R:
        """Twin of spec.ops.slice."""
        return self.apply("slice", (x,), {"axis": axis, "start": start, "length": length})

    def concat(self, *xs: R, axis: int) -> R:
        """Twin of spec.ops.concat."""
        return self.apply("concat", xs, {"axis": axis})

    def stack(self, *xs: R, axis: int) -> R:
        """Twin of spec.ops.stack."""
        return self.apply("stack", xs, {"axis": axis})

    def pad(self, x: R, *, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> R:
        """Twin of spec.ops.pad."""
        return self.apply("pad", (x,), {"before": before, "after": after, "value": value})

    def triu(self, x: R, *, diagonal: int = 0) -> R:
        """Twin of spec.ops.triu."""
        return self.apply("triu", (x,), {"diagonal": diagonal})

    def tril(self, x: R, *, diagonal: int = 0) -> R:
        """Twin of spec.ops.tril."""
        return self.apply("tril", (x,), {"diagonal": diagonal})

    def detach(self, x: R) -> R:
        """Twin of spec.ops.detach."""
        return self.apply("detach", (x,), {})

    def cast(self, x: R, *, to: str) -> R:
        """Twin of spec.ops.cast."""
        return self.apply("cast", (x,), {"to": to})

    def max(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Twin of spec.ops.max."""
        return self.apply("max", (x,), {"axes": axes, "keepdims": keepdims})

    def min(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Twin of spec.ops.min."""
        return self.apply("min", (x,), {"axes": axes, "keepdims": keepdims})

    def argmax(self, x: R, *, axis: int | None = None, keepdims: bool = False) -> Any:
        """Twin of spec.ops.argmax."""
        return self.apply("argmax", (x,), {"axis": axis, "keepdims": keepdims})

    def argmin(self, x: R, *, axis: int | None = None, keepdims: bool = False) -> Any:
        """Twin of spec.ops.argmin: the kernel of argmax, on opposites."""
        return self.apply("argmin", (x,), {"axis": axis, "keepdims": keepdims})

    def logsumexp(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Twin of spec.ops.logsumexp."""
        return self.apply("logsumexp", (x,), {"axes": axes, "keepdims": keepdims})

    def matmul(self, x: R, y: R) -> R:
        """Twin of spec.ops.matmul."""
        return self.apply("matmul", (x, y), {})

    def bmm(self, x: R, y: R) -> R:
        """Twin of spec.ops.bmm."""
        return self.apply("bmm", (x, y), {})

    def linear(self, x: R, w: R, b: R) -> R:
        """Twin of spec.ops.linear."""
        return self.apply("linear", (x, w, b), {})

    def linear_activation(self, x: R, w: R, b: R, *, activation: str) -> R:
        """Twin of spec.ops.linear_activation."""
        return self.apply("linear_activation", (x, w, b), {"activation": activation})

    def log_softmax(self, x: R, *, axis: int = -1) -> R:
        """Twin of spec.ops.log_softmax."""
        return self.apply("log_softmax", (x,), {"axis": axis})

    def softmax(self, x: R, *, axis: int = -1) -> R:
        """Twin of spec.ops.softmax."""
        return self.apply("softmax", (x,), {"axis": axis})

    def masked_softmax(self, x: R, mask: Any, *, axis: int = -1) -> R:
        """Twin of spec.ops.masked_softmax."""
        return self.apply("masked_softmax", (x, mask), {"axis": axis})

    def layer_norm(self, x: R, gamma: R, beta: R, *, eps: float = 1e-05) -> R:
        """Twin of spec.ops.layer_norm."""
        return self.apply("layer_norm", (x, gamma, beta), {"eps": eps})

    def rms_norm(self, x: R, gamma: R, *, eps: float = 1.1920928955078125e-07) -> R:
        """Twin of spec.ops.rms_norm."""
        return self.apply("rms_norm", (x, gamma), {"eps": eps})

    def add_layer_norm(self, x: R, residual: R, gamma: R, beta: R, *, eps: float = 1e-05) -> Any:
        """Twin of spec.ops.add_layer_norm."""
        return self.apply("add_layer_norm", (x, residual, gamma, beta), {"eps": eps})

    def add_rms_norm(
        self,
        x: R,
        residual: R,
        gamma: R,
        *,
        eps: float = 1.1920928955078125e-07,
    ) -> Any:
        """Twin of spec.ops.add_rms_norm."""
        return self.apply("add_rms_norm", (x, residual, gamma), {"eps": eps})

    def group_norm(self, x: R, gamma: R, beta: R, *, groups: int, eps: float = 1e-05) -> R:
        """Twin of spec.ops.group_norm."""
        return self.apply("group_norm", (x, gamma, beta), {"groups": groups, "eps": eps})

    def batch_norm(
        self,
        x: R,
        gamma: R,
        beta: R,
        running_mean: Any,
        running_var: Any,
        *,
        training: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-05,
    ) -> Any:
        """Twin of spec.ops.batch_norm."""
        return self.apply(
            "batch_norm",
            (x, gamma, beta, running_mean, running_var),
            {"training": training, "momentum": momentum, "eps": eps},
        )

    def mse_loss(self, x: R, y: R, *, reduction: str = "mean") -> R:
        """Twin of spec.ops.mse_loss."""
        return self.apply("mse_loss", (x, y), {"reduction": reduction})

    def mae_loss(self, x: R, y: R, *, reduction: str = "mean") -> R:
        """Twin of spec.ops.mae_loss."""
        return self.apply("mae_loss", (x, y), {"reduction": reduction})

    def huber_loss(self, x: R, y: R, *, delta: float = 1.0, reduction: str = "mean") -> R:
        """Twin of spec.ops.huber_loss."""
        return self.apply("huber_loss", (x, y), {"delta": delta, "reduction": reduction})

    def smooth_l1_loss(self, x: R, y: R, *, beta: float = 1.0, reduction: str = "mean") -> R:
        """Twin of spec.ops.smooth_l1_loss."""
        return self.apply("smooth_l1_loss", (x, y), {"beta": beta, "reduction": reduction})

    def bce_with_logits(self, x: R, target: R, *, reduction: str = "mean") -> R:
        """Twin of spec.ops.bce_with_logits."""
        return self.apply("bce_with_logits", (x, target), {"reduction": reduction})

    def kl_div(self, x: R, target: R, *, log_target: bool = False, reduction: str = "mean") -> R:
        """Twin of spec.ops.kl_div."""
        return self.apply("kl_div", (x, target), {"log_target": log_target, "reduction": reduction})

    def hinge_embedding_loss(
        self,
        x: R,
        y: R,
        *,
        margin: float = 1.0,
        reduction: str = "mean",
    ) -> R:
        """Twin of spec.ops.hinge_embedding_loss."""
        return self.apply(
            "hinge_embedding_loss", (x, y), {"margin": margin, "reduction": reduction}
        )

    def triplet_margin_loss(
        self,
        anchor: R,
        positive: R,
        negative: R,
        *,
        margin: float = 1.0,
        p: int = 2,
        eps: float = 1e-06,
        swap: bool = False,
        reduction: str = "mean",
    ) -> R:
        """Twin of spec.ops.triplet_margin_loss."""
        return self.apply(
            "triplet_margin_loss",
            (anchor, positive, negative),
            {"margin": margin, "p": p, "eps": eps, "swap": swap, "reduction": reduction},
        )

    def nll_loss(
        self,
        log_probabilities: R,
        labels: Any,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        weight: tuple[float, ...] | None = None,
    ) -> R:
        """Twin of spec.ops.nll_loss."""
        return self.apply(
            "nll_loss",
            (log_probabilities, labels),
            {"ignore_index": ignore_index, "reduction": reduction, "weight": weight},
        )

    def cross_entropy(
        self,
        logits: R,
        labels: Any,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        weight: tuple[float, ...] | None = None,
    ) -> R:
        """Twin of spec.ops.cross_entropy."""
        return self.apply(
            "cross_entropy",
            (logits, labels),
            {
                "ignore_index": ignore_index,
                "label_smoothing": label_smoothing,
                "reduction": reduction,
                "weight": weight,
            },
        )

    def rand_uniform(self, *, shape: Sequence[int], seed: int) -> R:
        """Twin of spec.ops.rand_uniform."""
        return self.apply("rand_uniform", (), {"shape": shape, "seed": seed})

    def rand_normal(self, *, shape: Sequence[int], seed: int) -> R:
        """Twin of spec.ops.rand_normal."""
        return self.apply("rand_normal", (), {"shape": shape, "seed": seed})

    def bernoulli_mask(self, *, shape: Sequence[int], keep_prob: float, seed: int) -> R:
        """Twin of spec.ops.bernoulli_mask."""
        return self.apply(
            "bernoulli_mask", (), {"shape": shape, "keep_prob": keep_prob, "seed": seed}
        )

    def dropout(self, x: R, *, p: float, seed: int, training: bool = True) -> R:
        """Twin of spec.ops.dropout."""
        return self.apply("dropout", (x,), {"p": p, "seed": seed, "training": training})
