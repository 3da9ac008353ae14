"""The seeded bugs of lifetimes: what is stale, aliased, released too early or done twice.

Each is caught by the state machine of sessions (`equivalence.sessions.stateful.machine`) at one
configuration.
"""

from __future__ import annotations

from tests.mutants.patch import Mutant

LIFECYCLES = (
    Mutant(
        name="mirror lost by a reset",
        file="fast/session.py",
        before="        self._tape.clear()\n        self._start()\n",
        after="        self._tape.clear()\n        self._start()\n"
        "        for parameter in self.params:\n            parameter.mirror_current = False\n",
        catcher="machine aten fp32",
        shows="parameter 0: current: host, due is both",
        why="Resetting a tape frees what it borrowed along with what it owned. The next use "
        "uploads the host copy, which an update had left behind.",
    ),
    Mutant(
        name="arena grown without its contents",
        file="fast/device/arena.py",
        before="            grown[: self.flat.numel()].copy_(self.flat)\n",
        after="",
        catcher="machine aten fp32",
        shows="mirror",
        why="A parameter that comes later makes the arena move, and what the device held alone is "
        "gone: a trained value, or a moment.",
    ),
    Mutant(
        name="gradient slices of an arena that has moved",
        file="fast/optim/_flat.py",
        before="""\
        if gradients.flat is not plan.gradients:
            plan.cut(gradients.flat)
""",
        after="""\
        if gradients is not plan.gradients:
            plan.cut(gradients.flat)
            plan.gradients = gradients
""",
        catcher="machine aten fp32",
        shows="of its budget",
        why="What was cut out of an arena for one update is used for the next, while the arena "
        "lies elsewhere: the parameter is updated by an old gradient.",
    ),
    Mutant(
        name="host copy fresh after a device write",
        file="fast/runtime/param.py",
        before="        self.mirror_current, self.host_current = True, False\n",
        after="        self.mirror_current = True\n",
        catcher="machine triton fp32",
        shows="current: both, due is device",
        why="A value is written on the device, and a readback returns the one from before.",
    ),
    Mutant(
        name="16-bit copy not refreshed",
        file="fast/runtime/shadow.py",
        before="        if self._versions[parameter.slot] != parameter.version:\n",
        after="        if self._versions[parameter.slot] is None:\n",
        catcher="machine aten bf16",
        shows="use of parameter",
        why="An update moves the masters, and the ops go on with the rounded copies of before.",
    ),
    Mutant(
        name="first contribution borrowed",
        file="fast/runtime/gradmap.py",
        before="            copy = cotangent.clone(memory_format=torch.contiguous_format)\n",
        after="            copy = cotangent\n",
        catcher="machine aten fp32",
        shows="due is",
        why="A rule hands the cotangent itself on, and the gradient map keeps it: memory that is "
        "the caller's, or another gradient's.",
    ),
    Mutant(
        name="seed added to",
        file="fast/tape.py",
        before="                    table[parent] = before + contribution\n",
        after="                    table[parent] = before.add_(contribution)\n",
        catcher="machine aten fp32",
        shows="due is",
        why="The second contribution to a node is added to the first, which may be the seed, and "
        "that stays its caller's.",
    ),
    Mutant(
        name="gradients returned twice",
        file="fast/runtime/gradmap.py",
        before="        self.store.return_gradients(self.arena)\n",
        after="        self.store.return_gradients(self.arena)\n"
        "        self.store.return_gradients(self.arena)\n",
        catcher="machine aten fp32",
        shows="due is",
        why="Memory is given back twice and handed out twice; two gradient maps write over each "
        "other.",
    ),
    Mutant(
        name="gradients of a failed pass kept",
        file="fast/session.py",
        before="        except BaseException:\n            into.release()\n            raise\n",
        after="        except BaseException:\n            raise\n",
        catcher="machine aten fp32",
        shows="into was kept",
        why="A rule raises when half of a gradient has been added to an earlier pass, and what is "
        "left looks like a gradient.",
    ),
    Mutant(
        name="second use not added",
        file="fast/runtime/gradmap.py",
        before="for slot in slots] + self._again()\n",
        after="for slot in slots]\n",
        catcher="machine aten fp32",
        shows="parameter 0",
        why="A parameter is used twice, as tied weights are, and an update takes the gradient of "
        "one use.",
    ),
    Mutant(
        name="detach passes zeros on",
        file="fast/runtime/binding.py",
        before="    if op.stops_gradients:\n",
        after="    if False:\n",
        catcher="machine triton fp32",
        shows="detach: requires_grad: True",
        why="A cotangent of zeros is not no cotangent: what lies behind counts as reached, and "
        "decay moves it.",
    ),
    Mutant(
        name="natural overwritten in place",
        file="fast/naturals.py",
        before="        self._tape.naturals[ref.index] = vector\n",
        after="        self._held(ref).copy_(vector)\n",
        catcher="machine aten fp32",
        shows="of its budget",
        why="An index is overwritten after an op has read it, and the backward pass scatters to "
        "the new place.",
    ),
    Mutant(
        name="older version not noticed at a leaf",
        file="fast/tape.py",
        before="if parameter.version != version and identity <= last:",
        after="if parameter.version != version and identity < last:",
        catcher="machine aten fp32",
        shows="stale: False, due is True",
        why="A pass over a tape that saved an older version is refused, unless it starts at the "
        "very leaf.",
    ),
    Mutant(
        name="frozen parameter moved",
        file="fast/runtime/updates.py",
        before="            if reached and parameter.trainable:\n",
        after="            if reached:\n",
        catcher="machine triton fp32",
        shows="due is",
        why="A parameter is frozen between the backward pass and the update, and moves once more.",
    ),
    Mutant(
        name="unreached parameter decayed",
        file="fast/runtime/updates.py",
        before="            if reached and parameter.trainable:\n",
        after="            if parameter.trainable:\n",
        catcher="machine aten fp32",
        shows="due is",
        why="A parameter that the loss does not reach has a gradient of zero and is updated by it: "
        "decay shrinks it, and its moments fade.",
    ),
    Mutant(
        name="step count shared",
        file="fast/optim/_flat.py",
        before="        bump[advancing] = 1.0\n",
        after="        bump[:] = 1.0\n",
        catcher="machine triton fp32",
        shows="parameter",
        why="One count serves all parameters, so that the bias of one that joins later is "
        "corrected as if it had been there from the start.",
    ),
    Mutant(
        name="learning rate read once",
        file="fast/optim/_flat.py",
        before="        if given != self._given:\n",
        after="        if self._given is None:\n",
        catcher="machine aten fp32",
        shows="parameter",
        why="Hyper-parameters are checked and kept at the first update; a schedule changes "
        "nothing.",
    ),
    Mutant(
        name="moments not restored",
        file="fast/optim/_flat.py",
        before="            view.copy_(given[name]) if name in given else view.zero_()\n",
        after="            view.copy_(view) if name in given else view.zero_()\n",
        catcher="machine aten fp32",
        shows="state of parameter",
        why="A checkpoint restores values and step counts, and training goes on with moments of "
        "another time.",
    ),
    Mutant(
        name="counted before it is done",
        file="fast/runtime/updates.py",
        before="""\
            optimizer.step(arena, active, hypers, group_of, scale)
        for parameter in updated:
            parameter.host_current = False
            parameter.version += 1
""",
        after="""\
            for parameter in updated:
                parameter.host_current = False
                parameter.version += 1
            optimizer.step(arena, active, hypers, group_of, scale)
""",
        catcher="machine aten fp32",
        shows="due is",
        why="An update fails, and the parameters are taken to have been written.",
    ),
    Mutant(
        name="random counter rewound",
        file="fast/session.py",
        before="        self._tape.clear()\n        self._start()\n",
        after="        self._tape.clear()\n        self._start()\n"
        "        self._bound.next_call = 0\n",
        catcher="machine triton fp32",
        shows="random counters",
        why="Every step draws the mask of the first one, and dropout drops the same units for "
        "ever.",
    ),
    Mutant(
        name="tape not counted as freed",
        file="fast/tape.py",
        before="        counters.free(self._told_bytes, self._told_buffers)\n",
        after="",
        catcher="machine aten bf16",
        shows="live bytes and buffers",
        why="What the counters show grows with every step, and hides a leak that is one.",
    ),
)
"""Every bug, from what lives longest to what lives shortest."""
