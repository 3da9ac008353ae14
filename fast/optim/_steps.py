"""The steps of sessions, parameter lists and trainers: one method per optimizer.

Written by tools/generate_protocols.py from the pages in fast/optim; do not edit.
"""

# This file is longer than the guide because it has three methods for each optimizer.

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from fast.optim._rule import Groups

B = TypeVar("B")
G = TypeVar("G")
V = TypeVar("V")


class SessionSteps(ABC, Generic[G]):
    """The steps of a session, by gradients of type G, each with the page's hyper-parameters."""

    @abstractmethod
    def _update(
        self,
        name: str,
        hyper: dict[str, Any],
        grads: G,
        groups: Groups,
        max_norm: float | None,
        grad_scale: float,
        max_value: float | None,
    ) -> None:
        """Update by the optimizer of this name; `hyper` has all of its hyper-parameters."""

    def sgd_step(
        self,
        lr: float,
        grads: G,
        *,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.sgd.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        self._update("sgd", hyper, grads, groups, max_norm, grad_scale, max_value)

    def adagrad_step(
        self,
        lr: float = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        maximize: bool = False,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.adagrad.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        self._update("adagrad", hyper, grads, groups, max_norm, grad_scale, max_value)

    def rmsprop_step(
        self,
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        maximize: bool = False,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.rmsprop.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        self._update("rmsprop", hyper, grads, groups, max_norm, grad_scale, max_value)

    def adadelta_step(
        self,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-06,
        weight_decay: float = 0.0,
        maximize: bool = False,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.adadelta.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        self._update("adadelta", hyper, grads, groups, max_norm, grad_scale, max_value)

    def adam_step(
        self,
        lr: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.adam.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        self._update("adam", hyper, grads, groups, max_norm, grad_scale, max_value)

    def adamw_step(
        self,
        lr: float = 0.001,
        weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-08,
        amsgrad: bool = False,
        maximize: bool = False,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.adamw.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "weight_decay": weight_decay,
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        self._update("adamw", hyper, grads, groups, max_norm, grad_scale, max_value)

    def lion_step(
        self,
        lr: float = 0.0001,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0.0,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.lion.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "beta1": beta1,
            "beta2": beta2,
            "weight_decay": weight_decay,
        }
        self._update("lion", hyper, grads, groups, max_norm, grad_scale, max_value)

    def muon_step(
        self,
        lr: float = 0.001,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_a: float = 3.4445,
        ns_b: float = -4.775,
        ns_c: float = 2.0315,
        eps: float = 1e-07,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        ns_dtype: str | None = None,
        *,
        grads: G,
        groups: Groups = None,
        max_norm: float | None = None,
        grad_scale: float = 1.0,
        max_value: float | None = None,
    ) -> None:
        """Update every trainable parameter that the gradients reach, once, by fast.optim.muon.

        `grads` are what `backward` or `backward_dense` returned, or host data or buffers by leaf id
        of the present tape, in a mapping or a sequence: each of its parameter's shape, or None
        where the loss did not reach. They stay the caller's. What does not fit is Rejected, of
        another session SessionError, released Released: then nothing at all is written. The session
        owns the state, of the parameter's shape and dtype, apart from every other optimizer's.
        """
        hyper: dict[str, Any] = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_a": ns_a,
            "ns_b": ns_b,
            "ns_c": ns_c,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
            "ns_dtype": ns_dtype,
        }
        self._update("muon", hyper, grads, groups, max_norm, grad_scale, max_value)


class ListSteps(ABC, Generic[G]):
    """The steps of a list of parameters, by gradients in a list of type G."""

    @abstractmethod
    def _update(self, name: str, gradients: G, hyper: dict[str, Any]) -> None:
        """Update by the optimizer of this name."""

    def sgd_step(self, lr: float, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.sgd, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("sgd", gradients, {"lr": lr, **hyper})

    def adagrad_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.adagrad, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("adagrad", gradients, hyper)

    def rmsprop_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.rmsprop, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("rmsprop", gradients, hyper)

    def adadelta_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.adadelta, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("adadelta", gradients, hyper)

    def adam_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.adam, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("adam", gradients, hyper)

    def adamw_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.adamw, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("adamw", gradients, hyper)

    def lion_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.lion, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("lion", gradients, hyper)

    def muon_step(self, gradients: G, **hyper: Any) -> None:
        """Update by fast.optim.muon, by one gradient per parameter, all or none.

        They are host data or buffers, and stay the caller's; None stands for a parameter that the
        loss did not reach. The session's tape is left alone. Gradients are dense numbers of their
        parameter's shape, those of frozen parameters too; what does not fit, and hyper-parameters
        that the session refuses, are Rejected, and a buffer that was released raises Released.
        """
        self._update("muon", gradients, hyper)


class TrainerSteps(ABC, Generic[B, V]):
    """The steps of a trainer, by batches of type B; a loss is of type V."""

    @abstractmethod
    def _update(self, name: str, inputs: B, hyper: dict[str, Any], with_loss: bool) -> V | None:
        """Update by the optimizer of this name; return the loss before it if asked to."""

    def sgd_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.sgd.

        Hyper-parameters are the session's `sgd_step`'s; schedules, groups and refusals are those of
        `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("sgd", inputs, hyper, with_loss)

    def adagrad_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.adagrad.

        Hyper-parameters are the session's `adagrad_step`'s; schedules, groups and refusals are
        those of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("adagrad", inputs, hyper, with_loss)

    def rmsprop_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.rmsprop.

        Hyper-parameters are the session's `rmsprop_step`'s; schedules, groups and refusals are
        those of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("rmsprop", inputs, hyper, with_loss)

    def adadelta_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.adadelta.

        Hyper-parameters are the session's `adadelta_step`'s; schedules, groups and refusals are
        those of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("adadelta", inputs, hyper, with_loss)

    def adam_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.adam.

        Hyper-parameters are the session's `adam_step`'s; schedules, groups and refusals are those
        of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("adam", inputs, hyper, with_loss)

    def adamw_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.adamw.

        Hyper-parameters are the session's `adamw_step`'s; schedules, groups and refusals are those
        of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("adamw", inputs, hyper, with_loss)

    def lion_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.lion.

        Hyper-parameters are the session's `lion_step`'s; schedules, groups and refusals are those
        of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("lion", inputs, hyper, with_loss)

    def muon_step(self, inputs: B, *, with_loss: bool = False, **hyper: Any) -> V | None:
        """Take one step by fast.optim.muon.

        Hyper-parameters are the session's `muon_step`'s; schedules, groups and refusals are those
        of `step`. The loss before it is downloaded and returned only if it is asked for.
        """
        return self._update("muon", inputs, hyper, with_loss)
