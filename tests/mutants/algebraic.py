"""The algebraic bugs: each changes a formula of a kernel, and the exact ring must see it.

A bug of this kind is another quotient of polynomials, at some shape, setting or ordering. `row`
names the row of `python -m equivalence exact` whose points differ from the page.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.patch import Patch


@dataclass(frozen=True)
class Algebraic(Patch):
    """One bug, and the row of the exact ring that sees it."""

    row: str


def _bug(name: str, file: str, row: str, before: str, after: str) -> Algebraic:
    return Algebraic(name, f"fast/{file}.py", before, after, row)


POINTWISE = (
    _bug("sides exchanged", "ops/mul", "mul vjp", "return y * g, x * g", "return x * g, y * g"),
    _bug("factor of 2 lost", "ops/square", "square vjp", "2.0 * x * g", "x * g"),
    _bug("exponent negated", "ops/exp", "exp vjp", "return tl.exp(x) * g", "return tl.exp(-x) * g"),
    _bug("quotient turned over", "ops/log", "log vjp", "tl.div_rn(g, x)", "tl.div_rn(x, g)"),
    _bug("square forgotten", "ops/tanh", "tanh vjp", "(1.0 - t * t) * g", "(1.0 - t) * g"),
    _bug("sign lost", "ops/div", "div vjp",
         "0.0, -tl.div_rn(tl.div_rn(x, y), y) * g", "0.0, tl.div_rn(tl.div_rn(x, y), y) * g"),
    _bug("divided once", "ops/div", "div vjp",
         "-tl.div_rn(tl.div_rn(x, y), y) * g", "-tl.div_rn(x, y) * g"),
    _bug("half of a root", "ops/sqrt", "sqrt vjp", "2 * tl.sqrt_rn(x)", "tl.sqrt_rn(x)"),
    _bug("leak", "ops/relu", "relu value", "tl.where(x < 0, 0.0, x)", "tl.where(x < 0, x / 64, x)"),
    _bug("leak in the gradient", "ops/relu", "relu vjp",
         "tl.where(z <= 0, 0.0, g)", "tl.where(z <= 0, g / 64, g)"),
    _bug("both sides get all", "ops/where", "where vjp",
         "0.0), tl.where(mask != 0, 0.0, g)", "0.0), tl.where(mask != 0, g, g)"),
    _bug("the smaller gets some", "ops/maximum", "maximum vjp",
         "tl.where(x > y, 0.0, share)", "tl.where(x > y, share, share)"),
    _bug("scale forgotten in the tail", "ops/dropout", "dropout value",
         "result = tl.where(kept, here * scale, 0.0)", "result = tl.where(kept, here, 0.0)"),
    _bug("half of a logarithm", "ops/rand_normal", "rand_normal value",
         "tl.sqrt_rn(-2.0 * tl.log", "tl.sqrt_rn(-1.0 * tl.log"),
    _bug("sine first", "ops/rand_normal", "rand_normal value",
         "return radius * cosine, radius * sine", "return radius * sine, radius * cosine"),
)  # fmt: skip

REDUCTIONS = (
    _bug("one more entry", "ops/mean", "mean value", "divisor=number)", "divisor=number + 1)"),
    _bug("mean's gradient undivided", "ops/mean", "mean vjp",
         "return tl.div_rn(g, number)", "return g"),
    _bug("smallest of a tile", "kernels/rows/reduce", "max value",
         "most = tl.max(tl.where(total != total", "most = tl.min(tl.where(total != total"),
    _bug("all share the largest", "ops/max", "max vjp",
         "part = tl.where((value == most) | (value != value), share, 0.0)",
         "part = tl.where((value == most) | (value != value), share, share)"),
    _bug("partial sums overwritten", "kernels/rows/reduce", "sum value",
         "else:\n                total += value\n            at += BLOCK_R\n        r0",
         "else:\n                total = value\n            at += BLOCK_R\n        r0"),
    _bug("last term wins", "kernels/indexing", "scatter_add value",
         "total += tl.load(g + (offset", "total = tl.load(g + (offset"),
    _bug("neighbour's row", "kernels/indexing", "take value",
         "row // n * sa + index * sd", "row // n * sd + index * sd"),
    _bug("inner tile of y repeated", "kernels/product", "matmul value",
         "y += BLOCK_K * yk", "y += 0 * BLOCK_K * yk"),
    _bug("bias of the first tile", "kernels/product", "linear value",
         "entries = b + (first_j + j)", "entries = b + j"),
    _bug("bias in every tile of the sum", "kernels/product", "linear value",
         "total += bias.to(tl.float32)[None, :]",
         "total += bias.to(tl.float32)[None, :] * tl.cdiv(k, BLOCK_K)"),
    _bug("half of the columns twice", "kernels/product", "linear_activation value",
         "_bend(FN, z, straight, far,", "_bend(FN, z, straight, near,"),
    _bug("bent sum kept", "kernels/product", "linear_activation vjp",
         "_store(straight, total,", "_store(straight, FN(total),"),
    _bug("cotangent not bent", "ops/linear_activation", "linear_activation vjp",
         "return linear.vjp(tuple(layer), g, needs)",
         "return linear.vjp(tuple(layer), cotangent, needs)"),
)  # fmt: skip

ROWS = (
    _bug("sum not rescaled", "kernels/rows/softmaxes", "softmax value",
         "total * tl.exp(maximum - shift) + ", "total + "),
    _bug("sum rescaled the wrong way", "kernels/rows/softmaxes", "log_softmax value",
         "tl.exp(maximum - shift) + ", "tl.exp(shift - maximum) + "),
    _bug("term dropped in later blocks", "ops/softmax", "softmax vjp",
         "rowwise.keep(dx, out, at, n, inner, _sent_back(share, cotangent, total)",
         "rowwise.keep(dx, out, at, n, inner, share * cotangent"),
    _bug("later blocks not weighed", "ops/softmax", "softmax vjp",
         "total += tl.sum(later * rowwise.block", "total += tl.sum(rowwise.block"),
    _bug("sum of exponentials forgotten", "ops/log_softmax", "log_softmax vjp",
         "share = tl.div_rn(total, tl.load(sums + row))[:, None]", "share = total[:, None]"),
    _bug("cotangents of one block", "ops/log_softmax", "log_softmax vjp",
         "        total += tl.sum(rowwise.block(g,", "        total = tl.sum(rowwise.block(g,"),
    _bug("maximum not taken off again", "kernels/rows/softmaxes", "log_softmax value",
         "FN(first - maximum, total)", "FN(first, total)"),
    _bug("divided by n - 1", "ops/layer_norm", "layer_norm value",
         "tl.sqrt_rn(tl.div_rn(total, count) + eps)",
         "tl.sqrt_rn(tl.div_rn(total, count - 1.0) + eps)"),
    _bug("shift forgotten", "ops/layer_norm", "layer_norm value", "* scale + shift", "* scale"),
    _bug("padding in the variance", "ops/layer_norm", "layer_norm value",
         "first = tl.where((column < n)[None, :], first - mean, 0.0)", "first = first - mean"),
    _bug("second term dropped", "ops/layer_norm", "layer_norm vjp",
         "        result = (scaled - total - normal * along) * over\n        if JOINED",
         "        result = (scaled - total) * over\n        if JOINED"),
    _bug("gamma weighs its own gradient", "ops/layer_norm", "layer_norm vjp",
         "dgamma += tl.sum(cotangent * normal, 0)", "dgamma += tl.sum(scaled * normal, 0)"),
    _bug("gamma weighs beta's gradient", "ops/layer_norm", "layer_norm vjp",
         "dbeta += tl.sum(cotangent, 0)", "dbeta += tl.sum(scaled, 0)"),
)  # fmt: skip

LOSSES = (
    _bug("half of the slope", "ops/mse_loss", "mse_loss vjp",
         "slope = 2.0 * (x - y) * share", "slope = (x - y) * share"),
    _bug("target pulled along", "ops/mse_loss", "mse_loss vjp",
         "share\n    return slope, -slope", "share\n    return slope, slope"),
    _bug("distance to nothing", "ops/mse_loss", "mse_loss value",
         "return (x - y) * (x - y)", "return (x - y) * x"),
    _bug("likelihood for a loss", "ops/nll_loss", "nll_loss value",
         "tl.where(good, -here * weight, 0.0)", "tl.where(good, here * weight, 0.0)"),
    _bug("ignored rows learn", "kernels/losses/labels", "nll_loss vjp",
         "return tl.where(good, tl.div_rn(share,", "return tl.where(number != 0, tl.div_rn(share,"),
    _bug("ignored rows counted", "kernels/losses/labels", "nll_loss value",
         "counted += (label != ignored).to(tl.int32)", "counted += (row < rows).to(tl.int32)"),
    _bug("smoothing on top", "ops/cross_entropy", "cross_entropy value",
         "loss = kept * loss + spread * every", "loss = loss + spread * every"),
    _bug("targets do not add up", "ops/cross_entropy", "cross_entropy vjp",
         "tl.div_rn(to_label + to_every * every,", "tl.div_rn(to_label,"),
    _bug("target added", "ops/cross_entropy", "cross_entropy vjp",
         "tl.exp(here - maximum) * part - target", "tl.exp(here - maximum) * part + target"),
)  # fmt: skip

OPTIMIZERS = (
    _bug("dampening forgotten", "optim/sgd", "sgd clipped",
         "momentum * buffer + kept * direction", "momentum * buffer + direction"),
    _bug("first buffer dampened", "optim/sgd", "sgd clipped",
         "tl.where(fresh, direction, ", "tl.where(fresh, kept * direction, "),
    _bug("nesterov without its factor", "optim/sgd", "sgd clipped",
         "direction + momentum * buffer, buffer", "direction + buffer, buffer"),
    _bug("decay by the rate", "optim/sgd", "sgd clipped",
         "direction += decay * x", "direction += lr * decay * x"),
    _bug("second mean by beta1", "optim/_moments", "adam update",
         "(c2 * grad) * grad", "(c1 * grad) * grad"),
    _bug("eps before the correction", "optim/_moments", "adam update",
         "sqrt_rn(largest), root) + eps", "sqrt_rn(largest) + eps, root)"),
    _bug("second correction by beta1", "optim/_moments", "adamw update",
         "tl.sqrt(1.0 - power(beta2, step))", "tl.sqrt(1.0 - power(beta1, step))"),
    _bug("decay without the rate", "optim/_moments", "adamw clipped",
         "decay = (1.0 - lr * weight_decay)", "decay = (1.0 - weight_decay)"),
    _bug("nothing guards the norm", "optim/clip", "sgd clipped",
         "tl.sqrt_rn(total) + GUARD", "tl.sqrt_rn(total)"),
    _bug("norm of magnitudes", "optim/clip", "adam clipped",
         "tl.sum(grad * grad, 0)", "tl.sum(tl.abs(grad), 0)"),
    _bug("scale lost where clipped", "optim/clip", "adamw clipped",
         "_share(tl.sum(total, 0), max_norm, GUARD) * inverse",
         "_share(tl.sum(total, 0), max_norm, GUARD)"),
    _bug("entries clipped before the scale", "optim/clip", "sgd extras",
         "tl.load(values + tl.load(groups + program)).to(tl.float32)",
         "tl.load(values + tl.load(groups + program)).to(tl.float32) * inverse"),
    _bug("a group's norm over all gradients", "optim/clip", "sgd extras",
         "other=-1) == owner", "other=-1) >= 0"),
)  # fmt: skip

ALGEBRAIC = (*POINTWISE, *REDUCTIONS, *ROWS, *LOSSES, *OPTIMIZERS)

SHARED = {
    "off-by-one mask": "sum value",
    "dropped cotangent term": "softmax vjp",
    "mean subtracted wrongly": "layer_norm vjp",
    "eps inside the root": "adamw update",
    "eps outside the root": "layer_norm value",
    "decay after the update": "adamw clipped",
    "bias correction off by one": "adamw update",
    "gradients left over counted in the norm": "sgd clipped",
    "clipped after the decay": "adam clipped",
    "random words of half a counter": "rand_uniform value",
    "another mask in the backward pass": "dropout vjp",
    "non-contiguous cotangent read as contiguous": "softmax vjp",
}
"""Bugs of the catalogue that are algebraic too, by name, and the row that sees them."""

SAME = {
    "missing row maximum": "softmax value",
    "one-pass variance": "layer_norm value",
    "1 - beta2 in fp32": "adamw update",
    "bf16 accumulation": "matmul value",
}
"""Bugs of the catalogue that change no formula: they are the budgets' alone, and equal here."""
