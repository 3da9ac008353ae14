"""The command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import against, cpu, engines, flat, gpu, growth, ops, start


def listed(text: str) -> list[str]:
    """Read names, separated by semicolons: those of engines have commas."""
    return [name.strip() for name in text.split(";") if name.strip()]


def main() -> int:
    """Run one of the measurements and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    on_cpu = commands.add_parser("cpu", help="one thread, interleaved pairs against torch, medians")
    on_cpu.add_argument("--json", type=Path, help="write the rows to this file")
    on_cpu.add_argument("--pairs", type=int, default=45, help="pairs per row (default: 45)")
    on_engines = commands.add_parser(
        "engines", help="whole steps: ours, torch eager and compiled, and JAX if it is installed"
    )
    on_engines.add_argument("--json", type=Path, help="write the rows to this file")
    on_engines.add_argument("--pairs", type=int, default=9, help="pairs of a run (default: 9)")
    on_engines.add_argument(
        "--works",
        type=listed,
        default=(),
        help="works by name, or updates, separated by semicolons",
    )
    on_engines.add_argument(
        "--engines", type=listed, default=(), help="engines by name, separated by semicolons"
    )
    on_start = commands.add_parser(
        "start", help="the first compiled step of fresh processes, in seconds"
    )
    on_start.add_argument("--json", type=Path, help="write the rows to this file")
    on_start.add_argument("--runs", type=int, default=5, help="runs (default: 5)")
    on_ops = commands.add_parser("ops", help="every op at three sizes, both passes, beside torch")
    on_ops.add_argument("--json", type=Path, help="write the rows to this file, and keep others")
    on_ops.add_argument("--ops", type=listed, default=(), help="ops by name (default: all)")
    on_ops.add_argument("--sizes", type=listed, default=(), help="small, middle, large")
    on_ops.add_argument("--engines", type=listed, default=(), help="eager tape; inductor")
    on_ops.add_argument("--pairs", type=int, default=9, help="pairs of a run (default: 9)")
    on_growth = commands.add_parser(
        "growth", help="a step's time as nodes, parameters and the batch grow"
    )
    on_growth.add_argument("--json", type=Path, help="write the rows to this file")
    on_growth.add_argument("--curves", type=listed, default=(), help="nodes, parameters, batch")
    on_growth.add_argument("--engines", type=listed, default=(), help="eager tape; inductor")
    on_growth.add_argument("--most", type=int, help="points of a curve, the least ones")
    on_growth.add_argument("--pairs", type=int, default=5, help="pairs of a run (default: 5)")
    on_commit = commands.add_parser(
        "against", help="the eager step beside an older commit's, in turn, each in a process"
    )
    on_commit.add_argument("commit", help="the older commit, as git names it")
    on_commit.add_argument("--json", type=Path, help="write the rows to this file")
    on_commit.add_argument("--runs", type=int, default=5, help="runs (default: 5)")
    on_commit.add_argument("--pairs", type=int, default=20, help="turns of a run (default: 20)")
    on_flat = commands.add_parser("flat", help="10,000 training steps: does anything grow?")
    on_flat.add_argument("--json", type=Path, help="write the rows and their curves to this file")
    on_flat.add_argument("--steps", type=int, default=10_000, help="steps (default: 10000)")
    on_gpu = commands.add_parser(
        "gpu", help="replay recorded cases, then time kernels; saves often"
    )
    on_gpu.add_argument("--json", type=Path, help="the results file (default: benchmarks/results)")
    on_gpu.add_argument("--cases", type=Path, default=Path("gpu-cases"), help="recorded cases")
    on_gpu.add_argument("--seconds", type=float, default=520, help="time for everything")
    on_gpu.add_argument("--commit", help="the commit measured, where git cannot tell")
    on_gpu.add_argument("--dry-run", action="store_true", help="the same steps, tiny, on a CPU")
    given = parser.parse_args()
    if given.command == "cpu":
        return cpu.main(given.json, given.pairs)
    if given.command == "engines":
        return engines.main(given.json, given.pairs, given.works, given.engines)
    if given.command == "start":
        return start.main(given.json, given.runs)
    if given.command == "ops":
        return ops.main(given.json, given.pairs, given.ops, given.sizes, given.engines)
    if given.command == "growth":
        return growth.main(given.json, given.pairs, given.curves, given.engines, given.most)
    if given.command == "against":
        return against.main(given.commit, given.json, given.runs, given.pairs)
    if given.command == "flat":
        return flat.main(given.json, given.steps)
    return gpu.main(given.json, given.cases, given.seconds, given.commit, given.dry_run)


if __name__ == "__main__":
    sys.exit(main())
