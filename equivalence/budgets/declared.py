"""The declared contracts: what our providers, and torch itself, promise on each ring.

`declared(family)` returns the rule that gives the contract of an op (or optimizer) at a dtype; the
families are "torch", "aten" and "jax" (on a CPU), "torch-device" and "aten-device" (on a GPU),
"triton-interpreted" and "triton-device".
A dtype is "fp32", "bf16", "fp16", "fp64", or "tf32" for float32 tensors on tensor cores.

Every number names its source; those of functions are confirmed by `equivalence.budgets.sweep`.

>>> declared("aten")("softmax", "bf16").rung, declared("torch")("softmax", "bf16").rung
('f32-acc+1 store', 'bf16-intermediates')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from equivalence.budgets.forms import FORMS, FROM_STORAGE, LABELLED_IN_STORAGE
from equivalence.dtypes import DTYPES, master_of
from equivalence.registry import OPS
from equivalence.worlds.contract import (
    CORRECTLY_ROUNDED,
    FP32,
    TF32,
    Contract,
    Format,
    Freedom,
    FunctionError,
    ulps,
)

ContractRule = Callable[[str, str], Contract]
"""The contract of one operation (or optimizer) in one dtype."""

NUMPY: Mapping[str, FunctionError] = {
    "exp": ulps(2.52, "numpy loops_exponent_log.dispatch.c.src: max ULP error 2.52, all float32"),
    "log": ulps(3.84, "numpy loops_exponent_log.dispatch.c.src: max ULP error 3.83, all float32"),
    "tanh": ulps(4.0, "numpy loops_hyperbolic: Intel SVML's low-accuracy class, below 4 ulp"),
}
"""numpy's float32 loops, which Triton's interpreter calls; 3.832 was seen for log."""

TORCH: Mapping[str, FunctionError] = {
    "exp": ulps(1.0, "SLEEF, Sleef_expf_u10: 1.0 ulp"),
    "log": ulps(1.0, "SLEEF, Sleef_logf_u10: 1.0 ulp"),
    "tanh": ulps(1.0, "SLEEF, Sleef_tanhf_u10: 1.0 ulp"),
    "expm1": ulps(1.0, "SLEEF, Sleef_expm1f_u10: 1.0 ulp"),
    "log1p": ulps(1.0, "SLEEF, Sleef_log1pf_u10: 1.0 ulp"),
    "erf": ulps(1.0, "SLEEF, Sleef_erff_u10: 1.0 ulp"),
    "sqrt": ulps(1.0, "Intel MKL VML in high-accuracy mode: below 1 ulp; not correctly rounded"),
    "cos": ulps(3.5, "SLEEF, Sleef_cosf_u35: 3.5 ulp; Intel MKL VML is closer"),
    "sin": ulps(3.5, "SLEEF, Sleef_sinf_u35: 3.5 ulp; Intel MKL VML is closer"),
}
"""torch's vectorized functions on a CPU, in fp32 and in fp64."""

MEASURED = "measured: 2^23 float32 arguments, 20,000 float64 ones, on x86-64; JAX 0.10.2"

JAX: Mapping[str, FunctionError] = {
    "exp": ulps(6.0, f"{MEASURED}: below 1.6 ulp, but 5.3 where it is next to overflow"),
    "log": ulps(1.5, f"{MEASURED}: below 1.2 ulp"),
    "tanh": ulps(7.0, f"{MEASURED}: below 6.5 ulp"),
    "expm1": ulps(7.0, f"{MEASURED}: below 5.9 ulp"),
    "log1p": ulps(3.0, f"{MEASURED}: below 2.6 ulp in float32"),
    "erf": ulps(8.0, f"{MEASURED}: below 6.7 ulp"),
    "sin": ulps(1.0, f"{MEASURED}: below 0.6 ulp"),
    "cos": ulps(1.0, f"{MEASURED}: below 0.6 ulp"),
    "sqrt": CORRECTLY_ROUNDED,
}
"""XLA's functions on a CPU, which have no published errors; they depend on the CPU."""

