"""What a recorded run must hold before any of it is judged: a folder that does not is refused.

A run folder may be cut short, edited or written by somebody else's loop. Nothing here judges
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivalence.blame import Refused
from spec.optim import OPTIMIZERS

if TYPE_CHECKING:
    from torch import Tensor

    from fast.commands.networks import Network

PRECISIONS = ("fp32", "fp64")

RINGS = {"aten": ("host", "device"), "triton": ("interpreted", "device")}
"""Where each provider can have taken a step."""

PROVIDERS = tuple(RINGS)

RULES = (
    ("provider", PROVIDERS),
    ("precision", PRECISIONS),
    ("optimizer", tuple(OPTIMIZERS)),
)
"""What a manifest names beside its program, of which only some can be judged."""


GIVEN = ("input/x", "param_before/", "buffer_before/", "state_before/", "node/", "node_grad/")
"""How the names of tensors begin that a step starts from."""


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
    engine: str | None = None
    ring: str | None = None
    buffers: tuple[str, ...] = ()
    nodes: int = 0


def check_manifest(path: Path, manifest: Manifest, network: Network) -> None:
    """Refuse a manifest whose optimizer or whose program takes other names or numbers.

    A ring, if one is named, is one of the provider's.
    """
    rings = RINGS[manifest.provider]
    if manifest.ring not in (None, *rings):
        raise NoRecord(
            f"{path}: the ring is {manifest.ring!r}; steps of the provider {manifest.provider} are "
            f"taken on one of {', '.join(rings)}"
        )
    for kind, due in (("parameters", network.parameters(1, 0)), ("buffers", network.buffers(1))):
        names: tuple[str, ...] = getattr(manifest, kind)
        if len(names) != len(due):
            has = f"has the {kind} {', '.join(due)}" if due else f"has no {kind}"
            raise NoRecord(
                f"{path}: {manifest.program} {has}; the manifest names {len(names)}: "
                f"{', '.join(names) or 'none'}"
            )
    named = {"parameter": manifest.parameters, "buffer": manifest.buffers, "step": manifest.steps}
    for what, each in named.items():
        if len(set(each)) < len(each):
            raise NoRecord(f"{path} names a {what} twice")
    wrong = [name for name, value in manifest.hyper.items() if not isfinite(value)]
    if wrong:
        raise NoRecord(f"{path}: {wrong[0]} is {manifest.hyper[wrong[0]]}; a finite number is due")
    try:
        OPTIMIZERS[manifest.optimizer].hyper(**manifest.hyper)
    except (TypeError, ValueError) as error:
        raise NoRecord(f"{path}: {manifest.optimizer} takes other hyper: {error}") from error


def check_engine(run: Path, manifest: Manifest, engine: str | None) -> None:
    """Refuse a run whose steps another engine has taken than the one that is asked for, if any."""
    if engine in (None, manifest.engine):
        return
    took = "does not say which engine has taken them"
    if manifest.engine is not None:
        took = f"says that the engine {manifest.engine} has"
    raise NoRecord(
        f"--engine {engine} asks for steps that it has taken, and {run} {took}; leave the option "
        "out to judge what is recorded, or record with python -m fast train digits --interpreter "
        "compiled --engine ENGINE"
    )


def check_step(path: Path, manifest: Manifest, tensors: Mapping[str, Tensor]) -> None:
    """Refuse a step that lacks a tensor, or has one of another shape or dtype than is due."""
    import torch

    dtype = {"fp32": torch.float32, "fp64": torch.float64}[manifest.precision]
    due = names_due(manifest, tensors)
    missing = [name for name in due if name not in tensors]
    if missing:
        raise NoRecord(f"{path} has no tensor {missing[0]}{_more(missing)}")
    counts = [name for name in due if name.endswith("/step")]
    for name in due:
        wanted = torch.int64 if name in ("input/labels", *counts) else dtype
        if tensors[name].dtype is not wanted:
            raise NoRecord(f"{path}: {name} is {tensors[name].dtype}, where {wanted} is due")
    for name in due:
        kind, _, rest = name.partition("/")
        shape: tuple[int, ...] | None = None
        if name == "loss" or name in counts:
            shape = ()
        elif kind not in ("input", "node", "node_grad"):
            before = "buffer_before" if kind.startswith("buffer") else "param_before"
            shape = tuple(tensors[f"{before}/{rest.partition('/')[0]}"].shape)
        if shape is not None and tuple(tensors[name].shape) != shape:
            got = list(tensors[name].shape)
            raise NoRecord(f"{path}: {name} has the shape {got}, where {list(shape)} is due")
    for name in due:
        given = name.startswith(GIVEN)
        if given and not bool(torch.isfinite(tensors[name]).all()):
            raise NoRecord(
                f"{path}: {name} holds NaN or an infinity, so the run had diverged before this "
                "step; a step is judged from finite numbers"
            )
    for name in counts:
        if tensors[name] < 0:
            raise NoRecord(f"{path}: {name} is {int(tensors[name])}; no count is below 0")


def names_due(manifest: Manifest, tensors: Mapping[str, Any]) -> list[str]:
    """Return the names of the tensors that a step must hold.

    A counted optimizer has all of its moments from its first step on, but for those that only some
    settings keep. Another one may have none, both before and after.
    """
    page = OPTIMIZERS[manifest.optimizer]
    fields = (*page.moments, "step") if page.counted else page.moments
    due = ["input/x", "input/labels", "loss"]
    for name in manifest.buffers:
        due += [f"buffer_before/{name}", f"buffer_after/{name}"]
    due += nodes_due(manifest)
    for name in manifest.parameters:
        due += [f"param_before/{name}", f"grad/{name}", f"param_after/{name}"]
        for field in fields:
            pair = [f"state_before/{name}/{field}", f"state_after/{name}/{field}"]
            there = [each for each in pair if each in tensors]
            if page.counted and field != "step" and page.may_lack(field):
                due += [*there, pair[1]] if field in page.kept(manifest.hyper) else there
            elif page.counted or there:
                due += pair
    return due


def nodes_due(manifest: Manifest) -> list[str]:
    """Return the names of the tensors of the nodes that a step must hold."""
    return [f"{what}/{k}" for what in ("node", "node_grad") for k in range(manifest.nodes)]


def _more(names: list[str]) -> str:
    return "" if len(names) == 1 else f", and {len(names) - 1} others are missing"
