"""Recorded steps: everything a judge needs to check a training step without repeating the run.

The format is described in docs/recorded-steps.md: one safetensors file per kept step, and
manifest.json, which is written last, so that an interrupted run has no manifest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from fast.commands.job import Job
from fast.commands.networks import nodes_of
from fast.errors import Rejected
from fast.optim.adamw import RULE
from fast.ref import Ref
from fast.runtime.gradmap import GradMap
from fast.runtime.param import Param
from fast.session import Session

SCHEMA = 1


class Recorder:
    """Keeps some steps of a run, spread evenly from the first to the last."""

    def __init__(self, folder: Path, count: int) -> None:
        """Keep `count` steps under `folder`/steps; none if it is 0."""
        if count < 0:
            raise Rejected(f"train: the number of kept steps is at least 0, got {count}")
        self._folder = folder / "steps"
        self._count = count
        self._tensors: dict[str, torch.Tensor] = {}
        self._kept: list[int] = []
        self._nodes = 0
        self._engines: dict[str, None] = {}
        self._ring = ""

    def wants(self, step: int, total: int) -> bool:
        """Say whether the step, counted from 1, is one of those to keep."""
        last = max(self._count - 1, 1)
        return step in {1 + k * (total - 1) // last for k in range(self._count)}

    def before(
        self,
        session: Session,
        params: dict[str, Param],
        x: np.ndarray,
        labels: np.ndarray,
    ) -> None:
        """Note the inputs, and parameters, buffers and state before the program runs."""
        self._tensors = {
            "input/x": torch.from_numpy(x.copy()),
            "input/labels": torch.from_numpy(labels.copy()),
        }
        here = "host" if session.options.provider == "aten" else "interpreted"
        self._ring = "device" if session.options.device.type == "cuda" else here
        self._note("before", session, params)

    def wants_nodes(self, job: Job) -> bool:
        """Say whether kept steps hold nodes: of deep networks, where an engine has them."""
        return job.network.deep and job.engine == "replay"

    def nodes(self, session: Session, refs: Sequence[Ref]) -> None:
        """Note what each call of the program has returned, and the cotangent of that."""
        self._tensors |= nodes_of(session, refs)
        self._nodes = len(refs)

    def after(
        self, session: Session, params: dict[str, Param], step: int, loss: torch.Tensor,
        grads: GradMap, engine: str,
    ) -> None:  # fmt: skip
        """Note what the step has left, and which engine has taken it, and write it.

        Loss and gradients, too, are looked at only now: who asks for them before the update has an
        engine compute them apart, and the step would not be the one that all others are.
        """
        self._tensors["loss"] = loss
        for name, param in params.items():
            self._tensors[f"grad/{name}"] = grads[param].tensor.detach().cpu().clone()
        self._note("after", session, params)
        self._folder.mkdir(parents=True, exist_ok=True)
        save_file(self._tensors, self._folder / f"step-{step:05d}.safetensors")
        self._kept.append(step)
        self._engines[engine] = None

    def finish(self, job: Job, provider: str) -> None:
        """Write the manifest, which says what the steps are steps of."""
        if not self._kept:
            return
        manifest = {
            "schema": SCHEMA,
            "program": job.network.program.__name__,
            "parameters": [*job.network.parameters(1, 0)],
            **({"buffers": buffers} if (buffers := [*job.network.buffers(1)]) else {}),
            **({"nodes": self._nodes} if self._nodes else {}),
            "provider": provider,
            "ring": self._ring,
            "engine": ", ".join(self._engines),
            "precision": job.precision,
            "optimizer": RULE.name,
            "hyper": {name: float(value).hex() for name, value in job.hyper.items()},
            "steps": self._kept,
        }
        path = self._folder / "manifest.json"
        path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    def _note(self, when: str, session: Session, params: dict[str, Param]) -> None:
        for buffer in session.buffers:
            self._tensors[f"buffer_{when}/{buffer.name}"] = buffer.value()
        for name, param in params.items():
            value = param.value()
            self._tensors[f"param_{when}/{name}"] = value
            for key, entry in _state(session, param, value).items():
                self._tensors[f"state_{when}/{name}/{key}"] = entry


def _state(session: Session, param: Param, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the optimizer's state as tensors; before the first step the moments are zeros."""
    state = session.optimizer_state(RULE.name, param)
    moments = {key: state[key] for key in RULE.states if key in state}
    zero = torch.zeros_like(value)
    tensors = {k: (zero if m is None else m).clone() for k, m in moments.items()}
    return {**tensors, "step": torch.tensor(int(state["step"] or 0))}