JAX_LOG1P64 = ulps(150.0, f"{MEASURED}: 128 ulp in float64, at -0.41")

ERF_OF_FIVE_TERMS = FunctionError(
    2.0,
    5e-7,
    exact_values=False,
    source="torch's erf of 16 bits, and oneDNN's in gelu, follow Abramowitz and Stegun, 7.1.26, "
    "within 1.5e-7; measured beyond rounding: below 3.3e-7, all 2^16 arguments",
)
"""The error function of torch on a CPU where it is not SLEEF's: nothing is left of it near 0."""

CUDA: Mapping[str, FunctionError] = {
    "exp": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: expf 2 ulp"),
    "log": ulps(1.0, "CUDA C++ Programming Guide, mathematical functions: logf 1 ulp"),
    "tanh": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: tanhf 2 ulp"),
    "expm1": ulps(1.0, "CUDA C++ Programming Guide, mathematical functions: expm1f 1 ulp"),
    "log1p": ulps(1.0, "CUDA C++ Programming Guide, mathematical functions: log1pf 1 ulp"),
    "erf": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: erff 2 ulp"),
    "cos": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: cosf 2 ulp"),
    "sin": ulps(2.0, "CUDA C++ Programming Guide, mathematical functions: sinf 2 ulp"),
}
"""torch's functions on a GPU."""


def triton_functions() -> dict[str, FunctionError]:
    """Read the errors that the kernels declare; this loads triton, as the kernels do."""
    from fast.kernels.functions import ERRORS

    source = "fast.kernels.functions.ERRORS"
    return {name: FunctionError(*error, source=source) for name, error in ERRORS.items()}


FUSED = frozenset({"softmax", "masked_softmax", "log_softmax", "layer_norm", "cross_entropy"})
"""The ops whose kernels do not follow their page step by step."""

FUSED_WHY = (
    "a fused rule forms other intermediate results than the page; it promises nothing about "
    "subnormal ones, and it may multiply by a reciprocal"
)
INTERPRETER_WHY = (
    "Triton's interpreter truncates fp32 to bf16 and garbles subnormal bf16 numbers, in and out "
    "(triton/runtime/interpreter.py, _convert_float)"
)
TENSOR_CORE_WHY = (
    "tensor cores read fp32 as tf32 by dropping bits, and truncate partial sums (Fasi, Higham, "
    "Mikaitis and Pranesh, 2021)"
)
DEVICE_WHY = "PTX ISA: approximate instructions flush subnormal operands and results to zero"
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
RECIPROCAL_WHY = (
    "on a GPU torch multiplies by the reciprocal of a count, and of a divisor that the host knows "
    "(ReduceMomentKernel.cu; BinaryDivTrueKernel.cu)"
)
FLUSHED_WHY = "XLA runs on a CPU with denormals as zero, in and out (tsl ScopedFlushDenormal)"
OPS_WHY = "JAX runs op by op, and an op's result is an array in the format of storage"
JAX_SCATTER_WHY = "XLA's scatter adds in the dtype of its array, that of storage"
JAX_BROADCAST_WHY = (
    "JAX pulls a cotangent back through a broadcast by lax.reduce_sum, which adds in the dtype of "
    "its array, that of storage, where jax.numpy.sum adds in fp32"
)
FLAX_WHY = "Flax's norms compute in float32 and cast their result once"
SAVED_LOGARITHM_WHY = (
    "torch's derivatives.yaml: the gradient exponentiates the saved log-probability p = (x - m) - "
    "log s, whose roundings to storage are relative errors of (|x - m| + |p|) u in exp(p)"
)

BETWEEN_WHY = (
    "what lies between ops is torch's on every ring: contributions to a gradient are added, and "
    "weights and copies of parameters made, with rounding to nearest, beside kernels that truncate"
)

BROADCAST = frozenset({"broadcast_to", "linear"})
"""The ops of which JAX broadcasts an input, whose gradient is then a sum of 16-bit numbers."""

