"""Wrong pointwise operations: functions outside their usual range, and what is not a number."""

from __future__ import annotations

import torch
from torch import Tensor

from population.pieces.tensors import absorbed, kept_in
from population.record import wrong

TORCH = "https://github.com/pytorch/pytorch/issues/"
TRITON = "https://github.com/triton-lang/triton/issues/"
WHERE = TORCH + "36923"
FLUSHED = "PTX ISA, .ftz, which fast math turns on"
FAST_MATH = "CUDA C++ Programming Guide, intrinsic functions"


@wrong("relu value", "non-finite", source="Triton's tl.maximum, which drops NaN unless told")
def nan_dropped(x: Tensor) -> Tensor:
    """NaN becomes 0, since no NaN is larger than 0."""
    return torch.where(x > 0, x, 0.0)


@wrong("relu vjp", "gradient", source=TORCH + "184572")
def gradient_at_zero(g: Tensor, x: Tensor) -> Tensor:
    """The gradient passes at 0, too."""
    return torch.where(x < 0, 0.0, g)


@wrong("relu vjp", "non-finite", source=WHERE)
def gradient_by_a_mask(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent is multiplied by a mask, so that 0 times infinity is NaN."""
    return g * torch.where(x <= 0, 0.0, 1.0)


@wrong("tanh value", "range", source="Higham, Accuracy and Stability, section 1.14")
def by_two_exponentials(x: Tensor) -> Tensor:
    """It divides differences of exponentials, which overflow, and cancel near 0."""
    return (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))


@wrong("tanh value", "range", source="Higham, Accuracy and Stability, section 1.14")
def without_expm1(x: Tensor) -> Tensor:
    """It never overflows, and has no relative accuracy near 0."""
    e = torch.exp(-2 * x.abs())
    return torch.copysign((1 - e) / (1 + e), x)


@wrong("tanh value", "precision", source="fast math in kernels: a Padé form clipped at 1")
def by_a_rational_form(x: Tensor) -> Tensor:
    """A rational form of low degree stands for the function."""
    y = x.clamp(-4.97, 4.97)
    s = y * y
    top = y * (135135 + s * (17325 + s * (378 + s)))
    return top / (135135 + s * (62370 + s * (3150 + s * 28)))


@wrong("tanh vjp", "precision", source="https://github.com/linkedin/Liger-Kernel/issues/1253")
def result_saved_in_bf16(g: Tensor, x: Tensor) -> Tensor:
    """The result is saved in 16 bits for the backward pass."""
    z = kept_in(torch.tanh(x), torch.bfloat16)
    return g * (1 - z * z)


@wrong("tanh vjp", "gradient")
def square_forgotten(g: Tensor, x: Tensor) -> Tensor:
    """One minus the result, where one minus its square is due."""
    return g * (1 - torch.tanh(x))


@wrong("exp value", "precision", source=FAST_MATH)
def power_of_two_of_a_rounded_product(x: Tensor) -> Tensor:
    """The argument is scaled and rounded before the power of two is taken."""
    return torch.exp2(x * 1.4426950408889634)


@wrong("exp value", "range", source="exponents clipped so that no loss overflows")
def argument_clipped(x: Tensor) -> Tensor:
    """Arguments are clipped at 80, so that nothing overflows."""
    return torch.exp(x.clamp(-80.0, 80.0))


@wrong("exp value", "range", source=FLUSHED)
def small_results_flushed(x: Tensor) -> Tensor:
    """Subnormal results are flushed to 0, which the contract does not say."""
    z = torch.exp(x)
    return torch.where(z < torch.finfo(z.dtype).tiny, 0.0, z)


@wrong("exp vjp", "precision", source="activations compressed for the backward pass")
def result_saved_in_half(g: Tensor, x: Tensor) -> Tensor:
    """The result is saved in fp16, where it also overflows."""
    return g * kept_in(torch.exp(x), torch.float16)


@wrong("exp value", "dtype", dtypes=("fp16",), source="saturating conversions of accelerators")
def saturated(x: Tensor) -> Tensor:
    """What overflows becomes the largest number."""
    limit = torch.finfo(x.dtype).max
    return torch.exp(x.float()).clamp(max=limit).to(x.dtype)


@wrong("exp value", "dtype", dtypes=("bf16",), source="autocast lists that name exp as fp32")
def handed_over_in_fp32(x: Tensor) -> Tensor:
    """The result arrives in fp32."""
    return torch.exp(x.float())


@wrong("exp value", "dtype", dtypes=("bf16",), source=TRITON + "1800")
def product_rounded_to_storage(x: Tensor) -> Tensor:
    """The scaled argument is rounded to bf16 before the power of two is taken."""
    return torch.exp2((x * 1.4426950408889634).float()).to(x.dtype)


@wrong("log value", "value", source="eps added to be safe")
def eps_added(x: Tensor) -> Tensor:
    """A small number is added, so that 0 gives no infinity."""
    return torch.log(x + 1e-8)


@wrong("log value", "range", source=FLUSHED)
def subnormal_arguments_flushed(x: Tensor) -> Tensor:
    """A subnormal argument counts as 0."""
    return torch.log(torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0.0 * x, x))


@wrong("log value", "non-finite", source="clipped logarithms of binary_cross_entropy")
def bounded_below(x: Tensor) -> Tensor:
    """The logarithm of 0 is -100."""
    return torch.log(x).clamp(min=-100.0)


@wrong("log vjp", "range", source="divisors clipped to be safe")
def divisor_clipped(g: Tensor, x: Tensor) -> Tensor:
    """The divisor is at least 1e-12."""
    return absorbed(g, g / torch.where(x.abs() < 1e-12, 1e-12, x))


@wrong("sqrt value", "non-finite", source="sqrt by rsqrt, as fast math has it")
def by_its_reciprocal(x: Tensor) -> Tensor:
    """The argument times its reciprocal root, which is NaN at 0 and at infinity."""
    return x * torch.rsqrt(x)


@wrong("sqrt vjp", "non-finite", source="https://github.com/jax-ml/jax/issues/383")
def infinity_hidden(g: Tensor, x: Tensor) -> Tensor:
    """The gradient at 0 is 0, where it is infinite."""
    return absorbed(g, torch.where(x == 0, 0.0, g / (2 * torch.sqrt(x))))


@wrong("sqrt vjp", "range", source="eps added to be safe")
def eps_in_the_divisor(g: Tensor, x: Tensor) -> Tensor:
    """A small number is added to the divisor."""
    return absorbed(g, g / (2 * torch.sqrt(x) + 1e-12))


@wrong("square value", "range", source="pow by logarithms")
def by_logarithms(x: Tensor) -> Tensor:
    """It is a power, formed by a logarithm."""
    return torch.exp(2 * torch.log(x.abs()))


@wrong("square vjp", "gradient")
def factor_forgotten(g: Tensor, x: Tensor) -> Tensor:
    """The factor 2 is missing."""
    return g * x


@wrong("square value", "range", source=FLUSHED)
def small_squares_flushed(x: Tensor) -> Tensor:
    """Subnormal results are flushed to 0, which the contract does not say."""
    z = x * x
    return torch.where(z < torch.finfo(z.dtype).tiny, 0.0 * z, z)


@wrong("div value", "precision", source="PTX ISA, div.full; x * (1 / y) in fast math")
def by_a_reciprocal(x: Tensor, y: Tensor) -> Tensor:
    """It multiplies by a reciprocal, which rounds twice, and overflows for small divisors."""
    return x * (1 / y)


@wrong("div vjp", "range", source="derivatives written as textbooks have them")
def square_of_the_divisor(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The divisor is squared first, which overflows or underflows."""
    return absorbed(g, g / y), absorbed(g, -g * x / (y * y))


@wrong("div vjp", "gradient")
def divided_once(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the divisor is divided once only."""
    return absorbed(g, g / y), absorbed(g, -g * x / y)


@wrong("sub vjp", "gradient", source="https://github.com/tenstorrent/tt-metal/issues/40008")
def sign_forgotten(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """What is subtracted receives the cotangent itself."""
    return g, g.clone()


@wrong("maximum value", "non-finite", source="IEEE 754-2008 maxNum, as fmax has it")
def other_operand_for_nan(x: Tensor, y: Tensor) -> Tensor:
    """NaN gives way to the other operand."""
    return torch.fmax(x, y)


@wrong("minimum value", "non-finite", source="x < y ? x : y")
def nan_of_one_side(x: Tensor, y: Tensor) -> Tensor:
    """A comparison decides, so that NaN in the first operand is lost."""
    return torch.where(x < y, x, y)


@wrong("maximum vjp", "ties", source=TORCH + "76522")
def whole_gradient_to_both(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Operands that tie receive the whole cotangent each."""
    return torch.where(x >= y, g, 0.0), torch.where(y >= x, g, 0.0)


@wrong("minimum vjp", "ties", source="https://github.com/jax-ml/jax/issues/2107")
def no_gradient_at_ties(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Operands that tie receive nothing."""
    return torch.where(x < y, g, 0.0), torch.where(y < x, g, 0.0)


@wrong("where value", "non-finite", source=WHERE)
def by_products(mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The mask is a factor, so that NaN leaks from the side that was not chosen."""
    chosen = mask.to(x.dtype)
    return chosen * x + (1 - chosen) * y


@wrong("where vjp", "non-finite", source="https://github.com/tensorflow/tensorflow/issues/27684")
def cotangent_by_products(
    g: Tensor, mask: Tensor, x: Tensor, y: Tensor
) -> tuple[None, Tensor, Tensor]:
    """The mask is a factor, so that an infinite cotangent is NaN where it should be 0."""
    chosen = mask.to(g.dtype)
    return None, chosen * g, (1 - chosen) * g


@wrong("detach vjp", "gradient", source="https://github.com/huggingface/candle/issues/3613")
def gradient_passes(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent passes."""
    return g.clone()


@wrong("mul vjp", "gradient", source="https://github.com/pytorch/pytorch/issues/31258")
def factors_confused(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Each factor receives the cotangent times itself."""
    return g * x, g * y
