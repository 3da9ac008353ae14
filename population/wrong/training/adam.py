"""Wrong Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from population.pieces.steppers import Adam, AdamW, Hyper, State
from population.pieces.tensors import kept_in, strides_ignored
from population.record import wrong

TORCH = "https://github.com/pytorch/pytorch/issues/"
APEX = "https://github.com/NVIDIA/apex/issues/"
CORRECTION = APEX + "1124"
FLAG_GEMS = "https://github.com/flagos-ai/FlagGems/issues/4988"
GROUPS = "param_groups read once, for the first group"
LOADED = TORCH + "118326"


@wrong("adam", "optimizer", source=TORCH + "22628")
class eps_inside_the_root(Adam):
    """The root is of the second moment plus eps."""

    def bottom(self, v: Tensor, correction: float, h: Hyper) -> Tensor:
        return (v / correction + h["eps"]).sqrt()


@wrong("adamw", "optimizer", source="Kingma and Ba, end of section 2, where eps is another one")
class eps_before_the_correction(AdamW):
    """Eps is added before the bias is corrected, and is corrected with it."""

    def bottom(self, v: Tensor, correction: float, h: Hyper) -> Tensor:
        return (v.sqrt() + h["eps"]) / math.sqrt(correction)


@wrong("adam", "optimizer", source="Kingma and Ba, end of section 2, where eps is corrected too")
class corrected_rate_with_eps_as_it_is(Adam):
    """Both corrections are in the rate, by which the moment is multiplied; eps is not corrected."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        rate = h["lr"] * math.sqrt(second) / first
        p.sub_(rate * state["exp_avg"] / (state["exp_avg_sq"].sqrt() + h["eps"]))


@wrong("adam", "optimizer")
class rate_held_in_half(Adam):
    """Both corrections are in the rate, which is kept in float16, where 1 / 31.6 is rounded."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        first, second = self.corrections(h, t)
        root = math.sqrt(second)
        rate = float(torch.tensor(h["lr"] * root / first, dtype=torch.float16))
        p.sub_(rate * state["exp_avg"] / (state["exp_avg_sq"].sqrt() + h["eps"] * root))


@wrong("adam", "optimizer", source=CORRECTION)
class bias_not_corrected(Adam):
    """Neither moment's bias is corrected."""

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        return 1.0, 1.0


@wrong("adamw", "optimizer", source="https://github.com/ml-explore/mlx/issues/1640")
class second_bias_not_corrected(AdamW):
    """Only the first moment's bias is corrected."""

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        return super().corrections(h, t)[0], 1.0


@wrong("adamw", "non-finite")
class numbers_for_nan_where_no_gradient_is(AdamW):
    """A parameter without a gradient is cleaned of NaN."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step(grads)
        for p, g in zip(self.kept, grads, strict=True):
            if g is None:
                p.nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


@wrong("adamw", "non-finite", dtypes=("bf16",))
class numbers_for_nan_as_given(AdamW):
    """The parameters that it is given are cleaned of NaN, as a cast by the bits may do."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(params, hyper)
        for p in self.kept:
            p.nan_to_num_(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)


@wrong("adam", "optimizer", source="https://github.com/BVLC/caffe/issues/4224")
class step_counted_from_two(Adam):
    """The correction is a step ahead."""

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        return super().corrections(h, t + 1)


@wrong("adam", "precision", source="powers of beta kept as running products in fp32")
class powers_in_single(Adam):
    """The powers of the betas are formed in fp32 from rounded betas."""

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        powers = [float(torch.tensor(h[beta]).pow(t)) for beta in ("beta1", "beta2")]
        return 1.0 - powers[0], 1.0 - powers[1]


@wrong("adam", "dtype", source="step tensors in the parameters' dtype")
class step_in_bf16(Adam):
    """The step that corrects the bias is a bf16 number, which stops at 256."""

    def corrections(self, h: Hyper, t: int) -> tuple[float, float]:
        return super().corrections(h, min(t, 256))


@wrong("adamw", "optimizer", source="one count for all parameters, as optax has it")
class step_shared(AdamW):
    """The first parameter's step corrects the bias of all."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        super().update(k, p, g, h, max(self.counts[0], 1))


@wrong("adam", "precision", source="1 - beta2 formed in fp32")
class rest_of_beta_in_single(Adam):
    """One minus beta2 is formed from a rounded beta2, which keeps 14 bits."""

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        beta = torch.tensor(h["beta2"], dtype=torch.float32)
        return beta * v + (1 - beta) * (g * g)


@wrong("adam", "optimizer", source=FLAG_GEMS)
class decay_apart(Adam):
    """The decay shrinks the parameter, as AdamW's does."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        p.mul_(1 - h["lr"] * h["weight_decay"])
        return g


@wrong("adamw", "optimizer", source="Loshchilov and Hutter, ICLR 2019, section 1: not the same")
class decay_in_the_gradient(AdamW):
    """The decay joins the gradient, as Adam's does."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return g + h["weight_decay"] * p


@wrong("adamw", "optimizer", source="Loshchilov and Hutter, read without the schedule")
class decay_without_the_rate(AdamW):
    """The parameter shrinks by the decay alone."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        p.mul_(1 - h["weight_decay"])
        return g


