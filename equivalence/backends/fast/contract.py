"""What our own providers promise: the ATen twins, and the Triton kernels.

The families are "aten" on a CPU and "aten-device" on a GPU, "triton-interpreted" in Triton's
interpreter and "triton-device" on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equivalence.backends.contracts import base, on_tensor_cores
from equivalence.backends.fast.forms import passing_storage
from equivalence.backends.fast.functions import triton_functions

# The ATen twins call torch's kernels, so these facts about torch are facts about them.
from equivalence.backends.torch.contract import on_device, with_tiny_differences
from equivalence.backends.torch.functions import TORCH, of_saved_logarithm
from equivalence.worlds.contract import Contract, ContractRule

INTERPRETER_WHY = (
    "Triton's interpreter truncates fp32 to bf16 and garbles subnormal bf16 numbers, in and out "
    "(triton/runtime/interpreter.py, _convert_float)"
)
DEVICE_WHY = "PTX ISA: approximate instructions flush subnormal operands and results to zero"
STORED_WHY = (
    "PTX ISA: cvt.rn.f16.f32 keeps subnormal numbers of fp16, which are normal numbers of fp32"
)


def _aten(op: str, dtype: str) -> Contract:
    contract = with_tiny_differences(base("aten", op, dtype, TORCH), op)
    contract = passing_storage(contract, op)
    if op == "cross_entropy":
        # It is saved in the format of computation, whatever the dtype of the row.
        contract = replace(contract, functions={**TORCH, "exp": of_saved_logarithm(1.0)})
    return contract


def _interpreted(op: str, dtype: str) -> Contract:
    contract = passing_storage(base("triton-interpreted", op, dtype, triton_functions()), op)
    contract = replace(contract, casts={"bf16": ("toward_zero", "inputs_outputs")})
    if dtype != "bf16":
        return contract
    sources = (*contract.sources, INTERPRETER_WHY)
    return replace(contract, store_rounding="toward_zero", flush="inputs_outputs", sources=sources)


def _compiled(op: str, dtype: str) -> Contract:
    contract = passing_storage(base("triton-device", op, dtype, triton_functions()), op)
    contract = replace(contract, flush="inputs_outputs", sources=(*contract.sources, DEVICE_WHY))
    if dtype == "fp16":
        sources = (*contract.sources, STORED_WHY)
        contract = replace(contract, stores_flushed=False, sources=sources)
    return on_tensor_cores(contract, dtype)


FAMILIES: Mapping[str, ContractRule] = {
    "aten": _aten,
    "aten-device": on_device(_aten, "aten-device"),
    "triton-interpreted": _interpreted,
    "triton-device": _compiled,
}
"""The rules of our own providers, by the names that `declared` knows them by."""


def family_of(provider: str, ring: str | None = None) -> str:
    """Return the family of a provider on a ring; without one, on a CPU, on this machine's ring."""
    if ring is None:
        from fast.device import mode

        ring = "host" if provider == "aten" else mode.ring()
    return provider if ring == "host" else f"{provider}-{ring}"
