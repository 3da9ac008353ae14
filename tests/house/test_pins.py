"""The pins agree with each other, with pyproject.toml and with torch's own metadata.

torch names the one triton it was built with; a set-up that pins another installs, imports, and
fails inside a compiled graph. So the metadata of the installed torch is the arbiter here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tools.tree import ROOT

Pins = dict[NormalizedName, Version]


def read_pins(text: str) -> Pins:
    """The pinned version of each distribution of a constraints file."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.split("==") for line in lines if line)
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def contradictions(source: str, requirements: Iterable[str], pins: Pins) -> Iterator[str]:
    """Say which requirements, of those that hold on this machine, the pins break or forget."""
    for text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name == "twingrad" or (requirement.marker and not requirement.marker.evaluate()):
            continue
        if name not in pins:
            if not name.startswith("nvidia-") and not name.startswith("cuda-"):
                yield f"{source} requires {text}; constraints.txt does not pin {name}"
        elif not requirement.specifier.contains(pins[name], prereleases=True):
            yield f"{source} requires {text}; constraints.txt pins {name}=={pins[name]}"


def pins() -> Pins:
    """The pins of this repository."""
    return read_pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))


def test_torch_and_what_it_needs_agree_with_the_pins() -> None:
    found = list(contradictions("torch", metadata.requires("torch") or [], pins()))
    assert not found, "\n".join(found)


def test_every_requirement_of_ours_contains_its_pin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["build-system"]["requires"])
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    found = list(contradictions("pyproject.toml", wanted, pins()))
    assert not found, "\n".join(found)


def test_what_is_installed_is_what_is_pinned() -> None:
    installed = {canonicalize_name(d.name): Version(d.version) for d in metadata.distributions()}
    found = [
        f"{name}=={pinned} is pinned and {installed[name]} is installed; run `make clean test`"
        for name, pinned in pins().items()
        if name in installed and Version(installed[name].public) != pinned
    ]
    assert not found, "\n".join(found)


def test_planted_contradictions_are_found(tmp_path: Path) -> None:
    pinned = read_pins("# why\ntorch==2.13.0\ntriton==3.6.0  # old\n")
    wanted = ["triton==3.7.1; sys_platform == 'linux'", "nvidia-cublas==13", "filelock"]
    assert list(contradictions("torch", wanted, pinned)) == [
        "torch requires triton==3.7.1; sys_platform == 'linux'; constraints.txt pins triton==3.6.0",
        "torch requires filelock; constraints.txt does not pin filelock",
    ]
    assert not list(contradictions("torch", ["gone; sys_platform == 'nowhere'"], pinned))


def test_the_oldest_and_the_newest_triton_are_the_ends_of_the_allowed_range() -> None:
    tried = dict(
        line.split(" := ")
        for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
        if line.startswith(("OLDEST :=", "NEWEST :="))
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = map(Requirement, project["project"]["optional-dependencies"]["fast"])
    ends = {one.operator: one.version for w in wanted if w.name == "triton" for one in w.specifier}
    oldest, newest = Version(tried["OLDEST"]), Version(tried["NEWEST"])
    assert f"{oldest.major}.{oldest.minor}" == ends[">="]
    assert f"{newest.major}.{newest.minor + 1}" == ends["<"]
    said = (ROOT / "docs" / "tritons.md").read_text(encoding="utf-8")
    assert all(
        str(version) in said for version in (oldest, pins()[NormalizedName("triton")], newest)
    )


def test_every_family_has_one_op_that_stands_for_it() -> None:
    from equivalence.cases.families.table import FAMILIES, family_of
    from equivalence.registry import OPS
    from tools.families import representatives

    *ops, optimizer = representatives()
    met = {family_of(op).name for op in OPS.values()}
    assert {family_of(OPS[name]).name for name in ops} == met <= set(FAMILIES)
    assert len(ops) == len(met) and optimizer not in OPS