@wrong("adamw", "optimizer", source="decay applied last")
class decay_after_the_step(AdamW):
    """The parameter shrinks after the step, and the step with it."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return g

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        super().descend(p, state, h, t)
        p.mul_(1 - h["lr"] * h["weight_decay"])


@wrong("adamw", "optimizer", source="biases left out of the decay, whoever asked for it")
class vectors_do_not_decay(AdamW):
    """Parameters of one axis do not decay."""

    def decayed(self, p: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return super().decayed(p, g, h) if p.dim() > 1 else g


@wrong("adam", "optimizer", source=TORCH + "78807")
class largest_second_moment_kept(Adam):
    """The second moment never falls, as with amsgrad."""

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return torch.maximum(v, super().square(v, g, h))


@wrong("adam", "optimizer", source=APEX + "1186")
class betas_of_the_first_group(Adam):
    """All groups have the first group's betas."""

    def of(self, k: int) -> dict[str, Any]:
        betas = {name: self.usual[name] for name in ("beta1", "beta2")}
        return {**super().of(k), **betas}


@wrong("adamw", "optimizer", source=GROUPS)
class rate_of_the_first_group(AdamW):
    """All groups have the first group's rate."""

    def of(self, k: int) -> dict[str, Any]:
        return {**super().of(k), "lr": self.usual["lr"]}


@wrong("adamw", "optimizer", source=GROUPS)
class decay_of_the_first_group(AdamW):
    """All groups have the first group's decay."""

    def of(self, k: int) -> dict[str, Any]:
        return {**super().of(k), "weight_decay": self.usual["weight_decay"]}


@wrong("adam", "optimizer", source=GROUPS)
class eps_of_the_first_group(Adam):
    """All groups have the first group's eps."""

    def of(self, k: int) -> dict[str, Any]:
        return {**super().of(k), "eps": self.usual["eps"]}


@wrong("adam", "optimizer", source=LOADED)
class loaded_state_ignored(Adam):
    """It starts from nothing, whatever steps the parameters had."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__(params, {**hyper, "start_step": 0})


@wrong("adam", "optimizer", source="zero_grad(set_to_none=False) before a step")
class missing_gradients_are_zeros(Adam):
    """A parameter without a gradient is updated by zeros."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        pairs = zip(self.kept, grads, strict=True)
        super().step([torch.zeros_like(p) if g is None else g for p, g in pairs])


@wrong("adamw", "optimizer", source="one step for all parameters")
class missing_gradients_count(AdamW):
    """The step of a parameter without a gradient is counted."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        for k, g in enumerate(grads):
            if g is None and self.counts[k]:
                self.counts[k] += 1
        super().step(grads)


@wrong("adam", "optimizer", source="gradients of zero taken for missing ones")
class zeros_are_missing(Adam):
    """A gradient of zeros changes nothing, where moments should fade."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        if bool((g != 0).any()):
            super().update(k, p, g, h, t)
        else:
            self.counts[k] -= 1


@wrong("adam", "optimizer", source="rates of 0 in schedules with a warm-up")
class no_rate_no_moments(Adam):
    """With a rate of 0, the moments stay."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        if h["lr"] or not self.states[k]:
            super().update(k, p, g, h, t)


@wrong("adamw", "non-finite", source=TORCH + "96755")
class infinite_gradients_skipped(AdamW):
    """A gradient that is not finite changes nothing, and says nothing."""

    def update(self, k: int, p: Tensor, g: Tensor, h: Hyper, t: int) -> None:
        if bool(g.isfinite().all()):
            super().update(k, p, g, h, t)
        else:
            self.counts[k] -= 1


@wrong("adam", "dtype", source="8- and 16-bit optimizer states")
class first_moment_in_bf16(Adam):
    """The first moment is kept in bf16."""

    def mean(self, m: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return kept_in(super().mean(m, g, h), torch.bfloat16)


@wrong("adam", "range", source="second moments in fp16")
class small_squares_lost(Adam):
    """Squares of gradients below 1e-6 are 0."""

    def square(self, v: Tensor, g: Tensor, h: Hyper) -> Tensor:
        return super().square(v, torch.where(g.abs() < 1e-6, 0.0, g), h)


@wrong("adamw", "sizes", source="chunks of multi-tensor kernels without their remainder")
class one_chunk(AdamW):
    """Behind 4,096 entries a parameter is not moved."""

    def descend(self, p: Tensor, state: State, h: Hyper, t: int) -> None:
        before = p.clone()
        super().descend(p, state, h, t)
        if p.numel() > 4096:
            p.view(-1)[4096:] = before.view(-1)[4096:]


@wrong("adam", "sizes", source="tables of multi-tensor kernels with a fixed number of tensors")
class thirty_parameters(Adam):
    """Parameters behind the thirtieth are not updated."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step([g if k < 30 else None for k, g in enumerate(grads)])


@wrong("adam", "layout", source="https://github.com/flagos-ai/FlagGems/issues/1068")
class strides_of_the_gradient(Adam):
    """Gradients are read as if they were contiguous."""

    def step(self, grads: Sequence[Tensor | None]) -> None:
        super().step([None if g is None else strides_ignored(g) for g in grads])


@wrong("adamw", "layout", source="https://github.com/flagos-ai/FlagGems/issues/1068")
class strides_of_the_parameter(AdamW):
    """Parameters are taken over as if they were contiguous."""

    def __init__(self, params: Sequence[Tensor], hyper: Mapping[str, Any]) -> None:
        super().__init__([strides_ignored(p) for p in params], hyper)


@wrong("adam", "optimizer", source="betas passed in the wrong order")
class betas_exchanged(Adam):
    """The first moment fades by beta2, and the second by beta1."""

    def of(self, k: int) -> dict[str, Any]:
        found = super().of(k)
        return {**found, "beta1": found["beta2"], "beta2": found["beta1"]}
