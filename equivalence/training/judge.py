"""Judging training: the recorded steps of a run, against the reference running the same program.

A recorded step is a folder's `steps/step-000NN.safetensors` with everything before and after it
(docs/recorded-steps.md).  The reference takes over inputs, parameters and optimizer state exactly,
runs the program and one update, and every element is judged: the loss, every gradient, every
parameter, every moment, and what has become of the buffers.  The update is fed the recorded
gradient, so each fault shows where it is made.  Steps recorded with torch's kernels are then taken
again with the Triton kernels, from the same numbers, and judged once more.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.budgets.outcome import Outcome, merged, mismatch
from equivalence.runs.failure import plain_fraction
from equivalence.runs.report import show_fraction
from equivalence.runs.results import CONFORMANT, NONCONFORMANT
from equivalence.training.checks import Manifest, NoRecord, check_engine
from equivalence.training.record import (
    Taken,
    accuracy_of,
    check_call,
    load_step,
    loss_of,
    read_manifest,
    recorded_step,
    retaken_step,
    under,
)
from equivalence.workers.pool import Died, spread

if TYPE_CHECKING:
    from torch import Tensor

Task = tuple[Path, int, str]
"""A run, one of its steps, and the provider that takes it."""

SCHEMA = 1
"""The number of the JSON format of a verdict on recorded steps."""

PARTS = ("loss", "gradients", "parameters", "moments")
"""What every step has; there may be `buffers` that a program updates, and recorded `nodes`."""


def largest(fractions: Iterable[float | None]) -> float | None:
    """Return the largest fraction, None where nothing was judged."""
    return max((fraction for fraction in fractions if fraction is not None), default=None)


@dataclass(frozen=True, slots=True)
class JudgedStep:
    """The verdict on one step of one provider.

    `wide` counts the budgets of loss, gradients and nodes that are wider than a sixteenth of the
    largest entry of their tensor: these say little.
    """

    step: int
    provider: str
    parts: Mapping[str, Outcome]
    wide: int = 0

    @property
    def worst(self) -> float | None:
        """The worst fraction of the step."""
        return largest(outcome.fraction for outcome in self.parts.values())

    @property
    def conformant(self) -> bool:
        """Whether every part was judged and is within budget."""
        return all(o.judged > 0 and not o.failed for o in self.parts.values())


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a run."""

    steps: tuple[JudgedStep, ...]
    seconds: float = field(default=0.0, compare=False)
    complete: bool = True

    @property
    def worst(self) -> float | None:
        """The worst fraction of all steps."""
        return largest(step.worst for step in self.steps)

    @property
    def conformant(self) -> bool:
        """Whether every part of every step was judged and is within budget."""
        return bool(self.steps) and all(step.conformant for step in self.steps)


def judge_step(
    manifest: Manifest, tensors: Mapping[str, Tensor], taken: Taken, family: str
) -> tuple[dict[str, Outcome], int]:
    """Judge every element of one step, and count the budgets that say little."""
    from equivalence.backends.fast.programs import of_program
    from equivalence.budgets.judge import wide
    from equivalence.budgets.lifting.worlds import lift_one, store
    from equivalence.measure.call import compare
    from equivalence.training.nodes import judge_nodes
    from equivalence.training.rowwise import Rowwise
    from equivalence.worlds.arithmetic import Arithmetic
    from spec.session import Session

    arithmetic = Arithmetic(of_program(family, manifest.precision))
    session, names = Session(), list(manifest.parameters)
    params = {
        name: session.param(lift_one(tensors[f"param_before/{name}"], arithmetic), name)
        for name in manifest.parameters
    }
    refs = {name: session.use(param) for name, param in params.items()}
    for name in manifest.buffers:
        session.buffer(lift_one(tensors[f"buffer_before/{name}"], arithmetic), name)
    x = session.input(lift_one(tensors["input/x"], arithmetic))
    labels = lift_one(tensors["input/labels"], arithmetic)
    endless = [name for name, node in taken.nodes.items() if not bool(node.isfinite().all())]
    if taken.nodes and not endless:
        parts, vague = judge_nodes(manifest, taken, session, refs, [x, labels], arithmetic)
    else:
        loss = loss_of(Rowwise(session), manifest, [*refs.values()], [x, labels])
        gradients = session.backward(loss)
        value = store(session.value(loss), arithmetic)
        due = [store(session.grad(gradients, refs[name]), arithmetic) for name in names]
        vague = sum(wide(expected.data) for expected in (value, *due))
        parts = {
            "loss": compare(["loss"], [taken.loss], [value]),
            "gradients": compare(
                [f"gradient of {name}" for name in names],
                [taken.gradients[name] for name in names],
                due,
            ),
        }
    if endless:
        parts["nodes"] = mismatch(f"{endless[0]} is not finite")
    if manifest.buffers:
        parts["buffers"] = compare(
            manifest.buffers,
            [taken.buffers[name] for name in manifest.buffers],
            [store(buffer.value, arithmetic) for buffer in session.buffers],
        )
    return {**parts, **_judge_update(manifest, tensors, taken, family)}, vague


