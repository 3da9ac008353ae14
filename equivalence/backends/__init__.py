"""The backends that ship with the suite, and all that strangers need to enter with their own.

A stranger writes an object that follows `Backend`; its `Capabilities` say what it can do, and its
`Contract`, of formats such as `FP32` and errors such as `ulps(1.0, source)`, what it promises;
`declared` has the contracts of torch and of our own providers, and `granted` takes over for some
ops what one of them does (docs/backends.md).
`load("fast-aten")` returns one of ours; `load("package.module:attribute")` imports any object that
follows the protocol (a class is called without arguments).
"""

from __future__ import annotations

import importlib
from typing import cast

# Importing fast fixes how triton will run, before a backend imports what imports triton
# (torch.optim does).
import fast  # noqa: F401
from equivalence.backends.libraries import declared, granted
from equivalence.backends.names import unknown_in
from equivalence.backends.protocol import (
    Backend,
    Capabilities,
    HasJvp,
    HasOptimizers,
    OptimizerHandle,
)
from equivalence.conventions import Conventions
from equivalence.registry import OPS, OPTIMIZERS
from equivalence.worlds.contract import (
    BF16,
    CORRECTLY_ROUNDED,
    FP16,
    FP32,
    FP64,
    TF32,
    Contract,
    ContractRule,
    Form,
    Format,
    FunctionError,
    ulps,
)

__all__ = [
    "BF16",
    "BUILT_IN",
    "CORRECTLY_ROUNDED",
    "FP16",
    "FP32",
    "FP64",
    "TF32",
    "Backend",
    "Capabilities",
    "Contract",
    "ContractRule",
    "Conventions",
    "Form",
    "Format",
    "FunctionError",
    "HasJvp",
    "HasOptimizers",
    "OptimizerHandle",
    "UnknownBackend",
    "check",
    "declared",
    "granted",
    "load",
    "ulps",
]

BUILT_IN: dict[str, str] = {
    "fast-triton": "equivalence.backends.fast.providers:FastTriton",
    "fast-triton-interpreted": "equivalence.backends.fast.providers:FastTritonInterpreted",
    "fast-aten": "equivalence.backends.fast.providers:FastAten",
    "torch": "equivalence.backends.torch.backend:TorchBackend",
    "jax": "equivalence.backends.jax.backend:JaxBackend",
}

EXTRAS = ("jax",)
"""The built-in backends that import a library of their own name, which an extra of it installs."""


class UnknownBackend(ValueError):
    """No backend goes by this name; the message lists those that exist."""


def load(name: str) -> Backend:
    """Return a backend by its built-in name or by ``module:attribute``."""
    target = BUILT_IN.get(name, name)
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise UnknownBackend(
            f"unknown backend {name!r}; there are {', '.join(BUILT_IN)}, "
            "and any object that can be imported as module:attribute"
        )
    found = _attribute(name, module, attribute)
    return check(name, found() if isinstance(found, type) else found)


def check(name: str, backend: object) -> Backend:
    """Return a backend, or raise UnknownBackend where its form or what it offers is not known.

    A name that the suite does not know would be left out in silence, and never be judged.
    """
    missing = [
        part for part in ("name", "capabilities", "value", "vjp") if not hasattr(backend, part)
    ]
    if missing:
        raise UnknownBackend(
            f"{name!r} is no backend: it has no {', '.join(missing)}; see docs/backends.md"
        )
    found = cast("Backend", backend)
    offers = found.capabilities()
    if not isinstance(offers, Capabilities):
        raise UnknownBackend(
            f"backend {name!r}: capabilities() returned {type(offers).__name__}, where "
            "equivalence.backends.Capabilities is wanted"
        )
    wrong = unknown_in(offers.ops, "operation", tuple(OPS)) or unknown_in(
        offers.optimizers, "optimizer", tuple(OPTIMIZERS)
    )
    if wrong:
        raise UnknownBackend(
            f"backend {name!r} offers what the suite does not judge: {wrong}; "
            "python -m equivalence list names all that it does"
        )
    return found


def _attribute(name: str, module: str, attribute: str) -> object:
    """Import a module and read one attribute of it."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if name in EXTRAS and error.name == name:
            raise UnknownBackend(
                f"backend {name!r}: {name} is not installed: pip install 'twingrad[{name}]'"
            ) from error
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        raise UnknownBackend(f"backend {name!r}: there is no module {error.name!r}") from error
    if not hasattr(found, attribute):
        raise UnknownBackend(f"backend {name!r}: module {module!r} has no attribute {attribute!r}")
    loaded: object = getattr(found, attribute)
    return loaded
