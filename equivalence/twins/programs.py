"""Whole programs: small lives of a session, run on `fast` and on the reference at once, and judged.

Ops are judged one by one elsewhere. What is judged here lies between them: what is saved, shared,
reused, stale or updated twice.
Each program takes a `TwinSession` and asks it to check whatever a user could see.

    for program in PROGRAMS: program(TwinSession(fast.Session(provider="aten")))
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from equivalence.twins.session import TwinParam, TwinRef, TwinSession

Program = Callable[[TwinSession], None]


class NotRefused(AssertionError):
    """A session went on where it had to refuse."""


def numbers(seed: int, *shape: int) -> torch.Tensor:
    """Draw standard normal numbers in float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(seed: int, high: int, *shape: int) -> torch.Tensor:
    """Draw integers in [0, high)."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def perceptron(twin: TwinSession) -> None:
    """Train two layers with AdamW for three steps, on a new batch each."""
    params = [
        twin.param(numbers(1, 6, 5), "w1"),
        twin.param(numbers(2, 6), "b1"),
        twin.param(numbers(3, 4, 6), "w2"),
        twin.param(numbers(4, 4), "b2"),
    ]
    for step in range(3):
        twin.reset_tape()
        w1, b1, w2, b2 = (twin.use(p) for p in params)
        x = twin.input(numbers(10 + step, 7, 5))
        hidden = twin.relu(twin.linear(x, w1, b1))
        loss = twin.cross_entropy(twin.linear(hidden, w2, b2), integers(20 + step, 4, 7))
        twin.check(f"loss {step}", loss)
        grads = twin.backward(f"step {step}", loss)
        twin.adamw_step(grads=grads, lr=0.05, weight_decay=0.5)


def normalized(twin: TwinSession) -> None:
    """Normalize, attend and score; two paths share every intermediate result."""
    params = [twin.param(numbers(1, 4, 9), "x"), twin.param(numbers(2, 9), "gamma")]
    params.append(twin.param(numbers(3, 9), "beta"))
    for step in range(2):
        twin.reset_tape()
        x, gamma, beta = (twin.use(p) for p in params)
        y = twin.layer_norm(x, gamma, beta)
        scores = twin.matmul(y, twin.permute(y, axes=(1, 0)))
        mixed = twin.matmul(twin.softmax(scores), twin.tanh(y))
        out = twin.mul(twin.log_softmax(mixed, axis=0), y)
        twin.check(f"out {step}", out)
        grads = twin.backward(f"step {step}", out, numbers(30 + step, 4, 9))
        twin.sgd_step(0.05, grads, momentum=0.5, nesterov=True)


def reused(twin: TwinSession) -> None:
    """Use one parameter twice, and one node by several ops: all contributions add up, once each."""
    w = twin.param(numbers(1, 3, 8), "w")
    for step in range(2):
        twin.reset_tape()
        a, b = twin.use(w), twin.use(w)
        c = a * b + a
        loss = twin.sum(c * c + twin.exp(a) + c)
        grads = twin.backward(f"step {step}", loss)
        twin.sgd_step(0.01, grads, momentum=0.9, dampening=0.5)


def moved(twin: TwinSession) -> None:
    """Send cotangents through views: permuted, broadcast, reshaped and taken rows."""
    x = twin.use(twin.param(numbers(1, 4, 6), "x"))
    turned = twin.permute(x, axes=(1, 0))
    scaled = twin.mul(turned, twin.square(turned))
    rows = twin.take(scaled, torch.tensor([5, 0, 5, 2]), axis=0)
    flat = twin.reshape(twin.permute(rows, axes=(1, 0)), shape=(2, 8))
    wide = twin.broadcast_to(twin.reshape(flat, shape=(2, 1, 8)), shape=(2, 3, 8))
    top = twin.max(twin.div(wide, twin.input(numbers(2, 2, 3, 8).abs() + 0.5)), axes=(2,))
    twin.check("top", top)
    twin.backward("once", top, numbers(3, 2, 3))
    twin.backward("again", twin.sub(top, twin.log(twin.square(top))), numbers(4, 3, 2).mT)


def joined(twin: TwinSession) -> None:
    """Cut, join and scatter: one cotangent is cut into views, and some parts meet again."""
    x, y = (twin.use(twin.param(numbers(k, 3, 4), f"x{k}")) for k in (1, 2))
    whole = twin.concat(x, y, twin.square(x), x, axis=1)
    middle = twin.slice(whole, axis=1, start=2, length=8)
    rows = twin.scatter_add(middle, torch.tensor([2, 0, 2]), twin.tanh(middle), axis=0)
    again = twin.concat(rows, twin.slice(whole, axis=1, start=0, length=8), axis=0)
    twin.check("again", again)
    twin.backward("once", again, numbers(3, 6, 8))
    twin.backward("again", twin.add(twin.mul(again, again), again), numbers(4, 8, 6).mT)


def chosen(twin: TwinSession) -> None:
    """Choose by a mask between the larger and the smaller; one side of a tie is both sides."""
    params = [twin.param(numbers(1, 4, 8), "x"), twin.param(numbers(2, 4, 8), "y")]
    mask = integers(3, 2, 4, 8) > 0
    for step in range(2):
        twin.reset_tape()
        x, y = (twin.use(p) for p in params)
        kept = twin.where(mask, twin.maximum(x, y), twin.mul(twin.minimum(x, y), x))
        level = twin.mean(kept, axes=(1,), keepdims=True)
        centred = twin.sub(kept, twin.broadcast_to(level, shape=(4, 8)))
        loss = twin.mse_loss(centred, twin.maximum(y, y))
        twin.check(f"loss {step}", loss)
        grads = twin.backward(f"step {step}", loss)
        twin.sgd_step(0.5, grads)


def repeated(twin: TwinSession) -> None:
    """Run one backward pass twice: nothing that it read was overwritten."""
    x = twin.use(twin.param(numbers(1, 5, 7), "x"))
    y = twin.softmax(twin.tanh(x))
    z = twin.relu(twin.sub(twin.exp(y), twin.sqrt(y)))
    seed = numbers(2, 5, 7)
    twin.backward("first", z, seed)
    twin.check("y", y)
    twin.backward("second", z, seed)


def lived(twin: TwinSession) -> None:
    """Set, freeze and leave out parameters between steps; mirrors never go stale."""
    w = twin.param(numbers(1, 8), "w")
    frozen = twin.param(numbers(2, 8), "frozen", requires_grad=False)
    idle = twin.param(numbers(3, 8), "idle")
    for step in range(3):
        twin.reset_tape()
        twin.use(idle)
        loss = _distance(twin, w, frozen)
        twin.check(f"loss {step}", loss)
        grads = twin.backward(f"step {step}", loss)
        twin.adamw_step(grads=grads, lr=0.1, weight_decay=0.1)
        twin.set(w if step == 0 else frozen, numbers(40 + step, 8))


def _distance(twin: TwinSession, w: TwinParam, target: TwinParam) -> TwinRef:
    return twin.sum(twin.square(twin.sub(twin.use(w), twin.use(target))))


def detached(twin: TwinSession) -> None:
    """Reach one parameter only through detach: it is used, not reached, and no step moves it."""
    w = twin.param(numbers(1, 8), "w")
    target = twin.param(numbers(2, 8), "target")
    for step in range(2):
        twin.reset_tape()
        distance = twin.sub(twin.use(w), twin.detach(twin.square(twin.use(target))))
        grads = twin.backward(f"step {step}", twin.sum(twin.square(distance)))
        twin.adamw_step(grads=grads, lr=0.1, weight_decay=0.5)


def dropped(twin: TwinSession) -> None:
    """Draw anew in every step: both sides count the same calls, and go back by the same draws."""
    w = twin.param(numbers(1, 5, 9), "w")
    for step in range(3):
        twin.reset_tape()
        noise = twin.rand_normal(shape=(5, 9), seed=2**63 + 1)
        hidden = twin.dropout(twin.tanh(twin.add(twin.use(w), noise)), p=0.25, seed=7)
        twin.check(f"hidden {step}", hidden)
        mask = twin.bernoulli_mask(shape=(5, 9), keep_prob=0.5, seed=7)
        share = twin.rand_uniform(shape=(5, 9), seed=7)
        out = twin.mul(twin.mul(hidden, mask), share)
        grads = twin.backward(f"step {step}", out, numbers(20 + step, 5, 9))
        twin.sgd_step(0.5, grads)


def clipped(twin: TwinSession) -> None:
    """Clip the norm of what is updated: over all groups, without the frozen and the unreached."""
    w = twin.param(numbers(1, 3, 8), "w")
    b = twin.param(numbers(2, 8), "b")
    thawing = twin.param(100.0 * numbers(3, 8), "thawing")
    idle = twin.param(numbers(4, 8), "idle")
    groups = [{"params": [b, idle], "lr": 0.5}]
    for step, max_norm in enumerate((0.5, 2.0, None, 1e4)):
        twin.reset_tape()
        twin.use(idle)
        loss = twin.add(_distance(twin, b, thawing), twin.sum(twin.exp(twin.use(w))))
        grads = twin.backward(f"step {step}", loss)
        # Frozen by now, it has a large gradient all the same, which must not count.
        thawing.fast.requires_grad = thawing.spec.requires_grad = step > 1
        twin.adam_step(lr=0.1, weight_decay=0.5, grads=grads, groups=groups, max_norm=max_norm)
        thawing.fast.requires_grad = thawing.spec.requires_grad = True


def scaled(twin: TwinSession) -> None:
    """Send a large or a small seed back, and divide it out in the update, clipped or not."""
    w = twin.param(numbers(1, 3, 8), "w")
    cases = ((1024.0, None), (48.0, None), (48.0, 0.5), (0.1, 2.0))
    for step, (scale, max_norm) in enumerate(cases):
        twin.reset_tape()
        loss = twin.sum(twin.exp(twin.use(w)))
        grads = twin.backward(f"step {step}", loss, torch.tensor(scale))
        twin.adam_step(0.1, grads=grads, max_norm=max_norm, grad_scale=scale)


def outdated(twin: TwinSession) -> None:
    """Change a parameter under a live tape: backward over what was saved before is refused."""
    w = twin.param(numbers(1, 8), "w")
    target = twin.param(numbers(2, 8), "target", requires_grad=False)

    def update(loss: TwinRef) -> None:
        twin.sgd_step(0.1, twin.backward("before", loss))

    def write(loss: TwinRef) -> None:
        twin.set(w, numbers(3, 8))

    def write_on_device(loss: TwinRef) -> None:
        w.fast.set_device(twin.fast.upload(numbers(4, 8)))

    for change in (update, write, write_on_device):
        twin.reset_tape()
        loss = _distance(twin, w, target)
        change(loss)
        _expect_stale(twin, loss, change.__name__)


def _expect_stale(twin: TwinSession, loss: TwinRef, change: str) -> None:
    from fast.errors import Stale

    try:
        twin.fast.backward(loss.fast)
    except Stale:
        return
    raise NotRefused(f"backward ran over a tape that saved a parameter from before the {change}")


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
    scaled,
    outdated,
)
"""Every program, in rising order of what can go wrong between ops."""
