"""Checkpoints: what comes back, what is refused by name, and that a refusal changes nothing."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fast import Rejected, Session, Stale, checkpoint
from fast.checkpoint import sealed
from fast.checkpoint.snapshot import Contents, read
from fast.device import flags
from fast.runtime.param import Param

PROVIDERS = ["aten", "triton"]
STEPS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "adam": {"lr": 0.01, "beta1": 0.8, "weight_decay": 0.1},
    "adamw": {"lr": 0.01, "beta2": 0.99},
}
Tensors = dict[str, torch.Tensor]


def session(scale: float = 1.0, provider: str = "aten", **options: Any) -> Session:
    s = Session(provider=provider, device="cpu", **options)
    s.param(torch.linspace(-1, 1, 6).reshape(2, 3) * scale, name="w")
    s.param(torch.linspace(1, 2, 3) * scale, name="layers/b")
    return s


def step(s: Session, optimizer: str = "adamw", *names: str, **hyper: Any) -> float:
    """Update the named parameters, or all, by the gradient of a sum of squares."""
    s.reset_tape()
    chosen = [p for p in s.params if not names or p.name in names]
    loss = s.constant(0)
    for parameter in sorted(chosen, key=lambda p: p.name):
        loss = s.add(loss, s.sum(s.square(s.use(parameter))))
    grads = s.backward(loss)
    hyper = {**STEPS[optimizer], **hyper}
    getattr(s, f"{optimizer}_step")(grads=grads, **hyper)
    return float(s.value(loss))


def hold_the_same(one: Contents, other: Contents) -> bool:
    """Say whether two sessions hold the same, bit for bit."""

    def plain(contents: Contents) -> Any:
        tensors = {
            (name, owner, field): value.numpy().tobytes() if hasattr(value, "numpy") else value
            for name, holders in contents.optimizers.items()
            for owner, held in holders.items()
            for field, value in {**held.state, "": str(held.hyper)}.items()
        }
        values = {name: value.numpy().tobytes() for name, value in contents.values.items()}
        return values, contents.trainable, tensors, contents.random_counter

    return bool(plain(one) == plain(other))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint after two steps of which one left the bias out."""
    s = session()
    step(s)
    step(s, "adamw", "w")
    checkpoint.save(tmp_path / "c", s, {"epoch": 3})
    return tmp_path / "c"


def test_everything_comes_back(tmp_path: Path) -> None:
    first, second = session(), session(scale=5.0)
    step(first, groups=[{"params": [first.params[1]], "weight_decay": 0.5}])
    step(first, "sgd", "w")
    first.params[0].requires_grad = False
    first.random_counter = 2**40 + 1
    extra = {"epoch": 3, "rate": 0.1, "note": 'über "alles"', "best": float("inf"), "n": -(2**70)}
    checkpoint.save(tmp_path / "c", first, extra)
    step(second, "sgd", momentum=0.0, nesterov=False)
    assert not hold_the_same(read(first), read(second))
    second = session(scale=5.0)
    assert checkpoint.load(tmp_path / "c", second) == extra
    assert hold_the_same(read(first), read(second))
    assert second.random_counter == 2**40 + 1
    assert [p.requires_grad for p in second.params] == [False, True]
    checkpoint.save(tmp_path / "d", second, extra)
    assert unpacked(tmp_path / "c")[1] == unpacked(tmp_path / "d")[1]


def test_the_file_is_what_the_documentation_says(saved: Path) -> None:
    tensors, description = unpacked(saved)
    assert sorted(tensors) == [
        "param/layers/b", "param/w",
        "state/adamw/layers/b/exp_avg", "state/adamw/layers/b/exp_avg_sq",
        "state/adamw/layers/b/step",
        "state/adamw/w/exp_avg", "state/adamw/w/exp_avg_sq", "state/adamw/w/step",
    ]  # fmt: skip
    assert tensors["state/adamw/w/step"].item() == 2
    assert tensors["state/adamw/layers/b/step"].item() == 1
    adamw = description["optimizers"]["adamw"]
    assert adamw["fields"] == ["exp_avg", "exp_avg_sq", "step"]
    assert adamw["with_state"] == ["w", "layers/b"]
    (group,) = adamw["groups"]
    assert group["parameters"] == ["w", "layers/b"]
    assert group["hyper"]["beta2"] == {"float": (0.99).hex()}
    assert description["extra"] == {"epoch": 3}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("optimizer", list(STEPS))