SAVES_LOGARITHMS = frozenset({"log_softmax", "cross_entropy"})
"""The ops whose gradient, in torch, starts from a saved log-probability."""

DIVIDE_BY_A_COUNT = frozenset({"mean", "mse_loss"})
"""The ops that divide by a number of entries, beside those that are fused."""

FORMATS: Mapping[str, tuple[Format, Format]] = {
    **{name: (dtype.compute, dtype.store) for name, dtype in DTYPES.items()},
    "tf32": (FP32, FP32),
}
"""By dtype: the formats of computation and of storage."""


def base(
    family: str, op: str, dtype: str, functions: Mapping[str, FunctionError] | None = None
) -> Contract:
    """Return the contract that all families start from."""
    if dtype not in FORMATS:
        raise ValueError(f"no contract for dtype {dtype!r}; there are {', '.join(FORMATS)}")
    compute, store = FORMATS[dtype]
    freedom: Freedom = "stable" if family in ("torch", "jax") else "page"
    contract = Contract(
        f"{family} {op} {dtype}", compute, store, functions=functions or {}, freedom=freedom
    )
    if op in FUSED:
        contract = replace(contract, flush="outputs", division="reciprocal", sources=(FUSED_WHY,))
    if op == "mse_loss" and family in ("aten", "torch"):
        contract = replace(contract, flush="outputs", sources=(DIFFERENCE_WHY,))
    return contract


def _aten(op: str, dtype: str) -> Contract:
    contract = base("aten", op, dtype, TORCH)
    if op == "cross_entropy":
        # It is saved in the format of computation, whatever the dtype of the row.
        contract = replace(contract, functions={**TORCH, "exp": _of_saved_logarithm(1.0)})
    return contract


def _torch(op: str, dtype: str) -> Contract:
    contract = replace(base("torch", op, dtype, TORCH), forms=FORMS.get(op, ()))
    if op == "sigmoid":
        contract = replace(contract, flush="outputs", sources=(OVERFLOWING_WHY,))
    if op == "gelu" and dtype == "bf16":
        contract = replace(contract, flush="outputs", sources=(ONEDNN_WHY,))
    if (op == "erf" and contract.store != contract.compute) or (op == "gelu" and dtype != "fp64"):
        contract = replace(contract, functions={**TORCH, "erf": ERF_OF_FIVE_TERMS})
    if op in SAVES_LOGARITHMS:
        coarser = contract.store.unit / contract.compute.unit
        contract = replace(contract, functions={**TORCH, "exp": _of_saved_logarithm(coarser)})
    if contract.store == contract.compute:
        return contract
    if op in FROM_STORAGE:
        own, sources = (FROM_STORAGE[op],), (*contract.sources, KERNELS_WHY)
        return replace(contract, forms=own, sources=sources)
    if op == "cross_entropy":
        contract = replace(contract, forms=(LABELLED_IN_STORAGE,))
        return _stepping_in_storage(contract, f"{STORAGE_WHY}; {LABELLED_WHY}", ())
    return _stepping_in_storage(contract, STORAGE_WHY, _sums_in_storage(op))


def _stepping_in_storage(contract: Contract, why: str, summed: tuple[str, ...]) -> Contract:
    """Let every step pass through the format of storage; sums are taken in it if it says why."""
    sources = (*contract.sources, why, *summed)
    accumulate = contract.store if summed else contract.accumulate
    return replace(contract, steps="storage", accumulate=accumulate, sources=sources)


def _sums_in_storage(op: str) -> tuple[str, ...]:
    """Say why torch adds up in the format of storage, for an op or its gradient, if it does.

    So it does for all that reads positions or labels.
    """
    page = OPS.get(op)
    if page is None or not set(page.index_inputs) - set(page.mask_inputs):
        return ()
    return (LABELLED_WHY if "reduction" in page.attributes else SCATTER_WHY,)


