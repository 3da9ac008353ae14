"""What a run of the digits job is: everything that decides it, and what it leaves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np

from fast.commands.networks import DEFAULT, NETWORKS, Network
from fast.compiled.session import ENGINES
from fast.errors import Rejected
from fast.optim.adamw import RULE
from fast.train import INTERPRETERS


@dataclass(frozen=True)
class Job:
    """Everything that decides a run; two runs of one job on one machine are equal."""

    provider: str | None = None
    precision: str = "fp32"
    interpreter: str = "eager"
    engine: str = "replay"
    hidden: int = 128
    epochs: int = 30
    batch_size: int = 32
    lr: float = 3e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 1e-2
    seed: int = 0
    net: str = DEFAULT

    def __post_init__(self) -> None:
        """Refuse what no run can have, so that none begins with it."""
        if self.net not in NETWORKS:
            raise Rejected(f"train: the net is one of {', '.join(NETWORKS)}, got {self.net!r}")
        if self.interpreter not in INTERPRETERS:
            raise Rejected(
                f"train: the interpreter is one of {', '.join(INTERPRETERS)}, "
                f"got {self.interpreter!r}"
            )
        if self.engine not in ENGINES:
            raise Rejected(f"train: the engine is one of {', '.join(ENGINES)}, got {self.engine!r}")
        if self.engine != "replay" and self.interpreter != "compiled":
            raise Rejected(
                f"train: the engine {self.engine} runs what was recorded; give --interpreter "
                f"compiled, got {self.interpreter!r}"
            )
        for name in ("hidden", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise Rejected(f"train: {name} is at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise Rejected(f"train: seed is at least 0, got {self.seed}")
        RULE.read(self.hyper)

    @property
    def network(self) -> Network:
        """The network that is trained."""
        return NETWORKS[self.net]

    @property
    def hyper(self) -> dict[str, float]:
        """The hyper-parameters of AdamW."""
        names = ("lr", "beta1", "beta2", "eps", "weight_decay")
        return {name: value for name, value in asdict(self).items() if name in names}

    def steps(self, count: int) -> int:
        """Count the steps over this many training images."""
        if count < self.batch_size:
            raise Rejected(
                f"train: batch_size is at most the {count} images, got {self.batch_size}"
            )
        return self.epochs * (count // self.batch_size)


@dataclass
class Trained:
    """What a run leaves: parameters and buffers by name, each step's loss, and who computed it.

    `before` counts the steps that a resumed run did not take itself.
    """

    parameters: dict[str, np.ndarray]
    losses: list[float] = field(default_factory=list)
    provider: str = ""
    before: int = 0
    buffers: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by name, of which the network computes its answer."""
        return {**self.parameters, **self.buffers}
