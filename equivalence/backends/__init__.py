"""The backends that ship with the suite, and all that strangers need to enter with their own.

A stranger writes an object that follows `Backend`; its `Capabilities` say what it can do, and its
`Contract`, of formats such as `FP32` and errors such as `ulps(1.0, source)`, what it promises;
`declared` has the contracts of torch and of our own providers, and `granted` takes over for some
ops what one of them does (docs/backends.md).
`load("fast-aten")` returns one of ours; `load("package.module:attribute")` imports any object that
follows the protocol (a class is called without arguments).
"""

from __future__ import annotations

from typing import cast

# Importing fast fixes how triton will run, before a backend imports what imports triton
# (torch.optim does).
import fast  # noqa: F401
from equivalence.backends.checks import broken
from equivalence.backends.libraries import declared, granted
from equivalence.backends.names import unknown_in, wrong_extras, wrong_form, wrong_parts
from equivalence.backends.protocol import (
    Backend,
    Capabilities,
    HasJvp,
    HasOptimizers,
    OptimizerHandle,
)
from equivalence.blame import Refused, blaming, imported
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
    "fast-inductor": "equivalence.backends.inductor.backend:FastInductor",
    "torch": "equivalence.backends.torch.backend:TorchBackend",
    "jax": "equivalence.backends.jax.backend:JaxBackend",
    "liger": "equivalence.backends.strangers.liger:Liger",
    "flaggems": "equivalence.backends.strangers.flaggems:FlagGems",
}

EXTRAS: dict[str, tuple[str, str]] = {
    "jax": ("jax", "pip install 'twingrad[jax]'"),
    "liger": ("liger_kernel", "pip install 'twingrad[liger]'"),
    "flaggems": ("flag_gems", "pip install --no-deps flag_gems==5.0.2 PyYAML SQLAlchemy"),
}
"""The built-in backends of a library that stays out of the install: its package, and what adds it.

FlagGems is no extra, for it pins an older numpy and packaging than `twingrad[check]` runs with.
"""


class UnknownBackend(Refused):
    """No backend goes by this name, or it cannot be used; the message says why, and where."""


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
    if isinstance(found, type):
        with blaming(f"backend {name!r}: calling {attribute}()", UnknownBackend):
            found = found()
    return check(name, found)


def check(name: str, backend: object) -> Backend:
    """Return a backend, or raise UnknownBackend where its form or what it offers is not known.

    A name that the suite does not know would be left out in silence, and never be judged. The
    contract of every dtype that is offered is asked for here, so that no row meets a broken one.
    """
    missing = [
        part for part in ("name", "capabilities", "value", "vjp") if not hasattr(backend, part)
    ]
    if missing:
        raise UnknownBackend(
            f"{name!r} is no backend: it has no {', '.join(missing)}; see docs/backends.md"
        )
    found = cast("Backend", backend)
    with blaming(f"backend {name!r}: capabilities()", UnknownBackend):
        offers = found.capabilities()
    if not isinstance(offers, Capabilities):
        raise UnknownBackend(
            f"backend {name!r}: capabilities() returned {type(offers).__name__}, where "
            "equivalence.backends.Capabilities is wanted"
        )
    wrong = wrong_form(offers.ops, "operation") or wrong_form(offers.optimizers, "optimizer")
    if wrong:
        raise UnknownBackend(f"backend {name!r}: {wrong}")
    wrong = unknown_in(offers.ops, "operation", tuple(OPS)) or unknown_in(
        offers.optimizers, "optimizer", tuple(OPTIMIZERS)
    )
    if wrong:
        raise UnknownBackend(
            f"backend {name!r} offers what the suite does not judge: {wrong}; "
            "python -m equivalence list names all that it does"
        )
    wrong = wrong_parts((*offers.ops, *offers.optimizers), offers.takes)
    wrong = wrong or wrong_extras(offers.optimizers, offers.extras)
    if wrong:
        raise UnknownBackend(f"backend {name!r}: {wrong}; see docs/backends.md, A part of an op")
    if not callable(offers.contract):
        raise UnknownBackend(
            f"backend {name!r}: contract is a function of an op and a dtype; write "
            f"declared('generic'), or declared of another family; got {offers.contract!r}"
        )
    for offered in (offers.ops, offers.optimizers):
        for op, dtypes in offered.items():
            for dtype in dtypes:
                _check_contract(name, offers, op, dtype)
    return found


def _check_contract(name: str, offers: Capabilities, op: str, dtype: str) -> None:
    """Refuse a contract that cannot be asked for, or that no budget follows from."""
    what = f"backend {name!r}: contract({op!r}, {dtype!r})"
    with blaming(what, UnknownBackend):
        contract = offers.contract(op, dtype)
    if wrong := broken(contract):
        raise UnknownBackend(f"{what} {wrong}")


def _attribute(name: str, module: str, attribute: str) -> object:
    """Import a module and read one attribute of it."""
    try:
        found = imported(f"backend {name!r}", module, UnknownBackend)
    except UnknownBackend as error:
        absent = error.__cause__
        package, command = EXTRAS.get(name, ("", ""))
        if package and isinstance(absent, ModuleNotFoundError) and absent.name == package:
            raise UnknownBackend(
                f"backend {name!r}: {package} is not installed: {command}"
            ) from error
        raise
    if not hasattr(found, attribute):
        raise UnknownBackend(f"backend {name!r}: module {module!r} has no attribute {attribute!r}")
    loaded: object = getattr(found, attribute)
    return loaded
