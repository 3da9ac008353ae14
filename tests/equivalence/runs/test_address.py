"""Addresses of backends: what a replay line names is what `load` finds."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from equivalence.backends import load
from equivalence.runs.address import address_of, replay_line
from equivalence.runs.run import Request, perform
from tests.equivalence.backends import fakes


class Named(fakes.Right):
    """Made with a name, so that its class alone does not make it."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_what_was_given_is_named_again() -> None:
    assert address_of("fast-aten", object()) == "fast-aten"
    assert address_of("mine:Mine", object()) == "mine:Mine"
    assert address_of("mine:two words", object()) == "'mine:two words'"


def test_an_object_is_found_in_the_module_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of("fake", fakes.OneOff()) == "tests.equivalence.backends.fakes:OneOff"
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    monkeypatch.setattr(Named, "__module__", "mine")
    module.Named, module.chosen = Named, Named("chosen")  # type: ignore[attr-defined]
    assert address_of("label", module.chosen) == "mine:chosen"
    assert load("mine:chosen") is module.chosen
    assert address_of("label", Named("other")) is None


def test_an_object_of_no_module_says_how_to_name_it() -> None:
    local = type("Local", (fakes.OneOff,), {"__module__": "__main__"})
    assert address_of("label", local()) is None
    done = perform(Request("label", ops=["mul"], profile="quick"), backend=local())
    told = done.results[0].failures[0].replay
    assert told is not None and "--backend MODULE:ATTRIBUTE (this backend was handed over" in told
    assert replay_line("mine:Mine", "{}") == (
        "python -m equivalence replay-case '{}' --backend mine:Mine"
    )