def test_a_resumed_session_goes_on_bit_for_bit(
    tmp_path: Path, optimizer: str, provider: str
) -> None:
    s = session(provider=provider)
    step(s, optimizer)
    step(s, optimizer, "w")  # so that the two have taken different numbers of steps
    checkpoint.save(tmp_path / "c", s)
    losses = [step(s, optimizer) for _ in range(3)]
    again = Session(provider=provider, device="cpu")
    for parameter in reversed(s.params):
        again.param(torch.zeros(parameter.shape), name=parameter.name)
    checkpoint.load(tmp_path / "c", again)
    assert [step(again, optimizer) for _ in range(3)] == losses
    assert hold_the_same(read(s), read(again))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_resumed_session_draws_the_random_numbers_that_were_next(
    tmp_path: Path, provider: str
) -> None:
    def noisy(s: Session) -> bytes:
        s.reset_tape()
        dropped = s.dropout(s.use(s.params[0]), p=0.5, seed=3)
        s.sgd_step(0.1, s.backward(s.sum(s.add(dropped, s.rand_normal(shape=(2, 3), seed=4)))))
        return s.value(dropped).numpy().tobytes()

    s, again = session(provider=provider), session(provider=provider)
    noisy(s)
    checkpoint.save(tmp_path / "c", s)
    drawn = [noisy(s) for _ in range(3)]
    assert len(set(drawn)) > 1
    checkpoint.load(tmp_path / "c", again)
    assert [noisy(again) for _ in range(3)] == drawn
    assert hold_the_same(read(s), read(again)) and s.random_counter == 8


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("optimizer", list(STEPS))
def test_what_the_file_does_not_mention_starts_afresh(
    tmp_path: Path, optimizer: str, provider: str
) -> None:
    s, fresh = session(provider=provider), session(provider=provider)
    checkpoint.save(tmp_path / "c", s)
    for _ in range(3):
        step(s, optimizer)
    checkpoint.load(tmp_path / "c", s)
    for _ in range(2):
        assert step(s, optimizer) == step(fresh, optimizer)
    assert hold_the_same(read(s), read(fresh))


def test_other_precisions(tmp_path: Path) -> None:
    for precision in ("bf16", "fp16", "fp64"):
        s, again = session(precision=precision), session(scale=3.0, precision=precision)
        step(s)
        again.use(again.params[0])  # a rounded copy of the old value lies ready
        checkpoint.save(tmp_path / "c", s)
        checkpoint.load(tmp_path / "c", again)
        assert [step(s) for _ in range(2)] == [step(again) for _ in range(2)]
        assert hold_the_same(read(s), read(again))
    with pytest.raises(Rejected, match=r"param/w: .* torch.float32 .*, got torch.float64"):
        checkpoint.load(tmp_path / "c", session())


