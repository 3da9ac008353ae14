"""The command `python -m fast train digits`: train, report, and keep steps for the judge."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fast.commands.digits import Split, check_libraries, folds, held_out_fifth
from fast.commands.job import Job, Trained
from fast.commands.loop import begin, train, try_program
from fast.commands.networks import DEFAULT, NETWORKS
from fast.commands.recorder import Recorder
from fast.commands.report import METRICS, prepare, save_parameters
from fast.commands.resume import Checkpoints
from fast.compiled import progress
from fast.compiled.session import ENGINES
from fast.device.mode import described
from fast.device.options import PRECISIONS
from fast.errors import Rejected
from fast.loops.curves import plot_curves
from fast.loops.metrics import JsonLines
from fast.loops.stops import Diverged
from fast.train import INTERPRETERS

KNOBS = {
    "hidden": "units in a hidden layer",
    "epochs": "passes over the training images",
    "batch_size": "images per step",
    "lr": "AdamW's learning rate",
    "beta1": "AdamW's decay of the first moment",
    "beta2": "AdamW's decay of the second moment",
    "eps": "AdamW's eps, outside the root",
    "weight_decay": "AdamW's decoupled weight decay",
    "seed": "seed of the first weights and of the order of images",
}


def add_parser(tasks: Any) -> None:
    """Add the task to the parser of `train`."""
    parser = tasks.add_parser(
        "digits",
        help="a perceptron, or another network, on scikit-learn's handwritten digits",
        description="Train a network (64 pixels, hidden units, 10 classes) on handwritten digits; "
        "report its accuracy on a held-out fifth and the mean over folds.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs/digits"), help="folder of the run")
    parser.add_argument("--overwrite", action="store_true", help="replace a run in that folder")
    parser.add_argument(
        "--net", choices=(*NETWORKS,), default=DEFAULT,
        help="what is trained: one hidden layer; the same with batch_norm; residual blocks with "
        "layer_norm",
    )  # fmt: skip
    parser.add_argument("--provider", choices=("aten", "triton"), help="the best present if unset")
    parser.add_argument("--precision", choices=(*PRECISIONS,), default="fp32")
    parser.add_argument(
        "--interpreter", choices=(*INTERPRETERS,), default="eager",
        help="compiled: record the program once and replay it; the numbers are the same",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=ENGINES, default="replay",
        help="of --interpreter compiled; inductor: compile the program by torch's Inductor; auto: "
        "replay until that is done, and say so",
    )  # fmt: skip
    parser.add_argument("--keep-steps", type=int, default=0, help="steps to record for the judge")
    parser.add_argument("--folds", type=int, default=5, help="folds to average over; 0 for none")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch on a CPU")
    parser.add_argument("--checkpoint", type=Path, help="file that is replaced as the run goes on")
    parser.add_argument(
        "--checkpoint-every", type=int, default=0, help="steps between checkpoints; 0: one epoch"
    )
    parser.add_argument("--resume", type=Path, help="checkpoint of an equal run, to go on from")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    for field in fields(Job):
        if field.name in KNOBS:
            flag, kind = f"--{field.name.replace('_', '-')}", type(field.default)
            parser.add_argument(flag, type=kind, default=field.default, help=KNOBS[field.name])
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train on the held-out split, then on each fold, and write the run's folder."""
    check_libraries()
    if arguments.threads < 1:
        raise Rejected(f"train: --threads is at least 1, got {arguments.threads}")
    # Matrices this small gain nothing from a second thread, and lose much where cores are busy.
    torch.set_num_threads(arguments.threads)
    job = Job(**{field.name: getattr(arguments, field.name) for field in fields(Job)})
    folder: Path = arguments.out
    checkpoints = Checkpoints(arguments.checkpoint, arguments.checkpoint_every, arguments.resume)
    recorder = Recorder(folder, arguments.keep_steps)
    split = held_out_fifth()
    for part in (split, *(folds(arguments.folds) if arguments.folds else ())):
        job.steps(len(part.train[0]))
    # What cannot be resumed, or run, is refused here, before an earlier run's files are removed.
    checkpoints.begin(begin(job)[0], job, split.train)
    try_program(job, split.train)
    prepare(folder, arguments.overwrite)
    with JsonLines(folder / METRICS) as metrics, progress.quiet(arguments.quiet):
        writer = _Writer(folder, metrics, arguments.quiet)
        try:
            trained = _train_and_write(job, split, writer, recorder, checkpoints)
            recorder.finish(job, trained.provider)
            _report(job, arguments.folds, trained, split, writer)
        except KeyboardInterrupt:
            print(f"interrupted; {checkpoints.advice}", file=sys.stderr)
            return 130
        except Diverged as error:
            print(f"{error}; {_after_divergence(folder, job, checkpoints)}", file=sys.stderr)
            return 1
    print(f"written to {folder}: {METRICS}, loss.png, parameters.safetensors")
    return 0


def _report(job: Job, count: int, trained: Trained, split: Split, writer: _Writer) -> None:
    """Print and write the accuracy on the held-out images, and its mean over folds."""
    held_out = job.network.accuracy(trained.values, split.test)
    provider = described(trained.provider)
    print(f"accuracy on the held-out fifth: {held_out:.4f} (provider {provider})")
    if count:
        mean = _mean_over_folds(job, count, writer.quiet)
        print(f"mean accuracy of {count} folds: {mean:.4f}")
        writer.metrics.write(event="folds", folds=count, accuracy=mean)
    writer.metrics.write(event="result", accuracy=held_out, provider=provider)


def _after_divergence(folder: Path, job: Job, checkpoints: Checkpoints) -> str:
    """Say what is kept of a run that has diverged, and how to go on."""
    kept = f"{folder / METRICS} has the losses before"
    if checkpoints.path is not None and checkpoints.path.exists():
        kept += f", and {checkpoints.path} the last checkpoint"
    return (
        f"{kept}; start again with a smaller --lr than {job.lr:g}, "
        "and with another --out or --overwrite"
    )


class _Writer(NamedTuple):
    """Where a run writes what it does."""

    folder: Path
    metrics: JsonLines
    quiet: bool


def _train_and_write(
    job: Job, split: Split, writer: _Writer, recorder: Recorder, checkpoints: Checkpoints
) -> Trained:
    total = job.steps(len(split.train[0]))
    with _bar(total, "training", writer.quiet) as bar:

        def watch(step: int, loss: float, engine: str | None) -> None:
            by = {} if engine is None else {"engine": engine}
            writer.metrics.write(event="step", step=step, loss=loss, **by)
            bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
            bar.update(step - bar.n)

        trained = train(job, split.train, watch, recorder, checkpoints)
    save_parameters(writer.folder, trained.values)
    steps = range(trained.before, trained.before + len(trained.losses))
    plot_curves(
        writer.folder / "loss.png",
        {"training loss": (steps, trained.losses)},
        title="Handwritten digits",
        ylabel="mean cross-entropy",
        window=total // job.epochs,
    )
    return trained


def _mean_over_folds(job: Job, count: int, quiet: bool) -> float:
    results = []
    with _bar(count, "folds", quiet) as bar:
        for number, split in enumerate(folds(count), 1):
            try:
                values = train(job, split.train).values
                results.append(job.network.accuracy(values, split.test))
            except Diverged as error:
                raise Diverged(f"{error}, in fold {number}") from error
            bar.update()
    return sum(results) / len(results)


def _bar(total: int, title: str, quiet: bool) -> Any:
    from tqdm import tqdm

    make: Callable[..., Any] = tqdm
    return make(total=total, desc=title, disable=quiet, leave=True)
