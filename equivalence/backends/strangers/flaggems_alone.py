"""Imports single modules of FlagGems on a machine without a GPU, for Triton's interpreter.

`import flag_gems` itself fails without one: `DeviceDetector` of runtime/backend/device.py raises
where no driver answers, and with GEMS_VENDOR=nvidia torch has no name for the device
(utils/libentry.py). So the packages `flag_gems` and `flag_gems.ops` are entered without what their
`__init__.py` runs, and FlagGems is told:

* of a device that has one multiprocessor, by torch.cuda, during imports and calls;
* that to enter a device is to do nothing;
* that `libentry`, a cache of compiled kernels, returns the kernel;
* of one configuration where it would time several: the first of its own table.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from equivalence.backends.strangers.flaggems_pointwise import FUNCTIONS, let_generate
from equivalence.backends.strangers.interpreted import triton

PACKAGE = "flag_gems"
CONFIGURATIONS: int | None = 1
"""How many of the configurations of a kernel are kept; all, where it is None before the import."""

_PROPERTIES = SimpleNamespace(
    name="interpreter", multi_processor_count=1, major=8, minor=0, total_memory=2**34
)
_DEVICE: dict[str, Callable[..., Any]] = {
    "get_device_name": lambda *_: _PROPERTIES.name,
    "get_device_properties": lambda *_: _PROPERTIES,
    "get_device_capability": lambda *_: (_PROPERTIES.major, _PROPERTIES.minor),
    "current_device": lambda: 0,
    "device_count": lambda: 1,
}
"""What torch.cuda would say of the device."""


def module(name: str) -> ModuleType:
    """Import one module of `flag_gems.ops`; ModuleNotFoundError where FlagGems is not installed."""
    if f"{PACKAGE}.ops" not in sys.modules:
        _enter()
    return importlib.import_module(f"{PACKAGE}.ops.{name}")


def _enter() -> None:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {PACKAGE!r}", name=PACKAGE)
    (folder,) = found.submodule_search_locations
    _bare(PACKAGE, folder)
    try:
        with told_of_a_device():
            runtime: Any = importlib.import_module(f"{PACKAGE}.runtime")
            runtime.backend.get_tl_extra_backend_module = lambda: FUNCTIONS
            utils: Any = importlib.import_module(f"{PACKAGE}.utils")
            entries: Any = importlib.import_module(f"{PACKAGE}.utils.libentry")
    except BaseException:
        del sys.modules[PACKAGE]
        raise
    runtime.torch_device_fn = SimpleNamespace(**_DEVICE, device=lambda _: nullcontext())
    configurations = runtime.get_tuned_config
    runtime.get_tuned_config = lambda name: configurations(name)[:CONFIGURATIONS]
    for place in (utils, entries):
        place.libentry = lambda: lambda kernel: kernel
        place.libtuner = _untuned
    let_generate()
    sys.modules[PACKAGE].vendor_name = "nvidia"  # type: ignore[attr-defined]
    _bare(f"{PACKAGE}.ops", os.path.join(folder, "ops"))


def _bare(name: str, folder: str) -> None:
    """Make a package whose `__init__.py` does not run."""
    package = ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


@contextmanager
def told_of_a_device() -> Iterator[None]:
    """Let torch.cuda answer as if there were a device, which heuristics ask for its size."""
    with ExitStack() as patches:
        patches.enter_context(patch.dict(os.environ, {"GEMS_VENDOR": "nvidia"}))
        for name, answer in _DEVICE.items():
            patches.enter_context(patch.object(torch.cuda, name, answer))
        yield


def _untuned(configs: list[Any], key: list[str], **_: Any) -> Any:
    """Stand for `libtuner`, which times configurations: take the first."""
    return triton.autotune(configs=configs[:CONFIGURATIONS], key=key)
