"""The command `python -m fast kernels`: every kernel, compiled ahead of time, without a GPU.

Triton decides at import whether kernels are interpreted, so the command starts this module again,
once per target, in compile-only mode: a stand-in driver names the target, the pages' own hosts run
over their `EXAMPLES` on CPU tensors, and each launch compiles instead of running. No signature is
written by hand, so none can drift.

A page may declare approximate instructions in `APPROXIMATE`, and more than four kernels of a dtype,
in `MOST_KERNELS`, where it says what they are for. Another triton is checked without touching the
environment's own:

    pip install --no-deps --target build/triton36 triton==3.6.0
    PYTHONPATH=build/triton36 python -m fast kernels --json build/kernels-3.6.0.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fast.commands import ptx_rules
from fast.device import launch
from fast.device.dtypes import OF, Dtype
from fast.device.mode import COMPILE_TARGET, INTERPRET, compile_target, triton
from fast.errors import Rejected

TARGETS = tuple(ptx_rules.SHARED)
MOST_PER_OP = 4
"""How many kernels an op has for one dtype and target, where its page declares no more."""
DTYPES = tuple(dtype for dtype in OF.values() if dtype.kernels)
NARROW = frozenset(f"*{dtype.name}" for dtype in DTYPES if dtype.narrow)
"""The pointers, as triton writes them, to what is rounded to fewer digits at each store."""
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")
Row = dict[str, Any]


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `python -m fast`."""
    parser = commands.add_parser(
        "kernels",
        help="compile every kernel ahead of time, without a GPU",
        description="Compile every kernel for the targets from the hosts' own launches, check the "
        "instructions, and write what each kernel uses.",
    )
    parser.add_argument("--target", default=",".join(TARGETS), help="sm_80, sm_90 or both")
    parser.add_argument("--json", type=Path, help="the file to write")
    parser.add_argument(
        "--ops", nargs="+", help="only these ops and optimizers, by spaces or commas"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile for each target in its own process; 0 if every kernel keeps the rules, else 1."""
    targets = _known("target", arguments.target.split(","), TARGETS)
    rows = _compile(targets, _known("op", _split(arguments.ops) or names(), names()))
    broken = [f"{row['name']} for {row['target']}, {row['config']}: {rule}"
              for row in rows for rule in row.pop("broken")]  # fmt: skip
    broken += _too_many(rows)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"kernels": rows}, indent=1) + "\n", encoding="utf-8")
    for line in broken:
        print(f"kernels: {line}", file=sys.stderr)
    print(f"kernels: {len(rows)} compiled with triton {triton.__version__}, {len(broken)} faults")
    return 1 if broken else 0


def _split(given: Sequence[str] | None) -> list[str]:
    return [name for text in given or () for name in text.replace(",", " ").split()]


def names() -> list[str]:
    """List the ops and optimizers that have kernels."""
    return [*importlib.import_module("fast.ops").OPS,
            *importlib.import_module("fast.optim").OPTIMIZERS]  # fmt: skip


def _known(what: str, given: list[str], known: Sequence[str]) -> list[str]:
    for name in given:
        if name not in known:
            raise Rejected(f"kernels: unknown {what} {name!r}; there are {', '.join(known)}")
    return given


def _too_many(rows: list[Row]) -> list[str]:
    counts = Counter(
        (row["name"].split(".")[0], dtype, row["target"])
        for row in rows
        for dtype in row["config"]["dtypes"].split()
    )
    most = {op: most_kernels(op) for op, _, _ in counts}
    return [
        f"{op} in {dtype} for {target}: {count} compiled kernels, at most {most[op]} are allowed"
        for (op, dtype, target), count in counts.items()
        if count > most[op]
    ]


def most_kernels(name: str) -> int:
    """Say how many kernels an op or an optimizer may have for one dtype and target."""
    most: int = getattr(_page(name), "MOST_KERNELS", MOST_PER_OP)
    return most


def _page(name: str) -> Any:
    """Import the page of an op or an optimizer."""
    optimizers = importlib.import_module("fast.optim").OPTIMIZERS
    return importlib.import_module(f"fast.{'optim' if name in optimizers else 'ops'}.{name}")


def _compile(targets: list[str], ops: list[str]) -> list[Row]:
    """Start this module in compile-only mode, for all targets at once, and collect the rows."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for target in targets:
            environment = {**os.environ, COMPILE_TARGET: target}
            environment.pop(INTERPRET, None)
            path = Path(folder) / f"{target}.json"
            command = [sys.executable, "-m", "fast.commands.compilation", str(path), ",".join(ops)]
            running.append((path, subprocess.Popen(command, env=environment)))
        for path, process in running:
            if process.wait() == 0:
                rows += json.loads(path.read_text(encoding="utf-8"))
        failed = [path.stem for path, process in running if process.returncode]
    if failed:
        raise RuntimeError(f"kernels: compiling for {', '.join(failed)} failed, as said above")
    return rows


class _Driver:
    """Stands in for a GPU's driver: it names the target, and there is nothing to run on."""

    def __init__(self, target: str) -> None:
        """Speak for one target, such as `sm_90`."""
        backend = importlib.import_module("triton.backends.compiler")
        self._target = backend.GPUTarget("cuda", int(target.removeprefix("sm_")), 32)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def stand_in(target: str) -> None:
    """Let triton compile for a target in this process, which is in compile-only mode."""
    triton.runtime.driver.set_active(_Driver(target))


def compile_here(target: str, ops: Sequence[str]) -> list[Row]:
    """Drive the hosts in this process, which is in compile-only mode, and describe each kernel."""
    stand_in(target)
    optimizers = importlib.import_module("fast.optim").OPTIMIZERS
    rows: list[Row] = []
    for name in ops:
        drive = _optimizer if name in optimizers else _op
        seen: dict[str, Row] = {}
        for direction, dtype, start in drive(name):
            launch.compiled.clear()
            start()
            for kernel, compiled, meta in launch.compiled:
                if compiled.hash not in seen:
                    seen[compiled.hash] = _describe(target, name, direction, kernel, compiled, meta)
                users = seen[compiled.hash]["config"].setdefault("dtypes", "").split()
                users += [dtype.name] if dtype.name not in users else []
                seen[compiled.hash]["config"]["dtypes"] = " ".join(users)
        rows += seen.values()
    return rows


def _op(name: str) -> Iterator[tuple[str, Dtype, Callable[[], object]]]:
    """Yield what an op's hosts do for its examples, with contiguous and repeated cotangents."""
    page = _page(name)
    allowed_tf32 = importlib.import_module("fast.kernels.product").TF32
    for tf32 in (False, True):
        allowed_tf32.set(tf32)
        for dtype in DTYPES:
            for inputs, attributes in page.EXAMPLES(dtype.storage):
                kept: list[Any] = []
                yield (
                    "value",
                    dtype,
                    lambda i=inputs, a=attributes, k=kept: k.extend(page.value(*i, **a)),
                )
                z, saved = kept
                needs = [index not in page.op.index_inputs for index in range(len(inputs))]
                one = torch.ones((), dtype=z.dtype)
                for g in (torch.ones_like(z), one.expand(z.shape)):
                    yield "vjp", dtype, lambda s=saved, g=g, n=needs: page.vjp(s, g, n)


def _optimizer(name: str) -> Iterator[tuple[str, Dtype, Callable[[], object]]]:
    """Yield updates with the default hyper-parameters, and with every one of them in use.

    The latter clip the gradients too, and then do not.
    """
    rule = importlib.import_module("fast.optim").OPTIMIZERS[name]
    functional = importlib.import_module("fast.optim._functional").Functional
    fields, defaults = rule.hyper._fields, rule.hyper._field_defaults
    needed = {field: 0.5 for field in fields if field not in defaults}
    used = {field: 0.5 for field in fields if not isinstance(defaults.get(field), bool)}
    for dtype in DTYPES:
        for hyper, max_norm in ((needed, None), (used, 1.0), (used, None)):
            params: list[Tensor] = [torch.ones(4096, dtype=dtype.storage)]
            made = functional(rule, params, hyper, "triton", max_norm=max_norm)
            yield "step", dtype, lambda p=params, m=made: m.step(p)


def _describe(
    target: str, op: str, direction: str, kernel: Any, compiled: Any, meta: dict[str, Any]
) -> Row:
    page = _page(op)
    types = [str(t) for t in compiled.src.signature.values() if str(t).startswith("*")]
    registers, spills = _usage(compiled.asm["cubin"])
    shown = {key: getattr(value, "__name__", value) for key, value in meta.items()}
    config = {"direction": direction, "types": " ".join(types), **shown}
    config |= {key: getattr(compiled.metadata, key) for key in ("num_warps", "num_stages")}
    rules = [
        *ptx_rules.violations(
            compiled.asm["ptx"], kernel.__name__, meta,
            any(t in NARROW for t in types), getattr(page, "APPROXIMATE", ()),
        ),
        *ptx_rules.overuse(target, spills, compiled.metadata.shared),
    ]  # fmt: skip
    return {
        "name": f"{op}.{kernel.__name__}", "target": target, "config": config,
        "registers": registers, "spills": spills, "shared": compiled.metadata.shared,
        "triton": triton.__version__, "broken": rules,
    }  # fmt: skip


def _usage(cubin: bytes) -> tuple[int, int]:
    """Ask the cuobjdump that triton bundles for registers and bytes of stack per thread."""
    tool = importlib.import_module("triton.knobs").nvidia.cuobjdump.path
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    found = _USAGE.search(text)
    if found is None:
        raise RuntimeError(f"kernels: cannot read what cuobjdump says: {text!r}")
    return int(found[1]), int(found[2]) + int(found[3])


def main(path: str, ops: str) -> None:
    """Compile for the target that the environment names, and write the rows to `path`."""
    target = compile_target()
    if target is None:
        raise RuntimeError(f"kernels: {COMPILE_TARGET} is not set; use python -m fast kernels")
    Path(path).write_text(json.dumps(compile_here(target, ops.split(","))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
