"""Whole programs: stateful test runs that are written down, each of one thing that may go wrong.

Ops are judged one by one elsewhere. What is judged here lies between them: what is saved, shared,
reused, stale or updated twice. A program makes statements of a `Run`, which judges every value,
gradient, parameter and moment, and checks after each statement that nothing else has changed.

    with started("aten") as run: perceptron(run)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from equivalence.sessions.numbers import integers
from equivalence.sessions.stateful.base import Seed
from equivalence.sessions.stateful.run import Run, settled

Program = Callable[[Run], None]


@contextmanager
def started(provider: str, precision: str = "fp32") -> Iterator[Run]:
    """Start a run on normal numbers, and close it when its program is through."""
    with settled():
        run = Run(provider, precision, "normal")
        yield run
        run.close()


def train(run: Run, optimizer: str, loss: int, seed: Seed | None = None, **hyper: Any) -> None:
    """Send a cotangent back, update by the gradients, and release them."""
    grads = reached(run, loss, seed)
    run.step(optimizer, grads, **hyper)
    run.release(grads)


def reached(run: Run, loss: int, seed: Seed | None = None) -> int:
    """Send a cotangent back over a tape that is not stale."""
    grads = run.backward(loss, seed)
    assert grads is not None, "nothing has changed since the tape was made"
    return grads


def distance(run: Run, param: int, target: int) -> int:
    """Sum the squares of the differences of two parameters."""
    ops = run.ops
    return ops.sum(ops.square(ops.sub(run.use(param), run.use(target))))


def perceptron(run: Run) -> None:
    """Train two layers with AdamW for three steps, on a new batch each."""
    ops, shapes = run.ops, ((6, 5), (6,), (4, 6), (4,))
    params = [run.param(shape, seed) for seed, shape in enumerate(shapes, 1)]
    for step in range(3):
        run.reset_tape()
        w1, b1, w2, b2 = map(run.use, params)
        hidden = ops.relu(ops.linear(run.input((7, 5), 10 + step), w1, b1))
        labels = integers(20 + step, 4, 7).tolist()
        loss = ops.cross_entropy(ops.linear(hidden, w2, b2), labels)
        run.value(loss)
        train(run, "adamw", loss, lr=0.05, weight_decay=0.5)


def normalized(run: Run) -> None:
    """Normalize, attend and score; two paths share every intermediate result."""
    ops = run.ops
    params = [run.param(shape, seed) for seed, shape in enumerate(((4, 9), (9,), (9,)), 1)]
    for step in range(2):
        run.reset_tape()
        y = ops.layer_norm(*map(run.use, params))
        scores = ops.matmul(y, ops.permute(y, axes=(1, 0)))
        mixed = ops.matmul(ops.softmax(scores), ops.tanh(y))
        out = ops.mul(ops.log_softmax(mixed, axis=0), y)
        train(run, "sgd", out, 30 + step, lr=0.05, momentum=0.5, nesterov=True)


def reused(run: Run) -> None:
    """Use one parameter twice, and one node by several ops: all contributions add up, once each."""
    w = run.param((3, 8), 1)
    for _ in range(2):
        run.reset_tape()
        a, b = run.use(w), run.use(w)
        c = run.operator("add", run.operator("mul", a, b), a)
        squared = run.operator("add", run.operator("mul", c, c), run.ops.exp(a))
        loss = run.ops.sum(run.operator("add", squared, c))
        train(run, "sgd", loss, lr=0.01, momentum=0.9, dampening=0.5)


def moved(run: Run) -> None:
    """Send cotangents through views: permuted, broadcast, reshaped and taken rows."""
    ops, x = run.ops, run.use(run.param((4, 6), 1))
    turned = ops.permute(x, axes=(1, 0))
    scaled = ops.mul(turned, ops.square(turned))
    rows = ops.take(scaled, [5, 0, 5, 2], axis=0)
    flat = ops.reshape(ops.permute(rows, axes=(1, 0)), shape=(2, 8))
    wide = ops.broadcast_to(ops.reshape(flat, shape=(2, 1, 8)), shape=(2, 3, 8))
    top = ops.max(ops.div(wide, ops.exp(run.input((2, 3, 8), 2))), axes=(2,))
    run.backward(top, 3)
    run.backward(ops.sub(top, ops.log(ops.square(top))), 4, "strided")


def joined(run: Run) -> None:
    """Cut, join and scatter: one cotangent is cut into views, and some parts meet again."""
    ops, (x, y) = run.ops, (run.use(run.param((3, 4), seed)) for seed in (1, 2))
    whole = ops.concat(x, y, ops.square(x), x, axis=1)
    middle = ops.slice(whole, axis=1, start=2, length=8)
    rows = ops.scatter_add(middle, [2, 0, 2], ops.tanh(middle), axis=0)
    again = ops.concat(rows, ops.slice(whole, axis=1, start=0, length=8), axis=0)
    run.backward(again, 3)
    run.backward(ops.add(ops.mul(again, again), again), 4, "strided")


def chosen(run: Run) -> None:
    """Choose by a mask between the larger and the smaller; one side of a tie is both sides."""
    ops, params = run.ops, [run.param((4, 8), seed) for seed in (1, 2)]
    mask = (integers(3, 2, 4, 8) > 0).tolist()
    for _ in range(2):
        run.reset_tape()
        x, y = map(run.use, params)
        kept = ops.where(mask, ops.maximum(x, y), ops.mul(ops.minimum(x, y), x))
        level = ops.mean(kept, axes=(1,), keepdims=True)
        centred = ops.sub(kept, ops.broadcast_to(level, shape=(4, 8)))
        train(run, "sgd", ops.mse_loss(centred, ops.maximum(y, y)), lr=0.5)


def repeated(run: Run) -> None:
    """Run one backward pass twice: nothing that it read was overwritten."""
    ops, x = run.ops, run.use(run.param((5, 7), 1))
    y = ops.softmax(ops.tanh(x))
    z = ops.relu(ops.sub(ops.exp(y), ops.sqrt(y)))
    run.backward(z, 2)
    run.value(y)
    run.backward(z, 2)


def lived(run: Run) -> None:
    """Set, freeze and leave out parameters between steps; mirrors never go stale."""
    w, frozen, idle = (run.param((8,), seed, seed != 2) for seed in (1, 2, 3))
    for step in range(3):
        run.reset_tape()
        run.use(idle)
        loss = distance(run, w, frozen)
        train(run, "adamw", loss, lr=0.1, weight_decay=0.1)
        run.set(w if step == 0 else frozen, 40 + step)


def detached(run: Run) -> None:
    """Reach one parameter only through detach: it is used, not reached, and no step moves it."""
    ops, (w, target) = run.ops, (run.param((8,), seed) for seed in (1, 2))
    for _ in range(2):
        run.reset_tape()
        away = ops.sub(run.use(w), ops.detach(ops.square(run.use(target))))
        train(run, "adamw", ops.sum(ops.square(away)), lr=0.1, weight_decay=0.5)


def dropped(run: Run) -> None:
    """Draw anew in every step: both sides count the same calls, and go back by the same draws."""
    ops, w = run.ops, run.param((5, 9), 1)
    for step in range(3):
        run.reset_tape()
        noise = ops.rand_normal(shape=(5, 9), seed=2**63 + 1)
        hidden = ops.dropout(ops.tanh(ops.add(run.use(w), noise)), p=0.25, seed=7)
        mask = ops.bernoulli_mask(shape=(5, 9), keep_prob=0.5, seed=7)
        share = ops.rand_uniform(shape=(5, 9), seed=7)
        out = ops.mul(ops.mul(hidden, mask), share)
        train(run, "sgd", out, 20 + step, lr=0.5)


def clipped(run: Run) -> None:
    """Clip the norm of what is updated: over all groups, without the frozen and the unreached."""
    ops, w, b = run.ops, run.param((3, 8), 1), run.param((8,), 2)
    thawing, idle = run.param((8,), 100.0), run.param((8,), 4)
    groups = (((b, idle), {"lr": 0.5}),)
    for step, max_norm in enumerate((0.5, 2.0, None, 1e4)):
        run.reset_tape()
        run.use(idle)
        loss = ops.add(distance(run, b, thawing), ops.sum(ops.exp(run.use(w))))
        grads = reached(run, loss)
        # Frozen by now, it has a large gradient all the same, which must not count.
        run.freeze(thawing, step > 1)
        run.step("adam", grads, groups, lr=0.1, weight_decay=0.5, max_norm=max_norm)
        run.freeze(thawing, True)
        run.release(grads)


def bounded(run: Run) -> None:
    """Clip entries, and the norm of a group apart, over what the pass reached of it."""
    ops, w, b = run.ops, run.param((3, 8), 1), run.param((8,), 2)
    c, thawing = run.param((8,), 3), run.param((8,), 100.0)
    groups = (((b, c, thawing), {"max_norm": 0.5}), ((w,), {"max_value": 0.75}))
    for step, max_norm in enumerate((None, 2.0, 0.25)):
        run.reset_tape()
        loss = ops.add(distance(run, b, thawing), ops.sum(ops.exp(run.use(w))))
        if step != 1:
            loss = ops.add(loss, ops.sum(ops.square(run.use(c))))
        grads = reached(run, loss)
        run.freeze(thawing, step > 1)
        more = {"max_value": 1.5, "grad_scale": 2.0, "max_norm": max_norm}
        run.step("adam", grads, groups, lr=0.1, **more)
        run.freeze(thawing, True)
        run.release(grads)


def scaled(run: Run) -> None:
    """Send a large or a small seed back, and divide it out in the update, clipped or not."""
    w = run.param((3, 8), 1)
    for scale, max_norm in ((1024.0, None), (48.0, None), (48.0, 0.5), (0.1, 2.0)):
        run.reset_tape()
        loss = run.ops.sum(run.ops.exp(run.use(w)))
        train(run, "adam", loss, scale, lr=0.1, max_norm=max_norm, grad_scale=scale)


def outdated(run: Run) -> None:
    """Change a parameter under a live tape: backward over what was saved before is refused."""
    w, target = run.param((8,), 1), run.param((8,), 2, False)
    changes: tuple[Callable[[int], None], ...] = (
        lambda loss: train(run, "sgd", loss, lr=0.1),
        lambda loss: run.set(w, 3),
        lambda loss: run.set_device(w, 4, "buffer"),
    )
    for change in changes:
        run.reset_tape()
        loss = distance(run, w, target)
        change(loss)
        # A run knows that its tape is stale, and that this pass must be refused.
        assert run.backward(loss) is None, "a pass over a stale tape"


def renumbered(run: Run) -> None:
    """Overwrite labels and positions that ops have read: gradients go by what was read."""
    ops, w = run.ops, run.param((5, 4), 1)
    for _ in range(2):
        run.reset_tape()
        z = run.use(w)
        run.nat([0, 3, 1, 2, 0])
        read = ops.cross_entropy(z, "n0"), ops.sum(ops.square(ops.take(z, "n0", axis=0)))
        run.set_nat(0, [1, 0, 2, 3, 3])
        again = ops.cross_entropy(ops.embedding("n0", z), "n0")
        run.set_nat(0, [2, 2, 0, 1, 0])
        train(run, "sgd", ops.add(ops.add(*read), again), lr=0.25)


def lent(run: Run) -> None:
    """Hand one cotangent to several inputs, and add to what each has: none is another's memory."""
    ops = run.ops
    x, y = (run.input((3, 4), seed, True) for seed in (1, 2))
    total = ops.add(x, y)
    for form in ("torch", "strided", "buffer"):
        grads = run.backward(total, 3, form)
        run.backward(total, 4, form, into=grads)
        run.backward(ops.mul(total, x), 5, form, into=grads)


PROGRAMS: tuple[Program, ...] = (
    perceptron,
    normalized,
    reused,
    moved,
    chosen,
    joined,
    repeated,
    lived,
    detached,
    dropped,
    clipped,
    bounded,
    scaled,
    outdated,
    renumbered,
    lent,
)
"""Every program, in rising order of what can go wrong between ops."""