def _judge_update(
    manifest: Manifest, tensors: Mapping[str, Tensor], taken: Taken, family: str
) -> dict[str, Outcome]:
    """Judge the optimizer's step, from the recorded state and the provider's own gradients."""
    from equivalence.backends.fast.programs import of_update
    from equivalence.measure.call import compare
    from equivalence.measure.reference import expected_step
    from spec.optim import OPTIMIZERS

    contract = of_update(family, manifest.optimizer, manifest.precision)
    found = {"parameters": Outcome(), "moments": Outcome()}
    for name in manifest.parameters:
        if not bool(taken.gradients[name].isfinite().all()):
            said = f"gradient of {name} is not finite, so the step that it makes has no budget"
            found = {part: merged(outcome, mismatch(said)) for part, outcome in found.items()}
            continue
        before = under(tensors, f"state_before/{name}/")
        expected = expected_step(
            manifest.optimizer,
            tensors[f"param_before/{name}"],
            taken.gradients[name],
            {moment: before.get(moment) for moment in OPTIMIZERS[manifest.optimizer].moments},
            int(before.get("step", 0)),
            manifest.hyper,
            contract,
        )
        for key, allowed in expected.tensors.items():
            if allowed is None:
                continue
            own = key == "parameter"
            got = taken.params[name] if own else taken.states[name][key]
            part = "parameters" if own else "moments"
            found[part] = merged(found[part], compare([f"{key} {name}"], [got], [allowed]))
        found["moments"] = merged(found["moments"], _judge_count(name, taken, expected.step))
    return found


def _judge_count(name: str, taken: Taken, expected: int | None) -> Outcome:
    """Judge a step count: exactly."""
    count = taken.states[name].get("step")
    if expected is None or (count is not None and int(count) == expected):
        return Outcome(0.0, judged=int(expected is not None))
    return mismatch(f"step of {name}: expected {expected}, got {count}")


def tasks_of(run: Path, engine: str | None = None) -> list[Task]:
    """List the steps to judge: as recorded, and those of torch's kernels once more with ours.

    All files are read here once, so that no worker meets one that cannot be. Steps that another
    engine has taken than the one that is named, if any, raise NoRecord.
    """
    manifest = read_manifest(run)
    check_engine(run, manifest, engine)
    providers = [manifest.provider]
    if manifest.provider == "aten" and manifest.precision == "fp32":
        providers.append("triton")
    tasks = [(run, step, provider) for provider in providers for step in manifest.steps]
    if not tasks:
        raise NoRecord(f"{run} names no recorded steps")
    accuracy_of(run)
    for step in manifest.steps:
        check_call(run, step, manifest)
    return tasks


def judge_tasks(
    tasks: Sequence[Task], jobs: int, started: Callable[[int], None] = lambda number: None
) -> Generator[tuple[int, JudgedStep], None, None]:
    """Yield the number of each task and its verdict, as they are found; `started` hears a number.

    Close the iterator to end the worker processes.
    """
    with closing(spread(_task, tasks, jobs, started)) as ended:
        for number, found in ended:
            if isinstance(found, Died):
                _, step, provider = tasks[number]
                raise RuntimeError(f"step {step}, {provider}: the process {found.how}")
            yield number, found


