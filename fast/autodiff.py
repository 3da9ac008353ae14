"""Twin of spec.autodiff: derivatives of programs, from host data to host tensors.

A program is `f(ops, *refs) -> ref`. It is given anything that the bridge reads, from nested lists
to device buffers; returned are host tensors of the dtype of computation, in memory of their own.

Integers and booleans, such as labels, reach the program as they are and have no derivative; write
1.0, not 1, for a number to compute with. An input that is to be differentiated is a number always.

The program runs in a new session, made with the options `provider`, `precision`, `device` and
`deterministic`, or in the one given as `session=`, beside its tape: the refs, the gradients and the
parameters that are there stay as they were. Everything that was made is released on any exit; a
pullback keeps its tape until it is released. A random op draws from the session's counter, so that
in new sessions every call draws the same.

Of the twin's functions `jvp`, the Jacobians and `hessian` are left to the reference: their rows and
columns can be had by `vjp` and `hvp`.
"""

# This file is longer than the guide because its functions share how a program is run and freed.
from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from fast.answers import telling
from fast.device import bridge
from fast.device.buffer import Buffer
from fast.device.integers import is_integer
from fast.errors import Rejected, Released, Unavailable
from fast.programs import forward
from fast.programs.beside import Beside, check_session
from fast.ref import Ref
from fast.session import Session
from fast.tape import backward_sparse

Program = Callable[..., Ref]
"""f(ops, *refs): a program, written once for every interpreter, that returns one ref."""
Gradient = Tensor | tuple[Tensor, ...]
"""A tensor of the input's shape; a tuple of them where argnums is one."""


class _Sums:
    """A sink for the cotangents of leaves: copies the first contribution, adds the later ones."""

    def __init__(self) -> None:
        self.found: dict[int, Buffer] = {}

    def accumulate(self, leaf: int, cotangent: Tensor) -> None:
        known = self.found.get(leaf)
        if known is not None:
            known.tensor.add_(cotangent)
        else:
            copy = cotangent.clone(memory_format=torch.contiguous_format)
            self.found[leaf] = Buffer(copy, "a pullback")

    def places(self, parents: tuple[int, ...], dtype: torch.dtype) -> list[Tensor | None]:
        return [None] * len(parents)

    def release(self) -> None:
        for buffer in self.found.values():
            buffer.release()


class Pullback:
    """The transposed derivative of a program at one point; call it with a cotangent, repeatedly.

    It owns the tape of the program's run until `release`, which is idempotent; `with` releases it
    on any exit. The cotangent stays the caller's.
    """

    def __init__(self, beside: Beside, out: int, leaves: list[int | None]) -> None:
        """Hold a recorded program; a leaf of None is an input that has no derivative."""
        self._beside: Beside | None = beside
        self._out = out
        self._leaves = leaves

    def __call__(self, cotangent: Any = None) -> tuple[Tensor | None, ...]:
        """Return one gradient per input, of its shape, None for integers; a scalar's seed is 1.

        A cotangent of another shape than the program's value is Rejected; a call after `release`
        raises Released, and one after a parameter that the program used has changed, Stale.
        """
        if self._beside is None:
            raise Released("pullback: it was released, and with it the tape that it walks; call "
                           "vjp() again")  # fmt: skip
        tape, sums = self._beside.tape, _Sums()
        try:
            with self._beside.entered():
                tape.check_versions(self._out)
                start = self._beside.start(self._out, cotangent)
                if tape.rules[self._out] is not None:
                    backward_sparse(tape, self._out, start, sums)
            return tuple(self._read(sums, leaf) for leaf in self._leaves)
        finally:
            sums.release()

    def _read(self, sums: _Sums, leaf: int | None) -> Tensor | None:
        if leaf is None:
            return None
        assert self._beside is not None
        if leaf in sums.found:
            return bridge.download(sums.found[leaf])
        return torch.zeros_like(self._beside.tape.values[leaf], device="cpu")

    @property
    def released(self) -> bool:
        """Whether the tape is gone."""
        return self._beside is None

    def release(self) -> None:
        """Free the tape; a second call does nothing."""
        if self._beside is not None:
            self._beside.release()
            self._beside = None

    def __enter__(self) -> Pullback:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        # An interrupted constructor leaves nothing to release.
        if getattr(self, "_beside", None) is not None:
            self.release()


