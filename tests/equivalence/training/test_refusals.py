"""A run folder that cannot be judged is refused in a sentence, with exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from equivalence.cli import main
from equivalence.runs.results import NONCONFORMANT, USAGE
from equivalence.training.checks import NoRecord
from equivalence.training.judge import tasks_of
from tests.equivalence.training.test_steps import record

STEP = "step-00002.safetensors"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    record(folder)
    return folder


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the run, which a test may damage."""
    (tmp_path / "steps").mkdir()
    for file in (recorded / "steps").iterdir():
        (tmp_path / "steps" / file.name).write_bytes(file.read_bytes())
    return tmp_path


MANIFESTS: list[tuple[str, str]] = [
    ("{", "manifest.json cannot be read (Expecting"),
    ("[]", "it is no JSON object, but list"),
    ("{}", "manifest.json has no 'program'"),
    ("\xff", "manifest.json cannot be read"),
]


@pytest.mark.parametrize(("text", "said"), MANIFESTS)
def test_a_manifest_that_is_none(text: str, said: str, run: Path) -> None:
    (run / "steps" / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(NoRecord) as refused:
        tasks_of(run)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hyper", {"lr": 0.1}, "manifest.json cannot be read"),
        ("hyper", {"lr": "0x1p-3", "speed": "0x1p0"}, "adamw takes other hyper"),
        ("hyper", {"lr": "nan"}, "lr is nan; a finite number is due"),
        ("hyper", [], "manifest.json cannot be read"),
        ("parameters", ["w1"], "digits_mlp has the parameters w1, b1, w2, b2"),
        ("parameters", ["w1", "w1", "w2", "b2"], "names a parameter twice"),
        ("provider", "cuda", "cannot judge the provider 'cuda'; known: aten, triton"),
        ("ring", "interpreted", "the provider aten are taken on one of host, device"),
        ("program", ["digits_mlp"], "cannot judge the program ['digits_mlp']"),
        ("steps", ["first"], "manifest.json cannot be read"),
        ("steps", 3, "manifest.json cannot be read"),
        ("steps", [], "names no recorded steps"),
    ],
)
def test_a_manifest_of_something_else(key: str, value: object, said: str, run: Path) -> None:
    path = run / "steps" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, key: value}), encoding="utf-8")
    with pytest.raises(NoRecord) as refused:
        tasks_of(run)
    assert said in str(refused.value)


def _names(run: Path) -> list[str]:
    return sorted(load_file(run / "steps" / STEP))


def test_each_tensor_that_is_missing_is_named(run: Path) -> None:
    path = run / "steps" / STEP
    whole = load_file(path)
    for name in whole:
        save_file({n: t for n, t in whole.items() if n != name}, path)
        with pytest.raises(NoRecord) as refused:
            tasks_of(run)
        # The shape of a missing parameter is that of nothing, so it is named first.
        assert f"has no tensor {name}" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("grad/w1", lambda t: t[:2], "grad/w1 has the shape [2, 6], where [5, 6] is due"),
        ("loss", lambda t: t[None], "loss has the shape [1], where [] is due"),
        ("loss", lambda t: t.double(), "loss is torch.float64, where torch.float32 is due"),
        ("state_after/b1/step", lambda t: t.float(), "where torch.int64 is due"),
        ("state_before/b1/step", lambda t: t - 2, "step is -1; no count is below 0"),
        ("input/labels", lambda t: t + 9, "digits_mlp refuses it"),
        ("input/labels", lambda t: t[:2], "digits_mlp refuses it"),
        ("input/x", lambda t: t[:, :3], "digits_mlp refuses it"),
        ("input/x", lambda t: t[0, 0], "digits_mlp refuses it"),
    ],
)
def test_a_tensor_of_another_form(
    name: str, other: Callable[[torch.Tensor], torch.Tensor], said: str, run: Path
) -> None:
    path = run / "steps" / STEP
    tensors = load_file(path)
    save_file({**tensors, name: other(tensors[name]).contiguous()}, path)
    with pytest.raises(NoRecord) as refused:
        tasks_of(run)
    assert said in str(refused.value)


@pytest.mark.parametrize("kept", [0, 7, 8, 100, 1000, -1])
def test_a_truncated_step_is_a_sentence_and_exit_code_2(
    kept: int, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "steps" / STEP
    path.write_bytes(path.read_bytes()[:kept])
    assert main(["judge", str(run), "--jobs", "0"]) == USAGE
    said = capsys.readouterr().err
    assert said.startswith("error: ") and f"{STEP} cannot be read" in said
    assert said.count("\n") == 1


def test_metrics_that_are_none(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"event": "result"}\n', encoding="utf-8")
    with pytest.raises(NoRecord, match=r"metrics.jsonl cannot be read: KeyError: 'accuracy'"):
        tasks_of(run)


@pytest.mark.parametrize("name", ["param_before/w1", "input/x", "state_before/b1/exp_avg"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_step_of_a_run_that_had_diverged_is_refused(name: str, value: float, run: Path) -> None:
    path = run / "steps" / STEP
    tensors = load_file(path)
    tensors[name].view(-1)[0] = value
    save_file(tensors, path)
    with pytest.raises(NoRecord, match=f"{name} holds NaN or an infinity"):
        tasks_of(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [("param_before/w1", 3e38), ("loss", float("nan")), ("grad/w2", float("inf"))],
)
def test_a_step_that_diverges_is_judged(
    name: str, value: float, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "steps" / STEP
    tensors = load_file(path)
    tensors[name].view(-1)[0] = value
    save_file(tensors, path)
    assert main(["judge", str(run), "--jobs", "0"]) == NONCONFORMANT
    assert "4 steps, " in capsys.readouterr().out
