"""Writes a graph down node for node, and reads it in another process of the same installation.

`pickle` alone takes a graph module for its Python code and traces that anew: names and constants
change, and an artifact would not be that of the graph which its name stands for. What is read here
prints as what was written. It is handed from a process to one that it has started, and never kept.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node


def written(graph: GraphModule, given: Sequence[Tensor]) -> bytes:
    """Return a graph and the kinds of its arguments as bytes."""
    nodes = [(n.op, n.name, n.target, n.args, n.kwargs) for n in graph.graph.nodes]
    held = {n.target: getattr(graph, n.target) for n in graph.graph.nodes if n.op == "get_attr"}
    kinds = [(tuple(t.shape), t.stride(), t.dtype) for t in given]
    file = io.BytesIO()
    _Writer(file).dump((nodes, held, kinds))
    return file.getvalue()


def read(data: bytes) -> tuple[GraphModule, list[Tensor]]:
    """Return the graph, and arguments of those kinds whose numbers nobody has set."""
    reader = _Reader(io.BytesIO(data))
    nodes, held, kinds = reader.load()
    for op, name, target, args, kwargs in nodes:
        arguments = torch.fx.node.map_aggregate((args, kwargs), reader.node)
        reader.known[name] = reader.graph.create_node(op, target, *arguments, name=name)
    found = GraphModule(held, reader.graph)
    return found, [torch.empty_strided(shape, strides, dtype=d) for shape, strides, d in kinds]


class _Named(str):
    """Stands for a node, of which only the name is written."""

    __slots__ = ()


class _Writer(pickle.Pickler):
    """Writes operators, which have no pickle, by their names, and nodes too."""

    def reducer_override(self, found: Any) -> Any:
        if isinstance(found, Node):
            return _Named, (found.name,)
        if isinstance(found, torch._ops.OpOverload):
            return _operator, (found.namespace, found._opname, found._overloadname)
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Reads what `_Writer` has written, into a graph of its own."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.graph = Graph()
        self.known: dict[str, Node] = {}

    def node(self, found: Any) -> Any:
        return self.known[found] if type(found) is _Named else found


def _operator(namespace: str, name: str, overload: str) -> Any:
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)
