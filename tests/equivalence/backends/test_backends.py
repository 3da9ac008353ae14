"""The built-in backends: all of them load, and each computes."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from itertools import product
from typing import Any

import pytest
import torch

from equivalence.backends import BUILT_IN, EXTRAS, UnknownBackend, load
from equivalence.backends.fast.backend import FastBackend
from equivalence.backends.libraries import shipped
from equivalence.backends.protocol import Backend, HasJvp, HasOptimizers
from equivalence.runs.kinds import Updates
from equivalence.runs.results import Row
from equivalence.runs.runner import run_row
from fast.device import mode
from fast.errors import Rejected
from fast.kernels import checks
from spec.ops import OPS
from spec.optim import OPTIMIZERS
from tests.equivalence.backends import fakes
from tests.turns import of_pages
from tools.rotation import recorded
from tools.tree import ROOT

THEIRS = [name for name, page in OPTIMIZERS.items() if page.torch is not None]
"""The optimizers whose page names a class of torch.optim."""

CPU = ("torch", "fast-aten", "fast-triton-interpreted")


@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - set(EXTRAS) - {"fast-inductor"}))
def test_a_built_in_backend_follows_the_protocol(name: str) -> None:
    backend = load(name)
    assert isinstance(backend, Backend) and isinstance(backend, HasOptimizers)
    assert not isinstance(backend, HasJvp)
    assert backend.name == name
    capabilities = backend.capabilities()
    # torch draws other numbers, and pages say which functions it has not.
    lacking = {
        op
        for op, page in OPS.items()
        if page.random or page.elsewhere is None or page.elsewhere.torch is None
    }
    assert "safe_log" in lacking
    offered, due = set(capabilities.ops), set(OPS) - lacking if name == "torch" else set(OPS)
    # A page that was never judged may name a function of torch before the adapter calls it.
    new = due - set(recorded(ROOT)) if name == "torch" else set()
    # What has several results may be several functions of torch, one after the other.
    joined = {op for op, page in OPS.items() if page.results is not None and page.elsewhere}
    # What a formula says in torch's functions may be several of them, one in the other.
    joined |= {op for op in lacking if "torch." in str(OPS[op].elsewhere)}
    assert due - new <= offered <= due | joined
    assert set(capabilities.optimizers) == set(THEIRS if name == "torch" else OPTIMIZERS)
    assert all({"fp32", "bf16"} <= set(dtypes) for dtypes in capabilities.ops.values())
    assert capabilities.ring in ("host", "interpreted", "device")
    assert capabilities.contract("softmax", "fp32").name


@pytest.mark.parametrize("name", CPU)
def test_a_built_in_backend_computes(name: str) -> None:
    backend = load(name)
    x, g = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 5.0]])
    assert backend.value("relu", [x], {}).tolist() == [[1.0, 0.0]]
    gradients = backend.vjp("take", [x, torch.tensor([1, 1])], {"axis": 1}, [g])
    assert gradients[1] is None
    assert gradients[0] is not None and gradients[0].tolist() == [[0.0, 8.0]]


def test_on_a_device_a_bad_index_is_refused_when_the_result_is_read_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: a backend whose indices no check sees, as those that lie on a device."""
    ours = FastBackend("ours", "triton", ("fp32",), ring="device", device="cpu")
    monkeypatch.setattr(checks, "_within", lambda given, extent: True)
    x, indices = torch.tensor([1.0, 2.0]), torch.tensor([1, 0])
    for bad in (-1, 2):
        with pytest.raises(Rejected, match=f"take C3: a kernel met the index {bad}"):
            ours.value("take", [x, torch.tensor([1, bad])], {"axis": 0})
        assert torch.equal(ours.value("take", [x, indices], {"axis": 0}), x[indices])  # type: ignore[arg-type]


def test_torch_cannot_draw_our_bits_and_says_so() -> None:
    for op in ("rand_uniform", "dropout"):
        result = run_row(load("torch"), Row(op, "value", "fp32"), counted=3, seed=0, findings=())
        assert result.status == "unsupported"


@pytest.mark.parametrize("name", [*CPU[:2], pytest.param(CPU[2], marks=pytest.mark.full)])
def test_a_row_of_each_kind_is_conformant(name: str) -> None:
    backend = load(name)
    for row in (Row("softmax", "vjp", "fp32"), Row("max", "value", "bf16")):
        result = run_row(backend, row, counted=3, seed=0, findings=shipped())
        assert (result.status, result.failures) in (("conformant", ()), ("declared", ()))


@pytest.mark.holds("Stochastic gradient descent, from any form of gradients", "Adam", "AdamW")
@pytest.mark.parametrize(("optimizer", "name"), of_pages(product(OPTIMIZERS, CPU), 11))
def test_an_optimizer_row_is_conformant(name: str, optimizer: str) -> None:
    if name == "torch" and optimizer not in THEIRS:
        pytest.skip("torch has no class of this formula, as the page says")
    row = Row(optimizer, "update", "fp32")
    result = run_row(load(name), row, counted=4, seed=0, findings=shipped())
    assert result.status in (("conformant", "declared") if name == "torch" else ("conformant",))
    assert result.failures == ()


