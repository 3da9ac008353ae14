"""What torch's Inductor is kept from while it compiles: a few of its functions are replaced.

Each replaces what the judge has found wrong in torch 2.13, or what only costs time. All are torch's
private names: `fast.compiled.inductor` tries them before it compiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

MENDED = (
    "rows of one tile keep nothing in the same place",
    "expm1 is the vector library's",
)
"""What is replaced in a way that changes numbers."""

LOOPS, FUSING = "OuterLoopFusedSchedulerNode", "check_outer_fusion_loop_level_attr"
"""Where torch's code asks whether loops over the same rows may become one."""

VECTORS, EXPM1 = "CppVecOverrides", "expm1"
"""Where it writes the function for vectors."""

HEADER = "_get_cpp_wrapper_header"
"""Where it says what an artifact's C++ begins with."""

WITHOUT_REGEX = Path(__file__).with_name("without_regex.h")
REGEX = ('std::regex re("(cpu|cuda|xpu|mps)(:([0-9]+))?");', "std::regex_match(device_str, sm, re)")
"""What is begun with instead, and what torch's own header does that it stands for."""

CHECKING = "generate_input_output_runtime_checks"
"""Where it writes what compares an artifact's arguments if the environment asks for that."""

NO_CHECKS = """
static bool _check_aoti_runtime_check_inputs_env() { return false; }
static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""
"""The functions that an artifact calls to have its arguments compared, if they do nothing."""


@cache
def named() -> tuple[str, ...]:
    """Return what an artifact's name tells of what is replaced."""
    return *MENDED, WITHOUT_REGEX.read_text()


def lacking() -> str | None:
    """Say what this torch lacks of what is replaced, or None."""
    try:
        from torch._inductor.codegen import cpp
        from torch._inductor.virtualized import V
    except ImportError as error:
        return str(error)
    del V
    for owner, name in (LOOPS, FUSING), (VECTORS, EXPM1):
        if name not in vars(getattr(cpp, owner, object)):
            return f"torch._inductor.codegen.cpp has no {owner}.{name}"
    return None


@contextmanager
def mended(checked: bool = True) -> Iterator[None]:
    """Have torch compile with what is replaced.

    Unless checked, what compares an artifact's arguments is left out.
    """
    from torch._inductor.codegen import cpp

    loops = getattr(cpp, LOOPS)
    with ExitStack() as replacing:
        apart = _apart(getattr(loops, FUSING))
        replacing.enter_context(_replaced(loops, FUSING, apart))
        replacing.enter_context(_replaced(getattr(cpp, VECTORS), EXPM1, staticmethod(expm1)))
        replacing.enter_context(_without_regex())
        if not checked:
            replacing.enter_context(_unchecked())
        yield


def expm1(vector: str) -> str:
    """Return the C++ of the function, which torch writes as exp(x) - 1: at 1e-10 that is 0.

    torch finds a function by its name again.
    """
    return f"{vector}.expm1()"


def _apart(usual: Any) -> Any:
    """Keep rows that are computed in one turn of a loop from sharing what is kept for a row.

    Loops over the same rows become one, which keeps between its parts what it needs of a row, in a
    buffer of one row. Where a turn takes a tile of several rows, as for masks that lie strided, the
    last row of the tile would be read for all. Such loops stay apart, as in torch's own mend of it
    (pytorch/pytorch#185855, after torch 2.13).
    """
    from torch._inductor.virtualized import V

    def apart(node: Any, kernels: Sequence[Any], depth: int) -> bool:
        if not usual(node, kernels, depth):
            return False
        outer = (loop for kernel in kernels for loop in kernel.loop_nest.loops[:depth])
        return not V.local_buffer_context.local_buffers or all(loop.steps == 1 for loop in outer)

    return apart


@contextmanager
def _without_regex() -> Iterator[None]:
    """Spare an artifact what runs regular expressions: without it, it is compiled in half the time.

    Where torch reads the names of devices by other means, its own header stays.
    """
    import torch
    from torch._inductor import codecache

    include = Path(torch.__file__).parent / "include"
    read = include / "torch/csrc/inductor/aoti_runtime/model_base.h"
    text = read.read_text() if read.exists() else ""
    usual: Any = getattr(codecache, HEADER, None)
    if usual is None or not all(part in text for part in REGEX):
        yield
        return

    def header(device: str, aot_mode: bool = False) -> str:
        ours = aot_mode and device == "cpu"
        return str(WITHOUT_REGEX) if ours else str(usual(device, aot_mode))

    with _replaced(codecache, HEADER, header):
        yield


@contextmanager
def _unchecked() -> Iterator[None]:
    """Leave out of an artifact what compares its arguments.

    For each argument that is a function, dozens of lines long. Where torch has another form, it
    stays.
    """
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    if CHECKING not in vars(CppWrapperCpu):
        yield
        return
    with _replaced(CppWrapperCpu, CHECKING, lambda wrapper: wrapper.prefix.splice_aot(NO_CHECKS)):
        yield


@contextmanager
def _replaced(owner: type | ModuleType, name: str, value: Any) -> Iterator[None]:
    """Give a class or module of torch's another attribute, and its own one back."""
    usual = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, usual)