@telling
def grad(
    f: Program,
    argnums: int | tuple[int, ...] = 0,
    *,
    session: Session | None = None,
    **options: Any,
) -> Callable[..., Gradient]:
    """Return the function that computes the gradient of a scalar program by the inputs chosen.

    It gives one tensor for a number, and a tuple for a tuple of them; negative ones count from the
    last input. An input that the program does not reach has the gradient zero. The tensors are new,
    on the host, and the caller's; the inputs are copied.

    Rejected are options beside a session, and, when the function is called, argnums that are not
    distinct positions, inputs that `fast.device.bridge` does not read, an index out of range, and a
    program that returns no ref of its session or no scalar. What the program raises passes through;
    a parameter that it used and changed raises Stale.
    """
    check_session("grad", session, options)

    def gradient(*inputs: Any) -> Gradient:
        return _differentiate("grad", f, argnums, inputs, Beside("grad", session, options))[1]

    return gradient


@telling
def value_and_grad(
    f: Program,
    argnums: int | tuple[int, ...] = 0,
    *,
    session: Session | None = None,
    **options: Any,
) -> Callable[..., tuple[Tensor, Gradient]]:
    """Return the function that computes a scalar program's value, a new host scalar, and gradient.

    Ownership and refusals are `grad`'s.
    """
    check_session("value_and_grad", session, options)

    def both(*inputs: Any) -> tuple[Tensor, Gradient]:
        who = "value_and_grad"
        value, gradient = _differentiate(
            who, f, argnums, inputs, Beside(who, session, options), True
        )
        assert value is not None
        return value, gradient

    return both


@telling
def vjp(
    f: Program, *inputs: Any, session: Session | None = None, **options: Any
) -> tuple[Tensor, Pullback]:
    """Run a program; return its value, and the pullback of cotangents to the inputs.

    The value is a new host tensor. The pullback is the caller's to release, and so is the tape that
    it owns. The result may have any shape; else refusals are `grad`'s, and then nothing is kept.
    """
    beside = Beside("vjp", session, options)
    try:
        out, leaves = _run("vjp", f, inputs, beside, None)
        return bridge.download(beside.tape.values[out]), Pullback(beside, out, leaves)
    except BaseException:
        beside.release()
        raise