def test_a_session_without_parameters_has_a_checkpoint_too(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", Session(provider="aten"), {"epoch": 1})
    assert checkpoint.load(tmp_path / "c", Session(provider="aten")) == {"epoch": 1}


def test_a_tape_from_before_is_stale(saved: Path) -> None:
    s = session()
    loss = s.sum(s.square(s.use(s.params[0])))
    checkpoint.load(saved, s)
    with pytest.raises(Stale):
        s.backward(loss)


def unpacked(path: Path) -> tuple[Tensors, dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["contents"])


def repack(path: Path, tensors: Tensors, description: Any) -> None:
    """Write a file anew; with what no checkpoint holds it is one without a digest."""
    text = description if isinstance(description, str) else json.dumps(description)
    if all(tensor.dtype in sealed.DTYPES for tensor in tensors.values()):
        path.write_bytes(sealed.pack(tensors, text))
    else:
        unsealed(path, tensors, description)


def unsealed(path: Path, tensors: Tensors, description: Any, **schema: str) -> None:
    """Write a file as it was before there was a digest."""
    metadata = {"schema": "twingrad-checkpoint", "version": "1", **schema}
    save_file(tensors, path, metadata={**metadata, "contents": json.dumps(description)})


def refused(path: Path, s: Session, **options: Any) -> str:
    """Load, see it refused, see that the session is as it was, and return the message."""
    before, versions = read(s), [p.version for p in s.params]
    with pytest.raises(Rejected) as caught:
        checkpoint.load(path, s, **options)
    assert hold_the_same(before, read(s)), "a refused checkpoint has changed the session"
    assert versions == [p.version for p in s.params]
    message = str(caught.value)
    assert message.startswith(f"checkpoint {path}: ")
    return message.removeprefix(f"checkpoint {path}: ")


def used() -> Session:
    """A session with values and state of its own, so that a refused load has much to spoil."""
    s = session(scale=2.0)
    step(s)
    s.random_counter = 7
    return s


def test_a_file_of_another_length_is_refused(saved: Path) -> None:
    s, whole = used(), saved.read_bytes()
    for length in (0, 1, 7, 8, 9, 70):
        saved.write_bytes(whole[:length])
        assert refused(saved, s).startswith("is no whole safetensors file")
    for length in (80, 200, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        assert refused(saved, s).startswith("is damaged: ")
    saved.write_bytes(whole + b"\0")
    assert refused(saved, s).startswith("is damaged: ")
    saved.unlink()
    assert refused(saved, s).startswith("cannot be read")
    saved.mkdir()
    assert refused(saved, s).startswith("cannot be read")


Change = Callable[[Tensors, Any], object]
AVERAGE = "state/adamw/layers/b/exp_avg"
COUNT = "state/adamw/layers/b/step"


def adamw(description: Any) -> Any:
    return description["optimizers"]["adamw"]


def hyper(description: Any) -> Any:
    return adamw(description)["groups"][0]["hyper"]


CHANGES: list[tuple[Change, str]] = [
    (lambda t, d: t.pop("param/layers/b"), "param/layers/b: missing"),
    (lambda t, d: t.update({"param/c": torch.ones(1)}), "param/c: unknown"),
    (lambda t, d: t.update({"x": torch.ones(1)}), "x: unknown"),
    (
        lambda t, d: (t.update({"param/c": torch.ones(1)}), d["requires_grad"].update(c=True)),
        "param/c: unknown",
    ),
    (
        lambda t, d: (
            [t.pop(name) for name in list(t) if "layers/b" in name],
            d["requires_grad"].pop("layers/b"),
            adamw(d)["with_state"].remove("layers/b"),
            adamw(d)["groups"][0]["parameters"].remove("layers/b"),
        ),
        "param/layers/b: missing",
    ),
    (lambda t, d: t.update({"param/layers/b": torch.ones(4)}), "param/layers/b: "),
    (lambda t, d: t.update({"param/layers/b": torch.ones(3).double()}), "param/layers/b: "),
    (lambda t, d: t.update({"param/layers/b": torch.ones(3, dtype=torch.int32)}), "param/layers/b"),
    (lambda t, d: t.pop(AVERAGE), f"{AVERAGE}: missing"),
    (lambda t, d: t.update({AVERAGE: torch.ones(3, 1)}), AVERAGE),
    (lambda t, d: t.update({AVERAGE: torch.ones(3).half()}), AVERAGE),
    (lambda t, d: t[AVERAGE][1].fill_(float("nan")), f"{AVERAGE}: every number is finite"),
    (lambda t, d: t[AVERAGE][2].fill_(float("-inf")), f"{AVERAGE}: every number is finite"),
    (lambda t, d: t.pop(COUNT), f"{COUNT}: missing"),
    (lambda t, d: t[COUNT].fill_(0), f"{COUNT}: a state was made by at least 1 step, got 0"),
    (lambda t, d: t[COUNT].fill_(-1), f"{COUNT}: a state was made by at least 1 step, got -1"),
    (lambda t, d: t.update({COUNT: torch.ones(())}), f"{COUNT}: a count is one int64"),
    (lambda t, d: t.update({COUNT: torch.ones(1).long()}), f"{COUNT}: a count is one int64"),
    (lambda t, d: adamw(d)["with_state"].remove("layers/b"), AVERAGE),
    (lambda t, d: adamw(d)["with_state"].append("w"), "optimizers/adamw/with_state: 'w' stands"),
    (lambda t, d: adamw(d)["with_state"].append("v"), "optimizers/adamw/with_state: 'v' is none"),
    (lambda t, d: adamw(d)["fields"].append("max"), "optimizers/adamw/fields: "),
    (lambda t, d: adamw(d).pop("groups"), "optimizers/adamw/groups: "),
    (lambda t, d: adamw(d)["groups"].append(adamw(d)["groups"][0]), "optimizers/adamw/groups/1"),
    (lambda t, d: hyper(d).pop("beta1"), "optimizers/adamw/groups/0/hyper: "),
    (lambda t, d: hyper(d).update(beta1=True), "optimizers/adamw/groups/0/hyper: "),
    (lambda t, d: hyper(d).update(beta1={"float": "x"}), "optimizers/adamw/groups/0/beta1: "),
    (
        lambda t, d: hyper(d).update(beta1={"float": (1.0).hex()}),
        "optimizers/adamw/groups/0/hyper: ad",
    ),
    (lambda t, d: hyper(d).update(beta1={"float": (0.5).hex()}), "optimizers/adamw/w/beta1: made"),
    (lambda t, d: d["optimizers"].update(signum=adamw(d)), "optimizers/signum: "),
    (lambda t, d: d["requires_grad"].update(w=1), "requires_grad/w: "),
    (lambda t, d: d.update(random_counter=-1), "random_counter: "),
    (lambda t, d: d.update(random_counter=2**64), "random_counter: "),
    (lambda t, d: d.update(random_counter=True), "random_counter: "),
    (lambda t, d: d.pop("random_counter"), "contents: the parts are"),
    (lambda t, d: d.update(more=1), "contents: the parts are"),
    (lambda t, d: d["extra"].update(epoch=None), "extra/epoch: "),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_file_that_does_not_fit_is_refused_by_name(saved: Path, number: int) -> None:
    change, expected = CHANGES[number]
    tensors, description = unpacked(saved)
    tensors = {name: value.clone() for name, value in tensors.items()}
    repack(saved, tensors, description)
    checkpoint.load(saved, used())
    change(tensors, description)
    repack(saved, tensors, description)
    assert refused(saved, used()).startswith(expected)


def test_another_schema_or_description_is_refused(saved: Path) -> None:
    tensors, description = unpacked(saved)
    s, text = used(), json.dumps(description)
    unsealed(saved, tensors, description, schema="other")
    assert refused(saved, s) == "schema: 'twingrad-checkpoint' can be loaded, got 'other'"
    unsealed(saved, tensors, description, version="3")
    assert refused(saved, s) == "version: '1' and '2' can be loaded, got '3'"
    unsealed(saved, tensors, description, version="2")
    assert refused(saved, s) == "is damaged: a file of version 2 begins with its digest"
    unsealed(saved, tensors, description, sha256="0" * 64)
    assert refused(saved, s).startswith("is damaged: a file of version 1 has no digest")
    save_file(tensors, saved)
    assert refused(saved, s) == "schema: 'twingrad-checkpoint' can be loaded, got None"
    for other in ("", text[:-1], text + "}", "[" * 100_000, "[]", text.replace("{", "{ 1,")):
        repack(saved, tensors, other)
        assert refused(saved, s).startswith("contents: ")
    twice = text.replace('"layers/b": true', '"layers/b": true, "w": false')
    repack(saved, tensors, twice)
    assert refused(saved, s) == "contents: 'w' stands there twice"


def test_another_configuration_is_refused_before_the_first_step_too(saved: Path) -> None:
    s = session()
    message = refused(saved, s, optimizers={"adamw": {"beta2": 0.9}})
    assert message == "optimizers/adamw/w/beta2: made with 0.99, and the session goes on with 0.9"
    assert "weight_decay" in refused(
        saved, s, optimizers={"adamw": {"beta2": 0.99, "weight_decay": 0.0}}
    )
    assert "there is no 'signum'" in refused(saved, s, optimizers={"signum": {}})
    checkpoint.load(saved, s, optimizers={"adamw": {"lr": 0.5, "beta2": 0.99}, "sgd": {}})
    # Loading is remembered as the configuration, until a step uses another.
    assert s.optimizer_hyper("adamw", s.params[1]) == {
        "lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 1e-2,
        "amsgrad": False, "maximize": False,
    }  # fmt: skip
    step(s, beta2=0.5)
    assert refused(saved, s).startswith("optimizers/adamw/w/beta2: made with 0.99")


def test_a_load_that_breaks_off_is_taken_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s = used()
    before, whole, calls = read(s), Param.set, []

    def failing(parameter: Param, value: Any) -> None:
        calls.append(parameter)
        if len(calls) == 2:
            raise KeyboardInterrupt
        whole(parameter, value)

    monkeypatch.setattr(Param, "set", failing)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.load(saved, s)
    assert len(calls) == 2 and hold_the_same(before, read(s)), "what was there is put back unread"


def test_state_that_could_not_be_loaded_is_not_saved(saved: Path) -> None:
    s, whole = used(), saved.read_bytes()
    s.params[0].set(torch.full((2, 3), 1e30))
    step(s)
    with pytest.raises(Rejected, match=r"c: state/adamw/w/exp_avg_sq: every number is finite"):
        checkpoint.save(saved, s)
    for extra in ({"a": None}, {"a": True}, {"a": [1]}, {1: 1}):
        with pytest.raises(Rejected, match=r"extra/.: an int, a float or a str is needed"):
            checkpoint.save(saved, used(), extra)  # type: ignore[arg-type]
    assert saved.read_bytes() == whole


def test_after_a_bad_index_nothing_is_saved_or_loaded(saved: Path) -> None:
    s, word = used(), flags.word(torch.device("cpu"))
    word.fill_((flags.code_of("take") << 48) | 5)
    try:
        for action in (checkpoint.save, checkpoint.load):
            with pytest.raises(Rejected, match="take"):
                action(saved, s)
    finally:
        s.clear_flag()
    checkpoint.load(saved, s)


@pytest.mark.parametrize("call", ["chmod", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "no space left"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    saved: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    whole = saved.read_bytes()

    def fail(*_: object) -> None:
        assert len(list(saved.parent.iterdir())) == 2, "the new file is made beside the old one"
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(type(error)):
            checkpoint.save(saved, used())
    assert saved.read_bytes() == whole
    assert list(saved.parent.iterdir()) == [saved]


def test_a_save_is_flushed_before_it_is_renamed_and_its_folder_after(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def flush(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def move(source: Path, target: Path) -> None:
        assert source.parent == target.parent
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", move)
    checkpoint.save(saved, used())
    assert calls == ["file", "rename", "folder"]


def test_links_are_followed_and_permissions_kept(tmp_path: Path) -> None:
    s, link, file = used(), tmp_path / "link", tmp_path / "folder" / "file"
    file.parent.mkdir()
    link.symlink_to(Path("folder") / "file")
    checkpoint.save(link, s)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask()
    file.chmod(0o640)
    checkpoint.save(link, s, {"epoch": 1})
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o640
    assert checkpoint.load(file, used()) == {"epoch": 1}
    with pytest.raises(Rejected, match=r"there is no folder .*nowhere; make it first"):
        checkpoint.save(tmp_path / "nowhere" / "c", s)
    with pytest.raises(Rejected, match="folder is no regular file"):
        checkpoint.save(tmp_path / "folder", s)
    with pytest.raises(Rejected, match="/dev/null is no regular file"):
        checkpoint.save("/dev/null", s)


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_a_program_that_goes_on_with_groups_states_them(tmp_path: Path) -> None:
    def made() -> Session:
        s = Session(provider="aten")
        for name in ("w", "b"):
            s.param([1.0, 2.0], name=name)
        return s

    def groups(s: Session) -> list[dict[str, Any]]:
        return [{"params": [s.params[1]], "weight_decay": 0.0}]

    first, again = made(), made()
    first.adamw_step(grads=_ones(first), groups=groups(first))
    checkpoint.save(tmp_path / "c", first)
    wanted = r"optimizers/adamw/b/weight_decay: made with 0.0, and the session goes on with 0.01"
    with pytest.raises(Rejected, match=wanted):
        checkpoint.load(tmp_path / "c", again, optimizers={"adamw": {}})
    checkpoint.load(tmp_path / "c", again, optimizers={"adamw": {"groups": groups(again)}})
    with pytest.raises(Rejected, match="optimizers/adamw: group 1 names no 'params'"):
        checkpoint.load(tmp_path / "c", again, optimizers={"adamw": {"groups": [{}]}})
    for s in (first, again):
        s.reset_tape()
        s.adamw_step(grads=_ones(s), groups=groups(s))
    assert read(first).values["b"].tolist() == read(again).values["b"].tolist()


def _ones(s: Session) -> Any:
    return s.backward(s.sum(s.use(s.params[0]) + s.use(s.params[1])))


def test_names_that_differ_are_shown_of_both_sides(tmp_path: Path) -> None:
    first, other = Session(), Session()
    first.param([1.0], name="weight")
    other.param([1.0], name="w")
    checkpoint.save(tmp_path / "file", first)
    with pytest.raises(Rejected, match=r"has \['w'\], and the file \['weight'\]$"):
        checkpoint.load(tmp_path / "file", other)
