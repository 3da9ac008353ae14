"""Chapter 21. What a program may ask of the session it runs in: one method per operation.

Written by tools/generate_protocols.py from the pages in spec/ops; do not edit.

>>> class Written(Ops[str]):
...     def apply(self, name, inputs, attributes):
...         return f"{name}({', '.join(inputs)})"
>>> ops = Written()
>>> ops.sub(ops.exp("x"), "y")
'sub(exp(x), y)'
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
        """Add two tensors entry by entry."""
        return self.apply("add", (x, y), {})

    def sub(self, x: R, y: R) -> R:
        """Subtract two tensors entry by entry."""
        return self.apply("sub", (x, y), {})

    def mul(self, x: R, y: R) -> R:
        """Multiply two tensors entry by entry."""
        return self.apply("mul", (x, y), {})

    def div(self, x: R, y: R) -> R:
        """Divide two tensors entry by entry."""
        return self.apply("div", (x, y), {})

    def neg(self, x: R) -> R:
        """Change the sign of each entry."""
        return self.apply("neg", (x,), {})

    def scale(self, x: R, *, c: float) -> R:
        """Multiply each entry by one number that is no tensor."""
        return self.apply("scale", (x,), {"c": c})

    def maximum(self, x: R, y: R) -> R:
        """Take the larger of two tensors, entry by entry."""
        return self.apply("maximum", (x, y), {})

    def minimum(self, x: R, y: R) -> R:
        """Take the smaller of two tensors, entry by entry."""
        return self.apply("minimum", (x, y), {})

    def abs(self, x: R) -> R:
        """Take the absolute value of each entry."""
        return self.apply("abs", (x,), {})

    def square(self, x: R) -> R:
        """Square a tensor entry by entry."""
        return self.apply("square", (x,), {})

    def sqrt(self, x: R) -> R:
        """Take the square root of each entry."""
        return self.apply("sqrt", (x,), {})

    def reciprocal(self, x: R) -> R:
        """Divide 1 by each entry."""
        return self.apply("reciprocal", (x,), {})

    def rsqrt(self, x: R) -> R:
        """Divide 1 by the square root of each entry."""
        return self.apply("rsqrt", (x,), {})

    def exp(self, x: R) -> R:
        """Raise e to the power of each entry."""
        return self.apply("exp", (x,), {})

    def expm1(self, x: R) -> R:
        """Raise e to the power of each entry, and subtract 1."""
        return self.apply("expm1", (x,), {})

    def log(self, x: R) -> R:
        """Take the natural logarithm of each entry."""
        return self.apply("log", (x,), {})

    def log1p(self, x: R) -> R:
        """Take the natural logarithm of 1 plus each entry."""
        return self.apply("log1p", (x,), {})

    def sin(self, x: R) -> R:
        """Take the sine of each entry, an angle in radians."""
        return self.apply("sin", (x,), {})

    def cos(self, x: R) -> R:
        """Take the cosine of each entry, an angle in radians."""
        return self.apply("cos", (x,), {})

    def pow(self, x: R, *, c: float) -> R:
        """Raise each entry to one power that is no tensor."""
        return self.apply("pow", (x,), {"c": c})

    def tanh(self, x: R) -> R:
        """Take the hyperbolic tangent of each entry."""
        return self.apply("tanh", (x,), {})

    def erf(self, x: R) -> R:
        """Take the error function of each entry."""
        return self.apply("erf", (x,), {})

    def sigmoid(self, x: R) -> R:
        """Map each entry to between 0 and 1, by the logistic curve."""
        return self.apply("sigmoid", (x,), {})

    def log_sigmoid(self, x: R) -> R:
        """Take the logarithm of the logistic curve."""
        return self.apply("log_sigmoid", (x,), {})

    def softplus(self, x: R) -> R:
        """Bend each entry smoothly from 0 to itself."""
        return self.apply("softplus", (x,), {})

    def safe_log(self, x: R, *, eps: float = 1e-06) -> R:
        """Take a logarithm that every entry has."""
        return self.apply("safe_log", (x,), {"eps": eps})

    def relu(self, x: R) -> R:
        """Keep each positive entry and replace the others by zero."""
        return self.apply("relu", (x,), {})

    def leaky_relu(self, x: R, *, slope: float = 0.01) -> R:
        """Keep each positive entry and scale the others down."""
        return self.apply("leaky_relu", (x,), {"slope": slope})

    def elu(self, x: R, *, alpha: float = 1.0) -> R:
        """Keep each positive entry and bend the others down to a floor."""
        return self.apply("elu", (x,), {"alpha": alpha})

    def selu(self, x: R) -> R:
        """Scale each positive entry, and bend the others down to a floor."""
        return self.apply("selu", (x,), {})

    def gelu(self, x: R, *, approximate: str = "none") -> R:
        """Gate each entry by the normal distribution function, or by an approximation of it."""
        return self.apply("gelu", (x,), {"approximate": approximate})

    def silu(self, x: R) -> R:
        """Gate each entry by its own logistic curve."""
        return self.apply("silu", (x,), {})

    def mish(self, x: R) -> R:
        """Gate each entry by the hyperbolic tangent of its softplus."""
        return self.apply("mish", (x,), {})

    def clamp(self, x: R, *, lo: float, hi: float) -> R:
        """Replace each entry beyond a bound by the bound."""
        return self.apply("clamp", (x,), {"lo": lo, "hi": hi})

    def hardtanh(self, x: R, *, lo: float = -1.0, hi: float = 1.0) -> R:
        """Clamp each entry, with a slope that ends before the bounds."""
        return self.apply("hardtanh", (x,), {"lo": lo, "hi": hi})

    def hardsigmoid(self, x: R) -> R:
        """Map each entry to between 0 and 1, by a line with two kinks."""
        return self.apply("hardsigmoid", (x,), {})

    def hardswish(self, x: R) -> R:
        """Gate each entry by the line of hardsigmoid."""
        return self.apply("hardswish", (x,), {})

    def softsign(self, x: R) -> R:
        """Map each entry to between -1 and 1, by a quotient."""
        return self.apply("softsign", (x,), {})

    def chain(self, x: R, *, steps: Sequence[object]) -> R:
        """Apply pointwise ops one after the other."""
        return self.apply("chain", (x,), {"steps": steps})

    def where(self, mask: Any, x: R, y: R) -> R:
        """Choose between two tensors, entry by entry, by a mask."""
        return self.apply("where", (mask, x, y), {})

    def sum(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Add the entries of a tensor along some axes."""
        return self.apply("sum", (x,), {"axes": axes, "keepdims": keepdims})

    def mean(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Average the entries of a tensor along some axes."""
        return self.apply("mean", (x,), {"axes": axes, "keepdims": keepdims})

    def cumsum(self, x: R, *, axis: int, reverse: bool = False, exclusive: bool = False) -> R:
        """Add the entries of a tensor up along an axis, and keep every sum on the way."""
        return self.apply(
            "cumsum", (x,), {"axis": axis, "reverse": reverse, "exclusive": exclusive}
        )

    def cumprod(self, x: R, *, axis: int) -> R:
        """Multiply the entries of a tensor along an axis, and keep every product on the way."""
        return self.apply("cumprod", (x,), {"axis": axis})

    def norm(
        self,
        x: R,
        *,
        ord: int = 2,
        axes: tuple[int, ...] | None = None,
        keepdims: bool = False,
    ) -> R:
        """Measure lengths along some axes, by squares or by absolute values."""
        return self.apply("norm", (x,), {"ord": ord, "axes": axes, "keepdims": keepdims})

    def prod(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Multiply the entries of a tensor along some axes."""
        return self.apply("prod", (x,), {"axes": axes, "keepdims": keepdims})

    def broadcast_to(self, x: R, *, shape: tuple[int, ...]) -> R:
        """Repeat a tensor along axes of extent 1, and along new axes in front."""
        return self.apply("broadcast_to", (x,), {"shape": shape})

    def reshape(self, x: R, *, shape: tuple[int, ...]) -> R:
        """Read the same entries, in row-major order, under another shape."""
        return self.apply("reshape", (x,), {"shape": shape})

    def flatten(self, x: R, *, start: int = 0, end: int = -1) -> R:
        """Make one axis of several that follow each other."""
        return self.apply("flatten", (x,), {"start": start, "end": end})

    def permute(self, x: R, *, axes: tuple[int, ...]) -> R:
        """Reorder the axes of a tensor."""
        return self.apply("permute", (x,), {"axes": axes})

    def flip(self, x: R, *, axes: tuple[int, ...] | None = None) -> R:
        """Reverse the order of the entries along some axes."""
        return self.apply("flip", (x,), {"axes": axes})

    def take(self, x: R, indices: Any, *, axis: int) -> R:
        """Select entries along one axis by their positions."""
        return self.apply("take", (x, indices), {"axis": axis})

    def gather(self, x: R, indices: Any, *, axis: int) -> R:
        """Select, at each place, an entry along one axis by a position of its own."""
        return self.apply("gather", (x, indices), {"axis": axis})

    def embedding(self, indices: Any, weight: R) -> R:
        """Look rows of a table up by their numbers."""
        return self.apply("embedding", (indices, weight), {})

    def one_hot(self, indices: Any, *, classes: int) -> R:
        """Write class numbers as rows of zeros with a one."""
        return self.apply("one_hot", (indices,), {"classes": classes})

    def scatter_add(self, x: R, indices: Any, source: R, *, axis: int) -> R:
        """Add entries into a tensor along one axis, at given positions."""
        return self.apply("scatter_add", (x, indices, source), {"axis": axis})

    def slice(self, x: R, *, axis: int, start: int, length: int) -> R:
        """Cut an interval out of one axis."""
        return self.apply("slice", (x,), {"axis": axis, "start": start, "length": length})

    def concat(self, *xs: R, axis: int) -> R:
        """Join tensors along one axis."""
        return self.apply("concat", xs, {"axis": axis})

    def stack(self, *xs: R, axis: int) -> R:
        """Join tensors of one shape along a new axis."""
        return self.apply("stack", xs, {"axis": axis})

    def pad(
        self,
        x: R,
        *,
        before: tuple[int, ...],
        after: tuple[int, ...],
        value: float = 0.0,
    ) -> R:
        """Put one number around a tensor, so many places before and after along each axis."""
        return self.apply("pad", (x,), {"before": before, "after": after, "value": value})

    def triu(self, x: R, *, diagonal: int = 0) -> R:
        """Keep the upper triangle of matrices."""
        return self.apply("triu", (x,), {"diagonal": diagonal})

    def tril(self, x: R, *, diagonal: int = 0) -> R:
        """Keep the lower triangle of matrices."""
        return self.apply("tril", (x,), {"diagonal": diagonal})

    def detach(self, x: R) -> R:
        """Pass a value on and let no derivative through."""
        return self.apply("detach", (x,), {})

    def cast(self, x: R, *, to: str) -> R:
        """Hand numbers on in another format."""
        return self.apply("cast", (x,), {"to": to})

    def max(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Take the largest entry along some axes."""
        return self.apply("max", (x,), {"axes": axes, "keepdims": keepdims})

    def min(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Take the smallest entry along some axes."""
        return self.apply("min", (x,), {"axes": axes, "keepdims": keepdims})

    def argmax(self, x: R, *, axis: int | None = None, keepdims: bool = False) -> Any:
        """Find the place of the largest entry, along one axis or in the whole tensor."""
        return self.apply("argmax", (x,), {"axis": axis, "keepdims": keepdims})

    def argmin(self, x: R, *, axis: int | None = None, keepdims: bool = False) -> Any:
        """Find the place of the smallest entry, along one axis or in the whole tensor."""
        return self.apply("argmin", (x,), {"axis": axis, "keepdims": keepdims})

    def logsumexp(self, x: R, *, axes: tuple[int, ...] | None = None, keepdims: bool = False) -> R:
        """Take the logarithm of the sum of the exponentials along some axes."""
        return self.apply("logsumexp", (x,), {"axes": axes, "keepdims": keepdims})

    def matmul(self, x: R, y: R) -> R:
        """Multiply two matrices."""
        return self.apply("matmul", (x, y), {})

    def bmm(self, x: R, y: R) -> R:
        """Multiply matrices, one pair for each place of a batch."""
        return self.apply("bmm", (x, y), {})

    def linear(self, x: R, w: R, b: R) -> R:
        """Apply a matrix of weights and a bias to the last axis."""
        return self.apply("linear", (x, w, b), {})

    def linear_activation(self, x: R, w: R, b: R, *, activation: str) -> R:
        """Apply a linear layer, and a curve to each entry of its result."""
        return self.apply("linear_activation", (x, w, b), {"activation": activation})

    def log_softmax(self, x: R, *, axis: int = -1) -> R:
        """Take the logarithm of the softmax along one axis."""
        return self.apply("log_softmax", (x,), {"axis": axis})

    def softmax(self, x: R, *, axis: int = -1) -> R:
        """Turn scores into probabilities along one axis."""
        return self.apply("softmax", (x,), {"axis": axis})

    def masked_softmax(self, x: R, mask: Any, *, axis: int = -1) -> R:
        """Turn those scores that a mask lets pass into probabilities along one axis."""
        return self.apply("masked_softmax", (x, mask), {"axis": axis})

    def layer_norm(self, x: R, gamma: R, beta: R, *, eps: float = 1e-05) -> R:
        """Normalize the last axes to mean 0 and variance 1, then scale and shift them."""
        return self.apply("layer_norm", (x, gamma, beta), {"eps": eps})

    def rms_norm(self, x: R, gamma: R, *, eps: float = 1.1920928955078125e-07) -> R:
        """Divide the last axes by their root mean square, then scale them."""
        return self.apply("rms_norm", (x, gamma), {"eps": eps})

    def add_layer_norm(self, x: R, residual: R, gamma: R, beta: R, *, eps: float = 1e-05) -> Any:
        """Add a residual, and normalize the last axes of the sum; return the result and the sum."""
        return self.apply("add_layer_norm", (x, residual, gamma, beta), {"eps": eps})

    def add_rms_norm(
        self,
        x: R,
        residual: R,
        gamma: R,
        *,
        eps: float = 1.1920928955078125e-07,
    ) -> Any:
        """Add a residual, and divide the sum by its root mean square; return both."""
        return self.apply("add_rms_norm", (x, residual, gamma), {"eps": eps})

    def group_norm(self, x: R, gamma: R, beta: R, *, groups: int, eps: float = 1e-05) -> R:
        """Normalize groups of channels to mean 0 and variance 1, then scale and shift channels."""
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
        """Normalize each channel over the batch, and keep running statistics of what came."""
        return self.apply(
            "batch_norm",
            (x, gamma, beta, running_mean, running_var),
            {"training": training, "momentum": momentum, "eps": eps},
        )

    def mse_loss(self, x: R, y: R, *, reduction: str = "mean") -> R:
        """Score a prediction against a target: the mean of the squared differences."""
        return self.apply("mse_loss", (x, y), {"reduction": reduction})

    def mae_loss(self, x: R, y: R, *, reduction: str = "mean") -> R:
        """Score a prediction against a target: the mean of the absolute differences."""
        return self.apply("mae_loss", (x, y), {"reduction": reduction})

    def huber_loss(self, x: R, y: R, *, delta: float = 1.0, reduction: str = "mean") -> R:
        """Score a prediction against a target: squares near 0, and lines beyond."""
        return self.apply("huber_loss", (x, y), {"delta": delta, "reduction": reduction})

    def smooth_l1_loss(self, x: R, y: R, *, beta: float = 1.0, reduction: str = "mean") -> R:
        """Score a prediction against a target: absolute differences, rounded off near 0."""
        return self.apply("smooth_l1_loss", (x, y), {"beta": beta, "reduction": reduction})

    def bce_with_logits(self, x: R, target: R, *, reduction: str = "mean") -> R:
        """Score logits against the probabilities of two outcomes: the binary cross-entropy."""
        return self.apply("bce_with_logits", (x, target), {"reduction": reduction})

    def kl_div(self, x: R, target: R, *, log_target: bool = False, reduction: str = "mean") -> R:
        """Score log-probabilities against probabilities: the Kullback-Leibler divergence."""
        return self.apply("kl_div", (x, target), {"log_target": log_target, "reduction": reduction})

    def hinge_embedding_loss(
        self,
        x: R,
        y: R,
        *,
        margin: float = 1.0,
        reduction: str = "mean",
    ) -> R:
        """Score pairs by their distance where they are alike, else by what it lacks to a margin."""
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
        """Score triplets of rows: how much farther than the positive the negative has yet to be."""
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
        """Read off the negative log-probability of each row's label."""
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
        """Score logits against labels: the negative log-probability of each label."""
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

    def rand_uniform(self, *, shape: tuple[int, ...], seed: int) -> R:
        """Draw numbers uniformly from [0, 1)."""
        return self.apply("rand_uniform", (), {"shape": shape, "seed": seed})

    def rand_normal(self, *, shape: tuple[int, ...], seed: int) -> R:
        """Draw numbers from the normal distribution of mean 0 and variance 1."""
        return self.apply("rand_normal", (), {"shape": shape, "seed": seed})

    def bernoulli_mask(self, *, shape: tuple[int, ...], keep_prob: float, seed: int) -> R:
        """Draw 1 with a given probability, and 0 otherwise."""
        return self.apply(
            "bernoulli_mask", (), {"shape": shape, "keep_prob": keep_prob, "seed": seed}
        )

    def dropout(self, x: R, *, p: float, seed: int, training: bool = True) -> R:
        """Drop each entry with probability p, and scale the others so that expectations stay."""
        return self.apply("dropout", (x,), {"p": p, "seed": seed, "training": training})