@telling
def hvp(
    f: Program,
    inputs: Sequence[Any],
    vectors: Sequence[Any],
    *,
    session: Session | None = None,
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """Return the Hessian of a scalar program times a vector, forward mode over reverse.

    `vectors` has one entry per input, of its shape; None stands for zero. So has the result, which
    is None for integers without a vector; with one, they are numbers. Inputs and vectors are lists
    or tuples; what does not fit is Rejected, and so is a call inside another, or inside torch's
    forward mode, which has one level; that aside, refusals are `grad`'s.

    The program and the backward rules run once, on torch's dual tensors. What is exact: no step
    size, and no difference of two gradients; a polynomial of small integers has an exact result.
    What is not: every number is rounded as the precision says, and that rounding itself is not
    differentiated (a bf16 session rounds the tangents alike). At a kink (relu, max and their kin)
    the derivative is that of the side, or of the tie, on which the forward pass was; a zero
    cotangent absorbs a pole only where its tangent is zero as well. `detach` lets no tangent pass.

    A new session uses the aten provider. On the triton provider, whose kernels have no forward
    mode, this raises Unavailable; so it does where torch has no forward formula for what a page's
    ATen twin calls, such as a product in bf16 on a GPU, naming the page. The counters count values,
    not their tangents.
    """
    if options.get("provider") is None and session is None:
        options["provider"] = "aten"
    beside = Beside("hvp", session, options)
    sums = _Sums()
    try:
        if beside.session.options.provider != "aten":
            raise Unavailable(
                "hvp: the kernels of the triton provider have no forward mode; a session with "
                "provider='aten' has"
            )
        _check_list("inputs", inputs)
        _check_list("vectors", vectors)
        if len(vectors) != len(inputs):
            raise Rejected(
                f"hvp: one vector for each of the {len(inputs)} inputs, or None; got {len(vectors)}"
            )
        with forward.level():
            out, leaves = _run("hvp", f, inputs, beside, None, vectors)
            _check_scalar("hvp", beside, out)
            tape = beside.tape
            forward.lift_rules(tape)
            if tape.rules[out] is not None:
                backward_sparse(tape, out, beside.start(out), sums)
            return tuple(_tangent_of(sums, tape.values, leaf) for leaf in leaves)
    except NotImplementedError as error:
        if "forward AD" not in str(error):
            raise
        raise forward.unavailable(error) from error
    finally:
        sums.release()
        beside.release()


def _differentiate(
    who: str,
    f: Program,
    argnums: int | tuple[int, ...],
    inputs: Sequence[Any],
    beside: Beside,
    ask_value: bool = False,
) -> tuple[Tensor | None, Gradient]:
    """Take the gradient of a scalar program, download it, and its value if asked for."""
    try:
        chosen = _chosen(who, argnums, len(inputs))
        out, leaves = _run(who, f, inputs, beside, chosen)
        _check_scalar(who, beside, out)
        value = bridge.download(beside.tape.values[out]) if ask_value else None
        with Pullback(beside, out, [leaves[at] for at in chosen]) as pullback:
            found = tuple(gradient for gradient in pullback() if gradient is not None)
        return value, found if isinstance(argnums, tuple) else found[0]
    finally:
        beside.release()


def _run(
    who: str,
    f: Program,
    inputs: Sequence[Any],
    beside: Beside,
    chosen: tuple[int, ...] | None,
    vectors: Sequence[Any] = (),
) -> tuple[int, list[int | None]]:
    """Record a program; return its result, and the leaf of each input that is a number.

    Without `chosen` all numbers are trainable. A vector makes its input a number, and dual.
    """
    with beside.entered() as session:
        arguments: list[Any] = []
        leaves: list[int | None] = []
        for position, data in enumerate(inputs):
            vector = vectors[position] if vectors else None
            picked = vector is not None if chosen is None else position in chosen
            if not picked and is_integer(data):
                arguments.append(data)
                leaves.append(None)
                continue
            ref = session.input(data, requires_grad=picked or chosen is None)
            if vector is not None:
                forward.attach(who, ref, position, vector)
            arguments.append(ref)
            leaves.append(ref.id)
        out = f(session, *arguments)
    if not isinstance(out, Ref) or out.tape is not beside.tape:
        raise Rejected(f"{who}: the program returns one ref of its own run, an input or a "
                       f"result, got {out!r}")  # fmt: skip
    session.check_flag()
    return out.id, leaves


def _check_list(what: str, given: Any) -> None:
    if not isinstance(given, (list, tuple)):
        raise Rejected(f"hvp: {what} are a list, one entry per input, got {type(given).__name__}")


def _check_scalar(who: str, beside: Beside, out: int) -> None:
    shape = tuple(beside.tape.values[out].shape)
    if shape:
        raise Rejected(f"{who}: the program's result is a scalar, got the shape {shape}; vjp() "
                       "takes a cotangent of any shape")  # fmt: skip


def _chosen(who: str, argnums: Any, count: int) -> tuple[int, ...]:
    """Return argnums as non-negative numbers, in their order."""
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    for at in given:
        if isinstance(at, bool) or not isinstance(at, int) or not -count <= at < count:
            raise Rejected(f"{who}: argnums are integers in [{-count}, {count}), the program has "
                           f"{count} inputs; got {at!r}")  # fmt: skip
    normal = tuple(at % count for at in given)
    if not normal or len(set(normal)) != len(normal):
        raise Rejected(f"{who}: argnums are distinct, one at least; got {given} for {count} inputs")
    return normal


def _tangent_of(sums: _Sums, values: list[Tensor], leaf: int | None) -> Tensor | None:
    if leaf is None:
        return None
    total = sums.found.get(leaf)
    tangent = None if total is None else forward.split(total.tensor)[1]
    if tangent is None:
        return torch.zeros(values[leaf].shape, dtype=values[leaf].dtype)
    return bridge.download(tangent)
