"""What torch promises, on a CPU ("torch") and on a GPU ("torch-device").

Every number and every freedom names its source, mostly a file of torch's own.
Our ATen twins call torch's kernels: their contract takes from here what those kernels do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.contracts import (
    FUSED_WHY,
    base,
    on_tensor_cores,
    reads_positions,
    stepping_in_storage,
)
from equivalence.backends.torch.forms import (
    FORMS,
    FROM_BF16,
    FROM_STORAGE,
    LABELLED_IN_STORAGE,
)
from equivalence.backends.torch.functions import (
    CUDA,
    ERF_OF_FIVE_TERMS,
    SAVED_LOGARITHM_WHY,
    TORCH,
    of_saved_logarithm,
)
from equivalence.registry import OPS
from equivalence.worlds.contract import BF16, FP32, Contract, ContractRule

STORAGE_WHY = "torch saves results in the format of storage and its backward reads them back"
SCATTER_WHY = "torch's index_add adds in the dtype of its tensor, that of storage"
LABELLED_WHY = "torch's nll_loss adds losses up in their dtype, that of storage (LossNLL.cpp)"
KERNELS_WHY = "torch's kernels compute in fp32, and round to storage what they hand on, once"
DIFFERENCE_WHY = (
    "torch's mse_loss_backward multiplies the difference by 2 / n before the cotangent, so that "
    "what is tiny may be subnormal in between (BinaryOpsKernel.cpp, mse_backward)"
)
OVERFLOWING_WHY = (
    "torch's sigmoid is 1 / (1 + e^-x), and 0 where e^-x overflows, though its result would be a "
    "subnormal number (UnaryOpsKernel.cpp)"
)
ONEDNN_WHY = "oneDNN's bf16 runs on instructions whose subnormal results are zero (VCVTNEPS2BF16)"
BFLOAT_DOT_WHY = "Intel's manuals on VDPBF16PS and TDPBF16PS: denormals are zero, and flush to zero"
ITERATED_WHY = (
    "torch's Muon iterates in bfloat16, whatever a parameter's dtype (_muon.py); its products and "
    "norms are added up in fp32 and rounded once (BlasKernel.cpp; ReduceOpsKernel.cpp)"
)
RECIPROCAL_WHY = (
    "on a GPU torch multiplies by the reciprocal of a count, and of a divisor that the host knows "
    "(ReduceMomentKernel.cu; BinaryDivTrueKernel.cu)"
)

SAVES_LOGARITHMS = frozenset({"log_softmax", "cross_entropy"})
"""The ops whose gradient, in torch, starts from a saved log-probability."""

DIVIDE_BY_A_COUNT = frozenset({"mean", "mse_loss"})
"""The ops that divide by a number of entries, beside those that are fused."""


def with_tiny_differences(contract: Contract, op: str) -> Contract:
    """Let the gradient of mse_loss pass through subnormal numbers, as torch's kernel does."""
    if op != "mse_loss":
        return contract
    return replace(contract, flush="outputs", sources=(*contract.sources, DIFFERENCE_WHY))


def _on_host(op: str, dtype: str) -> Contract:
    contract = base("torch", op, dtype, TORCH, "stable")
    contract = replace(with_tiny_differences(contract, op), forms=FORMS.get(op, ()))
    contract = _by_own_kernel(contract, op, dtype)
    if contract.store == contract.compute:
        return contract
    if op in FROM_STORAGE:
        own = FROM_BF16.get(op, FROM_STORAGE[op]) if dtype == "bf16" else FROM_STORAGE[op]
        return replace(contract, forms=(own,), sources=(*contract.sources, KERNELS_WHY))
    if op == "cross_entropy":
        # The form says itself which sum is taken in storage.
        contract = replace(contract, forms=(LABELLED_IN_STORAGE,))
        return stepping_in_storage(contract, f"{STORAGE_WHY}; {LABELLED_WHY}")
    return stepping_in_storage(contract, STORAGE_WHY, _why_sums_in_storage(op))


def _by_own_kernel(contract: Contract, op: str, dtype: str) -> Contract:
    """Declare which functions an op's own kernel evaluates otherwise, and what it flushes."""
    if op in ("sigmoid", "linear_activation"):
        contract = replace(contract, flush="outputs", sources=(OVERFLOWING_WHY,))
    if op == "add_layer_norm":
        # Its gradient is that of layer_norm, by the same kernel.
        contract = replace(contract, flush="outputs", division="reciprocal", sources=(FUSED_WHY,))
    if op == "gelu" and dtype == "bf16":
        contract = replace(contract, flush="outputs", sources=(ONEDNN_WHY,))
    if (op == "erf" and contract.store != contract.compute) or (
        op in ("gelu", "linear_activation") and dtype != "fp64"
    ):
        contract = replace(contract, functions={**TORCH, "erf": ERF_OF_FIVE_TERMS})
    if op in SAVES_LOGARITHMS:
        coarser = contract.store.unit / contract.compute.unit
        contract = replace(contract, functions={**TORCH, "exp": of_saved_logarithm(coarser)})
    return contract


def _why_sums_in_storage(op: str) -> str:
    """Say why torch adds up in the format of storage, for an op or its gradient, if it does."""
    if not reads_positions(op):
        return ""
    return LABELLED_WHY if "reduction" in OPS[op].attributes else SCATTER_WHY


def with_flushing_products(op: str, dtype: str) -> Contract:
    """Return the contract of torch on a CPU with instructions for products of bf16."""
    contract = _on_host(op, dtype)
    if dtype == "bf16" and op in ("matmul", "linear", "linear_activation"):
        sources = (*contract.sources, BFLOAT_DOT_WHY)
        return replace(contract, flush="inputs_outputs", sources=sources)
    return contract


def of_torchs_own(op: str, dtype: str) -> Contract:
    """Return the contract of what torch offers as it is: its Muon has arithmetic of its own."""
    contract = with_flushing_products(op, dtype)
    if op != "muon":
        return contract
    # Its moment is as fine as the parameter, but one contract holds for all that a step leaves.
    return replace(
        contract, compute=BF16, accumulate=FP32, sources=(*contract.sources, ITERATED_WHY)
    )


def on_device(rule: ContractRule, family: str) -> ContractRule:
    """Return what a rule of torch's kernels promises on a GPU, under the name of a family."""

    def device(op: str, dtype: str) -> Contract:
        contract = rule(op, dtype)
        functions = {**CUDA}
        if contract.functions["exp"].source == SAVED_LOGARITHM_WHY:
            # What was saved is as coarse on a device as on the host.
            functions["exp"] = contract.functions["exp"]
        if op in DIVIDE_BY_A_COUNT:
            sources = (*contract.sources, RECIPROCAL_WHY)
            contract = replace(contract, division="reciprocal", sources=sources)
        name = f"{family} {op} {dtype}"
        return on_tensor_cores(replace(contract, name=name, functions=functions), dtype)

    return device


FAMILIES: Mapping[str, ContractRule] = {
    "torch": _on_host,
    "torch-device": on_device(_on_host, "torch-device"),
}
"""The rules of torch, by the name that `declared` knows them by."""
