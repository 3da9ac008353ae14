"""For programs that live in torch, which enter from outside: optimizers, and fused functions.

    from fast.torch import AdamW, layer_norm, cross_entropy

The optimizers are torch.optim.Optimizer subclasses with torch's arguments; a flag that they do not
have is refused. The functions are known to torch's autograd, torch.compile and torch's checks.
Everything takes torch tensors (float32, bfloat16, float16, or float64 with the aten provider) on a
CPU or a GPU, and a `provider`: "triton" or "aten"; None chooses Triton's kernels on a GPU, torch's
own elsewhere. What an op means is said by its page in `spec.ops`.
"""

from __future__ import annotations

from fast.torch import _classes
from fast.torch._batch_norm import batch_norm
from fast.torch._classes import *  # noqa: F403  # The pages say which there are.
from fast.torch._einsum import einsum
from fast.torch._functions import cross_entropy, layer_norm, log_softmax, rms_norm, softmax
from fast.torch._groups import group_norm, instance_norm
from fast.torch._products import matmul

__all__ = ["batch_norm", "cross_entropy", "einsum", "group_norm", "instance_norm", "layer_norm"]
__all__ += ["log_softmax", "matmul", "rms_norm", "softmax"]
__all__ += _classes.__all__
