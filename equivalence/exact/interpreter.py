"""Triton's interpreter on exact numbers: what is replaced in it, stated once, restored on leaving.

The interpreter holds a tile as a numpy array, and a tile of floats here is an array of Python
objects, which numpy adds, multiplies, compares, selects and sums as always. Replaced are

* how a dtype of floats is called in numpy, and the check of sizes that goes with it;
* float constants, which stand for what they mean (`equivalence.exact.literals`);
* loads and stores of fp32, which go through `Memory`; fp64 is loaded only;
* casts between floats, which are identities: rounding is what budgets are for;
* division, by an exact one, and the absolute value;
* exp, log, the roots, cosine and sine, by the stand-ins; and, whole, the functions of
  `fast.kernels.elementwise.functions`, whose lines are polynomials that sweeps hold to their
  errors;
* and of our own, how large a tensor is that takes the wide tile of rows, which small ones then do,
  how many large tiles a product has at least, and how long an inner axis is of which products walk
  the parts apart.

What is assumed: that these are the functions by which interpreted kernels handle floats; that numpy
calls an object's own operators and nothing else; that a lane which a mask hides, where x / 0 is
infinite or NaN as in IEEE, reaches no store (it would be stored as NaN, and differ).
Bit casts and atomic operations on floats are refused. Integers are computed as ever, and so are
addresses, masks, branches and loops: they are the kernel's own.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from equivalence.exact.memory import Memory, stated
from equivalence.exact.numbers import Inexact, over, started, whole_part
from equivalence.exact.standins import Rule, of_turns

FLOATS = ("fp16", "bf16", "fp32", "fp64")
"""Triton's names of the dtypes whose tiles are exact."""


def all_kernels() -> frozenset[str]:
    """Name every kernel of `fast` by its module: a function of Triton that a host launches.

    A kernel is told by its name, which ends with `_kernel`.
    """
    import fast

    root = Path(fast.__file__).parent
    return frozenset(
        f"{'.'.join(('fast', *path.relative_to(root).with_suffix('').parts))}.{function.name}"
        for path in root.rglob("*.py")
        for function in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(function, ast.FunctionDef)
        and function.name.endswith("_kernel")
        and any("triton.jit" in ast.unparse(mark) for mark in function.decorator_list)
    )


@contextmanager
def exact_kernels(memory: Memory, rules: Mapping[str, Rule]) -> Iterator[None]:
    """Let the kernels that start in this block compute on exact numbers.

    Raises Inexact where kernels are compiled here, not interpreted.
    """
    from fast.device.mode import require_triton, ring
    from fast.kernels import split_k, tiles
    from fast.kernels.elementwise import functions
    from fast.kernels.rows import rowwise

    require_triton()
    if ring() != "interpreted":
        raise Inexact(f"exact numbers need Triton's interpreter; kernels here are {ring()}")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    builder = interpreter.interpreter_builder
    whole: dict[Any, Callable[[Any], Any]] = {functions.turned: partial(_pairs, of_turns)}
    # Those that Triton has are replaced where its builder calls them.
    whole |= {
        getattr(functions, name): _lanes(rule)
        for name, rule in rules.items()
        if hasattr(functions, name)
    }
    rewritten = interpreter.InterpretedFunction.rewritten_fn
    with ExitStack() as stack:
        for name, replaced in _dtypes(interpreter).items():
            stack.enter_context(patch.object(interpreter, name, replaced))
        for name, replaced in _methods(interpreter, memory, rules).items():
            # On the instance, which has none of its own: leaving the block deletes them again.
            stack.enter_context(patch.object(builder, name, replaced))
        stack.enter_context(
            patch.object(interpreter.GridExecutor, "__call__", _noting(interpreter))
        )
        stack.enter_context(patch.object(rowwise, "WORTHWHILE", 1))
        stack.enter_context(patch.dict(split_k.PARTS, dict.fromkeys(split_k.PARTS, 1)))
        stack.enter_context(tiles.one_is_enough())
        # Sums of addresses are checked for overflow in vain, as nobody asks for what is found.
        unchecked = replace(builder.options, sanitize_overflow=False)
        stack.enter_context(patch.object(builder, "options", unchecked))
        own = {function.fn: _on_tensors(interpreter, body) for function, body in whole.items()}
        stack.enter_context(patch.dict(rewritten, own))
        yield


def _noting(interpreter: Any) -> Callable[..., Any]:
    """Return how a kernel starts, which notes its name in every trace."""
    start = interpreter.GridExecutor.__call__

    def noted(executor: Any, *arguments: Any, **more: Any) -> Any:
        function = executor.fn
        started(f"{function.__globals__['__name__']}.{function.__name__}")
        return start(executor, *arguments, **more)

    return noted


