"""Backward passes of a run, and the gradients that they leave, until these are released."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from equivalence.budgets.judge import fraction_of
from equivalence.budgets.lifting.worlds import lift_one
from equivalence.budgets.violation import Violation, check_bits, check_equal
from equivalence.sessions.stateful.base import Base, Seed, statement
from equivalence.sessions.stateful.model import Dense, Sparse
from equivalence.sessions.stateful.stepwise import step_of
from equivalence.worlds.bounded import Bounded, constant, stored
from fast.errors import Rejected, Released, Stale
from spec.op import AnyTensor, plus
from spec.optim import OPTIMIZERS

Pass = Callable[[Any, Any], Any]
"""A backward pass of one side, from a ref and a seed."""

WILD = 2.0**12
"""A gradient with a larger entry updates nothing: parameters must stay small for fifty steps."""


class Gradients(Base):
    """Sparse and dense gradients, named by the order in which they were made."""

    @statement
    def backward(
        self, entry: int, seed: Seed | None = None, form: str = "torch", into: int | None = None
    ) -> int | None:
        """Send a cotangent back to the trainable leaves, perhaps on top of an earlier pass.

        The number of the gradients is returned; None where a stale tape has refused the pass.
        """
        target = None if into is None else self.grads[into]
        ours = partial(self.pair.fast.backward, into=target)
        passed = self._passed(ours, self.pair.spec.backward, entry, seed, form)
        if passed is None:
            return None
        found, reached = passed
        if into is None:
            into = self._keep(found, Sparse(self.model.tape, self.model.take()))
        elif found is not target:
            raise Violation("backward: into returned other gradients than it was given")
        self._accumulated(into, [here for here, r in enumerate(self.refs) if r.spec.id in reached])
        return into

    @statement
    def backward_dense(self, entry: int, seed: int | None = None, form: str = "torch") -> None:
        """Send a cotangent back to every entry."""
        both = self.pair.fast.backward_dense, self.pair.spec.backward_dense
        passed = self._passed(*both, entry, seed, form)
        if passed is None:
            return
        found, cotangents = passed
        dense = Dense(self.model.tape, len(self.refs))
        numbers = dense.known()
        for here, known in enumerate(self.refs):
            wanted = known.spec.id in cotangents.reached
            if here not in numbers:
                self.refused(partial(found.reached, here), Rejected)
                continue
            check_equal(f"entry {here}: reached", found.reached(here), wanted)
            if wanted:
                got = found._buffers[here].tensor
                self.pair.judge(f"cotangent of entry {here}", got, cotangents[known.spec.id])
                check_equal(f"cotangent of entry {here}: dtype", got.dtype,
                            self.model.tape.entries[here].bits.dtype)  # fmt: skip
                dense.bits[here] = got.clone()
        self._keep(found, dense)

    def _passed(
        self, ours: Pass, theirs: Pass, entry: int, seed: Seed | None, form: str
    ) -> tuple[Any, Any] | None:
        """Make a pass on both sides, and take the seed back; None where a stale tape refuses."""
        ref, (given, due) = self.refs[entry], self._seed(entry, seed, form)
        if self.model.stale(entry):
            self.refused(lambda: ours(ref.fast, given), Stale)
            self._give_back(given, due)
            return None
        found = ours(ref.fast, given)
        exact = theirs(ref.spec, None if due is None else self.pair.lift(due))
        self._give_back(given, due)
        return found, exact

    @statement
    def ask(self, grads: int, entry: int, by: str = "id") -> None:
        """Look a gradient up: what was not reached is zero, and has memory from then on."""
        held, model = self.grads[grads], self.model.grads[grads]
        found = held[self._key(model, entry, by)].tensor
        due = model.due(entry)
        if due is None:
            due = self._zeros(model, entry)
            model.zeros[entry] = due
        check_bits(f"gradient {grads} of entry {entry}", found, due)

    @statement
    def release(self, grads: int, how: str = "release") -> None:
        """Give gradients back: by release(), which may come twice, by `with`, or by forgetting."""
        held, model = self.grads.pop(grads), self.model.grads.pop(grads)
        if isinstance(model, Sparse):
            self.model.pool.append(model.arena)
        if how == "drop":
            return
        optimizer = next(iter(OPTIMIZERS))
        self.model.optimizers.add(optimizer)
        handles = [held[entry] for entry in model.known() if model.due(entry) is not None]
        if how == "with":
            with held:
                pass
        else:
            held.release()
        held.release()
        check_equal("released", [held.released, *(h.released for h in handles)],
                    [True] * (1 + len(handles)))  # fmt: skip
        for use in (
            lambda: held[0],
            lambda: held.reached(0),
            lambda: held.__enter__(),
            step_of(self.pair.fast, optimizer, grads=held),
        ):
            self.refused(use, Released)

    def usable(self, grads: int) -> bool:
        """Say whether gradients are small enough to update parameters with."""
        pieces = self.model.grads[grads].pieces()
        return all(bool((bits.abs() <= WILD).all()) for _, bits in pieces)

    def _keep(self, found: Any, model: Sparse | Dense) -> int:
        serial, self.made = self.made, self.made + 1
        self.grads[serial], self.model.grads[serial] = found, model
        return serial

    def _accumulated(self, grads: int, reached: list[int]) -> None:
        """Judge a gradient map after a pass, and adopt what it holds."""
        found, model = self.grads[grads], self.model.grads[grads]
        assert isinstance(model, Sparse)
        slots, loose = self._before(model)
        model.tape, leaves = self.model.tape, self.model.tape.leaves
        self.model.fit(model.arena)
        model.zeros.clear()
        for here in reached:
            owner = leaves[here].param
            if owner is not None and leaves[here].first:
                slots[owner] = self.pair.total(self.refs[here], self._taken(slots.get(owner)))
            else:
                loose[here] = self.pair.total(self.refs[here], loose.get(here))
        check_equal("parameters reached", [*map(bool, found.touched)],
                    [slot in slots for slot in range(len(found.touched))])  # fmt: skip
        check_equal("leaves reached", sorted(found._loose), sorted(loose))
        model.slots = {p: self._summed(p, found.arena.views[p], due) for p, due in slots.items()}
        model.loose = {k: self._adopt(k, found._loose[k].tensor, due) for k, due in loose.items()}
        for here in leaves:
            wanted = model.due(here) is not None
            check_equal(f"leaf {here}: reached", found.reached(here), wanted)

    def _taken(self, held: AnyTensor | None) -> AnyTensor | None:
        """Take what is held as a pass adds to it."""
        arithmetic = self.pair.arithmetic
        return None if held is None else held.map(lambda x: x.under(arithmetic))

    def _before(self, model: Sparse) -> tuple[dict[int, AnyTensor], dict[int, AnyTensor]]:
        """Return what a map held, by parameter and by leaf; another tape takes no leaf over."""
        held = self.pair.held
        slots = {param: lift_one(bits, held) for param, bits in model.slots.items()}
        if model.tape is self.model.tape:
            return slots, {leaf: self.pair.lift(bits) for leaf, bits in model.loose.items()}
        for leaf, bits in model.loose.items():
            owner = model.tape.leaves[leaf].param
            if owner is not None:
                added = lift_one(bits, held)
                slots[owner] = plus(slots.get(owner), added) or added
        return slots, {}

    def _summed(self, which: int, got: Tensor, due: AnyTensor) -> Tensor:
        """Judge a sum that lies in the format of masters.

        A contribution of exactly 0 leaves what is held, which need not be a number of the program:
        an entry that is the sum, rounded once to the format of masters, is right.
        """
        own, masters = self.pair.arithmetic, self.pair.held
        check_equal(f"gradient of {which}: shape", tuple(got.shape), tuple(due.shape))
        for k, (z, x) in enumerate(zip(got.flatten().tolist(), due.data, strict=True)):
            number = x if isinstance(x, Bounded) else constant(own, x)
            if fraction_of(z, stored(number.under(masters))) != 0:
                label = f"gradient of {which}: element {k}"
                self.pair.ledger.judge_number(label, z, stored(number))
        return got.clone()

    def _adopt(self, which: int, got: Tensor, due: AnyTensor) -> Tensor:
        self.pair.judge(f"gradient of {which}", got, due)
        return got.clone()

    def _key(self, model: Sparse | Dense, entry: int, by: str) -> Any:
        leaf = model.tape.leaves.get(entry)
        if by == "param" and isinstance(model, Sparse) and leaf and leaf.first:
            assert leaf.param is not None
            return self.pair.params[leaf.param].fast
        if by == "ref" and model.tape is self.model.tape:
            return self.refs[entry].fast
        return entry

    def _zeros(self, model: Sparse | Dense, entry: int) -> Tensor:
        """Return the gradient of an entry that was not reached: of its shape, in its dtype."""
        leaf, bits = model.tape.leaves.get(entry), model.tape.entries[entry].bits
        in_arena = isinstance(model, Sparse) and leaf is not None and leaf.first
        dtype = self.model.master if in_arena else bits.dtype
        return bits.new_zeros((), dtype=dtype).expand(bits.shape).contiguous()
