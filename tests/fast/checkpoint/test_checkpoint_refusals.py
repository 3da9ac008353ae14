"""Checkpoints where something is wrong: what is put back, and what is refused by its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from fast import Rejected, Session, checkpoint
from fast.checkpoint.interchange import from_torch
from fast.checkpoint.snapshot import Contents, read
from fast.device import flags
from tests.fast.checkpoint.test_checkpoint import (
    AVERAGE,
    Change,
    adamw,
    hold_the_same,
    hyper,
    refused,
    repack,
    session,
    step,
    unpacked,
    used,
)

NAN = float("nan")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint after one step of AdamW."""
    s = session()
    step(s, "adamw", beta2=0.99)
    checkpoint.save(tmp_path / "c", s, {"epoch": 3})
    return tmp_path / "c"


def spoiled() -> Session:
    """A session whose latest step of AdamW met gradients that were not finite."""
    s = used()
    step(s, "sgd")
    s.reset_tape()
    w, b = (s.use(p) for p in s.params)
    s.adamw_step(0.01, beta2=0.99, grads={w.id: torch.full((2, 3), NAN), b.id: [1.0, NAN, 2.0]})
    return s


def everything(s: Session) -> list[Any]:
    """Bytes of every value and state, the flags of every parameter, and what is known beside."""
    found: list[Any] = [s.random_counter, sorted(s.optimizers)]
    for p in s.params:
        value = p.value().numpy().tobytes()
        found += [value, p.version, p.current, p.requires_grad]
        for name in sorted(s.optimizers):
            found.append(str(s.optimizer_hyper(name, p)))
            for value in s.optimizer_state(name, p).values():
                tensor = isinstance(value, torch.Tensor)
                found.append(value.numpy().tobytes() if tensor else value)
    return found


def failing(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException, for_good: bool) -> None:
    """Let loading a state fail at a call, and from then on if it is for good."""
    whole, calls = Session.load_optimizer_state, [0]

    def load(self: Session, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == at or (for_good and calls[0] > at):
            raise error
        whole(self, *arguments)

    monkeypatch.setattr(Session, "load_optimizer_state", load)


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_going_back_from_nan_is_all_or_nothing(
    saved: Path, monkeypatch: pytest.MonkeyPatch, at: int, for_good: bool
) -> None:
    s = spoiled()
    before = everything(s)
    with monkeypatch.context() as patch:
        failing(patch, at, MemoryError("no memory left"), for_good)
        with pytest.raises(MemoryError, match="no memory left"):
            checkpoint.load(saved, s, optimizers={"adamw": {"beta2": 0.99}})
    assert everything(s) == before
    checkpoint.load(saved, s)
    assert hold_the_same(read(s), contents_of(saved))


def contents_of(path: Path) -> Contents:
    fresh = session(scale=3.0)
    checkpoint.load(path, fresh)
    return read(fresh)


def test_a_state_dict_is_taken_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    s = spoiled()
    values = [p.value().requires_grad_() for p in session().params]
    optimizer = torch.optim.AdamW(values)
    for value in values:
        value.grad = torch.ones_like(value)
    optimizer.step()
    before = everything(s)
    with monkeypatch.context() as patch:
        failing(patch, 2, KeyboardInterrupt(), True)
        with pytest.raises(KeyboardInterrupt):
            from_torch(s, "adamw", optimizer.state_dict())
    assert everything(s) == before
    from_torch(s, "adamw", optimizer.state_dict())
    assert s.optimizer_state("adamw", s.params[1])["step"] == 1


@pytest.mark.parametrize("provider", ["aten", "triton"])
def test_what_was_put_back_goes_on_bit_for_bit(
    saved: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    one, other = session(provider=provider), session(provider=provider)
    for s in (one, other):
        step(s, "sgd")
        step(s, "adam", "w")
    with monkeypatch.context() as patch:
        failing(patch, 5, MemoryError(), True)
        with pytest.raises(MemoryError):
            checkpoint.load(saved, one)
    assert everything(one) == everything(other)
    for name in ("sgd", "adam", "adamw"):
        assert step(one, name) == step(other, name)
    assert everything(one) == everything(other)


def changed(path: Path, change: Change) -> None:
    tensors, description = unpacked(path)
    tensors = {name: value.clone() for name, value in tensors.items()}
    change(tensors, description)
    repack(path, tensors, description)


SQUARES = "state/adamw/w/exp_avg_sq"
FLOAT8 = torch.ones(3).to(torch.float8_e4m3fn)
STRANGE: list[tuple[Change, str]] = [
    (lambda t, d: hyper(d).update(eps={"float": "0x1p+5000"}), "optimizers/adamw/groups/0/eps: a"),
    (lambda t, d: hyper(d)["eps"].update(more=1), "optimizers/adamw/groups/0/eps: "),
    (lambda t, d: d["extra"].update(n={"float": "0x1p+5000"}), "extra/n: a hexadecimal float"),
    (lambda t, d: d["extra"].update(n={"float": "0x1p0", "int": 1}), "extra/n: "),
    (lambda t, d: d["extra"].update(n={}), "extra/n: "),
    (lambda t, d: adamw(d).update(more=1), "optimizers/adamw: the parts are"),
    (lambda t, d: adamw(d).pop("with_state"), "optimizers/adamw/with_state: "),
    (lambda t, d: adamw(d)["groups"][0].update(lr=1), "optimizers/adamw/groups/0: the parts are"),
    (lambda t, d: adamw(d)["groups"][0].pop("hyper"), "optimizers/adamw/groups/0/hyper: "),
    (lambda t, d: t.update({AVERAGE: FLOAT8}), f"{AVERAGE}: the session's parameter is"),
    (lambda t, d: t.update({AVERAGE: torch.ones(3) * 1j}), f"{AVERAGE}: the session's parameter"),
    (lambda t, d: t[SQUARES][1, 1].fill_(-1e-30), f"{SQUARES}: a mean of squares is not below 0"),
    (lambda t, d: t["state/adamw/w/step"].fill_(2**40), "state/adamw/w/step: at most 1073741824"),
]


@pytest.mark.parametrize("number", range(len(STRANGE)))
def test_a_strange_entry_is_refused_by_name(saved: Path, number: int) -> None:
    change, expected = STRANGE[number]
    changed(saved, change)
    assert refused(saved, used()).startswith(expected)


def test_what_could_not_be_loaded_is_not_saved(saved: Path) -> None:
    s, whole = used(), saved.read_bytes()
    s.optimizers["adamw"]._states[1].views[0][0, 0] = -1.0  # type: ignore[index]
    with pytest.raises(Rejected, match=f"{SQUARES}: a mean of squares is not below 0"):
        checkpoint.save(saved, s)
    for key, value in (("n", 10**5000), ("n", -(10**5000)), ("\ud800", 1), ("n", "\ud800")):
        try:
            checkpoint.save(saved, used(), {key: value})
        except Rejected as error:
            assert f"checkpoint {saved}: extra/" in str(error)
            assert saved.read_bytes() == whole
        else:
            assert checkpoint.load(saved, session()) == {key: value}
            saved.write_bytes(whole)
    with pytest.raises(Rejected, match=r"extra/n: an int of more digits than"):
        checkpoint.save(saved, used(), {"n": 10**5000})
    for extra in (5, [("n", 1)], "n"):
        with pytest.raises(Rejected, match="extra: "):
            checkpoint.save(saved, used(), extra)  # type: ignore[arg-type]
    assert saved.read_bytes() == whole


Optimizers = Any


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sgd": {"momntum": 0.5}}, "optimizers/sgd: there is no 'momntum'"),
        ({"adam": {"bta": NAN}}, "optimizers/adam: there is no 'bta'"),
        ({"adam": {"beta1": NAN}}, "optimizers/adam C2: beta1 lies in"),
        ({"adam": 5}, "optimizers/adam: the hyper-parameters are a mapping, got int"),
        ({"adam": None}, "optimizers/adam: the hyper-parameters are a mapping, got NoneType"),
        ({5: {}}, "optimizers: there is no 5"),
        (5, "optimizers: hyper-parameters by the names of optimizers are needed, got int"),
        ([], "optimizers: hyper-parameters by the names of optimizers are needed, got list"),
    ],
)
def test_what_a_program_goes_on_with_is_read_in_any_case(
    saved: Path, given: Optimizers, message: str
) -> None:
    assert refused(saved, used(), optimizers=given).startswith(message)


