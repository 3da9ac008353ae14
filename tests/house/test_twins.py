"""One operation is one page in `spec` and one page in `fast`, under one name, with one signature.

The signature is written twice, since `fast` never imports `spec`; here the two are compared.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.tree import ROOT, python_files

NO_TWIN = frozenset({"__main__.py", "errors.py"})
"""Files on top of `fast` that are no chapters; everything else without a twin lives in a room."""


def page_names(root: Path, package: str, folder: str) -> set[str]:
    """The stems of the pages in a folder: every module that is neither private nor the table."""
    return {p.stem for p in python_files(root, f"{package}/{folder}") if p.stem[0] != "_"}


def lonely_pages(root: Path) -> Iterator[str]:
    """Say which page of `spec` lacks a twin or a note, and which chapter of `fast` lacks a twin."""
    for folder in ("ops", "optim"):
        for stem in sorted(page_names(root, "spec", folder) - page_names(root, "fast", folder)):
            yield f"spec/{folder}/{stem}.py has no twin fast/{folder}/{stem}.py"
    for stem in sorted(page_names(root, "spec", "ops") - noted(root) - covered(root)):
        yield (
            f"spec/ops/{stem}.py has no note: write proofs_notes/{stem}.md, or name "
            f"spec.ops.{stem} in the shared note that proves it"
        )
    for path in sorted((root / "fast").glob("*.py")):
        if not (root / "spec" / path.name).exists() and path.name not in NO_TWIN:
            yield (
                f"fast/{path.name} has no twin spec/{path.name}: on top of fast stand the chapters "
                "that spec has too; what only a device needs lives in a room (ROOMS)"
            )


def noted(root: Path) -> set[str]:
    """The ops that a note is about: the note has the op's name, or names `spec.ops.<op>`."""
    notes = list((root / "proofs_notes").glob("*.md"))
    named = (re.findall(r"spec\.ops\.(\w+)", n.read_text(encoding="utf-8")) for n in notes)
    return {n.stem for n in notes}.union(*named)


COVERED = re.compile(r"^op = (?:pointwise|composite|several)\(", re.MULTILINE)
"""How a page says that it is of a kind whose pages a shared note covers all at once."""


def covered(root: Path) -> set[str]:
    """The ops of the kinds that need no line in a note (proofs_notes/index.py, BY_KIND)."""
    pages = (root / "spec" / "ops").glob("*.py")
    return {p.stem for p in pages if COVERED.search(p.read_text(encoding="utf-8"))}


PLACE = ("like", "dtype", "device")
"""How an op that makes numbers is told where they go: into a world, or onto a device."""


