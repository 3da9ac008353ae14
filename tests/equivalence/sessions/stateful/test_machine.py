"""The state machine of sessions: short runs at every configuration, proofs that it would notice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from equivalence.budgets.violation import Violation, same_bits
from equivalence.cases.families.family import Picks
from equivalence.cli import main
from equivalence.sessions.seen import Seen
from equivalence.sessions.stateful import machine
from equivalence.sessions.stateful.bad import KINDS
from equivalence.sessions.stateful.machine import CONFIGURATIONS, run_machine
from equivalence.sessions.stateful.model import Arena
from equivalence.sessions.stateful.rules import Rules
from equivalence.sessions.stateful.run import Run
from equivalence.worlds.arithmetic import Arithmetic
from equivalence.worlds.bounded import exact
from equivalence.worlds.contract import FP32, Contract
from fast.device import flags
from fast.naturals import Naturals
from fast.runtime.param import Param
from spec.ops import tanh
from spec.scalar import divide, sqrt
from tools.tree import ROOT

pytestmark = pytest.mark.slow

SIZES = {"aten": (30, 30), "triton": (10, 15)}
"""How many runs, and how long: an interpreted kernel takes milliseconds."""

TRIED = [
    pytest.param(*one, marks=[pytest.mark.full] if one == ("triton", "bf16") else [])
    for one in CONFIGURATIONS
]
"""Each change tries the interpreter, and 16 bits; `make full` tries them together, too."""


@pytest.mark.holds(
    "Upload, download, one number",
    "Bring a parameter's host copy up to date",
    "Replace a parameter's device mirror",
    "Overwrite a parameter's host value",
    "Release a buffer",
    "Gradients by trainable leaf",
    "Free a tape's values, keep the mirrors",
    "After an optimizer step: what is stale, and what stays",
    "Release gradients, on any exit",
    "Return memory to the system",
    "Forget the tape, and not the random counter",
    "Read a value back",
    "Let no gradient pass",
    "Random numbers",
    "Use a parameter, once or more often",
    "Inputs, with a gradient or without",
    "Naturals",
    "Vectors of naturals",
    "Gradients of every entry on the device, with a seed or from a scalar loss",
    "Take one contribution to a leaf",
    "Gradients of the trainable leaves",
    "Gradients of every entry in the reference",
    "Look a gradient up",
    "Stochastic gradient descent, from any form of gradients",
    "Optimizer state, one for each parameter, by leaf id",
    "Adam",
    "AdamW",
)
@pytest.mark.parametrize(("provider", "precision"), TRIED)
def test_every_promise_is_kept(provider: str, precision: str) -> None:
    runs, steps = SIZES[provider]
    run = run_machine(provider, precision, runs, steps, 0)
    assert not run.says, run.program
    assert run.cases >= runs
    assert run.statements > steps * runs
    assert run.judged > steps * runs


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_every_promise_is_kept_in_fp16(provider: str) -> None:
    """A written run: drawn ones leave the range of fp16."""
    run = Run(provider, "fp16")
    run.param((3, 2), 1)
    run.param((2,), 2)
    for name, scale in (("adamw", 1024.0), ("sgd", 48.0)):
        run.use(0)
        run.use(1)
        run.op(tanh.op.name, (0,))
        run.op("softmax", (2,), axis=-1)
        run.op("sum", (3,), axes=(0,), keepdims=False)
        run.op("mul", (4, 1))
        run.backward(5, 0)
        run.step(name, max(run.grads), lr=0.5, max_norm=0.5, grad_scale=scale)
        run.save()
        run.load()
        for grads in [*run.grads]:
            run.release(grads)
        run.reset_tape()
    run.resume()
    run.end()


def test_a_zero_gradient_has_a_root_and_another_is_not_squared_exactly() -> None:
    """A ball around a zero gradient would have no root, and leave Adam's update unjudged."""
    zero, three = exact(Arithmetic(Contract("ieee", FP32, FP32)), 0.0, 3.0)
    assert divide(three, sqrt(zero * zero) + three).w.is_finite()
    assert not (three * three + 1).exact