def _dtypes(interpreter: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions of the interpreter's module that are replaced."""
    named, fits = interpreter._get_np_dtype, interpreter._validate_np_data_size

    def numpy_dtype(dtype: Any) -> Any:
        return np.dtype(object) if dtype.scalar.name in FLOATS else named(dtype)

    def size_fits(data: Any, dtype: Any) -> bool:
        return data.dtype == object or bool(fits(data, dtype))

    return {"_get_np_dtype": numpy_dtype, "_validate_np_data_size": size_fits}


def _methods(
    interpreter: Any, memory: Memory, rules: Mapping[str, Rule]
) -> dict[str, Callable[..., Any]]:
    """Return the builder's methods that are replaced, by their names."""
    handle, builder = interpreter.TensorHandle, interpreter.interpreter_builder
    raw, cast = interpreter._interpreter, builder.cast_impl

    def constant(dtype: str, value: float) -> Any:
        return handle(_boxed(stated(value)), getattr(interpreter.tl, dtype))

    def load(pointers: Any, mask: Any, other: Any, *how: Any) -> Any:
        dtype = pointers.get_element_ty()
        words = {"fp32": np.uint32, "fp64": np.float64}.get(dtype.name)
        if words is None and dtype.name in FLOATS:
            raise Inexact(f"exact numbers lie in fp32; a kernel loads {dtype.name}")
        if words is None:
            return type(builder).create_masked_load(builder, pointers, mask, other, *how)
        live = _truths(mask.data, pointers.data.shape)
        nothing = np.zeros(live.shape, words)
        bits = raw.load(pointers.data, live, nothing, np.dtype(words))
        found = np.zeros(bits.shape, object)
        if other is not None:
            found[...] = other.data
        read = memory.decoded if words is np.uint32 else memory.of_doubles
        found[live] = read(bits[live])
        return handle(found, dtype)

    def store(pointers: Any, value: Any, mask: Any, *how: Any) -> Any:
        dtype = pointers.get_element_ty()
        if dtype.name not in FLOATS:
            return type(builder).create_masked_store(builder, pointers, value, mask, *how)
        if dtype.name != "fp32":
            raise Inexact(f"exact numbers lie in fp32; a kernel stores {dtype.name}")
        live = _truths(mask.data, pointers.data.shape)
        bits = np.zeros(live.shape, np.uint32)
        bits[live] = memory.encoded(np.broadcast_to(value.data, live.shape)[live])
        return raw.store(pointers.data, bits, live)

    # How a cache is used is one argument since triton 3.9, and two before it.
    def any_load(pointers: Any, *how: Any) -> Any:
        everywhere = handle(np.ones_like(pointers.data, dtype=bool), interpreter.tl.int1)
        return load(pointers, everywhere, None, *how)

    def any_store(pointers: Any, value: Any, *how: Any) -> Any:
        everywhere = handle(np.ones_like(pointers.data, dtype=bool), interpreter.tl.int1)
        return store(pointers, value, everywhere, *how)

    def cast_floats(source: Any, target: Any, *how: Any) -> Any:
        from_floats, to_floats = (d.scalar.name in FLOATS for d in (source.dtype, target))
        if from_floats and to_floats:
            return handle(source.data, target.scalar)
        if not from_floats and not to_floats:
            return cast(source, target)
        exact = _lanes(int if to_floats else whole_part)(source.data)
        numpy_dtype = interpreter._get_np_dtype(target)
        return handle(exact.astype(numpy_dtype), target.scalar)

    def refuse(what: str) -> Callable[..., Any]:
        def refused(*operands: Any) -> Any:
            if any(getattr(x, "dtype", None) is not None and x.get_element_ty().name in FLOATS
                   for x in operands if hasattr(x, "get_element_ty")):  # fmt: skip
                raise Inexact(f"exact numbers have no {what}; a kernel asks for one of floats")
            return getattr(type(builder), what)(builder, *operands)

        return refused

    def unary(rule: Rule) -> Callable[[Any], Any]:
        return lambda x: handle(_lanes(rule)(x.data), x.dtype.scalar)

    def quotient(x: Any, y: Any) -> Any:
        return handle(_each(over, x.data, y.data), x.dtype.scalar)

    root = rules["sqrt"]
    return {
        **{f"get_{d}": partial(constant, f"float{d[2:]}") for d in ("fp16", "fp32", "fp64")},
        "create_load": any_load,
        "create_masked_load": load,
        "create_store": any_store,
        "create_masked_store": store,
        "cast_impl": cast_floats,
        "create_fp_to_fp": cast_floats,
        "create_fdiv": quotient,
        "create_precise_divf": quotient,
        "create_fabs": unary(abs),
        "create_sqrt": unary(root),
        "create_precise_sqrt": unary(root),
        "create_rsqrt": unary(lambda x: over(1, root(x))),
        **{f"create_{name}": unary(rules[name]) for name in ("exp", "log", "cos", "sin")},
        **{name: refuse(name) for name in REFUSED},
    }


REFUSED = (
    "create_bitcast",
    "create_atomic_cas",
    "create_atomic_rmw",
    "create_erf",
    "create_exp2",
    "create_log2",
    "create_floor",
    "create_ceil",
    "create_frem",
)
"""What the builder does with floats that exact numbers cannot follow."""


def _boxed(x: Any) -> Any:
    found = np.empty(1, object)
    found[0] = x
    return found


def _truths(mask: Any, shape: tuple[int, ...]) -> Any:
    """Return a mask of a shape, which may have come as integers."""
    return np.ascontiguousarray(np.broadcast_to(mask, shape), dtype=bool)


def _each(rule: Callable[..., Any], *tiles: Any) -> Any:
    """Apply a rule lane by lane."""
    found = np.frompyfunc(rule, len(tiles), 1)(*tiles)
    return found if isinstance(found, np.ndarray) else _boxed(found)


def _lanes(rule: Rule) -> Callable[[Any], Any]:
    return partial(_each, rule)


def _pairs(rule: Callable[[Any], tuple[Any, Any]], tile: Any) -> tuple[Any, Any]:
    """Apply a rule of two results lane by lane."""
    first, second = np.frompyfunc(rule, 1, 2)(tile)
    return first, second


def _on_tensors(interpreter: Any, body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of Triton's tensors that applies another to their tiles."""

    def made(tile: Any, like: Any) -> Any:
        return interpreter.tl.tensor(interpreter.TensorHandle(tile, like.handle.dtype), like.type)

    def function(x: Any) -> Any:
        found = body(x.handle.data)
        return tuple(made(t, x) for t in found) if isinstance(found, tuple) else made(found, x)

    return function