class _Stale:
    """An optimizer that forgets to update its second parameter's moments."""

    def __init__(self, handle: object) -> None:
        self.handle = handle
        self.kept: dict[str, object] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self.handle, name)

    def state(self) -> dict[str, list[object]]:
        rows = {k: list(v) for k, v in self.handle.state().items()}  # type: ignore[attr-defined]
        if rows["exp_avg"][-1] is not None:
            rows["exp_avg"][-1] = rows["exp_avg"][-1] * 0.5
        return rows


class _WrongUpdates(fakes.Right):
    """Torch's AdamW with one moment reported wrongly."""

    def optimizer(self, name: str, params: object, hyper: object) -> object:
        return _Stale(load("torch").optimizer(name, params, hyper))  # type: ignore[attr-defined]


def test_a_wrong_moment_is_caught() -> None:
    row = Row("adamw", "update", "fp32")
    contract = load("torch").capabilities().contract("adamw", "fp32")
    kind = Updates(row)
    outcome = kind.measure(_WrongUpdates(), kind.fixed()[0], contract)
    assert outcome.failed and outcome.detail is not None
    assert "exp_avg of parameter" in outcome.detail.result


class _Clipped:
    """A handle whose gradients go through a wrong clipping before they reach torch."""

    def __init__(self, handle: object, change: Callable[[list[Any]], list[Any]]) -> None:
        self.handle = handle
        self.change = change

    def __getattr__(self, name: str) -> object:
        return getattr(self.handle, name)

    def step(self, grads: list[Any]) -> None:
        self.handle.step(self.change(grads))  # type: ignore[attr-defined]


class _WronglyClipping(fakes.Right):
    """Torch's optimizers behind a clipping of our own."""

    def __init__(self, change: Callable[..., list[Any]]) -> None:
        self.change = change

    def optimizer(self, name: str, params: object, hyper: dict[str, Any]) -> object:
        bound = hyper.get("max_norm")
        plain = {key: value for key, value in hyper.items() if key != "max_norm"}
        handle = load("torch").optimizer(name, params, plain)  # type: ignore[attr-defined]
        return handle if bound is None else _Clipped(handle, lambda g: self.change(g, bound))


def _one_by_one(grads: list[Any], bound: float) -> list[Any]:
    """Clip each gradient by its own norm."""
    return [None if g is None else g * (bound / (g.norm() + 1e-6)).clamp(max=1.0) for g in grads]


def _unguarded(grads: list[Any], bound: float) -> list[Any]:
    """Divide by the norm alone."""
    norm = torch.cat([g.flatten() for g in grads if g is not None]).norm()
    return [None if g is None else g * (bound / norm).clamp(max=1.0) for g in grads]


@pytest.mark.parametrize("optimizer", THEIRS)
@pytest.mark.parametrize("change", [_one_by_one, _unguarded])
def test_a_wrong_clipping_is_caught(optimizer: str, change: Callable[..., list[Any]]) -> None:
    contract = load("torch").capabilities().contract(optimizer, "fp32")
    kind, backend = Updates(Row(optimizer, "update", "fp32")), _WronglyClipping(change)
    assert any(kind.measure(backend, case, contract).failed for case in kind.fixed())


def _deaf(grads: list[Any], bound: float) -> list[Any]:
    """Make finite numbers of those that are not, as a careful library might."""
    return [None if g is None else torch.nan_to_num(g) * 0.0 for g in grads]


def test_a_gradient_that_is_not_finite_must_spoil_what_torch_spoils() -> None:
    contract = load("torch").capabilities().contract("adam", "fp32")
    kind, backend = Updates(Row("adam", "update", "fp32")), _WronglyClipping(_deaf)
    spoiled = [case for case in kind.extras() if case.spoiled and case.max_norm]
    right, wrong = (
        [kind.measure(one, case, contract) for case in spoiled] for one in (load("torch"), backend)
    )
    assert not any(outcome.failed for outcome in right)
    assert all(outcome.failed for outcome in wrong)


def test_unknown_names_are_refused_with_those_that_exist() -> None:
    with pytest.raises(UnknownBackend, match="there are fast-triton"):
        load("fast-tritan")
    with pytest.raises(UnknownBackend, match="it has no name, capabilities, value, vjp"):
        load("math:pi")


class Without(MetaPathFinder):
    """Finds one package missing, whether it is installed or not."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == self.package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.mark.parametrize("name", sorted(EXTRAS))
def test_a_backend_whose_library_is_missing_says_what_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, command = EXTRAS[name]
    module = BUILT_IN[name].partition(":")[0]
    if "strangers" in module and mode.ring() != "interpreted":
        pytest.skip("this process compiles kernels, and a process has one mode")
    for loaded in [known for known in sys.modules if known.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])
    with pytest.raises(UnknownBackend) as refused:
        load(name)
    assert str(refused.value) == f"backend {name!r}: {package} is not installed: {command}"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (name in extras["optional-dependencies"]) == (f"'twingrad[{name}]'" in command)
