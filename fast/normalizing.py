"""Normalizers of refs, whose parameters may be left out; the twin of spec.normalizing.

The page of a normalizer wants parameters. Here one that is None is a constant, which the device
makes, so that nothing crosses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from fast.broadcasting import Broadcasting, shape_of
from fast.device.integers import is_number
from fast.device.named import NamedBuffer
from fast.errors import Rejected

R = TypeVar("R")


class Normalizing(Broadcasting[R]):
    """Normalizers that a session calls with as many parameters as it is given."""

    def layer_norm(
        self,
        x: R,
        gamma: R | None = None,
        beta: R | None = None,
        *,
        eps: float = 1e-5,
        normalized_shape: Sequence[int] | None = None,
    ) -> R:
        """Normalize the last axes, those of gamma and beta; without both, of normalized_shape.

        A gamma that is None is ones, and a beta zeros.
        """
        given: tuple[Any, ...] = (gamma, beta)
        if gamma is None or beta is None or normalized_shape is not None:
            given = _lines(self, "layer_norm", (x,), given, (1, 0), eps, normalized_shape)
        return self.apply("layer_norm", (x, *given), {"eps": eps})

    def rms_norm(
        self,
        x: R,
        gamma: R | None = None,
        *,
        eps: float = 2**-23,
        normalized_shape: Sequence[int] | None = None,
    ) -> R:
        """Divide the last axes, those of gamma, by their root mean square; without it, by ones.

        Then normalized_shape says which axes these are.
        """
        given: tuple[Any, ...] = (gamma,)
        if gamma is None or normalized_shape is not None:
            given = _lines(self, "rms_norm", (x,), given, (1,), eps, normalized_shape)
        return self.apply("rms_norm", (x, *given), {"eps": eps})

    def add_layer_norm(
        self,
        x: R,
        residual: R,
        gamma: R | None = None,
        beta: R | None = None,
        *,
        eps: float = 1e-5,
        normalized_shape: Sequence[int] | None = None,
    ) -> tuple[R, R]:
        """Return the `layer_norm` of the sum of x and a residual, and that sum."""
        given: tuple[Any, ...] = (gamma, beta)
        if gamma is None or beta is None or normalized_shape is not None:
            summands = (x, residual)
            given = _lines(self, "add_layer_norm", summands, given, (1, 0), eps, normalized_shape)
        made: Any = self.apply("add_layer_norm", (x, residual, *given), {"eps": eps})
        z, summed = made
        return z, summed

    def add_rms_norm(
        self,
        x: R,
        residual: R,
        gamma: R | None = None,
        *,
        eps: float = 2**-23,
        normalized_shape: Sequence[int] | None = None,
    ) -> tuple[R, R]:
        """Return the `rms_norm` of the sum of x and a residual, and that sum."""
        given: tuple[Any, ...] = (gamma,)
        if gamma is None or normalized_shape is not None:
            summands = (x, residual)
            given = _lines(self, "add_rms_norm", summands, given, (1,), eps, normalized_shape)
        made: Any = self.apply("add_rms_norm", (x, residual, *given), {"eps": eps})
        z, summed = made
        return z, summed

    def group_norm(
        self,
        x: R,
        gamma: R | None = None,
        beta: R | None = None,
        *,
        groups: int,
        eps: float = 1e-5,
    ) -> R:
        """Normalize groups of channels; a gamma that is None is ones, and a beta zeros."""
        given: tuple[Any, ...] = (gamma, beta)
        if gamma is None or beta is None:
            given = _of_channels(self, x, given, groups, eps)
        return self.apply("group_norm", (x, *given), {"groups": groups, "eps": eps})

    def batch_norm(
        self,
        x: R,
        gamma: R | None,
        beta: R | None,
        running_mean: Any,
        running_var: Any,
        *,
        training: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> R:
        """Normalize each channel over the batch; a gamma that is None is ones, and a beta zeros.

        The running statistics are buffers, which `buffer` makes. In training they are moved towards
        the statistics of the batch, unless the call is refused; else x is normalized by them.
        """
        told = {"training": training, "momentum": momentum, "eps": eps}
        given: tuple[Any, ...] = (gamma, beta)
        if gamma is None or beta is None:
            given = _of_each(self, x, given, (running_mean, running_var), told)
        return self.apply("batch_norm", (x, *given, running_mean, running_var), told)

    def instance_norm(
        self, x: R, gamma: R | None = None, beta: R | None = None, *, eps: float = 1e-5
    ) -> R:
        """Normalize each channel by itself: `group_norm`, with as many groups as channels."""
        channels = shape_of("instance_norm", x)[1:2]
        return self.group_norm(x, gamma, beta, groups=max((1, *channels)), eps=eps)


def _lines(
    ops: Any,
    name: str,
    summands: Sequence[Any],
    given: Sequence[Any],
    numbers: Sequence[int],
    eps: float,
    normalized_shape: Sequence[int] | None,
) -> tuple[Any, ...]:
    """Return the parameters of a normalizer: of those that are None, one number repeated.

    What is normalized is x, or the sum of x and a residual.
    What is refused here would be by the op, but then these would be recorded already.
    """
    x, *residuals = summands
    wide, present = shape_of(name, x), [one for one in given if one is not None]
    shapes = {shape_of(name, one) for one in present}
    if normalized_shape is not None:
        _need_shape(name, normalized_shape)
        shapes.add(tuple(normalized_shape))
    if len(shapes) != 1:
        came = " and ".join(map(str, sorted(shapes))) or "neither"
        raise Rejected(
            f"{name} C2: a parameter or normalized_shape says which of the last axes are "
            f"normalized, such as normalized_shape={wide[-1:]}, and all that are given agree; "
            f"got {came}"
        )
    (shape,) = shapes
    if not 0 < len(shape) <= len(wide) or wide[-len(shape) :] != shape:
        raise Rejected(f"{name} C2: the last axes of x, one or more, are {shape}; got {wide}")
    if not (is_number(eps) and 0 < eps < math.inf):
        raise Rejected(f"{name} C3: eps is finite and > 0; got {eps}")
    for residual in residuals:
        if (came := shape_of(name, residual)) != wide:
            raise Rejected(f"{name} C4: residual has the shape of x; got x {wide}, residual {came}")
    added = len(residuals)
    for k, one in enumerate((*residuals, *present)):
        if one.dtype != x.dtype or one.tape is not x.tape:
            others = (*residuals, *(x for _ in given)) if k < added else (x, *(one for _ in given))
            ops.apply(name, (x, *others[-added - len(given) :]), {"eps": eps})  # It is refused.
    if x.tape is not ops._tape:
        ops.apply(name, (x, *residuals, *(x for _ in given)), {"eps": eps})
    return tuple(
        ops.constant(number, shape, like=x) if one is None else one
        for one, number in zip(given, numbers, strict=True)
    )


def _of_channels(
    ops: Any, x: Any, given: Sequence[Any], groups: int, eps: float
) -> tuple[Any, ...]:
    """Return gamma and beta: of those that are None, ones and zeros for the channels of x."""
    wide = shape_of("group_norm", x)
    others = [one for one in given if one is not None]
    shapes = [shape_of("group_norm", one) for one in others]
    if not (is_number(eps) and 0 < eps < math.inf):
        raise Rejected(f"group_norm C4: eps is finite and > 0; got {eps}")
    fits = len(wide) > 1 and type(groups) is int and groups > 0 and wide[1] % groups == 0
    alike = all(one.dtype == x.dtype and one.tape is ops._tape for one in (x, *others))
    if not (fits and alike and all(shape == wide[1:2] for shape in shapes)):
        one = others[0] if others else x
        ops.apply("group_norm", (x, one, one), {"groups": groups, "eps": eps})  # It is refused.
    return tuple(
        ops.constant(number, wide[1:2], like=x) if one is None else one
        for one, number in zip(given, (1, 0), strict=True)
    )


def _of_each(
    ops: Any, x: Any, given: Sequence[Any], held: Sequence[Any], told: dict[str, Any]
) -> tuple[Any, ...]:
    """Return gamma and beta for a batch_norm: of those that are None, ones and zeros.

    What is refused here would be by the op, but then these would be recorded already.
    """
    wide, name = shape_of("batch_norm", x), "batch_norm"
    others = [one for one in given if one is not None]
    momentum, eps = told["momentum"], told["eps"]
    if told["training"] is True and len(wide) > 1 and wide[0] * math.prod(wide[2:]) < 2:
        raise Rejected(f"{name} C3: in training a channel has two entries or more; got {wide}")
    if not (is_number(momentum) and 0 <= momentum <= 1):
        raise Rejected(f"{name} C4: momentum is a number in [0, 1]; got {momentum!r}")
    if not (is_number(eps) and 0 < eps < math.inf):
        raise Rejected(f"{name} C5: eps is finite and > 0; got {eps}")
    for what, one in zip(("running_mean", "running_var"), held, strict=True):
        if not isinstance(one, NamedBuffer):
            came = type(one).__name__
            raise Rejected(f"{name}: {what} is a buffer, which buffer() makes, got {came}")
    if held[0] is held[1]:
        raise Rejected(f"{name}: an op updates a buffer once, and got {held[0]!r} twice")
    lines = {*(shape_of(name, one) for one in others), *(one.shape for one in held)}
    alike = all(one.dtype == x.dtype and one.tape is ops._tape for one in (x, *others))
    known = all(one.owner is ops.store for one in held)
    fits = len(wide) > 1 and type(told["training"]) is bool and lines == {wide[1:2]}
    if not (alike and known and fits):
        one = others[0] if others else x
        ops.apply(name, (x, one, one, *held), told)  # It is refused.
    return tuple(
        ops.constant(number, wide[1:2], like=x) if one is None else one
        for one, number in zip(given, (1, 0), strict=True)
    )


def _need_shape(name: str, shape: Any) -> None:
    """Refuse a normalized shape that is no tuple or list of integers."""
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int for n in shape):
        raise Rejected(
            f"{name} C2: normalized_shape is a tuple of integers, (2,) for one axis; got {shape!r}"
        )
