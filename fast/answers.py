"""What a session and its refs answer to calls and operators that they do not take.

Twin of spec.answers, and of operators in spec.refusals: the sentences are the same. What NumPy
and PyTorch call an argument is taken where it means the same, and so are NumPy's numbers.
"""

# This file is longer than the guide because its table of names belongs to the words it answers by.
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral
from types import FunctionType
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from fast.errors import Misfit, Rejected, Unknown, Unsupported, unknown

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

SAME = {
    "axes": ("axis",),
    "axis": ("axes",),
    "dim": ("axis", "axes"),
    "dims": ("axes",),
    "keepdim": ("keepdims",),
}
"""What NumPy and PyTorch call an argument, and what it may be called here."""

UNSET = ("dtype", "out", "keepdims", "initial", "where")
"""What NumPy's functions hand on to a method though nobody has set it, and is dropped then."""

INSTEAD = {
    "item": "ops.value(x)[()]",
    "value": "ops.value(x)",
    "max_with_indices": "ops.max_with_indices(x, axis=axis)",
    "min_with_indices": "ops.min_with_indices(x, axis=axis)",
    "numpy": "ops.value(x)",
    "tolist": "ops.value(x)",
    "data": "ops.value(x)",
    "grad": "ops.grad(grads, x), where grads = ops.backward(loss)",
    "backward": "ops.backward(x)",
    "zero_grad": "nothing for it: every call of backward() returns new gradients",
    **dict.fromkeys(("train", "eval"), "training=True or False where an op asks, as dropout does"),
    **dict.fromkeys(
        ("state_dict", "load_state_dict"),
        "nothing for it: what param() returned has a value, and fast.checkpoint keeps a session",
    ),
    **dict.fromkeys(
        ("parameters", "named_parameters"), "nothing for it: param() returns them, for you to keep"
    ),
    "step": "ops.sgd_step(lr=lr, grads=grads), or the step of another optimizer",
    "view": "x.reshape(shape)",
    "size": "x.shape",
    "dim": "len(x.shape)",
    "ndim": "len(x.shape)",
    "t": "x.T",
    "squeeze": "x.reshape(shape)",
    "unsqueeze": "x[None]",
    "expand_dims": "x[None]",
    "ravel": "x.reshape(-1)",
    **dict.fromkeys(("transpose", "swapaxes", "moveaxis"), "ops.permute(x, axes=axes)"),
    **dict.fromkeys(("expand", "broadcast"), "ops.broadcast_to(x, shape=shape)"),
    **dict.fromkeys(("concatenate", "cat"), "ops.concat(x, y, axis=axis)"),
    "index_select": "ops.take(x, indices, axis=axis)",
    "subtract": "ops.sub(x, y)",
    "multiply": "ops.mul(x, y)",
    **dict.fromkeys(("divide", "true_divide"), "ops.div(x, y)"),
    **dict.fromkeys(("mm", "mv", "inner"), "x @ y"),
    "negative": "ops.neg(x)",
    "absolute": "ops.abs(x)",
    **dict.fromkeys(("power", "float_power"), "ops.pow(x, c=power)"),
    "clip": "ops.clamp(x, lo=lowest, hi=highest)",
    "amax": "ops.max(x, axes=axes)",
    "amin": "ops.min(x, axes=axes)",
    "var": "ops.mean(ops.square(x - ops.mean(x)))",
    "std": "ops.sqrt(ops.mean(ops.square(x - ops.mean(x))))",
    "ln": "ops.log(x)",
    "log2": "ops.log(x) / math.log(2.0)",
    "log10": "ops.log(x) / math.log(10.0)",
    "exp2": "ops.exp(x * math.log(2.0))",
    "tan": "ops.sin(x) / ops.cos(x)",
    "sinh": "(ops.exp(x) - ops.exp(-x)) / 2",
    "cosh": "(ops.exp(x) + ops.exp(-x)) / 2",
    **dict.fromkeys(("expit", "logistic"), "ops.sigmoid(x)"),
    "swish": "ops.silu(x)",
    "relu6": "ops.clamp(x, lo=0.0, hi=6.0)",
    "l1_loss": "ops.mae_loss(x, y)",
    "binary_cross_entropy_with_logits": "ops.bce_with_logits(x, y)",
    **dict.fromkeys(("zeros", "ones", "full"), "ops.constant(number, shape=shape)"),
    "rand": "ops.rand_uniform(shape=shape, seed=seed)",
    "randn": "ops.rand_normal(shape=shape, seed=seed)",
    **dict.fromkeys(("tensor", "array", "leaf"), "ops.input(tensor(...), requires_grad=True)"),
    **dict.fromkeys(("variable", "parameter"), "ops.use(ops.param(tensor(...)))"),
    "ops": "s.sum(x) where a program has ops.sum(x): a session is the ops of a program",
}
"""What NumPy's arrays and PyTorch's tensors have and nothing here has, and what is written here.

Functions of theirs stand here too, where no op has that name.
"""

