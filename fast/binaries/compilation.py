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

Every triton has an assembler of its own, and each now and then keeps a few registers in memory so
that more warps live at once. A larger limit of registers does not change that. Compared with the
facts of a file, it is a fault as any other spill; with another triton it is counted.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fast.binaries import driving, facts, machines, ptx_rules, sass
from fast.device import launch
from fast.device.dtypes import OF
from fast.device.mode import COMPILE_TARGET, INTERPRET, compile_target, triton
from fast.errors import Rejected

TARGETS = tuple(ptx_rules.SHARED)
MOST_PER_OP = 4
"""How many kernels an op has for one dtype and target, where its page declares no more."""
NARROW = frozenset(f"*{dtype.name}" for dtype in OF.values() if dtype.kernels and dtype.narrow)
"""The pointers, as triton writes them, to what is rounded to fewer digits at each store."""
NUMBERED = "CODE"
"""The constant by which a kernel reports an index, which a process numbers by first use."""
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
        "--facts", action="store_true", help="also estimate what bounds each kernel, and print all"
    )
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="fail where the facts in this file are others"
    )
    parser.add_argument(
        "--ops", nargs="+", help="only these ops and optimizers, by spaces or commas"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile for each target in its own process; 0 if every kernel keeps the rules, else 1."""
    targets = _known("target", arguments.target.split(","), TARGETS)
    rows = _compile(
        targets, _known("op", _split(arguments.ops) or driving.names(), driving.names())
    )
    broken, traded = (
        [f"{row['name']} for {row['target']}, {row['config']}: {rule}"
         for row in rows for rule in row.pop(kind)]
        for kind in ("broken", "traded")
    )  # fmt: skip
    broken += _too_many(rows)
    for row in rows if arguments.facts else ():
        _add_estimates(row)
    if arguments.facts:
        _add_traffic(rows)
        print(*map(facts.line, rows), sep="\n")
    for row in rows:
        row.pop("launches")
    if arguments.against is not None:
        broken += facts.differences(facts.read(arguments.against), rows, triton.__version__)
        broken += traded
    if arguments.json is not None:
        facts.write(arguments.json, rows, triton.__version__)
    for line in broken:
        print(f"kernels: {line}", file=sys.stderr)
    if traded:
        print(f"kernels: {len(traded)} keep a few registers in memory, so that more warps live")
    print(f"kernels: {len(rows)} compiled with triton {triton.__version__}, {len(broken)} faults")
    return 1 if broken else 0


def _add_estimates(row: Row) -> None:
    """Add the static roofline of each GPU that runs what was compiled."""
    row["estimate"] = {
        machine.name: machines.estimate(machine, row)
        for machine in machines.MACHINES
        if machine.target == row["target"]
    }


def _add_traffic(rows: list[Row]) -> None:
    """Add what each kernel moves in the largest of its launches, counted by the interpreter."""
    ops = dict.fromkeys(row["name"].partition(".")[0] for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traffic.json"
        command = [sys.executable, "-m", "fast.binaries.traffic", str(path), ",".join(ops)]
        subprocess.run(command, env={**os.environ, INTERPRET: "1"}, check=True)
        moved = json.loads(path.read_text(encoding="utf-8"))
    for row in rows:
        counted = [moved[row["name"].partition(".")[0]][number] for number in row["launches"]]
        row["traffic"] = max(counted, key=lambda one: (one["moved"], one["least"]))


def _split(given: Sequence[str] | None) -> list[str]:
    return [name for text in given or () for name in text.replace(",", " ").split()]


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
    most: int = getattr(driving.page(name), "MOST_KERNELS", MOST_PER_OP)
    return most


def _compile(targets: list[str], ops: list[str]) -> list[Row]:
    """Start this module in compile-only mode, for all targets at once, and collect the rows."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for target in targets:
            environment = {**os.environ, COMPILE_TARGET: target}
            environment.pop(INTERPRET, None)
            path = Path(folder) / f"{target}.json"
            command = [sys.executable, "-m", "fast.binaries.compilation", str(path), ",".join(ops)]
            running.append((path, subprocess.Popen(command, env=environment)))
        for path, process in running:
            if process.wait() == 0:
                rows += json.loads(path.read_text(encoding="utf-8"))
        failed = [path.stem for path, process in running if process.returncode]
    if failed:
        raise RuntimeError(f"kernels: compiling for {', '.join(failed)} failed, as said above")
    return rows


def compile_here(target: str, ops: Sequence[str]) -> list[Row]:
    """Drive the hosts in this process, which is in compile-only mode, and describe each kernel."""
    driving.stand_in(target)
    rows: list[Row] = []
    codes: list[bytes] = []
    for name in ops:
        seen: dict[str, Row] = {}
        number = 0
        for direction, dtype, start in driving.examples(name):
            launch.compiled.clear()
            start()
            for kernel, compiled, meta in launch.compiled:
                if compiled.hash not in seen:
                    seen[compiled.hash] = _describe(target, name, direction, kernel, compiled, meta)
                    codes.append(sass.code(compiled.asm["cubin"]))
                users = seen[compiled.hash]["config"].setdefault("dtypes", "").split()
                users += [dtype.name] if dtype.name not in users else []
                seen[compiled.hash]["config"]["dtypes"] = " ".join(users)
                seen[compiled.hash].setdefault("launches", []).append(number)
                number += 1
        rows += seen.values()
    for row, instructions in zip(rows, sass.listings(target, codes), strict=True):
        row |= sass.facts(instructions)
    return rows


def _shown(value: Any) -> Any:
    """Return a constant of a launch as JSON has it: functions by their names."""
    if isinstance(value, tuple):
        return [_shown(one) for one in value]
    return getattr(value, "__name__", value)


def _describe(
    target: str, op: str, direction: str, kernel: Any, compiled: Any, meta: dict[str, Any]
) -> Row:
    page = driving.page(op)
    types = [str(t) for t in compiled.src.signature.values() if str(t).startswith("*")]
    registers, spills = usage(compiled.asm["cubin"])
    warps, shared = compiled.metadata.num_warps, compiled.metadata.shared
    occupancy = machines.occupancy(target, registers, shared, warps)
    shown = {
        key: _shown(value) for key, value in meta.items() if value is not None and key != NUMBERED
    }
    config = {"direction": direction, "types": " ".join(types), **shown}
    config |= {key: getattr(compiled.metadata, key) for key in ("num_warps", "num_stages")}
    traded = machines.is_at_step(target, registers, shared, warps)
    rules = [
        *ptx_rules.violations(
            compiled.asm["ptx"], kernel.__name__, meta,
            any(t in NARROW for t in types), getattr(page, "APPROXIMATE", ()),
        ),
        *ptx_rules.overuse(target, shared),
        *(() if traded else ptx_rules.spilled(spills)),
    ]  # fmt: skip
    return {
        "name": f"{op}.{kernel.__name__}", "target": target, "config": config,
        "registers": registers, "spills": spills, "shared": shared,
        "occupancy": occupancy.share, "limit": occupancy.limit, "broken": rules,
        "traded": [*ptx_rules.spilled(spills)] if traded else [],
    }  # fmt: skip


def usage(cubin: bytes) -> tuple[int, int]:
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