def _jax(op: str, dtype: str) -> Contract:
    contract = base("jax", op, dtype, JAX)
    sources = (*contract.sources, FLUSHED_WHY)
    contract = replace(contract, flush="inputs_outputs", sources=sources)
    if dtype == "fp64":
        contract = replace(contract, functions={**JAX, "log1p": JAX_LOG1P64})
    if contract.store == contract.compute:
        return contract
    if op == "layer_norm":
        return replace(contract, sources=(*sources, FLAX_WHY))
    summed = (JAX_SCATTER_WHY,) if _sums_in_storage(op) else ()
    if op in BROADCAST:
        summed = (JAX_BROADCAST_WHY,)
    return _stepping_in_storage(contract, OPS_WHY, summed)


def _of_saved_logarithm(coarser: float) -> FunctionError:
    """Return the error of exp where its argument was saved with a unit so many times u.

    exp(0) is not safe.
    """
    return FunctionError(4.0 * coarser, 0.0, 2.0 * coarser, False, SAVED_LOGARITHM_WHY)


def _on_device(rule: ContractRule, family: str) -> ContractRule:
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
        return _tensor_cores(replace(contract, name=name, functions=functions), dtype)

    return device


def _tensor_cores(contract: Contract, dtype: str) -> Contract:
    if dtype != "tf32" and contract.store == contract.compute:
        return contract
    return replace(
        contract,
        dot_inputs=TF32 if dtype == "tf32" else None,
        dot_rounding="toward_zero",
        accumulate_rounding="toward_zero",
        sources=(*contract.sources, TENSOR_CORE_WHY),
    )


def _interpreted(op: str, dtype: str) -> Contract:
    contract = base("triton-interpreted", op, dtype, triton_functions())
    contract = replace(contract, casts={"bf16": ("toward_zero", "inputs_outputs")})
    if dtype != "bf16":
        return contract
    sources = (*contract.sources, INTERPRETER_WHY)
    return replace(contract, store_rounding="toward_zero", flush="inputs_outputs", sources=sources)


def _triton(op: str, dtype: str) -> Contract:
    contract = base("triton-device", op, dtype, triton_functions())
    sources = (*contract.sources, DEVICE_WHY)
    return _tensor_cores(replace(contract, flush="inputs_outputs", sources=sources), dtype)


def family_of(provider: str, ring: str | None = None) -> str:
    """Return the family of a provider on a ring; without one, on a CPU, on this machine's ring."""
    if ring is None:
        from fast.device import mode

        ring = "host" if provider == "aten" else mode.ring()
    return provider if ring == "host" else f"{provider}-{ring}"


def of_program(family: str, dtype: str) -> Contract:
    """Return the contract of a whole program: of all ops, cross_entropy promises the least.

    What passes from op to op is stored, so that any step may pass through the storage format.
    How it is rounded there is decided by who stores: in Triton's interpreter kernels truncate to
    bf16, while torch, which casts parameters and adds contributions between them, rounds to
    nearest. One program has both, and no number says which it had, so its stores are faithful: one
    of the two neighbours, whichever. Truncation alone would blame torch's roundings upwards;
    anything wider than faithful would allow what neither does.
    """
    contract = declared(family)("cross_entropy", dtype)
    contract = replace(contract, name=f"{family} program {dtype}", steps="storage")
    if contract.store_rounding == "nearest":
        return contract
    sources = (*contract.sources, BETWEEN_WHY)
    return replace(contract, store_rounding="faithful", sources=sources)


RULES: Mapping[str, ContractRule] = {
    "torch": _torch,
    "aten": _aten,
    "jax": _jax,
    "torch-device": _on_device(_torch, "torch-device"),
    "aten-device": _on_device(_aten, "aten-device"),
    "triton-interpreted": _interpreted,
    "triton-device": _triton,
}


def of_update(family: str, optimizer: str, precision: str) -> Contract:
    """Return the contract of an optimizer's update, which works on the masters."""
    return declared(family)(optimizer, master_of(precision))


def declared(family: str) -> ContractRule:
    """Return the contract rule of a family; ValueError names those that there are."""
    if family not in RULES:
        raise ValueError(f"no declared contracts for {family!r}; there are {', '.join(RULES)}")
    return RULES[family]