ABSENT = frozenset(
    (
        *("arctan", "arcsin", "arccos", "arctan2", "arcsinh", "arccosh", "arctanh"),
        *("atan", "asin", "acos", "atan2", "asinh", "acosh", "atanh"),
        *("floor", "ceil", "round", "trunc", "fmod", "mod", "remainder", "sign", "sort", "argsort"),
        *("unique", "median", "cov", "det", "inv", "solve", "svd", "eig", "einsum", "conv1d"),
        *("conv2d", "fft", "erfinv", "erfc", "gamma", "lgamma", "hypot", "logaddexp", "roll"),
    )
)
"""Functions of theirs that no op here means: none is offered for them, however near its name."""

LISTS = "dir(ops) lists all names"
"""What is said where a session has more names than a sentence should list."""


def unfamiliar(who: str, what: str, name: object, known: Iterable[str], lists: str) -> Unknown:
    """Build the refusal of an op's name: what is written instead, or nearest."""
    asked = name if isinstance(name, str) else repr(name)
    if asked in INSTEAD:
        return Unknown(f"{who}: there is no {what} {name!r}; write {INSTEAD[asked]}")
    return unknown(who, what, name, () if asked in ABSENT else known, lists)


_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "matmul": "@",
    "pow": "**",
    "floordiv": "//",
    "mod": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

SIGNS = {
    **{f"__{r}{name}__": f"x {sign} y" for name, sign in _BINARY.items() for r in ("", "r")},
    **{f"__{name}__": f"x {sign} y" for name, sign in _COMPARISONS.items()},
    "__abs__": "abs(x)",
    "__array__": "numpy.array(x)",
    "__bool__": "the truth of x",
    "__complex__": "complex(x)",
    "__contains__": "y in x",
    "__delitem__": "del x[i]",
    "__divmod__": "divmod(x, y)",
    "__float__": "float(x)",
    "__getitem__": "x[i]",
    "__index__": "x as an index",
    "__int__": "int(x)",
    "__invert__": "~x",
    "__len__": "len(x)",
    "__rdivmod__": "divmod(x, y)",
    "__round__": "round(x)",
    "__setitem__": "x[i] = y",
}
"""Python's methods that a class may refuse, and how they are written."""


def hints(instead: Mapping[str, str]) -> Callable[[C], C]:
    """Return a decorator: a class refuses these operators, saying what to write instead."""

    def add(owner: C) -> C:
        for method, remedy in instead.items():
            setattr(owner, method, _refusal(f"{SIGNS[method]} is not offered; {remedy}"))
        return owner

    return add


def _refusal(sentence: str) -> Callable[..., Any]:
    def refused(self: object, *others: object, **_: object) -> Any:
        # A ref answers for both operands.
        kinds = {type(other) for other in others} - {type(self)}
        if any(getattr(kind, "_answers_for_both", False) for kind in kinds):
            return NotImplemented
        raise Unsupported(f"{type(self).__name__}: {sentence}")

    return refused