def told(op: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of parameters but for those that say where numbers go."""
    makes = len(op.inputs) == len(op.index_inputs)
    return tuple(n for n in names if not (makes and n in PLACE))


def signature(op: Any) -> dict[str, object]:
    """What a caller sees of an op: its inputs, which of them are indices, its attributes."""
    return {
        "inputs": starred(op),
        "index inputs": tuple(op.index_inputs),
        "mask inputs": tuple(op.mask_inputs),
        "attributes": {n: plain(op.attributes[n]) for n in told(op, op.attributes)},
        "draws": op.random,
    }


def starred(op: Any) -> tuple[str, ...]:
    """The inputs as a signature names them: any number of them has a star."""
    return tuple(f"*{name}" if op.variadic else name for name in op.inputs)


def plain(default: object) -> object:
    """A default as both sides may write it; a required attribute has none."""
    if default is inspect.Parameter.empty or repr(default) == "REQUIRED":
        return "required"
    return default


def written(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The parameters of a hand-written host, or None for one that an engine made."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    stars = {p: "*" if p.kind is p.VAR_POSITIONAL else "" for p in parameters}
    return tuple(f"{star}{p.name}" for p, star in stars.items())


def differing_twins(spec: Mapping[str, Any], fast: Mapping[str, Any]) -> Iterator[str]:
    """Say where the two tables, or the two signatures of one op, differ."""
    if list(spec) != list(fast):
        yield f"spec.ops.OPS lists {list(spec)} and fast.ops.OPS lists {list(fast)}"
    for name in spec.keys() & fast.keys():
        ours, theirs = signature(spec[name]), signature(fast[name])
        for part in ours:
            if ours[part] != theirs[part]:
                yield f"{name}: {part} are {ours[part]} in spec and {theirs[part]} in fast"
        expected = told(spec[name], (*starred(spec[name]), *spec[name].attributes))
        for host in (fast[name].value, fast[name].aten_value):
            found = written(host)
            if found is not None and told(spec[name], found) != expected:
                yield f"{name}: fast's {host.__name__} takes {found}, spec's {expected}"


OPERATORS = (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"),
    *("__truediv__", "__rtruediv__", "__matmul__", "__neg__"),
)
"""What a program may write on a ref."""


def bare(method: Callable[..., Any]) -> str:
    """What a caller sees of a method: names in order, with their kinds and defaults."""
    found = inspect.signature(method)
    kept = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=kept, return_annotation=found.empty))


SAID = ("arguments", "required", "defaults", "counted", "squares", "decoupled")
"""What both pages of an optimizer say of it, in the same words."""


def differing_optimizers(spec: Mapping[str, Any], fast: Mapping[str, Any]) -> Iterator[str]:
    """Say where the two tables of optimizers, or two pages of one optimizer, differ."""
    if list(spec) != list(fast):
        yield f"spec.optim.OPTIMIZERS lists {list(spec)} and fast.optim's lists {list(fast)}"
    for name in [name for name in spec if name in fast]:
        ours, theirs = spec[name], fast[name]
        said = {part: (getattr(ours, part), getattr(theirs, part)) for part in SAID}
        said["states"] = (ours.moments, theirs.states)
        said["torch"] = (ours.torch, getattr(theirs.torch, "__name__", None))
        plainest = {key: among[0] for key, among in ours.tried.items()}
        for key, value in ((key, value) for key, among in ours.tried.items() for value in among):
            hyper = ours.permitted({**plainest, key: value})
            kept = ours.kept(hyper), theirs.kept(theirs.hyper(**hyper))
            said[f"what is kept at {key}={value}"] = kept
        for part, (one, other) in said.items():
            if one != other:
                yield f"{name}: {part} is {one} in spec and {other} in fast"


def differing_methods(spec: type, fast: type, names: Iterable[str]) -> Iterator[str]:
    """Say which methods of two classes are called differently."""
    for name in names:
        ours, theirs = (bare(getattr(side, name)) for side in (spec, fast))
        if ours != theirs:
            yield f"{spec.__name__}.{name}{ours} in spec is {name}{theirs} in fast"


def test_every_page_has_its_twin_and_its_note() -> None:
    found = list(lonely_pages(ROOT))
    assert not found, "\n".join(found)


def test_twins_have_one_signature() -> None:
    from fast.ops import OPS as FAST
    from spec.ops import OPS as SPEC

    found = list(differing_twins(SPEC, FAST))
    assert not found, "\n".join(found)


def test_optimizers_say_the_same_on_both_pages() -> None:
    from fast.optim import OPTIMIZERS as FAST
    from spec.optim import OPTIMIZERS as SPEC

    found = list(differing_optimizers(SPEC, FAST))
    assert not found, "\n".join(found)


def test_planted_optimizers_that_differ_are_found() -> None:
    from fast.optim import OPTIMIZERS as FAST
    from spec.optim import OPTIMIZERS as SPEC

    adam = replace(FAST["adam"], decoupled=True, squares=())
    assert list(differing_optimizers(SPEC, {**FAST, "adam": adam})) == [
        "adam: squares is ('exp_avg_sq', 'max_exp_avg_sq') in spec and () in fast",
        "adam: decoupled is False in spec and True in fast",
    ]
    sgd = replace(FAST["sgd"], stateful=lambda hyper: True)
    found = list(differing_optimizers(SPEC, {**FAST, "sgd": sgd}))
    assert found and all(line.startswith("sgd: what is kept at") for line in found)
    assert list(differing_optimizers(SPEC, {})) == [
        f"spec.optim.OPTIMIZERS lists {list(SPEC)} and fast.optim's lists []"
    ]


@pytest.mark.holds("Stochastic gradient descent, from any form of gradients")
def test_methods_that_programs_and_loops_call_have_one_signature() -> None:
    from fast.ref import Ref as FastRef
    from fast.session import Session as Fast
    from fast.train import ParamList as FastList
    from fast.train import ScalarTrainer as FastTrainer
    from spec.linked import GraphSession
    from spec.optim import OPTIMIZERS
    from spec.ref import Ref
    from spec.session import Session
    from spec.train import ParamList, ScalarTrainer

    steps = [f"{name}_step" for name in OPTIMIZERS]
    found = [
        *differing_methods(Session, Fast, ["constant", *steps]),
        *differing_methods(GraphSession, Fast, ["constant", *steps]),
        *differing_methods(ParamList, FastList, steps),
        *differing_methods(ScalarTrainer, FastTrainer, ["get_params", *steps]),
        *differing_methods(Ref, FastRef, OPERATORS),
    ]
    assert not found, "\n".join(found)


def test_planted_lonely_pages_are_found(tmp_path: Path, plant: Callable[[str, str], None]) -> None:
    for name in ("spec/ops/add.py", "spec/ops/mul.py", "spec/ops/exp.py", "spec/tape.py"):
        plant(name, "")
    for name in ("fast/ops/add.py", "fast/ops/exp.py", "fast/ops/_engine.py", "fast/tape.py"):
        plant(name, "")
    plant("fast/arena.py", "")
    plant("proofs_notes/exp.md", "It also proves `spec.ops.mul`.")
    assert [line.split(":")[0] for line in lonely_pages(tmp_path)] == [
        "spec/ops/mul.py has no twin fast/ops/mul.py",
        "spec/ops/add.py has no note",
        "fast/arena.py has no twin spec/arena.py",
    ]


def test_planted_differences_are_found() -> None:
    class Page:
        def __init__(self, value: Callable[..., Any], **attributes: object) -> None:
            self.inputs, self.index_inputs, self.mask_inputs = ("x",), (), ()
            self.variadic = self.random = False
            self.attributes, self.value, self.aten_value = attributes, value, value

    def right(x: object, *, axis: int = -1) -> None: ...
    def wrong(x: object, *, dim: int = -1) -> None: ...
    def engine(*inputs: object, **attributes: object) -> None: ...

    spec = {"softmax": Page(right, axis=-1)}
    assert not list(differing_twins(spec, {"softmax": Page(engine, axis=-1)}))
    found = list(differing_twins(spec, {"softmax": Page(wrong, axis=0)}))
    assert found[0] == "softmax: attributes are {'axis': -1} in spec and {'axis': 0} in fast"
    assert found[1] == "softmax: fast's wrong takes ('x', 'dim'), spec's ('x', 'axis')"
    fixed, several = Page(right), Page(lambda *x: None)
    several.variadic = True
    assert list(differing_twins({"concat": several}, {"concat": fixed})) == [
        "concat: inputs are ('*x',) in spec and ('x',) in fast",
        "concat: fast's right takes ('x', 'axis'), spec's ('*x',)",
        "concat: fast's right takes ('x', 'axis'), spec's ('*x',)",
    ]
    assert not list(differing_twins({"concat": several}, {"concat": several}))
    noise, silent = Page(lambda *, seed, like: None), Page(lambda *, seed, dtype, device: None)
    noise.inputs = silent.inputs = ()
    noise.attributes, silent.attributes, noise.random = {"seed": 1, "like": 0}, {"seed": 1}, True
    found = ["noise: draws are True in spec and False in fast"]
    assert list(differing_twins({"noise": noise}, {"noise": silent})) == found
    assert list(differing_twins(spec, {})) == [
        "spec.ops.OPS lists ['softmax'] and fast.ops.OPS lists []"
    ]


def test_planted_methods_are_found() -> None:
    class Ours:
        def step(self, lr: float, *, momentum: float = 0.0) -> None: ...
        def reset(self, lr: int = 1) -> None: ...

    class Theirs:
        def step(self, lr: float, momentum: float = 0.0) -> None: ...
        def reset(self, lr: float = 1) -> int: ...

    assert list(differing_methods(Ours, Theirs, ["step", "reset"])) == [
        "Ours.step(self, lr, *, momentum=0.0) in spec is step(self, lr, momentum=0.0) in fast"
    ]
