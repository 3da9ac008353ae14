"""The training loop of the digits job: batches in, losses out, and some steps kept for judging.

It ends a run whose numbers have left the finite ones: every step after that would be in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from fast.commands.digits import Arrays, batches
from fast.commands.job import Job, Trained
from fast.commands.networks import bound
from fast.commands.recorder import Recorder
from fast.commands.resume import Checkpoints
from fast.compiled.session import CompiledSession
from fast.loops.stops import check_finite, check_loss
from fast.ref import Ref
from fast.runtime.param import Param
from fast.session import Session
from fast.train import INTERPRETERS

Watcher = Callable[[int, float, str | None], None]
"""Called after each step with its number, from 1, its loss, and the engine that took it, if any."""


def train(
    job: Job,
    images: Arrays,
    watch: Watcher | None = None,
    recorder: Recorder | None = None,
    checkpoints: Checkpoints | None = None,
) -> Trained:
    """Train the job's network; the recorder, if any, keeps the steps that it wants.

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
            check_finite(session, step)
        trained.losses.append(loss)
        if watch is not None:
            watch(step, loss, _engine(session))
        checkpoints.after(session, job, images, step)
    trained.parameters = {name: param.value().numpy() for name, param in params.items()}
    trained.buffers = {buffer.name: buffer.value().numpy() for buffer in session.buffers}
    return trained


def _engine(session: Session) -> str | None:
    """Name the engine that took the latest step of a compiled session."""
    if not isinstance(session, CompiledSession):
        return None
    return session.engines[-1][0] if session.engines else session.engine


def begin(job: Job) -> tuple[Session, dict[str, Param]]:
    """Make a session, and the first parameters and buffers of the job's network."""
    options = {"provider": job.provider, "precision": job.precision}
    if job.interpreter == "compiled":
        options["engine"] = job.engine
    session = INTERPRETERS[job.interpreter](**options)
    for name, value in job.network.buffers(job.hidden).items():
        session.buffer(value, name=name)
    first = job.network.parameters(job.hidden, job.seed)
    return session, {name: session.param(value, name=name) for name, value in first.items()}


def try_program(job: Job, images: Arrays) -> None:
    """Run a program that updates buffers once, in a session of its own: not every engine does."""
    if job.network.buffers(job.hidden):
        _run(*begin(job), job, *(part[: job.batch_size] for part in images))


def _run(
    session: Session,
    params: dict[str, Param],
    job: Job,
    x: np.ndarray,
    labels: np.ndarray,
    noted: bool = False,
) -> tuple[Ref, ...]:
    """Run the network's program, and return the loss, with all nodes before it if asked to."""
    program = bound(job.network.program, session.buffers, noted)
    found = session.run(program, [*params.values()], [x, labels])
    return found if noted else (found,)


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
    if keep is not None:
        keep.before(session, params, x, labels)
    noted = keep is not None and keep.wants_nodes(job)
    nodes = _run(session, params, job, x, labels, noted)
    if keep is not None and noted:
        keep.nodes(session, nodes)
    loss = nodes[-1]
    with session.backward(loss) as grads:
        session.adamw_step(grads=grads, **job.hyper)
        if keep is not None:
            engine = _engine(session) or "eager"
            keep.after(session, params, step, session.value(loss), grads, engine)
    return float(session.value(loss))
