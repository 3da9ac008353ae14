"""Recorded training steps: reading them, and taking them again with another provider.

`steps/manifest.json` names the program, the provider, the optimizer and its hyper-parameters;
`steps/step-000NN.safetensors` holds everything before and after one step (docs/recorded-steps.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.training.checks import (
    RULES,
    Manifest,
    NoRecord,
    check_manifest,
    check_step,
    nodes_due,
)

if TYPE_CHECKING:
    from torch import Tensor

    from fast.commands.networks import Network
    from fast.session import Param, Session


@dataclass(frozen=True, slots=True)
class Taken:
    """What one step left: loss, gradients, the optimizer's tensors, buffers, and any nodes."""

    loss: Tensor
    gradients: Mapping[str, Tensor]
    params: Mapping[str, Tensor]
    states: Mapping[str, Mapping[str, Tensor]]
    buffers: Mapping[str, Tensor]
    nodes: Mapping[str, Tensor]


def read_manifest(run: Path) -> Manifest:
    """Read what a run recorded, or say what is missing."""
    path = run / "steps" / "manifest.json"
    if not path.is_file():
        raise NoRecord(
            f"{run} holds no recorded steps (no steps/manifest.json); record some with "
            "python -m fast train digits --keep-steps 3 --out RUN"
        )
    try:
        manifest = _manifest(json.loads(path.read_text(encoding="utf-8")))
    except KeyError as error:
        raise NoRecord(
            f"{path} has no {error}; docs/recorded-steps.md says what it holds"
        ) from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise NoRecord(
            f"{path} cannot be read ({error}); docs/recorded-steps.md says what it holds"
        ) from error
    for kind, known in (("program", tuple(networks())), *RULES):
        name = getattr(manifest, kind)
        if name not in known:
            raise NoRecord(f"cannot judge the {kind} {name!r}; known: {', '.join(known)}")
    check_manifest(path, manifest, networks()[manifest.program])
    return manifest


def _manifest(plain: Any) -> Manifest:
    """Read a manifest from JSON; any error says that it is none."""
    if not isinstance(plain, dict):
        raise TypeError(f"it is no JSON object, but {type(plain).__name__}")
    return Manifest(
        program=plain["program"],
        parameters=tuple(str(name) for name in plain["parameters"]),
        provider=plain["provider"],
        ring=None if plain.get("ring") is None else str(plain["ring"]),
        precision=plain["precision"],
        optimizer=plain["optimizer"],
        hyper={name: float.fromhex(value) for name, value in plain["hyper"].items()},
        steps=tuple(int(step) for step in plain["steps"]),
        buffers=tuple(str(name) for name in plain.get("buffers", ())),
        nodes=int(plain.get("nodes", 0)),
        engine=None if plain.get("engine") is None else str(plain["engine"]),
    )


def networks() -> dict[str, Network]:
    """Return the networks whose steps may be recorded, by the names of their programs."""
    from fast.commands.networks import NETWORKS

    return {network.program.__name__: network for network in NETWORKS.values()}


def loss_of(ops: Any, manifest: Manifest, refs: Sequence[Any], data: Sequence[Any]) -> Any:
    """Run the program of a recorded step on refs of its parameters, on its data and its buffers.

    The buffers are those of the session, made in the order in which the manifest names them.
    """
    return networks()[manifest.program].program(ops, *refs, *data, *ops.buffers)


def accuracy_of(run: Path) -> float | None:
    """Return the accuracy that a run reported at its end, None where it reported none."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return None
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found = [row["accuracy"] for row in rows if row.get("event") == "result"]
        return float(found[-1]) if found else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise NoRecord(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def load_step(run: Path, step: int, manifest: Manifest) -> dict[str, Tensor]:
    """Load the tensors of one recorded step, or say what is wrong with its file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = path_of(run, step)
    if not path.is_file():
        raise NoRecord(f"{path} is missing, although the manifest names its step")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise NoRecord(f"{path} cannot be read: {error}") from error
    check_step(path, manifest, tensors)
    return tensors


def check_call(run: Path, step: int, manifest: Manifest) -> None:
    """Refuse a recorded step whose tensors the program does not take, by calling it once."""
    from fast.commands.networks import Noted
    from fast.session import Session

    tensors = load_step(run, step, manifest)
    session = Session(provider="aten", precision=manifest.precision, device="cpu")
    params = _before(session, manifest, tensors).values()
    try:
        data, noted = (session.input(tensors["input/x"]), tensors["input/labels"]), Noted(session)
        loss = loss_of(noted, manifest, [session.use(param) for param in params], data)
        got = list(session.value(loss).shape)
    except (ValueError, TypeError, IndexError) as error:
        raise NoRecord(f"{path_of(run, step)}: {manifest.program} refuses it: {error}") from error
    if got:
        raise NoRecord(f"{path_of(run, step)}: the loss has the shape {got}, and is due as []")
    if manifest.nodes not in (0, len(noted.results)):
        raise NoRecord(
            f"{run}: {manifest.program} has {len(noted.results)} nodes, or none are recorded; the "
            f"manifest says {manifest.nodes}"
        )
    for k, ref in enumerate(noted.results[: manifest.nodes]):
        for name in (f"node/{k}", f"node_grad/{k}"):
            if (came := [*tensors[name].shape]) != (due := [*session.shape_of(ref)]):
                raise NoRecord(
                    f"{path_of(run, step)}: {name} has the shape {came}, where {due} is due"
                )


def path_of(run: Path, step: int) -> Path:
    """Return the file of a recorded step."""
    return run / "steps" / f"step-{step:05d}.safetensors"


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors under a prefix, by the rest of their names."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def recorded_step(manifest: Manifest, tensors: Mapping[str, Tensor]) -> Taken:
    """Read what the run itself did in a step."""
    params = under(tensors, "param_after/")
    states = {name: under(tensors, f"state_after/{name}/") for name in params}
    buffers = under(tensors, "buffer_after/")
    nodes = {name: tensors[name] for name in nodes_due(manifest)}
    return Taken(tensors["loss"], under(tensors, "grad/"), params, states, buffers, nodes)


def _before(
    session: Session, manifest: Manifest, tensors: Mapping[str, Tensor]
) -> dict[str, Param]:
    """Make the buffers and the parameters of a session that takes a step, and return the latter."""
    for name in manifest.buffers:
        session.buffer(tensors[f"buffer_before/{name}"], name)
    names = manifest.parameters
    return {name: session.param(tensors[f"param_before/{name}"], name) for name in names}


def retaken_step(manifest: Manifest, tensors: Mapping[str, Tensor], provider: str) -> Taken:
    """Take a recorded step again with another provider, from the same numbers."""
    from fast.commands.networks import Noted, nodes_of
    from fast.optim import OPTIMIZERS as RULES
    from fast.optim._functional import Functional
    from fast.session import Session

    session = Session(provider=provider, precision=manifest.precision)
    device = session.options.device
    names, params = manifest.parameters, _before(session, manifest, tensors)
    refs = [session.use(param) for param in params.values()]
    data = session.input(tensors["input/x"]), tensors["input/labels"]
    noted = Noted(session)
    loss = loss_of(noted, manifest, refs, data)
    nodes = nodes_of(session, noted.results) if manifest.nodes else {}
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
        {buffer.name: buffer.value() for buffer in session.buffers},
        nodes,
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
