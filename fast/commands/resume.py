"""Checkpoints of the training command: when to save, and how a run goes on where one was saved.

A checkpoint remembers the job and the step. The order of the images follows from the job, so a
resumed run draws it again and leaves out the batches that were taken before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

from fast import checkpoint
from fast.commands.digits import Arrays
from fast.commands.job import Job
from fast.commands.networks import DEFAULT
from fast.disk.atomic import destination
from fast.errors import Rejected
from fast.optim.adamw import RULE
from fast.session import Session

UNSAID = {"engine": "replay", "net": DEFAULT}
"""What a checkpoint is one of that does not say so, as from before there were others."""


@dataclass(frozen=True)
class Checkpoints:
    """Save to `path` every so many steps (0: once per epoch) and at the end.

    A run begins where `resume`, another checkpoint or the same, was saved.
    """

    path: Path | None = None
    every: int = 0
    resume: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what would only fail at the first save."""
        if self.every < 0:
            raise Rejected(f"train: --checkpoint-every is at least 0, got {self.every}")
        if self.every and self.path is None:
            raise Rejected("train: --checkpoint-every needs --checkpoint, which names the file")
        if self.path is not None:
            try:
                destination(self.path)
            except Rejected as error:
                raise Rejected(f"train: --checkpoint {self.path}: {error}") from error

    @property
    def advice(self) -> str:
        """Say how an interrupted run goes on."""
        if self.path is None:
            return "there is no checkpoint; --checkpoint FILE would have kept one"
        if not self.path.exists():
            first = f"step {self.every}" if self.every else "the first epoch"
            return f"there is no checkpoint yet: the first would have come after {first}"
        return f"go on with --resume {self.path}, and an --out of its own"

    def begin(self, session: Session, job: Job, images: Arrays) -> int:
        """Load what is resumed and return the number of steps that it has taken; 0 for none."""
        if self.resume is None:
            return 0
        extra = checkpoint.load(self.resume, session, optimizers={RULE.name: job.hyper})
        for name, value in {"net": job.net, **_identity(session, job, images)}.items():
            known = extra.get(name, UNSAID.get(name))
            if known != value:
                raise Rejected(
                    f"train: {self.resume} was made with {name} {known!r}, and this run "
                    f"has {value!r}; give the same options; --epochs and --interpreter may differ"
                )
        step, total = extra.get("step"), job.steps(len(images[0]))
        if not isinstance(step, int) or not 0 < step < total:
            raise Rejected(
                f"train: {self.resume} is at step {step} and {job.epochs} epochs are {total} "
                "steps, so nothing is left; give more --epochs"
            )
        return step

    def due(self, job: Job, images: Arrays, step: int) -> bool:
        """Say whether a step is one of those to save after."""
        total = job.steps(len(images[0]))
        return self.path is not None and (
            step % (self.every or total // job.epochs) == 0 or step == total
        )

    def after(self, session: Session, job: Job, images: Arrays, step: int) -> None:
        """Save after a step, if it is one of those to save after."""
        if self.path is None or not self.due(job, images, step):
            return
        epoch = job.steps(len(images[0])) // job.epochs
        place = {"step": step, "epoch": step // epoch, "position": step % epoch}
        checkpoint.save(self.path, session, {**_identity(session, job, images), **place})


def _identity(session: Session, job: Job, images: Arrays) -> dict[str, int | float | str]:
    """Everything that decides what the following steps do, except how many there are.

    The interpreter does not: every one takes the same steps. A network that is not named is the
    default one.
    """
    free = ("epochs", "interpreter", *(("net",) if job.net == DEFAULT else ()))
    options = {name: value for name, value in asdict(job).items() if name not in free}
    options["provider"] = session.options.provider
    data = crc32(images[1].tobytes(), crc32(images[0].tobytes()))
    return {"task": "digits", **options, "images": len(images[0]), "data": data}