def test_what_weight_decay_adds_to_a_zero_gradient_may_be_squared_in_any_order() -> None:
    """The kernel rounds (c p) p twice where the reference's p p is exact."""
    run = Run("triton", "bf16")
    run.param((64,), 0)
    run.use(0)
    run.op("sub", (0, 0))
    run.backward(1, 0)
    run.step("adam", 0, lr=1e-5, weight_decay=1.0)
    run.release(0)
    run.end()


def test_the_same_number_drives_the_same_runs() -> None:
    first, again, other = (run_machine("aten", "fp32", 4, 10, number) for number in (7, 7, 8))
    assert (first.statements, first.judged) == (again.statements, again.judged)
    assert (first.statements, first.judged) != (other.statements, other.judged)


def test_no_run_is_made_out_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a run begin as it does."""
    begun: list[Picks] = []

    def begin(self: Rules, n: Picks) -> None:
        begun.append(n)
        plain(self, n)

    plain = Rules.begin
    monkeypatch.setattr(Rules, "begin", begin)
    run_machine("aten", "fp32", 30, 2, 0)
    assert len(begun) == 30
    assert len({*begun}) > 25


def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a write on the host leave the mirror as it was, and say that it is current."""

    def set_value(self: Any, value: Any) -> None:
        plain(self, value)
        self.mirror_current = True

    plain = Param.set
    monkeypatch.setattr(Param, "set", set_value)


def test_a_broken_promise_is_found_and_its_program_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch)
    run = run_machine("aten", "fp32", 20, 30, 0)
    assert "current: both, due is host" in run.says
    assert run.program.startswith(
        "from equivalence.sessions.stateful.run import Run\n\nrun = Run('aten'"
    )
    with pytest.raises(Violation) as found:
        exec(run.program, {})
    assert found.value.says == run.says


