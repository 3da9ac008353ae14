"""The optimizers as classes with torch's arguments, each of a page in fast.optim.

Written by tools/generate_protocols.py; do not edit.
"""

from __future__ import annotations

from fast.optim import OPTIMIZERS
from fast.torch._optimizers import Params, TorchOptimizer

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Lion", "Muon", "RMSprop"]


class SGD(TorchOptimizer):
    """The optimizer of fast.optim.sgd, with torch.optim.SGD's arguments."""

    rule = OPTIMIZERS["sgd"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults, provider)


class Adagrad(TorchOptimizer):
    """The optimizer of fast.optim.adagrad, with torch.optim.Adagrad's arguments."""

    rule = OPTIMIZERS["adagrad"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults, provider)


class RMSprop(TorchOptimizer):
    """The optimizer of fast.optim.rmsprop, with torch.optim.RMSprop's arguments."""

    rule = OPTIMIZERS["rmsprop"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        *,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults, provider)


class Adadelta(TorchOptimizer):
    """The optimizer of fast.optim.adadelta, with torch.optim.Adadelta's arguments."""

    rule = OPTIMIZERS["adadelta"]

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-06,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "capturable": capturable,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults, provider)


class Adam(TorchOptimizer):
    """The optimizer of fast.optim.adam, with torch.optim.Adam's arguments."""

    rule = OPTIMIZERS["adam"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "foreach": foreach,
            "maximize": maximize,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults, provider)


class AdamW(TorchOptimizer):
    """The optimizer of fast.optim.adamw, with torch.optim.AdamW's arguments."""

    rule = OPTIMIZERS["adamw"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": True,
        }
        super().__init__(params, defaults, provider)


class Lion(TorchOptimizer):
    """The optimizer of fast.optim.lion, with its page's arguments."""

    rule = OPTIMIZERS["lion"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.0001,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        provider: str | None = None,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay}
        super().__init__(params, defaults, provider)


class Muon(TorchOptimizer):
    """The optimizer of fast.optim.muon, with torch.optim.Muon's arguments, and ns_dtype."""

    rule = OPTIMIZERS["muon"]

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-07,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        ns_dtype: str | None = None,
        provider: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
            "ns_dtype": ns_dtype,
        }
        super().__init__(params, defaults, provider)