def lacking(instead: Mapping[str, str], said: str = "") -> Callable[[C], C]:
    """Return a decorator: a class says of names that it has not what to write instead.

    Each is a property that raises Unknown. A `__getattr__` would make every name of the class cost.
    A name that the class has after all, or that a class below it has, is no such property.
    """

    def add(owner: C) -> C:
        lead = said or f"{owner.__name__}: there is no x.{{}}"
        for name, remedy in instead.items():
            if not hasattr(owner, name):
                setattr(owner, name, property(_lack(f"{lead.format(name)}; {remedy}")))
        return owner

    return add


def _lack(sentence: str) -> Callable[[object], NoReturn]:
    def lacks(self: object) -> NoReturn:
        raise Unknown(sentence)

    return lacks


_LEFT_OUT: Any = object()
"""Stands in the place of an argument that was not given."""

INNER = ("apply",)
"""Methods that others call for every op: those answer already, and this would cost each op."""


def answering(owner: C, constructor: bool = False) -> C:
    """Let the public methods of a class take NumPy's and PyTorch's names for their arguments.

    What else does not fit their signatures is a Misfit, which is also a TypeError. That holds for
    the methods that it inherits, too, where they are written; a constructor only answers, and only
    where that is asked for, as it costs a call.
    """
    for kind in owner.__mro__:
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType) and name[0] != "_" and name not in INNER:
                setattr(kind, name, _answered(method))
            elif constructor and kind is owner and name == "__init__":
                setattr(kind, name, telling(method))
    return owner


def _answered(method: Any) -> Any:
    if getattr(method, "answers", False):
        return method

    @wraps(method)
    def call(self: Any, x: Any = _LEFT_OUT, y: Any = _LEFT_OUT, /, *more: Any, **given: Any) -> Any:
        # This wraps every op of a program. Python hands on one or two arguments by their places in
        # half the time that a tuple of them takes.
        try:
            if y is _LEFT_OUT:
                if x is _LEFT_OUT:
                    return method(self, **given)
                return method(self, x, **given) if given else method(self, x)
            return method(self, x, y, *more, **given) if more or given else method(self, x, y)
        except Rejected:
            # Nothing was written, so it is asked only here.
            if not any(map(_of_numpy, given.values())):
                raise
            given = {name: _plain(value) for name, value in given.items()}
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # The method took the call, and something in it failed.
            given = _renamed(method, _inputs(x, y, more), given)
        return method(self, *_inputs(x, y, more), **given)

    call.answers = True  # type: ignore[attr-defined]
    return call