def test_a_program_replays_in_a_process_of_its_own() -> None:
    program = "\n".join(
        [
            "from equivalence.sessions.stateful.run import Run",
            "run = Run('aten', 'fp32')",
            "run.param((2,), 1)",
            "run.use(0)",
            "run.backward(0, 2)",
            "run.step('sgd', 0, lr=0.5)",
            "run.release(0)",
            "run.reset_tape()",
            "run.end()",
        ]
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def run_of_one(provider: str = "aten", precision: str = "fp32") -> Run:
    """Start a run with one parameter of three entries, in use."""
    run = Run(provider, precision)
    run.param((3,), 1)
    run.use(0)
    return run


def touch_value(run: Run) -> None:
    run.pair.fast._tape.values[1].add_(1.0)


def touch_mirror(run: Run) -> None:
    run.pair.fast.store.masters.views[0].add_(1.0)


def touch_host(run: Run) -> None:
    run.pair.params[0].fast._host.add_(1.0)


def touch_version(run: Run) -> None:
    run.pair.params[0].fast.version += 1


def touch_gradient(run: Run) -> None:
    run.grads[0].arena.views[0].add_(1.0)


def touch_moment(run: Run) -> None:
    states = run.pair.fast.optimizers["adam"]._states
    assert states is not None
    states[0].views[0].add_(1.0)


def touch_counter(run: Run) -> None:
    run.pair.fast.random_counter = 7


def hold_memory(run: Run) -> None:
    run.past = (run.pair.fast.upload([1.0]),)


@pytest.mark.parametrize(
    ("touch", "says"),
    [
        (touch_value, "entry 1: "),
        (touch_mirror, "parameter 0: mirror: "),
        (touch_host, "parameter 0: host copy: "),
        (touch_version, "parameter 0: version: 1, due is 0"),
        (touch_gradient, "gradients 0 of parameter 0: "),
        (touch_counter, "random counters: "),
        (hold_memory, "live bytes and buffers: "),
    ],
)
def test_what_is_touched_from_outside_is_noticed(touch: Callable[[Run], None], says: str) -> None:
    run = run_of_one()
    run.op("add", (0, 0))
    run.backward(1, 3)
    touch(run)
    with pytest.raises(Violation, match=says):
        run.collect()


def test_a_touched_moment_is_noticed() -> None:
    run = run_of_one()
    run.backward(0, 3)
    run.step("adam", 0, lr=0.5)
    touch_moment(run)
    with pytest.raises(Violation, match="adam state of parameter 0: exp_avg"):
        run.collect()


def test_what_is_not_refused_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of_one()
    monkeypatch.setattr(Naturals, "_scalar", lambda self, value: torch.tensor(0))
    with pytest.raises(Violation, match=r"^nat\(-1\) went on, due is Rejected$"):
        run.bad("naturals")


@pytest.mark.holds(
    "Sizes are checked before use", "Stochastic gradient descent, from any form of gradients"
)
@pytest.mark.parametrize(("provider", "precision"), CONFIGURATIONS)
def test_bad_arguments_of_every_kind_change_nothing(provider: str, precision: str) -> None:
    run = run_of_one(provider, precision)
    run.nat(1)
    run.nat([0, 2])
    run.op("sum", (0,), axes=None, keepdims=False)
    run.backward(1)
    run.backward_dense(1)
    for kind in KINDS:
        run.bad(kind)
    run.step("adamw", 0, lr=0.5)
    run.release(0)
    run.release(1)
    run.reset_tape()
    run.end()


def test_a_flag_stops_an_update_and_is_cleared() -> None:
    run = run_of_one()
    run.backward(0, 3)
    run.flagged("sgd", 0, lr=0.5, momentum=0.5)
    assert not int(flags.word(torch.device("cpu")))
    run.step("sgd", 0, lr=0.5, momentum=0.5)
    assert run.model.params[0].version == 2


def test_an_arena_of_the_model_doubles() -> None:
    arena = Arena(itemsize=4)
    sizes = []
    for total, slots in ((64, 1), (128, 2), (192, 3), (192, 4), (256, 5)):
        arena.fit(total, slots)
        sizes.append(arena.nbytes // 4)
    assert sizes == [64, 128, 256, 256, 256]


def test_bits_tell_zeros_apart() -> None:
    zero, nan = torch.tensor([0.0]), torch.tensor([torch.nan])
    assert same_bits(nan, nan.clone())
    assert not same_bits(zero, -zero)
    assert not same_bits(zero, zero.double())
    assert not same_bits(zero, torch.zeros(2))


def test_the_command_reports_each_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "CONFIGURATIONS", (("aten", "fp32"), ("aten", "bf16")))
    assert main(["machine", "--profile", "quick", "--jobs", "0", "--seed", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["lives", "aten", "fp32", "8"],
        ["lives", "aten", "bf16", "8"],
    ]
    assert "2 conformant; 16 cases" in lines[-1] and lines[-1].endswith("(seed 5)")


def test_many_lives_are_driven_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [str(row) for row in machine.machine_rows("ci")] == [
        *("lives aten fp32", "lives triton fp32", "lives aten bf16", "lives triton bf16")
    ]
    rows = machine.machine_rows("thorough")
    asked: list[tuple[int, int]] = []

    def driven(provider: str, precision: str, number: int, steps: int, seed: int, *_: bool) -> Seen:
        asked.append((number, seed))
        return Seen(cases=number, judged=1)

    monkeypatch.setattr(machine, "run_machine", driven)
    for row in rows:
        assert machine.judge_machine("thorough", 7, False, row).status == "conformant"
    assert sum(number for number, _ in asked) >= 4 * 500
    assert len({seed for _, seed in asked}) == len(rows) == len(set(rows))


def test_the_command_prints_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch)
    monkeypatch.setattr(machine, "CONFIGURATIONS", (("aten", "fp32"),))
    assert main(["machine", "--profile", "quick", "--jobs", "0"]) == 1
    shown = capsys.readouterr().out
    assert "This program replays it:" in shown
    assert "run = Run('aten', 'fp32')" in shown


def test_the_command_names_the_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "--profile", "slow"]) == 2
    assert "there are quick, ci, thorough" in capsys.readouterr().err
