"""The seeded bugs: each a small patch on a kernel, a host, the tape, a parameter or an optimizer.

Each is of a class that has reached users of some library. `catcher` names what must find it: a row
of the suite, by its fixed strata alone, a program of `equivalence.sessions.programs` on one
provider, or the state machine of sessions on one provider at one precision. `shows` is what the
finding must say, so that no unrelated failure passes for it.
"""

from __future__ import annotations

from tests.mutants.lifecycles import LIFECYCLES
from tests.mutants.patch import Mutant

MUTANTS = (
    Mutant(
        name="off-by-one mask",
        file="fast/kernels/rows/reduce.py",
        before="tl.load(pointers, mask=r1 < end1, other=OTHER).to(tl.float32), scale, KIND",
        after="tl.load(pointers, mask=r1 <= end1, other=OTHER).to(tl.float32), scale, KIND",
        catcher="sum value fp32",
        shows="result[",
        why="A row that does not fill its last block takes in one element of its neighbour, or of "
        "whatever lies behind the tensor. Tensors that fill whole blocks never show it.",
    ),
    Mutant(
        name="missing row maximum",
        file="fast/kernels/rows/softmaxes.py",
        before="    maximum = tl.max(first, 1)\n",
        after="    maximum = tl.zeros_like(tl.max(first, 1))\n",
        catcher="softmax value fp32",
        shows="result[",
        why="Softmax without the shift by the row's maximum is right for small logits and "
        "overflows for large ones.",
    ),
    Mutant(
        name="dropped cotangent term",
        file="fast/ops/softmax.py",
        before="rowwise.keep(dx, out, 0, n, inner, _sent_back(share, cotangent, total), live,",
        after="rowwise.keep(dx, out, 0, n, inner, share * cotangent, live,",
        catcher="softmax vjp fp32",
        shows="gradient of x[",
        why="The cotangent reaches an input by two paths and one is forgotten; with a cotangent of "
        "ones, the usual test, the true gradient is 0 and the wrong one merely small.",
    ),
    Mutant(
        name="bf16 accumulation",
        file="fast/kernels/product.py",
        before="        total = tl.dot(left, right, total, input_precision=PRECISION)\n",
        after="        total = tl.dot(left, right, total, input_precision=PRECISION)\n"
        "        total = total.to(z.dtype.element_ty).to(tl.float32)\n",
        catcher="matmul value bf16",
        shows="result[",
        why="Partial sums are rounded to storage at every block. Errors grow with the inner "
        "extent, and a fixed bf16 tolerance hides them.",
    ),
    Mutant(
        name="overwritten saved tensor",
        file="fast/ops/relu.py",
        before="    return pointwise.vjp(_vjp, saved, cotangent, needs)\n",
        after="    pointwise.run(_vjp, (*saved, cotangent), saved)\n    return saved\n",
        catcher="program repeated on triton",
        shows="entry 6: ",
        why="A gradient is written over what the forward pass saved, to spare memory; a second "
        "backward pass, or another op that saved the same tensor, reads the wrong numbers.",
    ),
    Mutant(
        name="reused node's gradients not added",
        file="fast/tape.py",
        before="table[parent] = before + contribution",
        after="table[parent] = contribution",
        catcher="program reused on aten",
        shows="gradient of 0: ",
        why="A value that several ops read keeps the last contribution to its gradient alone.",
    ),
    Mutant(
        name="mean subtracted wrongly",
        file="fast/ops/layer_norm.py",
        before="        result = (scaled - total - normal * along) * over\n        if JOINED",
        after="        result = (scaled - total - total - normal * along) * over\n"
        "        if JOINED",
        catcher="layer_norm vjp fp32",
        shows="gradient of x[",
        why="A hand-derived backward pass subtracts the mean of the cotangent twice; with a "
        "cotangent whose mean is near 0 the result looks right.",
    ),
    Mutant(
        name="one-pass variance",
        file="fast/ops/layer_norm.py",
        before="""\
    mean = mean[:, None]
    first = tl.where((column < n)[None, :], first - mean, 0.0)
    total = tl.sum(first * first, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
        here = tl.where((at + column < n)[None, :], here - mean, 0.0)
        total += tl.sum(here * here, 1)
""",
        after="""\
    total = tl.sum(first * first, 1)
    for at in range(BLOCK, n, BLOCK):
        here = rowwise.summed(x, residual, start, behind, at, n, xn, rn, ADDED, UNIT, BLOCK)
        total += tl.sum(here * here, 1)
    total = tl.maximum(total - count * mean * mean, 0.0)
    mean = mean[:, None]
    first = first - mean
""",
        catcher="layer_norm value fp32",
        shows="result[",
        why="The mean of squares less the square of the mean saves a pass, and cancels where the "
        "mean is large beside the spread. Centred inputs never show it.",
    ),
    Mutant(
        name="eps inside the root",
        file="fast/optim/_moments.py",
        before="bottom = tl.div_rn(tl.sqrt_rn(largest), root) + eps",
        after="bottom = tl.div_rn(tl.sqrt_rn(largest + eps), root)",
        catcher="adamw update fp32",
        shows="parameter",
        why="Libraries differ in where Adam's eps stands; it shows only where the root of the "
        "second moment is no larger than the root of eps.",
    ),
    Mutant(
        name="eps outside the root",
        file="fast/ops/layer_norm.py",
        before="root = tl.sqrt_rn(tl.div_rn(total, count) + eps)",
        after="root = tl.sqrt_rn(tl.div_rn(total, count)) + eps",
        catcher="layer_norm value fp32",
        shows="result[",
        why="The other half of the same bug: a normalization whose eps is added to the root shows "
        "only where the variance is as small as eps.",
    ),
    Mutant(
        name="decay after the update",
        file="fast/optim/_moments.py",
        before="x = x * decay + tl.div_rn(-rate * first, bottom)",
        after="x = (x + tl.div_rn(-rate * first, bottom)) * decay",
        catcher="adamw update fp32",
        shows="parameter",
        why="Decoupled decay applies to the parameter before the step. Afterwards it shrinks the "
        "step too, by a factor so near 1 that a test at the default settings passes.",
    ),
    Mutant(
        name="1 - beta2 in fp32",
        file="fast/optim/_moments.py",
        before="""\
        c2 = (1.0 - beta2).to(tl.float32)
        b2 = beta2.to(tl.float32)
""",
        after="""\
        b2 = beta2.to(tl.float32)
        c2 = 1.0 - b2
""",
        catcher="adamw update fp32",
        shows="exp_avg_sq",
        why="1 - 0.999 from a rounded 0.999 keeps 14 bits. Only the second moment shows it, which "
        "a comparison of parameters never looks at.",
    ),
    Mutant(
        name="bias correction off by one",
        file="fast/optim/_moments.py",
        before="step = tl.load(steps + tl.load(slots + program)).to(tl.int32) + 1",
        after="step = tl.load(steps + tl.load(slots + program)).to(tl.int32) + 2",
        catcher="adamw update fp32",
        shows="parameter",
        why="The step is counted by the host and once more by the kernel. It fades within some "
        "steps, so that only the first few tell.",
    ),
    Mutant(
        name="gradients left over counted in the norm",
        file="fast/optim/_flat.py",
        before="return clip.squares(gradients.flat, plan.table, inverse)",
        after="every = b'\\1' * len(active)\n"
        "            alike = [0] * len(active)\n"
        "            layout, device = self.masters.layout, self.masters.flat.device\n"
        "            table = chunk_table(layout, every, alike, device)\n"
        "            return clip.squares(gradients.flat, table, inverse)",
        catcher="program clipped on triton",
        shows="adam: parameter 0",
        why="The global norm is taken over the whole arena, in which a parameter that was frozen "
        "or not reached still has the gradient of an earlier pass.",
    ),
    Mutant(
        name="clipped after the decay",
        file="fast/optim/_moments.py",
        before="""\
        if scale is not None:
            grad *= tl.load(scale)
        if maximize:
            grad = -grad
        if DECOUPLED:
            decay = (1.0 - lr * weight_decay).to(tl.float32)
        else:
            decay = 1.0
            if weight_decay != 0.0:
                grad += weight_decay.to(tl.float32) * x
""",
        after="""\
        if maximize:
            grad = -grad
        if DECOUPLED:
            decay = (1.0 - lr * weight_decay).to(tl.float32)
        else:
            decay = 1.0
            if weight_decay != 0.0:
                grad += weight_decay.to(tl.float32) * x
        if scale is not None:
            grad *= tl.load(scale)
""",
        catcher="adam update fp32",
        shows="exp_avg of parameter",
        why="The coefficient scales what the kernel has at hand, which already holds the decay, "
        "though the norm was that of the gradients alone. Without decay, or unclipped, none sees.",
    ),
    Mutant(
        name="random words of half a counter",
        file="fast/kernels/elementwise/random.py",
        before="call_low.to(tl.uint32), call_high.to(tl.uint32),",
        after="call_low.to(tl.uint32), (call_high * 0).to(tl.uint32),",
        catcher="rand_uniform value fp32",
        shows="result[",
        why="A counter of 64 bits passes through a word of 32. A run repeats its draws after 2^32 "
        "calls, and one that goes on from a large counter draws what another drew.",
    ),
    Mutant(
        name="another mask in the backward pass",
        file="fast/ops/dropout.py",
        before="return (_drop(cotangent, *saved) if saved else cotangent,)",
        after="return (_drop(cotangent, *saved[:2], saved[2] ^ 1) if saved else cotangent,)",
        catcher="dropout vjp fp32",
        shows="gradient of x[",
        why="The mask is drawn again instead of saved, and the counter has moved on by then. Every "
        "gradient looks plausible, and belongs to entries that were dropped.",
    ),
    Mutant(
        name="stale mirror",
        file="fast/runtime/param.py",
        before="self.host_current, self.mirror_current = True, False",
        after="self.host_current = True",
        catcher="program lived on aten",
        shows="parameter 0: current: both, due is host",
        why="A parameter is overwritten on the host, as when a checkpoint is loaded, and the "
        "device goes on with the old value.",
    ),
    Mutant(
        name="in-place update under a live tape",
        file="fast/runtime/updates.py",
        before="            parameter.host_current = False\n            parameter.version += 1\n",
        after="            parameter.host_current = False\n",
        catcher="program outdated on aten",
        shows="parameter 0: version: 0, due is 1",
        why="An optimizer writes a parameter that a tape has saved, and says so to no one; the "
        "next backward pass over that tape silently mixes two versions.",
    ),
    Mutant(
        name="out-of-bounds store",
        file="fast/kernels/elementwise/pointwise.py",
        before="tl.store(z0 + index, results.to(z0.dtype.element_ty), mask=mask)",
        after="tl.store(z0 + index, results.to(z0.dtype.element_ty))",
        catcher="exp value fp32",
        shows="past the end of fresh memory",
        why="The last block stores without its mask. Every result is right; what lies behind the "
        "output is not, and breaks later and elsewhere.",
    ),
    Mutant(
        name="non-contiguous cotangent read as contiguous",
        file="fast/kernels/rows/softmaxes.py",
        before="*(s for source in (*sources, g) for s in source.stride()),",
        after="*(s for x in sources for s in x.stride()), n * inner, inner, 1,",
        catcher="softmax vjp fp32",
        shows="gradient of x[",
        why="A backward pass assumes that cotangents are contiguous. They are slices, transposes "
        "and, behind every sum, expanded with stride 0.",
    ),
    *LIFECYCLES,
)
