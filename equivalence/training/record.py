"""Recorded training steps: reading them, and taking them again with another provider.

`steps/manifest.json` names the program, the provider, the optimizer and its hyper-parameters;
`steps/step-000NN.safetensors` holds everything before and after one step (docs/recorded-steps.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.blame import Refused, blaming
from spec.optim import OPTIMIZERS

if TYPE_CHECKING:
    from torch import Tensor

PROGRAMS = ("digits_mlp",)

PRECISIONS = ("fp32", "fp64")


class NoRecord(Refused):
    """There is nothing that can be judged; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the steps of a run are steps of."""

    program: str
    parameters: tuple[str, ...]
    provider: str
    precision: str
    optimizer: str
    hyper: Mapping[str, float]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What one step left: the loss, the gradients, and the optimizer's tensors afterwards."""

    loss: Tensor
    gradients: Mapping[str, Tensor]
    params: Mapping[str, Tensor]
    states: Mapping[str, Mapping[str, Tensor]]


def read_manifest(run: Path) -> Manifest:
    """Read what a run recorded, or say what is missing."""
    path = run / "steps" / "manifest.json"
    if not path.is_file():
        raise NoRecord(
            f"{run} holds no recorded steps (no steps/manifest.json); record some with "
            "python -m fast train digits --keep-steps 3 --out RUN"
        )
    plain = json.loads(path.read_text(encoding="utf-8"))
    manifest = Manifest(
        program=plain["program"],
        parameters=tuple(plain["parameters"]),
        provider=plain["provider"],
        precision=plain["precision"],
        optimizer=plain["optimizer"],
        hyper={name: float.fromhex(value) for name, value in plain["hyper"].items()},
        steps=tuple(int(step) for step in plain["steps"]),
    )
    for kind, name, known in (
        ("program", manifest.program, PROGRAMS),
        ("precision", manifest.precision, PRECISIONS),
        ("optimizer", manifest.optimizer, OPTIMIZERS),
    ):
        if name not in known:
            raise NoRecord(f"cannot judge the {kind} {name!r}; known: {', '.join(known)}")
    return manifest


def program(name: str) -> Callable[..., Any]:
    """Return a program that recorded steps may name."""
    from fast.commands import digits

    found: Callable[..., Any] = getattr(digits, name)
    return found


def accuracy_of(run: Path) -> float | None:
    """Return the accuracy that a run reported at its end, None where it reported none."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return None
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [row["accuracy"] for row in rows if row.get("event") == "result"]
    return float(found[-1]) if found else None


def load_step(run: Path, step: int) -> dict[str, Tensor]:
    """Load the tensors of one recorded step."""
    from safetensors.torch import load_file

    path = run / "steps" / f"step-{step:05d}.safetensors"
    if not path.is_file():
        raise NoRecord(f"{path} is missing, although the manifest names its step")
    return load_file(path)


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors under a prefix, by the rest of their names."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def recorded_step(tensors: Mapping[str, Tensor]) -> Taken:
    """Read what the run itself did in a step."""
    params = under(tensors, "param_after/")
    states = {name: under(tensors, f"state_after/{name}/") for name in params}
    return Taken(tensors["loss"], under(tensors, "grad/"), params, states)


def retaken_step(manifest: Manifest, tensors: Mapping[str, Tensor], provider: str) -> Taken:
    """Take a recorded step again with another provider, from the same numbers."""
    from fast.optim import OPTIMIZERS as RULES
    from fast.optim._functional import Functional
    from fast.session import Session

    session = Session(provider=provider, precision=manifest.precision)
    device = session.options.device
    names = manifest.parameters
    params = {name: session.param(tensors[f"param_before/{name}"], name) for name in names}
    refs = [session.use(param) for param in params.values()]
    x = session.input(tensors["input/x"])
    loss = program(manifest.program)(session, *refs, x, tensors["input/labels"])
    with session.backward(loss) as grads:
        gradients = {name: grads[params[name]].tensor.detach().clone() for name in names}
    starts = [tensors[f"param_before/{name}"].to(device) for name in names]
    handle = Functional(RULES[manifest.optimizer], starts, manifest.hyper, provider)
    before = [under(tensors, f"state_before/{name}/") for name in names]
    fields = sorted(before[0])
    handle.load_state(
        {
            key: [int(state[key]) if key == "step" else state[key].to(device) for state in before]
            for key in fields
        }
    )
    handle.step(list(gradients.values()))
    return Taken(
        session.value(loss),
        {name: gradient.cpu() for name, gradient in gradients.items()},
        {name: p.cpu() for name, p in zip(names, handle.params(), strict=True)},
        _states(names, handle.state()),
    )


def _states(
    names: Sequence[str], state: Mapping[str, Sequence[Any]]
) -> dict[str, dict[str, Tensor]]:
    """Turn an optimizer's state around: by parameter, then by field."""
    import torch

    return {
        name: {key: torch.as_tensor(row[k]).cpu() for key, row in state.items()}
        for k, name in enumerate(names)
    }