def _inputs(x: Any, y: Any, more: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments that were given by their places."""
    return (*(one for one in (x, y) if one is not _LEFT_OUT), *more)


def telling(told: F) -> F:
    """Return a function whose calls that it cannot take are answered by what it takes.

    Of a class these are its constructor and its public methods, those that it inherits included.
    """
    if isinstance(told, type):
        for kind in told.__mro__[:-1]:
            for name, method in list(vars(kind).items()):
                if isinstance(method, FunctionType) and (name == "__init__" or name[0] != "_"):
                    setattr(kind, name, telling(method))
        return told
    if getattr(told, "answers", False):
        return told

    @wraps(told)
    def call(*inputs: Any, **given: Any) -> Any:
        try:
            return told(*inputs, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # The function took the call, and something in it failed.
        takes = list(inspect.signature(told).parameters.values())
        own = bool(takes) and takes[0].name == "self"
        name = type(inputs[0]).__name__ if told.__name__ == "__init__" else told.__name__
        raise Misfit(f"{name}: {_unfit(takes[own:], len(inputs) - own, given)}")

    call.answers = True  # type: ignore[attr-defined]
    return cast("F", call)


def _of_numpy(value: object) -> bool:
    """Say whether this is a number of NumPy, or a row in which there is one."""
    if type(value) in (tuple, list):
        return any(map(_of_numpy, cast("list[object]", value)))
    return isinstance(value, np.number)


def _plain(value: Any) -> Any:
    """Return what may hold numbers of NumPy with Python's in their places."""
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    return value.item() if isinstance(value, np.number) else value


def _renamed(method: Any, inputs: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Call arguments as the method does, or refuse a call that it cannot take even so."""
    takes = list(inspect.signature(method).parameters.values())[1:]
    names = [parameter.name for parameter in takes]
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in names and name in UNSET and _is_unset(value):
            continue
        own = next((other for other in SAME.get(name, ()) if other in names), name)
        if own in given and own != name:
            raise Misfit(f"{method.__name__}: {name} is what is called {own} here; got both")
        found[own] = (value,) if own == "axes" and isinstance(value, Integral) else value
    wrong = _unfit(takes, len(inputs), found)
    if wrong:
        raise Misfit(f"{method.__name__}: {wrong}")
    return found


def _is_unset(value: object) -> bool:
    return value is None or type(value).__name__ == "_NoValueType"


_BESIDE = ("indices", "mask")
"""Inputs that may stand before an op's first ref: they are integers or truth values."""


def call_of(ops: type, name: str) -> str | None:
    """Return how an op is called of a ref x, with all that it needs; None of what takes no ref."""
    method = getattr(ops, name, None)
    if not isinstance(method, FunctionType) or name in INNER:
        return None
    takes = list(inspect.signature(method).parameters.values())[1:]
    needed = [one for one in takes if one.default is one.empty]
    several = any(one.kind is one.VAR_POSITIONAL for one in takes)
    placed = [one.name for one in needed if one.kind is one.POSITIONAL_OR_KEYWORD]
    placed = [*placed, "x", "y"] if several else placed
    refs = [k for k, one in enumerate(placed) if one not in _BESIDE]
    if not refs:
        return None
    if "x" not in placed:
        placed[refs[0]] = "x"
    named = [f"{one.name}={one.name}" for one in needed if one.kind is one.KEYWORD_ONLY]
    if any(one.name == "normalized_shape" for one in takes):
        named.append("normalized_shape=x.shape[-1:]")
    return f"ops.{name}({', '.join([*placed, *named])})"


def _misfit(takes: list[inspect.Parameter], count: int, given: Mapping[str, Any]) -> str:
    """Say what of a call does not fit, or nothing."""
    placed = [one for one in takes if one.kind is one.POSITIONAL_OR_KEYWORD]
    named = [one for one in takes if one.kind is one.KEYWORD_ONLY]
    several = any(one.kind is one.VAR_POSITIONAL for one in takes)
    every = any(one.kind is one.VAR_KEYWORD for one in takes)
    strange = [name for name in given if name not in {one.name for one in (*placed, *named)}]
    if strange and not every:
        return f"there is no argument {strange[0]!r}"
    if count > len(placed) and not several:
        return f"{count} arguments without a name are too many"
    twice = [one.name for one in placed[:count] if one.name in given]
    if twice:
        return f"{twice[0]} came twice, with and without its name"
    lacking = (one for one in (*placed[count:], *named) if one.default is one.empty)
    missing = [one.name for one in lacking if one.name not in given]
    return f"{missing[0]} is missing" if missing else ""


def _unfit(takes: list[inspect.Parameter], count: int, given: Mapping[str, Any]) -> str:
    """Say what of a call does not fit, and what would; or nothing."""
    wrong = _misfit(takes, count, given)
    return f"{wrong}; {_takes(takes)}" if wrong else ""


def _takes(takes: list[inspect.Parameter]) -> str:
    """Say which arguments a method takes, and what they are if they are left out."""
    shown = {
        one: one.name if one.default is one.empty else f"{one.name}={one.default!r}"
        for one in takes
    }
    by_name = [text for one, text in shown.items() if one.kind is one.KEYWORD_ONLY]
    others = [text for one, text in shown.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    several = [f"any number of {one.name}" for one in takes if one.kind is one.VAR_POSITIONAL]
    every = [f"**{one.name}" for one in takes if one.kind is one.VAR_KEYWORD]
    own = ", ".join(several or others or ["no argument"])
    by_name += [f"others, as {one}" for one in every]
    if every and own == "no argument":
        return f"it takes values by name, as {every[0]}"
    return f"it takes {own}{', and by name ' if by_name else ''}{', '.join(by_name)}"