def test_a_bad_index_is_named_with_the_file(saved: Path) -> None:
    s, word = used(), flags.word(torch.device("cpu"))
    word.fill_((flags.code_of("take") << 48) | 5)
    try:
        for action in (checkpoint.save, checkpoint.load):
            with pytest.raises(Rejected, match=f"^checkpoint {saved}: "):
                action(saved, s)
    finally:
        s.clear_flag()


def test_a_folder_that_cannot_be_read_is_found_before_the_file_is_replaced(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, plain = saved.read_bytes(), os.open

    def closed(path: Any, *rest: Any, **more: Any) -> int:
        if Path(path) == saved.parent:
            raise PermissionError(13, "permission denied")
        return plain(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", closed)
        with pytest.raises(PermissionError):
            checkpoint.save(saved, used())
    assert saved.read_bytes() == whole
    assert list(saved.parent.iterdir()) == [saved]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of open files")
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_save_leaves_no_file_open(
    saved: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "no space left")

    before = descriptors()
    checkpoint.save(saved, used())
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="no space"):
            checkpoint.save(saved, used())
    assert descriptors() == before


@pytest.mark.parametrize("name", ["n" * 232, "n" * 233, "n" * 255, "é" * 127, "日" * 85])
def test_a_long_name_is_a_name(tmp_path: Path, name: str) -> None:
    s = used()
    checkpoint.save(tmp_path / name, s, {"epoch": 1})
    assert checkpoint.load(tmp_path / name, s) == {"epoch": 1}
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("path", ["a\0b", "new/", "new/.", "new/..", "", 5, None, b"new", ["new"]])
def test_what_names_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    s = used()
    before = read(s)
    for action in (checkpoint.save, checkpoint.load):
        with pytest.raises(Rejected, match=r"^checkpoint .*: .*names? "):
            action(path, s)
    assert list(tmp_path.iterdir()) == [] and hold_the_same(before, read(s))
