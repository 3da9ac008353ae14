"""The training loop of the digits job: batches in, losses out, and some steps kept for judging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import islice

import numpy as np

from fast.commands.digits import Arrays, batches, digits_mlp, initial_parameters
from fast.commands.divergence import check_loss, check_state
from fast.commands.recorder import OPTIMIZER, Recorder
from fast.commands.resume import Checkpoints
from fast.errors import Rejected
from fast.optim import OPTIMIZERS
from fast.runtime.param import Param
from fast.session import Session
from fast.train import INTERPRETERS

Watcher = Callable[[int, float], None]
"""Called after each step with its number, from 1, and its loss."""


@dataclass(frozen=True)
class Job:
    """Everything that decides a run; two runs of one job on one machine are equal."""

    provider: str | None = None
    precision: str = "fp32"
    interpreter: str = "eager"
    hidden: int = 128
    epochs: int = 30
    batch_size: int = 32
    lr: float = 3e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no run can have, so that none begins with it."""
        if self.interpreter not in INTERPRETERS:
            raise Rejected(
                f"train: the interpreter is one of {', '.join(INTERPRETERS)}, "
                f"got {self.interpreter!r}"
            )
        for name in ("hidden", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise Rejected(f"train: {name} is at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise Rejected(f"train: seed is at least 0, got {self.seed}")
        OPTIMIZERS[OPTIMIZER].read(self.hyper)

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
    """What a run leaves: the parameters by name, the loss of each step, and who computed it.

    `before` counts the steps that a resumed run did not take itself.
    """

    parameters: dict[str, np.ndarray]
    losses: list[float] = field(default_factory=list)
    provider: str = ""
    before: int = 0


def train(
    job: Job,
    images: Arrays,
    watch: Watcher | None = None,
    recorder: Recorder | None = None,
    checkpoints: Checkpoints | None = None,
) -> Trained:
    """Train the perceptron; the recorder, if any, keeps the steps that it wants.

    Raises `Diverged` at the first loss that is not finite, and where parameters or moments that are
    not finite would be kept.
    """
    x, labels = images
    total = job.steps(len(x))
    checkpoints = checkpoints or Checkpoints()
    session, params = begin(job)
    before = checkpoints.begin(session, job, images)
    trained = Trained({}, provider=session.options.provider, before=before)
    order = batches(len(x), job.batch_size, job.epochs, job.seed)
    for step, rows in enumerate(islice(order, before, None), start=before + 1):
        keep = recorder if recorder is not None and recorder.wants(step, total) else None
        loss = take_step(session, params, job, x[rows], labels[rows], step, keep)
        check_loss(step, loss)
        if step == total or checkpoints.due(job, images, step):
            check_state(session, OPTIMIZER, step)
        trained.losses.append(loss)
        if watch is not None:
            watch(step, loss)
        checkpoints.after(session, job, images, step)
    trained.parameters = {name: param.value().numpy() for name, param in params.items()}
    return trained


def begin(job: Job) -> tuple[Session, dict[str, Param]]:
    """Make a session and the job's first parameters."""
    session = INTERPRETERS[job.interpreter](provider=job.provider, precision=job.precision)
    first = initial_parameters(job.hidden, job.seed)
    return session, {name: session.param(value, name=name) for name, value in first.items()}


def take_step(
    session: Session,
    params: dict[str, Param],
    job: Job,
    x: np.ndarray,
    labels: np.ndarray,
    step: int,
    keep: Recorder | None = None,
) -> float:
    """Take one step of AdamW and return the loss before it."""
    loss = session.run(digits_mlp, [*params.values()], [x, labels])
    with session.backward(loss) as grads:
        if keep is not None:
            keep.before(session, params, x, labels, session.value(loss), grads)
        session.adamw_step(grads=grads, **job.hyper)
    if keep is not None:
        keep.after(session, params, step)
    return float(session.value(loss))
