"""What a page says that it stands for elsewhere exists there, and is said in its own names."""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace

import pytest

from spec.op import Elsewhere, Op
from spec.ops import OPS
from tests.spec import sources


def unknown(op: Op) -> set[str]:
    """Return the names in an op's statements that are neither its own nor a library's."""
    said = op.elsewhere
    assert said is not None, f"spec/ops/{op.name}.py: its record has no `elsewhere`"
    texts = [text for text in (said.torch, said.formula) if text is not None]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text, mode="eval"))]
    used = {(node.id, type(node.ctx)) for node in nodes if isinstance(node, ast.Name)}
    own = {*op.inputs, *op.attributes, *sources.LIBRARIES, "called", *vars(builtins)}
    bound = {name for name, context in used if context is ast.Store}
    return {name for name, _ in used} - own - bound


def test_a_page_names_its_source_in_its_own_words() -> None:
    for op in OPS.values():
        assert not unknown(op), f"spec/ops/{op.name}.py: {unknown(op)} is no name of the page"


def test_a_strange_name_and_a_missing_record_are_noticed() -> None:
    softmax = OPS["softmax"]
    strange = replace(softmax, elsewhere=Elsewhere("torch.softmax(x, dim=dim)", None))
    assert unknown(strange) == {"dim"}
    with pytest.raises(AssertionError, match="no `elsewhere`"):
        unknown(replace(softmax, elsewhere=None))


@pytest.mark.parametrize("where", ["torch", "jax"])
def test_the_names_exist(where: str) -> None:
    pytest.importorskip(where, reason=f"{where} is not here")
    for op in OPS.values():
        statement = getattr(op.elsewhere, where)
        if statement is not None:
            assert sources.found(sources.name_of(statement)) is not None, statement


def test_a_page_without_a_source_draws_or_fuses() -> None:
    """Of all others the record names a function with the same values."""
    silent = [op for op in OPS.values() if sources.expression(op) is None]
    assert all(op.random or "steps" in op.attributes for op in silent)
