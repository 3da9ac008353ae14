"""Every network of the digits job: trained by each interpreter, resumed, and answered in NumPy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from fast import Rejected, Session
from fast.__main__ import main
from fast.commands.job import Job, Trained
from fast.commands.loop import begin, train
from fast.commands.networks import NETWORKS
from fast.commands.resume import Checkpoints

pytestmark = pytest.mark.slow

BATCH, EPOCHS = 4, 20
TOTAL = 2 * EPOCHS
NETS = pytest.mark.parametrize("net", NETWORKS)


def images() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.uniform(0, 1, (2 * BATCH, 64)).astype(np.float32), draw.integers(0, 10, 2 * BATCH)


def job(net: str, **more: Any) -> Job:
    return Job(provider="aten", net=net, hidden=6, epochs=EPOCHS, batch_size=BATCH, lr=0.01, **more)


def bits(trained: Trained) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in trained.values.items()}


def learned(trained: Trained) -> bool:
    """Whether the last two epochs had smaller losses than the first two."""
    return sum(trained.losses[-4:]) < sum(trained.losses[:4])


@NETS
def test_interpreters_take_the_same_steps(net: str) -> None:
    eager = train(job(net), images())
    compiled = train(job(net, interpreter="compiled"), images())
    assert eager.losses == compiled.losses and bits(eager) == bits(compiled)
    assert learned(eager)
    assert list(eager.values) == [*NETWORKS[net].parameters(1, 0), *NETWORKS[net].buffers(1)]


@NETS
def test_a_resumed_run_is_the_same_bit_for_bit(net: str, tmp_path: Path) -> None:
    file, short = tmp_path / "c", replace(job(net), epochs=EPOCHS // 2)
    whole = train(job(net), images())
    train(short, images(), checkpoints=Checkpoints(file))
    rest = train(job(net), images(), checkpoints=Checkpoints(resume=file))
    assert rest.before == TOTAL // 2 and rest.losses == whole.losses[TOTAL // 2 :]
    assert bits(rest) == bits(whole)
    with safe_open(file, framework="np") as found:
        extra = json.loads(found.metadata()["contents"])["extra"]
    named = {} if net == "perceptron" else {"net": net}
    assert {k: v for k, v in extra.items() if k == "net"} == named, "files that were, stay"


def test_a_checkpoint_of_another_network_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c"
    train(replace(job("batch_norm"), epochs=2), images(), checkpoints=Checkpoints(file))
    with pytest.raises(Rejected, match="b1"):
        train(job("perceptron"), images(), checkpoints=Checkpoints(resume=file))
    # One of the same parameters and buffers is told apart by its name.
    monkeypatch.setitem(NETWORKS, "other", NETWORKS["batch_norm"])
    with pytest.raises(Rejected, match="was made with net 'batch_norm', and this run has 'other'"):
        train(job("other"), images(), checkpoints=Checkpoints(resume=file))


@NETS
def test_sixteen_bits_train_too(net: str) -> None:
    trained = train(job(net, precision="bf16"), images())
    assert learned(trained)
    assert all(value.dtype == np.float32 for value in trained.values.values())


def test_running_statistics_are_those_of_the_batches() -> None:
    x, labels = images()
    one = replace(job("batch_norm"), epochs=1, batch_size=len(x))
    _, params = begin(one)
    units = x @ params["w1"].value().numpy().T
    trained = train(one, (x, labels))
    mean, var = (trained.buffers[f"running_{name}"] for name in ("mean", "var"))
    assert np.abs(mean - 0.1 * units.mean(axis=0)).max() < 2**-18
    assert np.abs(var - (0.9 + 0.1 * units.var(axis=0, ddof=1))).max() < 2**-18


def answers(values: dict[str, np.ndarray], net: str, x: np.ndarray) -> np.ndarray:
    """Return the logits of a network as a session computes them, with statistics as they are."""
    s = Session(provider="aten", device="cpu")
    v = {name: s.input(value) for name, value in values.items() if "running" not in name}

    def layer(k: int, h: Any) -> Any:
        return s.linear(h, v[f"w{k}"], v[f"b{k}"])

    def normal(k: int, h: Any) -> Any:
        return s.layer_norm(h, v[f"gamma{k}"], v[f"beta{k}"])

    given = s.input(x)
    if net == "perceptron":
        out = layer(2, s.relu(layer(1, given)))
    elif net == "batch_norm":
        held = (s.buffer(values[name]) for name in ("running_mean", "running_var"))
        units = s.matmul(given, s.permute(v["w1"], axes=(1, 0)))
        units = s.batch_norm(units, v["gamma"], v["beta"], *held, training=False)
        out = layer(2, s.relu(units))
    else:
        h = layer(1, given)
        h = h + layer(2, s.relu(normal(2, h)))
        h = h + layer(3, s.relu(normal(3, h)))
        out = layer(4, normal(4, h))
    return s.value(out).numpy()


@NETS
def test_the_answer_in_numpy_is_that_of_a_session(net: str) -> None:
    x, labels = images()
    values = train(job(net), (x, labels)).values
    own, due = NETWORKS[net].logits(values, x), answers(values, net, x)
    assert own.dtype == np.float32 and np.abs(own - due).max() < 2**-14 * np.abs(due).max()
    right = np.mean(due.argmax(axis=1) == labels)
    assert NETWORKS[net].accuracy(values, (x, labels)) == right


def command(out: Path, *options: str) -> int:
    common = ["train", "digits", "--quiet", "--hidden", "4", "--batch-size", "256", "--epochs", "1"]
    return main([*common, "--provider", "aten", "--out", str(out), *options])


@pytest.mark.parametrize("net", ["batch_norm", "residual"])
def test_the_command_trains_another_network_with_folds(net: str, tmp_path: Path) -> None:
    assert command(tmp_path / "out", "--net", net, "--folds", "2", "--keep-steps", "1") == 0
    manifest = json.loads((tmp_path / "out" / "steps" / "manifest.json").read_text())
    assert manifest["program"] == f"digits_{net}"
    assert manifest["ring"] == "host", "of the provider aten on a CPU"
    assert manifest.get("buffers", []) == [*NETWORKS[net].buffers(1)]
    with safe_open(tmp_path / "out" / "parameters.safetensors", framework="np") as found:
        kept = set(found.keys())
    assert kept == {*NETWORKS[net].parameters(1, 0), *NETWORKS[net].buffers(1)}


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(Rejected, match="one of perceptron, batch_norm, residual, got 'deep'"):
        Job(net="deep")
