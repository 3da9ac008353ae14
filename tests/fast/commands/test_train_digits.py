"""The training command refuses before it makes anything, and stops where a run has diverged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fast import Rejected
from fast.__main__ import main
from fast.commands import loop
from fast.commands.loop import Job, train
from fast.commands.resume import Checkpoints
from fast.loops.stops import Diverged
from tools.tree import ROOT

pytestmark = pytest.mark.slow

COMMON = [
    "train",
    "digits",
    "--quiet",
    "--hidden",
    "4",
    "--batch-size",
    "256",
    "--provider",
    "aten",
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lr", "nan"], "adamw C1: lr is finite and >= 0; got nan"),
        (["--beta1", "1"], "adamw C2: "),
        (["--eps", "-1"], "adamw C"),
        (["--seed", "-1"], "train: seed is at least 0, got -1"),
        (["--threads", "0"], "train: --threads is at least 1, got 0"),
        (["--epochs", "0"], "train: epochs is at least 1, got 0"),
        (["--keep-steps", "-1"], "train: the number of kept steps is at least 0"),
        (["--folds", "1"], "train: the number of folds is 0, or lies in [2, 174], got 1"),
        (["--folds", "175"], "train: the number of folds is 0, or lies in [2, 174], got 175"),
        (["--folds", "2", "--batch-size", "1000"], "train: batch_size is at most the 898 images"),
        (["--batch-size", "2000"], "train: batch_size is at most the 1437 images, got 2000"),
        (["--precision", "tf32"], "session: precision 'tf32'"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    out = tmp_path / "out"
    assert main([*COMMON, "--out", str(out), "--checkpoint", str(tmp_path / "c"), *options]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([*COMMON, "--out", str(tmp_path / "file" / "out")]) == 2
    assert "file/out cannot be written: " in capsys.readouterr().err


def test_a_run_that_diverges_names_the_step_and_what_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", tmp_path / "c"
    options = ["--epochs", "9", "--checkpoint", str(file), "--checkpoint-every", "1"]
    assert main([*COMMON, "--out", str(out), "--lr", "1e10", *options]) == 1
    written = capsys.readouterr()
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert all(np.isfinite(row["loss"]) for row in rows) and rows
    assert f"the loss of step {len(rows) + 1} is " in written.err
    assert f"{out}/metrics.jsonl has the losses before, and {file} the last" in written.err
    assert written.err.strip().endswith(
        "smaller --lr than 1e+10, and with another --out or --overwrite"
    )
    assert written.out == ""
    assert main([*COMMON, "--out", str(out), "--overwrite", "--epochs", "1", "--folds", "0"]) == 0


def images() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.uniform(0, 1, (8, 64)).astype(np.float32), draw.integers(0, 10, 8)


@pytest.mark.parametrize("part", ["value", "exp_avg"])
def test_what_is_not_finite_is_never_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The loss is that before the update, so the last update is looked at by itself."""
    job, take = Job(provider="aten", hidden=2, epochs=2, batch_size=8), loop.take_step

    def spoil(session, params, *rest):  # type: ignore[no-untyped-def]
        loss = take(session, params, *rest)
        if part == "value":
            params["w1"].set(np.full(params["w1"].shape, np.inf, np.float32))
        else:
            session.optimizers["adamw"]._states[0].views[0][0, 0] = np.nan
        return loss

    monkeypatch.setattr(loop, "take_step", spoil)
    with pytest.raises(Diverged, match=f"after step 1 the {part} of w1 is not finite"):
        train(job, images(), checkpoints=Checkpoints(tmp_path / "c"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(loop, "take_step", lambda *rest: spoil(*rest) if rest[-2] == 2 else 1.0)
    with pytest.raises(Diverged, match=f"after step 2 the {part} of w1 is not finite"):
        train(job, images())


def test_a_job_refuses_its_hyper_parameters_itself() -> None:
    with pytest.raises(Rejected, match="adamw C1"):
        Job(lr=float("inf"))


@pytest.mark.parametrize("library", ["sklearn", "matplotlib", "tqdm"])
def test_a_missing_library_is_one_sentence_that_names_the_extra(
    tmp_path: Path, library: str
) -> None:
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from fast.__main__ import main\n"
        f"sys.exit(main(['train', 'digits', '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert done.stderr == (
        f"train digits needs {library}, which the extra [data] installs: in a checkout of "
        "twingrad, pip install '.[data]', from a wheel, pip install 'FILE.whl[data]'\n"
    )
