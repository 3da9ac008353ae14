"""What torch's Inductor does for nothing, left out: all numbers stay the same.

Most of it is done while it compiles, and the rest by programs that store or read masks. These are
torch's private names. Where a torch has another form, it compiles as it does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fast.compiled.replaced.mended import replaced

WITHOUT_REGEX = Path(__file__).with_name("without_regex.h")
REGEX = ('std::regex re("(cpu|cuda|xpu|mps)(:([0-9]+))?");', "std::regex_match(device_str, sm, re)")
"""What an artifact's C++ begins with, and what torch's own header does that it stands for."""

MASKS = Path(__file__).with_name("masks.h")
WAYS = ("struct VecMaskTo", "static T value_to_mask(U b)")
"""What the loops of an artifact read beside torch's headers, and what those have once for it."""

WRITER, WRITING = "KernelGroup", "codegen_group"
BEGINNING = "#include <torch/csrc/inductor/cpp_prefix.h>"
"""Where torch writes loops, and what each begins with."""

HEADER = "_get_cpp_wrapper_header"
"""Where torch says which header that is."""

CHECKING = "generate_input_output_runtime_checks"
"""Where it writes what compares an artifact's arguments if the environment asks for that."""

NO_CHECKS = """
static bool _check_aoti_runtime_check_inputs_env() { return false; }
static void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
"""
"""The functions that an artifact calls to have its arguments compared, if they do nothing."""

BAR, NO_BAR, HIDDEN = "tqdm", "_Faketqdm", "disable_progress"
"""What it calls a bar of progress, what it makes where there is no tqdm, and that it shows none."""

SIMPLIFYING = "simplify_index_in_vec_range"
"""Where it makes an index simpler before it asks for its stride."""


@cache
def begun_with() -> str:
    """Return what an artifact's C++ and its loops begin with: part of its name."""
    return WITHOUT_REGEX.read_text() + MASKS.read_text()


@contextmanager
def quicker(checked: bool = True) -> Iterator[None]:
    """Have torch compile without what is left out.

    Unless checked, what compares an artifact's arguments is, too.
    """
    parts = [
        _without_regex,
        _quick_masks,
        _rules_once,
        _plain_indices,
        _without_bars,
        *([] if checked else [_unchecked]),
    ]
    with ExitStack() as replacing:
        for part in parts:
            replacing.enter_context(part())
        yield


@contextmanager
def _without_regex() -> Iterator[None]:
    """Spare an artifact what runs regular expressions: without it, it is compiled in half the time.

    torch reads the names of devices by them.
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

    with replaced(codecache, HEADER, header):
        yield


@contextmanager
def _quick_masks() -> Iterator[None]:
    """Have masks stored by the lanes that are there, and read without a branch."""
    from torch._inductor.codegen import cpp

    writer = getattr(cpp, WRITER, object)
    usual: Any = vars(writer).get(WRITING)
    if usual is None or not _once(WAYS):
        yield
        return

    def written(group: Any, name: str | None = None) -> str:
        text: str = usual(group, name)
        return text.replace(BEGINNING, f'{BEGINNING}\n#include "{MASKS}"', 1)

    with replaced(writer, WRITING, written):
        yield


@cache
def _once(ways: tuple[str, ...]) -> bool:
    """Whether torch's headers have each way once: one for some processor may add another."""
    import torch

    vectors = Path(torch.__file__).parent / "include/ATen/cpu/vec"
    text = "".join(header.read_text() for header in vectors.rglob("*mask*.h"))
    return all(text.count(way) == 1 for way in ways)


@contextmanager
def _rules_once() -> Iterator[None]:
    """Fill the table of the operations' dtypes once, not for each operation of each loop.

    torch asks for the one object that there is by calling its class, which fills it again.
    """
    # What is imported first registers the operations.
    from torch._inductor import lowering
    from torch._inductor.dtype_propagation import DtypePropagationOpsHandler as Rules

    del lowering
    if "_instance" not in vars(Rules) or "__init__" not in vars(Rules):
        yield
        return
    Rules()
    with replaced(Rules, "__init__", lambda rules: None):
        yield


@contextmanager
def _plain_indices() -> Iterator[None]:
    """Leave an index as it is where it is a sum of multiples, whose stride is plain to see."""
    from torch._inductor import sizevars

    usual: Any = getattr(sizevars, SIMPLIFYING, None)
    if usual is None:
        yield
        return

    def simplified(index: Any, variable: Any, length: Any) -> Any:
        return index if _plain(index) else usual(index, variable, length)

    with replaced(sizevars, SIMPLIFYING, simplified):
        yield


def _plain(index: Any) -> bool:
    """Whether sums and products of variables and whole numbers are all that stands in an index."""
    if index.is_Add or index.is_Mul:
        return all(map(_plain, index.args))
    return bool(index.is_Symbol or index.is_Integer)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Make no bar of progress where none is shown.

    A bar of tqdm takes a semaphore of the system even so, which a worker that is ended leaves
    behind, and starts a thread.
    """
    from torch import hub
    from torch._inductor import async_compile
    from torch._inductor import config as inductor
    from torch.fx import config as fx
    from torch.fx import interpreter

    places = ((async_compile, inductor), (interpreter, fx))
    with ExitStack() as replacing:
        for module, config in places:
            if {BAR, NO_BAR} <= {*vars(module), *vars(hub)} and getattr(config, HIDDEN, False):
                replacing.enter_context(replaced(module, BAR, vars(hub)[NO_BAR]))
        yield


@contextmanager
def _unchecked() -> Iterator[None]:
    """Leave out of an artifact what compares its arguments.

    For each argument that is a function, dozens of lines long.
    """
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    if CHECKING not in vars(CppWrapperCpu):
        yield
        return
    with replaced(CppWrapperCpu, CHECKING, lambda wrapper: wrapper.prefix.splice_aot(NO_CHECKS)):
        yield
