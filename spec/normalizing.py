"""Chapter 28. Normalizers, whose parameters may be left out.

The page of a normalizer wants parameters. A session fills in those that are None: ones, and zeros.

>>> from spec.session import Session
>>> from spec.tensor import tensor
>>> ops = Session()
>>> x = ops.input(tensor([[0.0, 2.0], [3.0, 9.0]]))
>>> ops.value(ops.layer_norm(x, normalized_shape=(2,), eps=1e-300))
Tensor([[-1.0, 1.0], [-1.0, 1.0]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from spec.broadcasting import Broadcasting
from spec.op import Type
from spec.ops import OPS
from spec.refusals import refuse
from spec.shape import Shape
from spec.worlds import is_number

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
            given = self._lines("layer_norm", (x,), given, (1, 0), eps, normalized_shape)
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
            given = self._lines("rms_norm", (x,), given, (1,), eps, normalized_shape)
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
            given = self._lines("add_layer_norm", summands, given, (1, 0), eps, normalized_shape)
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
            given = self._lines("add_rms_norm", summands, given, (1,), eps, normalized_shape)
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
            given = self._of_channels(x, given, groups, eps)
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
            given = self._of_each(x, given, (running_mean, running_var), told)
        return self.apply("batch_norm", (x, *given, running_mean, running_var), told)

    def instance_norm(
        self, x: R, gamma: R | None = None, beta: R | None = None, *, eps: float = 1e-5
    ) -> R:
        """Normalize each channel by itself: `group_norm`, with as many groups as channels."""
        ops: Any = self
        channels = ops.own("instance_norm", x).shape[1:2]
        return self.group_norm(x, gamma, beta, groups=max((1, *channels)), eps=eps)

    def _lines(
        self,
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
        ops: Any = self
        x, *residuals = summands
        wide = ops.own(name, x).shape
        shapes = {ops.own(name, one).shape for one in given if one is not None}
        if normalized_shape is not None:
            shapes.add(_shape(name, normalized_shape))
        if len(shapes) != 1:
            rule = (
                "a parameter or normalized_shape says which of the last axes are normalized, such "
                f"as normalized_shape={wide[-1:]}, and all that are given agree"
            )
            raise refuse(f"{name} C2", rule, " and ".join(map(str, sorted(shapes))) or "neither")
        (shape,) = shapes
        if not 0 < len(shape) <= len(wide) or wide[-len(shape) :] != shape:
            raise refuse(f"{name} C2", f"the last axes of x, one or more, are {shape}", wide)
        if not (is_number(eps) and 0 < eps < math.inf):
            raise refuse(f"{name} C3", "eps is finite and > 0", eps)
        for residual in residuals:
            if ops.own(name, residual).shape != wide:
                came = f"x {wide}, residual {residual.shape}"
                raise refuse(f"{name} C4", "residual has the shape of x", came)
        return tuple(
            ops.constant(number, shape, like=x) if one is None else one
            for one, number in zip(given, numbers, strict=True)
        )

    def _of_channels(
        self, x: Any, given: Sequence[Any], groups: int, eps: float
    ) -> tuple[Any, ...]:
        """Return gamma and beta: of those that are None, ones and zeros for the channels of x."""
        ops: Any = self
        wide = ops.own("group_norm", x).shape
        others = [ops.own("group_norm", one) for one in given if one is not None]
        if not (is_number(eps) and 0 < eps < math.inf):
            raise refuse("group_norm C4", "eps is finite and > 0", eps)
        fits = len(wide) > 1 and type(groups) is int and groups > 0 and wide[1] % groups == 0
        if not (fits and all(one.shape == wide[1:2] for one in others)):
            one = others[0] if others else x
            # It is refused.
            self.apply("group_norm", (x, one, one), {"groups": groups, "eps": eps})
        return tuple(
            ops.constant(number, wide[1:2], like=x) if one is None else one
            for one, number in zip(given, (1, 0), strict=True)
        )

    def _of_each(
        self, x: Any, given: Sequence[Any], held: Sequence[Any], told: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return gamma and beta for a batch_norm: of those that are None, ones and zeros.

        The whole call is checked before: what is refused records nothing.
        """
        ops, op = cast("Any", self), OPS["batch_norm"]
        line = Type(ops.own("batch_norm", x).shape[1:2])
        own = [line if one is None else Type(ops.own("batch_norm", one).shape) for one in given]
        read = ops._contents(op, (x, *given, *held)).values()
        op.check_types(Type(x.shape), *own, *(Type(one.shape) for one in read), **told)
        return tuple(
            ops.constant(number, line.shape, like=x) if one is None else one
            for one, number in zip(given, (1, 0), strict=True)
        )


def _shape(name: str, shape: Any) -> Shape:
    """Return a normalized shape, or refuse what is no tuple or list of integers."""
    listed: Any = shape if type(shape) in (list, tuple) else (None,)
    if not all(type(n) is int for n in listed):
        rule = "normalized_shape is a tuple of integers, (2,) for one axis"
        raise refuse(f"{name} C2", rule, repr(shape))
    return tuple(listed)