def _task(run: Path, step: int, provider: str) -> JudgedStep:
    """Judge one step of one provider; runs in a worker process."""
    import torch

    from equivalence.backends.fast.contract import family_of

    torch.set_num_threads(1)
    manifest = read_manifest(run)
    tensors = load_step(run, step, manifest)
    if provider == manifest.provider:
        taken, family = recorded_step(manifest, tensors), family_of(provider, manifest.ring)
    else:
        taken, family = retaken_step(manifest, tensors, provider), family_of(provider)
    return JudgedStep(step, family, *judge_step(manifest, tensors, taken, family))


def judge_run(run: Path, jobs: int = 0) -> Judged:
    """Judge all recorded steps of a run: as recorded, and taken again by the Triton kernels."""
    start = time.perf_counter()
    found = dict(judge_tasks(tasks_of(run), jobs))
    return Judged(tuple(found[number] for number in sorted(found)), time.perf_counter() - start)


def report_steps(judged: Judged, run: Path, json_file: Path | None = None) -> int:
    """Print one line per step and provider, then what is over budget; return the exit code.

    The last line joins the accuracy that the run reported, if it did, to the verdict on its steps.
    """
    engine = read_manifest(run).engine
    if engine is not None:
        print(f"recorded steps, taken by the engine {engine}")
    parts = dict.fromkeys(part for step in judged.steps for part in step.parts) or PARTS
    print("step    provider            " + "".join(f"{part:>12}" for part in parts))
    for step in judged.steps:
        cells = "".join(f"{show_fraction(step.parts[part].fraction):>12}" for part in parts)
        print(f"{step.step:<7} {step.provider:<20}{cells}")
    for step in judged.steps:
        for part, line in problems(step):
            print(f"step {step.step}, {step.provider}, {part}: {line}")
    vague = sum(step.wide for step in judged.steps)
    if vague:
        print(
            f"{vague} budgets of losses, gradients and nodes are wider than a sixteenth of the "
            "largest entry, and say little; a recording with nodes is judged op by op "
            "(docs/recorded-steps.md)"
        )
    elements = sum(o.judged for step in judged.steps for o in step.parts.values())
    print(
        f"{len(judged.steps)} steps, {elements} elements judged in {judged.seconds:.1f} s; "
        f"worst fraction of budget {show_fraction(judged.worst)}"
    )
    accuracy = accuracy_of(run)
    if accuracy is not None and judged.worst is not None:
        summary = f"accuracy {accuracy:.4f}, worst fraction of budget {judged.worst:.2f}"
        print(f"{run.resolve().name}: {summary}")
    if json_file is not None:
        json_file.write_text(json.dumps(steps_document(judged), indent=1) + "\n", encoding="utf-8")
    sys.stdout.flush()
    return CONFORMANT if judged.conformant else NONCONFORMANT


def problems(step: JudgedStep) -> list[tuple[str, str]]:
    """Return what is over budget in a step, each with its part."""
    return [
        (part, line)
        for part, outcome in step.parts.items()
        for line in (outcome.problem, outcome.detail and outcome.detail.line())
        if line
    ]


def steps_document(judged: Judged) -> dict[str, Any]:
    """Return the verdict as plain data."""
    steps = [
        {
            "step": step.step,
            "provider": step.provider,
            "conformant": step.conformant,
            **{part: plain_fraction(step.parts[part].fraction) for part in step.parts},
            "wide": step.wide,
            "problems": [f"{part}: {line}" for part, line in problems(step)],
        }
        for step in judged.steps
    ]
    return {
        "schema": SCHEMA,
        "command": "judge",
        "complete": judged.complete,
        "conformant": judged.complete and judged.conformant,
        "worst_fraction": plain_fraction(judged.worst),
        "steps": steps,
    }
