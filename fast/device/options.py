"""Decides what a session runs on, and refuses what cannot run here, with what can."""

from __future__ import annotations

from typing import NamedTuple

import torch

from fast.device import mode
from fast.device.dtypes import FP32, NAMED
from fast.errors import Rejected, Unavailable, outside

PROVIDERS = ("aten", "triton")

PRECISIONS = {"fp32": FP32, "tf32": FP32, **NAMED}
"""The dtype of each precision; tf32 is a way to multiply numbers of fp32."""


class Options(NamedTuple):
    """What was asked for, completed: every part can run in this process."""

    provider: str
    precision: str
    device: torch.device
    deterministic: bool

    @property
    def compute(self) -> torch.dtype:
        """The dtype of values and of the cotangents between ops."""
        return PRECISIONS[self.precision].storage

    @property
    def master(self) -> torch.dtype:
        """The dtype in which parameters live and are updated."""
        return PRECISIONS[self.precision].master


def choose(
    provider: str | None, precision: str, device: torch.device | str | None, deterministic: bool
) -> Options:
    """Complete the options.

    What is unknown is Rejected, what cannot run here raises Unavailable; both name the part.
    """
    place = placed("session", device)
    if not isinstance(precision, str) or precision not in PRECISIONS:
        raise Rejected(
            f"session: unknown precision {precision!r}; there are {', '.join(PRECISIONS)}"
        )
    if provider is None:
        kernels = place.type == "cuda" and mode.ring() == "device" and PRECISIONS[precision].kernels
        provider = "triton" if kernels else "aten"
    if not isinstance(provider, str) or provider not in PROVIDERS:
        raise Rejected(f"session: unknown provider {provider!r}; there are {', '.join(PROVIDERS)}")
    if not isinstance(deterministic, bool):
        raise Rejected(f"session: deterministic is True or False, got {deterministic!r}")
    if provider == "triton":
        _check_triton(place, precision)
        mode.say_if_interpreted("session", stacklevel=outside())
    elif precision == "tf32" and place.type != "cuda":
        raise Unavailable(
            "session: precision 'tf32' with provider 'aten' needs a CUDA device, since torch has "
            "no TF32 on a CPU; 'fp32' runs here"
        )
    return Options(provider, precision, place, deterministic)


def placed(who: str, device: torch.device | str | None) -> torch.device:
    """Return the device that is named, or the best one where None.

    What names none is Rejected; one that is not here, or not supported, raises Unavailable.
    """
    if device is None:
        return torch.device("cuda" if mode.cuda_available() else "cpu")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise Rejected(f"{who}: {device!r} names no device; try 'cpu' or 'cuda'") from error
    if place.type not in ("cpu", "cuda"):
        raise Unavailable(f"{who}: device {place} is not supported; 'cpu' and 'cuda' are")
    if place.type == "cuda":
        _check_cuda(who, place)
    return place


def _check_cuda(who: str, place: torch.device) -> None:
    if not mode.cuda_available():
        raise Unavailable(f"{who}: no CUDA device is present; device 'cpu' runs here")
    count = torch.cuda.device_count()
    if place.index is not None and place.index >= count:
        raise Unavailable(
            f"{who}: device {place} is not present; CUDA devices are 0 to {count - 1}"
        )


def _check_triton(place: torch.device, precision: str) -> None:
    if not PRECISIONS[precision].kernels:
        raise Unavailable(
            f"session: precision {precision!r} is for checks and runs with provider 'aten' only"
        )
    mode.require_triton()
    needed = "cuda" if mode.ring() == "device" else "cpu"
    if place.type != needed:
        raise Unavailable(
            f"session: in this process triton's kernels run {mode.ring()}, on {needed} tensors; "
            f"device {place} needs provider 'aten'"
        )
