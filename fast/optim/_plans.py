"""What an optimizer has cut out and counted for one set of active slots, and what it keeps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fast.device.dtypes import NARROW, wide
from fast.optim._chunks import ChunkTable, Run
from fast.optim._rule import Batch, Formula, Rule, update_widened


class Part(NamedTuple):
    """The runs that one ATen call updates, cut out of every arena but the gradients'."""

    group: int
    runs: list[Run]
    batch: Batch


class Plan:
    """What one set of active slots needs; valid as long as the same set is updated.

    Slots of one group and one age take the same constants: `kinds` has the group of each such kind
    and one of its slots, and `rows` the place there of each slot. `branches` are those
    of the kinds under `hypers`.
    """

    __slots__ = (
        "advancing",
        "branches",
        "bump",
        "gradients",
        "groups",
        "hypers",
        "kinds",
        "matrices",
        "owed",
        "parts",
        "renews",
        "rows",
        "table",
        "updates",
        "whole",
    )

    def __init__(
        self, advancing: Sequence[int] = (), groups: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.advancing = advancing
        self.groups = groups
        self.bump = torch.zeros(0)
        self.renews = False
        self.updates = 0
        self.owed = 0
        self.parts: list[Part] = []
        self.gradients: Tensor | None = None
        self.table: ChunkTable | None = None
        self.matrices: list[Run] = []
        self.whole: list[Run] | None = None
        self.kinds: list[tuple[int, int]] = []
        self.rows: tuple[tuple[int, int], ...] | None = None
        self.hypers: tuple[Any, ...] | None = None
        self.branches: tuple[Hashable, ...] = ()

    def cut(self, gradients: Tensor) -> None:
        """Cut what ATen calls read out of a gradient arena."""
        for part in self.parts:
            part.batch.grads[:] = [run.of(gradients) for run in part.runs]
        self.gradients = gradients

    def call_scaled(
        self, rule: Rule, hypers: Sequence[Any], stop: Tensor | None, scale: Tensor
    ) -> None:
        """Update by gradients that are multiplied by a number, in copies of them."""
        for part in self.parts:
            batch, hyper = part.batch, hypers[part.group]
            scaled = batch._replace(grads=[wide(grad) * scale for grad in batch.grads])
            if batch.params[0].dtype in NARROW:
                update_widened(rule.aten, scaled, hyper, stop)
            else:
                rule.aten(scaled, hyper, stop)

    def pay(self, steps: Tensor) -> None:
        """Bring the steps on the device up to date: who writes an update himself has no use for it.

        `owed` says how many updates they lack.
        """
        if self.owed:
            steps.add_(self.bump, alpha=self.owed)
            self.owed = 0

    def branched(self, formula: Formula, hypers: tuple[Any, ...]) -> tuple[Hashable, ...]:
        """Return each kind's branch under hyper-parameters, those of the last call as they were."""
        if self.hypers is not hypers:
            self.branches = tuple([formula.branch(hypers[group]) for group, _ in self.kinds])
            self.hypers = hypers
        return self.branches


class Kept(NamedTuple):
    """Everything that an optimizer holds for its parameters, in memory of the host."""

    ages: list[int]
    used: list[Any]
    owned: list[frozenset[str]]
    steps: Tensor
    states: dict[str, Tensor]


def on_host(flat: Tensor) -> Tensor:
    """Copy an arena, or counts, to the host."""
    return flat.to("cpu", copy=True)
