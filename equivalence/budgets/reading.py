"""What a tensor of a backend holds, as plain numbers.

All else in this room works on what is read here, and knows nothing of the library.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

TorchTensor: TypeAlias = torch.Tensor
"""The tensors that backends take and return."""

TorchDtype: TypeAlias = torch.dtype
"""The dtypes of those tensors."""

Doubles = npt.NDArray[np.float64]


def numbers(tensor: TorchTensor) -> npt.NDArray[Any]:
    """Return what a tensor holds: float64, int64 or truth values, each exactly."""
    found = tensor.detach().cpu()
    plain: npt.NDArray[Any] = (found.double() if found.is_floating_point() else found).numpy()
    return plain


def doubles(tensor: TorchTensor) -> Doubles:
    """Return all entries of a tensor as float64, in row-major order."""
    return numbers(tensor).astype(np.float64, copy=False).reshape(-1)
