"""Names an artifact by everything that it depends on: what differs in any of it is another one.

What is compiled is known by what it calls when it is run once, as a recording is. A trace says as
much, but the imports of what traces and compiles take longer than a start from the cache may: so a
function is traced only if its artifact is not there.

The C++ compiler is left out: who finds an artifact needs none.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from fast.compiled import inductor
from fast.compiled.replaced.mended import MENDED
from fast.compiled.replaced.quicker import begun_with
from fast.compiled.replaced.rewritten import REWRITTEN


class Calls(TorchDispatchMode):
    """The ATen calls under it in order, as text: tensors by number, what was there by contents."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        """Number the arguments of the function that is to be run."""
        super().__init__()
        self._numbers: Any = WeakTensorKeyDictionary()
        self._count = 0
        self._lines: list[str] = []
        for tensor in given:
            self._enter(tensor)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say to torch that Dynamo, which takes long to import, need not be kept off this mode."""
        return False

    @property
    def text(self) -> str:
        """All calls, one in a line."""
        return "\n".join(self._lines)

    def returned(self, results: Sequence[Tensor]) -> None:
        """Note what the function returned."""
        self._lines.append(f"return {self._told(results)}")

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in REWRITTEN:
            with self:
                found = REWRITTEN[func](*args, **named)
            if found is not NotImplemented:
                return found
        told = f"{func}({self._told(args)}, {self._told(named)})"
        found = func(*args, **named)
        for result in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(result, Tensor) and result not in self._numbers:
                self._enter(result)
        self._lines.append(told)
        return found

    def _enter(self, tensor: Tensor) -> None:
        self._numbers[tensor] = self._count
        self._count += 1

    def _told(self, value: Any) -> str:
        if isinstance(value, Tensor):
            known = self._numbers.get(value)
            return _contents(value) if known is None else f"%{known}"
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{k}: {self._told(v)}' for k, v in value.items())}}}"
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(self._told, value))}]"
        return repr(value)


def noted(function: Callable[..., list[Tensor]], given: Sequence[Tensor]) -> Calls:
    """Run a function on tensors, which it may write to, and return what it called."""
    calls = Calls(given)
    with calls:
        results = function(*given)
    calls.returned(results)
    return calls


def key(program: GraphModule | Calls, wanted: Any, given: Sequence[Tensor]) -> str:
    """Return the name of a program's artifact for tensors like those given.

    The program is a graph, or what was called when it ran; it is used as `wanted` says.
    """
    written = (
        [program.text]
        if isinstance(program, Calls)
        else [str(program.graph), [*_constants(program)]]
    )
    kinds = [(tuple(t.shape), t.stride(), str(t.dtype)) for t in given]
    parts = (
        *written, wanted, kinds, sorted(inductor.OPTIONS.items()), MENDED, begun_with(),
        torch.__version__, torch.get_num_threads(), torch.backends.cpu.get_cpu_capability(),
        platform.machine(), instructions(),
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _constants(graph: GraphModule) -> Iterator[tuple[str, str]]:
    """Yield the tensors that a graph holds, of which its text has only the names."""
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            yield node.target, _contents(getattr(graph, node.target))


def _contents(tensor: Tensor) -> str:
    """Describe a tensor that no call made, such as one that a page holds."""
    entries = tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    digest = hashlib.sha256(entries).hexdigest()
    return f"{tuple(tensor.shape)} {tensor.stride()} {tensor.dtype} {digest}"


@cache
def instructions() -> str:
    """Say what this processor can, as far as is known: a compiler uses all of it.

    torch's capability is coarser: with one, and a home that two machines share, one of them could
    load code that it does not have the instructions for.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
