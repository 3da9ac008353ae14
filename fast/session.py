"""A session: run a program op by op on the device, take gradients, update parameters.

The session is what a program receives as `ops`: one method per op, on refs, in `fast.protocol`.
Nothing crosses between host and device except what is put in by `param`, `input`, `const` and the
naturals, and what is asked for by `value`, `grad` and a parameter's readback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fast.answers import LISTS, unfamiliar
from fast.device import bridge
from fast.device.buffer import Buffer
from fast.device.mode import described
from fast.device.named import NamedBuffer, kept_if_it_fails, update
from fast.device.options import choose
from fast.errors import Rejected, SessionError
from fast.kernels.elementwise.random import is_word
from fast.naturals import NatRef, Naturals, NatVecRef
from fast.ops import OPS
from fast.ref import Entry, IndexRef, Interpreter, Ref
from fast.runtime.binding import Bindings, Bound, bind, check_plain, foreign, refuse
from fast.runtime.gradmap import DenseGrads, GradMap
from fast.runtime.leaves import Leaves
from fast.runtime.param import Param
from fast.runtime.seed import start_at
from fast.runtime.updates import Updates
from fast.tape import NEEDED, NEEDED_OF_TWO, NO_PARENT, backward_dense, send_back

PLAIN = frozenset((float, int, bool, str, tuple, list, type(None)))
"""What attributes usually are. A ref is none of these; whether another one is, is looked at."""

__all__ = [
    "Buffer",
    "DenseGrads",
    "GradMap",
    "IndexRef",
    "NamedBuffer",
    "NatRef",
    "NatVecRef",
    "Param",
    "Ref",
    "Session",
]


class Session(Leaves, Naturals, Updates, Interpreter):
    """An eager device tape, the parameters and buffers that outlive it, and optimizer state.

    It owns their memory, which is freed with it. Gradients and buffers that it hands out are their
    holder's; refs are good until the tape is reset.
    """

    def __init__(
        self,
        provider: str | None = None,
        precision: str = "fp32",
        device: torch.device | str | None = None,
        deterministic: bool = True,
    ) -> None:
        """Choose provider and device where None; refuse what cannot run here.

        provider is `aten` or `triton`; precision is `fp32`, `tf32`, `bf16` or `fp16` (both
        with fp32 masters) or `fp64` (aten only). Every op of both providers is deterministic on a
        CPU. Numbers of `fp16` overflow above 65504: the updates' `grad_scale` helps against that
        and against gradients that underflow.
        An unknown name is Rejected; what this machine lacks raises Unavailable, naming what runs.
        """
        super().__init__(choose(provider, precision, device, deterministic))
        self._one = torch.ones((), dtype=self.options.compute, device=self.options.device)
        self._bound = Bindings()

    def run(
        self, program: Callable[..., Any], params: Sequence[Param], inputs: Sequence[Any]
    ) -> Any:
        """Run a program on an empty tape, and return what it returns, refs of that tape.

        It is called as program(session, *uses of params, *inputs).

        Integers and booleans, such as labels, reach it as they are, other data as inputs. Where the
        program raises, buffers hold what they held before.
        """
        self.reset_tape()
        leaves = [self.use(parameter) for parameter in params]
        if not self.store.buffers:
            return program(self, *leaves, *self._given(inputs))
        with kept_if_it_fails(self.store.buffers):
            return program(self, *leaves, *self._given(inputs))

    def value(self, ref: Entry) -> Tensor:
        """Download the value of a ref as a new host tensor of its shape, which the caller owns.

        Integers that an op has returned are int64. A ref of another session, or from before a
        reset, raises SessionError; the leaf of a parameter that has changed since raises Stale; an
        index that a kernel has met out of range is Rejected.
        """
        identity = self._own(ref, "value", Entry)
        self.check_flag()
        self._tape.check_borrowed(identity)
        return bridge.download(self._tape.values[identity])

    def shape_of(self, ref: Entry) -> tuple[int, ...]:
        """Return the shape of a ref's value.

        A ref of another session, or from before a reset, raises SessionError; what is none is
        Rejected.
        """
        return tuple(self._tape.values[self._own(ref, "shape_of", Entry)].shape)

    @property
    def random_counter(self) -> int:
        """The counter that the next random call takes; resetting the tape does not rewind it.

        It may be set to an integer in [0, 2^64); anything else is Rejected.
        """
        return self._bound.next_call

    @random_counter.setter
    def random_counter(self, counter: int) -> None:
        if not is_word(counter):
            raise Rejected(f"random_counter: an integer in [0, 2^64), got {counter!r}")
        self._bound.next_call = counter

    def providers(self) -> dict[str, str]:
        """Report which provider ran each op that this session has run."""
        return dict.fromkeys(self._bound, described(self.options.provider))

    def backward(self, loss: Ref, seed: Any = None, into: GradMap | None = None) -> GradMap:
        """Return the gradients of the trainable leaves, by leaf; a scalar's seed is 1.

        The caller owns them, and releases them. The seed has the loss's shape, or is Rejected, and
        stays the caller's. A leaf that the loss does not reach is marked: zero when asked for,
        skipped by updates. A parameter that has changed since the tape used it raises Stale. A pass
        that fails frees what it has made. `into` adds to the gradients of an earlier pass, which
        are lost if this one fails.
        """
        tape = self._tape
        identity = self._own(loss, "backward")
        if self.store.overwritten:
            tape.check_versions(identity)
        start = start_at(identity, tape.values[identity], seed, self._one)
        if into is None:
            into = GradMap(self.store, tape)
        elif isinstance(into, GradMap):
            into.move_to(self.store, tape)
        else:
            raise Rejected(
                f"into: a map that backward() returned is needed, got {type(into).__name__}"
            )
        try:
            send_back(tape, identity, start, into.add, into.places)
        except BaseException:
            into.release()
            raise
        return into

    def backward_dense(self, ref: Ref, seed: Any = None) -> DenseGrads:
        """Return the gradients of all tape entries, which the caller owns; a scalar's seed is 1.

        They stay on the device, zeros where the seed does not reach; refusals are `backward`'s.
        """
        tape = self._tape
        identity = self._own(ref, "backward_dense")
        if self.store.overwritten:
            tape.check_versions(identity)
        start = start_at(identity, tape.values[identity], seed, self._one)
        return DenseGrads(self.store, tape, backward_dense(tape, identity, start))

    def grad(self, grads: GradMap | DenseGrads, ref: Ref | Param | int) -> Tensor:
        """Download the gradient of a ref, of the ref's shape: zeros where it was not reached.

        The caller owns the tensor. A parameter has the sum over its leaves, by which an update
        writes. An entry that the gradients do not know, and a ref of another tape, are Rejected,
        naming what there is; gradients that were released raise Released, and those of another
        session SessionError.
        """
        if not isinstance(grads, (GradMap, DenseGrads)):
            raise Rejected(
                "grad: takes what backward() or backward_dense() returned, "
                f"got {type(grads).__name__}; write grad(grads, x)"
            )
        if grads.store is not self.store:
            raise SessionError("grad: these gradients are of another session")
        if isinstance(ref, Param):
            return bridge.download(grads.total(ref))
        return bridge.download(grads[ref])

    def reset_tape(self) -> None:
        """Forget every value, ref and natural; parameters, buffers and optimizer state stay.

        Forward values and what ops saved are freed, gradients that were handed out are not. The
        random counter is not rewound.
        """
        self._tape.clear()
        self._start()

    def collect(self) -> None:
        """Give memory that nothing needs back to the allocator, and by it to the system.

        That is spare gradient memory and the plans of updates; the next step makes them anew.
        """
        self.store.collect()
        for optimizer in self.optimizers.values():
            optimizer.forget_plan()
        if self.options.device.type == "cuda":
            torch.cuda.empty_cache()

    def _own(self, ref: Entry, what: str, kind: type[Entry] = Ref) -> int:
        if isinstance(ref, kind) and ref.tape is self._tape:
            return ref.id
        raise foreign(what, ref, self._tape)

    def apply(self, name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Ref:
        """Check and run one op and append it; a refusal leaves tape and buffers as they were.

        An op of several results returns a tuple of refs; those of its integers are `IndexRef`.
        A leaf whose parameter has changed since raises Stale; what is no ref of this tape, and what
        the op's page refuses, is Rejected or raises SessionError.
        """
        # This runs for every op of every program, so it is long and calls little.
        try:
            bound = self._bound.get(name) or bind(name, self.options, self._bound)
        except TypeError:
            # What has no hash is no name.
            raise unfamiliar("session", "op", name, OPS, LISTS) from None
        check, value, vjp, plain, form, _, flags = bound
        tape = self._tape
        values, rules = tape.values, tape.rules
        tensors: tuple[Tensor, ...]
        parents: tuple[int, ...]
        needs: tuple[bool, ...]
        count = len(inputs)
        if count == 1 and type(x := inputs[0]) is Ref and x.tape is tape:
            parents = (x.id,)
            tensors = (values[x.id],)
            needs = NEEDED if rules[x.id] is not None else ()
        elif (
            count == 2
            and type(x := inputs[0]) is Ref
            and x.tape is tape
            and type(y := inputs[1]) is Ref
            and y.tape is tape
        ):
            i, j = x.id, y.id
            parents = (i, j)
            tensors = (values[i], values[j])
            needs = NEEDED_OF_TWO[rules[i] is not None][rules[j] is not None]
        else:
            held, found, wanted = [], [], []
            for position, x in enumerate(inputs):
                if type(x) is Ref and x.tape is tape:
                    i = x.id
                    held.append(values[i])
                    found.append(i)
                    wanted.append(rules[i] is not None)
                else:
                    held.append(self._beside(bound, position, inputs))
                    found.append(NO_PARENT)
                    wanted.append(False)
            tensors, parents = tuple(held), tuple(found)
            needs = tuple(wanted) if True in wanted else ()
        if self.store.overwritten:
            tape.check_borrowed(*parents)
        if attributes:
            for given in attributes.values():
                if type(given) not in PLAIN:
                    check_plain(bound, attributes)
            for flag in flags:
                if type(attributes.get(flag, True)) is not bool:
                    check_plain(bound, attributes)
        if check is not None:
            try:
                check(*tensors, **attributes) if attributes else check(*tensors)
            except (TypeError, ValueError) as error:
                refuse(bound, inputs, attributes, error)
        result, saved = value(*tensors, **attributes) if attributes else value(*tensors)
        if plain:
            tape.bytes += result.nbytes
        elif type(result) is tuple:
            rule = (vjp, saved, parents, needs, form) if needs and vjp is not None else None
            made: Any = self._append(bound, inputs, tensors, result, rule)
            return made  # type: ignore[no-any-return]
        else:
            tape.weigh(result, tensors, saved if needs else ())
        rules.append((vjp, saved, parents, needs, form) if needs and vjp is not None else None)
        identity = len(values)
        values.append(result)
        tape.names.append(name)
        return Ref(tape, identity)

    def _append(
        self,
        bound: Bound,
        inputs: tuple[Any, ...],
        tensors: tuple[Tensor, ...],
        made: tuple[Any, ...],
        rule: tuple[Any, ...] | None,
    ) -> Any:
        """Append what an op makes that is not one result of numbers, and update its buffers."""
        op, tape = bound.op, self._tape
        if op.buffers:
            # A ref in a buffer's place is met here, where ops without buffers never come by.
            buffers = [self._own_buffer(bound, k, inputs[k]) for k in op.buffers]
            update(buffers, made[op.results :])
            made = made[: op.results]
        ids = tape.append_several(op.name, made, tensors, rule, (*op.fixed, *op.indices))
        kinds = (IndexRef if k in op.indices else Ref for k in range(op.results))
        refs = tuple(kind(tape, k) for kind, k in zip(kinds, ids, strict=True))
        return refs if op.results > 1 else refs[0]

    def _own_buffer(self, bound: Bound, position: int, given: Any) -> NamedBuffer:
        what = bound.describe(position)
        if not isinstance(given, NamedBuffer):
            raise Rejected(f"{what} is a buffer, which buffer() makes, got {type(given).__name__}")
        if given.owner is not self.store:
            raise SessionError(f"{what}: {given!r} is not a buffer of this session")
        return given

    def _beside(self, bound: Bound, position: int, inputs: tuple[Any, ...]) -> Tensor:
        """Return what an input reads that no gradient reaches: indices, a mask or a buffer."""
        op, arg = bound.op, inputs[position]
        if position in op.buffers:
            return self._own_buffer(bound, position, arg).contents
        if position in op.index_inputs and type(arg) is IndexRef and arg.tape is self._tape:
            return self._tape.values[arg.id]
        if position not in op.index_inputs or isinstance(arg, Entry):
            raise foreign(bound.describe(position), arg, self._tape, op, inputs)
        if isinstance(arg, NatRef):
            return self._held(arg)
        read = bridge.to_mask if position in op.mask_inputs else bridge.to_indices
        try:
            return read(arg, self.options.device)
        except Rejected:
            # The name of the input costs a call, which only a refusal pays: it is raised here.
            read(arg, self.options.device, bound.describe(position))
            raise
