"""The benchmarks time in pairs, save whole files, end what is late, and refuse what cannot run."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import (
    against,
    calls,
    cpu,
    engines,
    flat,
    gpu,
    graphs,
    growth,
    kernels,
    ops,
    products,
    start,
    targets,
    timing,
    works,
)
from benchmarks.alone import Alone
from benchmarks.counts import Counts, counted
from benchmarks.report import environment, save
from benchmarks.timing import made_in_turn, paired
from fast import OPS, Session
from fast.kernels import tiles
from fast.optim import OPTIMIZERS
from tools import generate_growth
from tools.tree import ROOT

pytestmark = pytest.mark.slow


def test_pairs_are_timed_in_turn() -> None:
    calls: list[str] = []
    paired(lambda: calls.append("a"), lambda: calls.append("b"), pairs=4)
    turns = [c for k, c in enumerate(calls) if k == 0 or c != calls[k - 1]]
    assert "".join(turns).endswith("ababa"), "ours theirs, theirs ours, ours theirs, theirs ours"


def test_what_is_made_first_has_no_part_in_a_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def making(name: str, takes: float) -> Callable[[], Callable[[], float]]:
        def make() -> Callable[[], float]:
            made.append(name)
            return lambda: takes

        return make

    def the_first_takes_four_times(
        first: Callable[[], float], second: Callable[[], float], pairs: int
    ) -> tuple[float, float, float]:
        a, b = first() * 4, second()
        return a / b, a, b

    monkeypatch.setattr(timing, "paired", the_first_takes_four_times)
    found = made_in_turn(making("ours", 4.0), making("theirs", 2.0), pairs=1)
    assert made == ["ours", "theirs", "theirs", "ours"]
    assert found == (2.0, 8.0, 4.0), "the ratio, and twice what each takes"


def test_saved_results_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    save(path, {"environment": environment("a device", commit="abc")})
    saved = json.loads(path.read_text())["environment"]
    assert (saved["device"], saved["commit"]) == ("a device", "abc")
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


def test_rows_carry_name_ratio_and_target() -> None:
    row = cpu.versus("a chain", 1.2, cpu.our_chain(), cpu.their_chain(), pairs=1)
    assert row["name"] == "a chain" and row["ratio"] > 0 and row["target"] == 1.2


@pytest.mark.parametrize(("ratio", "code"), [(1.1, 0), (1.5, 0), (2.1, 1)])
def test_a_known_miss_is_named_and_held(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ratio: float, code: int
) -> None:
    row = {"name": "a page", "ratio": ratio, "target": 1.25, "held": 2.0}
    monkeypatch.setattr(cpu, "rows", lambda pairs: iter([row]))
    assert cpu.main(None, 1) == code
    assert ("MISSED, as is known; held to 2.00" in capsys.readouterr().out) is (ratio > 1.25)


def test_a_step_costs_no_more_than_it_did() -> None:
    torch.set_num_threads(1)
    found = counted(cpu.our_step())
    assert found.dispatches <= targets.DISPATCHES, "what does a call pay for that it does not use?"
    assert found.calls <= targets.CALLS, "what does a call pay for that it does not use?"


def test_one_more_dispatch_and_one_more_call_are_counted() -> None:
    x = torch.ones(3)
    plain = counted(lambda: x.neg())
    again = counted(lambda: x.neg().neg())
    assert (again.dispatches, again.calls) == (plain.dispatches + 1, plain.calls)

    def inner() -> torch.Tensor:
        return x.neg()

    within = counted(lambda: inner())
    assert (within.dispatches, within.calls) == (plain.dispatches, plain.calls + 1)


def test_a_garbage_collection_amid_a_step_is_not_counted() -> None:
    """Hypothesis listens to the collector, too: its two calls broke the count of a step."""
    phases: list[str] = []

    def heard(phase: str, found: object) -> None:
        phases.append(phase)

    def allocating() -> None:
        phases.clear()
        for _ in range(2 * gc.get_threshold()[0]):
            kept.append([])

    kept: list[list[object]] = []
    gc.callbacks.append(heard)
    try:
        assert counted(allocating) == Counts(dispatches=0, calls=1)
        assert gc.isenabled(), "who counts leaves the collector as it was"
        allocating()
        assert phases, "such a step is one in which garbage is collected"
    finally:
        gc.callbacks.remove(heard)


@pytest.mark.full
def test_an_older_commit_is_taken_beside_this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "unpacked", lambda commit: ROOT)
    rows = against.rows("HEAD", runs=1, pairs=1, calls=1)
    assert [row["target"] for row in rows] == [targets.AGAINST, targets.EAGER, None]
    assert all(row["ratio"] > 0 for row in rows)


def test_a_commit_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert against.main("no-such-commit", None, 1, 1) == 2
    assert "git knows no commit 'no-such-commit'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "refused",
    [
        lambda: engines.main(None, 1, ["digit"]),
        lambda: engines.main(None, 1, [], ["jit"]),
        lambda: ops.main(None, 1, ["adds"], [], []),
        lambda: ops.main(None, 1, [], ["huge"], []),
        lambda: ops.main(None, 1, [], [], ["jit"]),
        lambda: growth.main(None, 1, ["depth"], [], None),
        lambda: growth.main(None, 1, [], ["jit"], None),
    ],
)
def test_a_name_that_is_not_known_is_refused_with_those_that_are(
    refused: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused() == 2
    assert ": one of " in capsys.readouterr().err


def test_works_and_engines_may_be_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "paired", lambda ours, theirs, pairs: (1.5, 3e-6, 2e-6))
    monkeypatch.setattr(engines.os, "sched_setaffinity", lambda *_: None)
    assert engines.main(None, 1, ["normed"], ["replay"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split() == ["normed:", "replay", "/", "torch", "eager", "1.500"]


@pytest.mark.parametrize("op", calls.COMPARED)
def test_every_op_is_called_as_torch_is(op: str) -> None:
    found = calls.call(op, "small")
    base, theirs = ops.theirs(found)
    step, ours = ops.ours(found, Session)
    base()
    for _ in range(2):
        step()
        ops.compare(found, "eager tape", ours(), theirs())
    assert (found.cotangent is None) == (not any(x.is_floating_point() for x in found.inputs)) or (
        op in ("detach", "argmax", "argmin")
    )


def test_results_that_are_apart_are_not_timed() -> None:
    found = calls.call("tanh", "small")
    base, theirs = ops.theirs(found)
    base()
    right = theirs()
    for wrong in (
        [right[0] + 0.1, right[1]],
        [right[0], right[1] * 1.5],
        [right[0], right[1] * nan],
    ):
        with pytest.raises(RuntimeError, match="tanh, small: mine and torch differ"):
            ops.compare(found, "mine", wrong, right)


def test_rows_of_ops_that_a_file_holds_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ops, "paired", lambda ours, theirs, pairs: (1.5, 3e-6, 2e-6))
    path = tmp_path / "ops.json"
    for op in ("add", "tanh", "add"):
        assert ops.main(path, 1, [op], ["small"], ["eager tape"]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [(row["op"], row["passes"], row["ratio"]) for row in rows] == [
        ("add", 2, 1.5), ("tanh", 2, 1.5)
    ]  # fmt: skip


def test_a_start_is_timed_from_the_process_and_from_the_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loss = engines.taken(*engines.eager(works.WORKS[0]), 1)
    asked: list[dict[str, str]] = []

    def run(command: list[str], env: dict[str, str], **_: object) -> object:
        asked.append(env)
        Path(env["TORCHINDUCTOR_CACHE_DIR"]).mkdir(exist_ok=True)
        told = json.dumps({"imported": 3e9, "done": 3e9 + 7.0, "loss": told_loss})
        return subprocess.CompletedProcess(command, 0, stdout=f"{told}\n", stderr="")

    monkeypatch.setattr(start.subprocess, "run", run)
    told_loss = loss
    never, warm, cached = start.rows(1)
    assert never["seconds"] > 1e6 and warm["seconds"] > 1e6 and cached["seconds"] == 7.0
    folders = [env["TWINGRAD_CACHE"] for env in asked]
    assert len({*folders}) == 1 and asked[2]["PATH"] == str(Path(folders[0]).parent)
    told_loss = loss * 1.1
    with pytest.raises(RuntimeError, match="the loss is"):
        next(start.rows(1))


def test_a_picture_of_growth_is_of_its_rows_and_nothing_else() -> None:
    row = {"curve": "nodes", "engine": "inductor", "at": 4, "ours_us": 90.0, "theirs_us": 900.0}
    about = {"processor": "a <processor>", "date": "2026-01-02T00:00", "commit": "0123456789"}
    rows = [row, {**row, "at": 40, "ours_us": 150.0}, {**row, "engine": "eager tape"}]
    drawn = generate_growth.picture({"environment": about, "rows": rows})
    assert drawn == generate_growth.picture({"environment": about, "rows": rows})
    assert drawn.count("<polyline") == 3 and drawn.count("<circle") == 5
    assert "inductor: 150 us at 40" in drawn and "torch eager: 900 us at 4" in drawn
    assert "a &lt;processor&gt;, 2026-01-02, commit 0123456" in drawn


def test_points_of_a_curve_grow() -> None:
    for curve in growth.CURVES:
        sizes = [at for at, _ in growth.points(curve)]
        assert sizes == sorted({*sizes})
    (nodes, work), *_ = growth.points("nodes")
    session = Session(provider="aten", device="cpu")
    params = [session.param(value) for value in work.parameters()]
    x, labels = work.data()
    out = session.run(work.ours, params, [x, torch.from_numpy(labels)])
    assert out.id + 1 - len(params) - 1 == nodes


def test_what_is_too_late_is_ended_with_its_children() -> None:
    child = "import time; print('started', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    code, end = gpu.attempt([sys.executable, "-c", parent], limit=2)
    assert code is None and "started" in end


def test_replay_reports_the_suite_s_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str], limit: float) -> tuple[int | None, str]:
        report = command[command.index("--json") + 1]
        Path(report).write_text('{"rows": [{"op": "add", "status": "nonconformant"}]}')
        return 1, "the end"

    monkeypatch.setattr(gpu, "attempt", answer)
    part = gpu.Suite("fast-triton", Path("cases")).replay(["add"], lambda: 1.0)
    assert part["status"] == "nonconformant" and part["end"] == "the end"
    equal = [{"status": "equal"}]
    clean = {"memory_check": {"status": "clean"}, "products": equal, "graphs": equal}
    assert not gpu.in_order({**clean, "replay": [part]})
    assert gpu.in_order({**clean, "replay": [{"status": "conformant"}]})
    for stage in ("products", "graphs"):
        differs = {**clean, stage: [*equal, {"status": "differs"}]}
        assert not gpu.in_order({**differs, "replay": [{"status": "conformant"}]})


def test_every_op_is_replayed_once_beside_the_memory_checker() -> None:
    class Answering(gpu.Suite):
        def replay(self, ops: Sequence[str], left: Callable[[], float]) -> dict[str, Any]:
            assert 0 < left() <= 10 * gpu.REPLAYING
            return {"ops": ops}

        def memory_check(self, left: Callable[[], float]) -> dict[str, Any]:
            return {"status": "clean"}

    found = list(gpu.replayed(Answering("fast-triton", Path("cases")), gpu.Clock(10)))
    replayed = [op for kind, part in found if kind == "replay" for op in part["ops"]]
    assert sorted(replayed) == sorted([*OPS, *OPTIMIZERS])
    assert [part for kind, part in found if kind == "memory_check"] == [{"status": "clean"}]


def test_a_suite_that_wrote_no_row_has_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "attempt", lambda command, limit: (1, "ImportError"))
    part = gpu.Suite("fast-triton", Path("cases")).replay(["add"], lambda: 1.0)
    assert part["status"] == "crash" and part["end"] == "ImportError"


def test_large_tiles_of_products_are_compared_with_exact_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = tiles.ENOUGH
    found = products.rows(dry_run=True)
    assert len(found) == len({row["name"] for row in found}) == 48
    assert {(row["tile"], row["status"]) for row in found} == {("large", "equal")}
    assert before == tiles.ENOUGH
    product = OPS["matmul"].value
    wrong = replace(OPS["matmul"], value=lambda x, y: (product(x, y)[0] + 1, ()))
    monkeypatch.setitem(OPS, "matmul", wrong)
    assert [row["name"] for row in products.rows(dry_run=True) if row["status"] != "equal"] == [
        row["name"] for row in found if row["name"].startswith("matmul")
    ]


def test_every_op_has_inputs_that_a_gpu_is_timed_on() -> None:
    assert {*kernels.TRAINED, *kernels.ATTRIBUTES} <= {*OPS}
    for op in OPS.values():
        for dtype in (torch.float32, torch.bfloat16):
            given, _ = kernels.inputs(op, dtype, dry_run=True)
            assert {x.dtype for x in given if x.is_floating_point()} <= {dtype}


def test_a_product_is_timed_by_both_providers() -> None:
    rows = list(kernels.compare(OPS["linear"], dry_run=True))
    names = [
        f"linear {way} {dtype}" for dtype in ("float32", "bfloat16") for way in ("value", "vjp")
    ]
    assert [row["name"] for row in rows] == names
    assert all(row["ratio"] > 0 and row["ours_host_us"] > 0 for row in rows)


def test_after_an_error_calls_go_on_in_another_process(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [{"name": "fine"}]
    with Alone() as alone:
        assert alone.rows("fine", json.loads, json.dumps(fine)) == fine
        for name, call, given, said in (
            ("wrong", json.loads, "{", "JSONDecodeError"),
            ("dead", os._exit, 3, "BrokenProcessPool"),
        ):
            (row,) = alone.rows(name, call, given)
            assert (row["name"], row["status"]) == (name, "error") and said in row["error"]
            assert f"{name}: {said}" in capsys.readouterr().err
            assert alone.rows("fine", json.loads, json.dumps(fine)) == fine


def test_what_a_graph_is_timed_beside_takes_the_steps_that_torch_takes() -> None:
    work = works.WORKS[0]
    theirs = graphs.THEIRS["torch eager"](work, device="cpu")  # type: ignore[call-arg]
    step, read = engines.eager(work)
    for _ in range(3):
        step()
        assert theirs().item() == read()
    named = [name for name, _, _ in graphs.calls(dry_run=False)]
    assert len(named) == len({*named}) == len(works.WORKS) * (1 + len(graphs.THEIRS))


class Falling:
    """A training whose loss falls, by as much as it is told."""

    def __init__(self, engine: str, steps: dict[str, float]) -> None:
        if engine not in steps:
            raise ValueError(f"no {engine} here")
        self.loss, self.by = torch.tensor(1.0), steps[engine]

    def step(self) -> None:
        self.loss = self.loss * self.by

    timed = step

    def seen(self) -> list[torch.Tensor]:
        return [self.loss]


def test_a_graph_counts_only_if_it_does_what_a_replay_does() -> None:
    def compared(**steps: float) -> dict[str, Any]:
        return graphs.compared("net", lambda kind: Falling(kind, steps), "graph", False)  # type: ignore[arg-type,return-value]

    assert compared(replay=0.5, graph=0.5)["status"] == "equal"
    differing = compared(replay=0.5, graph=0.5 + 2**-24)
    assert differing == {"name": "net", "status": "differs", "step": 0}
    assert compared(replay=0.5)["error"] == "ValueError: no graph here"


def growing(step: Callable[[], object]) -> list[str]:
    return missed(flat.measure(20, step, samples=20))


def missed(curves: dict[str, list[int]]) -> list[str]:
    return [row["name"].split(",")[0] for row in flat.rows(curves, 20) if row["ratio"] > 1]


def test_training_steps_leave_nothing_behind() -> None:
    curves = flat.measure(60, samples=20)
    assert not set(missed(curves)) & {"live bytes", "live buffers", "Python objects"}
    assert all(len(curve) == 20 for curve in curves.values())
    assert flat.main(None, 150) == 2, "samples are taken at equal distances"


def test_what_grows_with_the_steps_is_missed() -> None:
    held: list[object] = []
    session = Session(provider="aten", device="cpu")
    assert "live bytes" in growing(lambda: session.input([1.0]))
    assert growing(lambda: held.append([])) == [
        "Python objects",
        "Python memory blocks",
    ]
    assert "Python memory blocks" in growing(lambda: held.append(object()))
    assert flat.drawn([1, 1, 1, 1]) == "▁▁" and flat.drawn([1, 1, 2, 8]) == "▁█"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so() -> None:
    command = [sys.executable, "-m", "benchmarks", "gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "no CUDA device" in done.stderr
