"""Optimizers: exact updates, torch's formulas bit for bit, and who is left out of an update."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fast import Session
from fast.device.arena import Arena, Layout
from fast.optim import Adam, AdamW, Sgd
from fast.optim._chunks import CHUNK, chunk_table, runs
from fast.optim._flat import FlatOptimizer
from fast.optim.adam import RULE as ADAM
from fast.optim.adamw import RULE as ADAMW
from fast.optim.sgd import RULE as SGD
from tests.support import same

PROVIDERS = ["aten", "triton"]
SHAPES = [(128, 8), (128,), (2, 32), (0,), (1536,)]
"""Multiples of 64, since torch's kernels contract the last few elements of a tensor otherwise."""


def one(kind: Any, value: float, hyper: dict[str, Any], provider: str) -> Any:
    return kind([torch.tensor([value])], hyper, provider)


@pytest.mark.holds("Stochastic gradient descent, from any form of gradients")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("hyper", "gradients", "expected"),
    [
        ({"lr": 0.5}, [2.0, -4.0], [0.0, 2.0]),
        ({"lr": 0.5, "weight_decay": 0.5}, [2.0, 0.0], [-0.25, -0.1875]),
        ({"lr": 1.0, "momentum": 0.5}, [2.0, 2.0, 0.0], [-1.0, -4.0, -5.5]),
        # The first buffer is the gradient itself; only later ones are dampened.
        ({"lr": 1.0, "momentum": 0.5, "dampening": 0.5}, [2.0, 2.0], [-1.0, -3.0]),
        ({"lr": 1.0, "momentum": 0.5, "nesterov": True}, [2.0, 2.0], [-2.0, -5.5]),
    ],
)
def test_sgd_is_exact_on_dyadic_numbers(
    provider: str, hyper: dict[str, Any], gradients: list[float], expected: list[float]
) -> None:
    optimizer = one(Sgd, 1.0, hyper, provider)
    found = []
    for gradient in gradients:
        optimizer.step([torch.tensor([gradient])])
        found.append(optimizer.params()[0].item())
    assert found == expected


@pytest.mark.holds("AdamW")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_adamw_is_exact_on_dyadic_numbers(provider: str) -> None:
    # m = 2, v = 4; both corrected by 1/2 and sqrt(1/4): 2.5 * 2 / (2 / 0.5 + 1) = 1 is subtracted
    # from the decayed parameter, 8 * (1 - 1.25 * 0.4).
    hyper = {"lr": 1.25, "beta1": 0.5, "beta2": 0.75, "eps": 1.0, "weight_decay": 0.4}
    optimizer = one(AdamW, 8.0, hyper, provider)
    optimizer.step([torch.tensor([4.0])])
    assert optimizer.params()[0].item() == 3.0
    state = optimizer.state()
    assert state["exp_avg"][0].item() == 2.0
    assert state["exp_avg_sq"][0].item() == 4.0
    assert state["step"] == [1]


@pytest.mark.holds("Adam")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_adam_is_exact_on_dyadic_numbers(provider: str) -> None:
    # The decay joins the gradient, 4 + 0.5 * 8 = 8; m = 4, v = 16, both corrected by 1/2 and
    # sqrt(1/4): 2.5 * 4 / (4 / 0.5 + 2) = 1 is subtracted.
    hyper = {"lr": 1.25, "beta1": 0.5, "beta2": 0.75, "eps": 2.0, "weight_decay": 0.5}
    optimizer = one(Adam, 8.0, hyper, provider)
    optimizer.step([torch.tensor([4.0])])
    assert optimizer.params()[0].item() == 7.0
    state = optimizer.state()
    assert (state["exp_avg"][0].item(), state["exp_avg_sq"][0].item()) == (4.0, 16.0)
    assert state["step"] == [1]


@pytest.mark.holds("AdamW")
@pytest.mark.parametrize(
    ("ours", "theirs", "hyper", "renamed"),
    [
        (Adam, torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}, {}),
        (Adam, torch.optim.Adam, {"beta1": 0.3, "beta2": 0.5}, {"betas": (0.3, 0.5)}),
        (AdamW, torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1}, {}),
        (AdamW, torch.optim.AdamW, {"beta1": 0.3, "beta2": 0.5}, {"betas": (0.3, 0.5)}),
        (Sgd, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}, {}),
        (Sgd, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, {}),
        (Sgd, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}, {}),
    ],
)
def test_aten_is_torchs_fused_kernel_bit_for_bit(
    ours: Any, theirs: Any, hyper: dict[str, Any], renamed: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in SHAPES]
    reference = [value.clone().requires_grad_() for value in start]
    kept = {name: value for name, value in hyper.items() if "beta" not in name}
    torch_optimizer = theirs(reference, **kept, **renamed, fused=True)
    optimizer = ours(start, hyper, "aten")
    for _ in range(5):
        gradients = [torch.randn(shape) for shape in SHAPES]
        optimizer.step(gradients)
        for value, gradient in zip(reference, gradients, strict=True):
            value.grad = gradient
        torch_optimizer.step()
    for k, value in enumerate(reference):
        assert torch.equal(optimizer.params()[k], value.detach())
        for name, column in optimizer.state().items():
            expected = torch_optimizer.state[value].get(name)
            found = column[k]
            assert found == expected if isinstance(found, int) else same(found, expected)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", [Adam, AdamW, Sgd])
def test_a_missing_gradient_leaves_value_state_and_step(provider: str, kind: Any) -> None:
    hyper = {"lr": 0.5, "weight_decay": 0.5} | ({"momentum": 0.5} if kind is Sgd else {})
    optimizer = kind([torch.tensor([1.0]), torch.tensor([2.0])], hyper, provider)
    alone = kind([torch.tensor([2.0])], hyper, provider)
    optimizer.step([torch.tensor([1.0]), None])
    assert optimizer.params()[1].item() == 2.0
    before = [column[1] for column in optimizer.state().values()]
    assert before in ([None], [None, None, 0]) or [float(x) for x in before] == [0.0] * 3
    for _ in range(2):
        optimizer.step([None, torch.tensor([1.0])])
        alone.step([torch.tensor([1.0])])
    # Its first step came later, and is a first step all the same.
    assert optimizer.params()[1].item() == alone.params()[0].item()
    if kind is not Sgd:
        assert optimizer.state()["step"] == [1, 2]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_padding_and_neighbours_stay_as_they_are(provider: str) -> None:
    layout = Layout([(3,), (CHUNK + 1,), (2,)])
    masters, gradients = (Arena(layout, torch.float32, torch.device("cpu")) for _ in range(2))
    for arena in (masters, gradients):
        for view in arena.views:
            view.fill_(1.0)
    flag = torch.zeros(1, dtype=torch.int64)
    optimizer = FlatOptimizer(ADAMW, masters, provider, flag)
    optimizer.step(gradients, b"\1\1\0", (ADAMW.read({"lr": 0.5}),))
    assert masters.views[2].tolist() == [1.0, 1.0]
    assert (masters.views[1] != 1.0).all()
    padding = masters.flat.clone()
    for segment in layout.segments:
        padding[segment.offset : segment.offset + segment.length] = 0.0
    assert not padding.any()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("rule", [ADAM, ADAMW, SGD])
def test_while_the_flag_is_set_nothing_is_written(provider: str, rule: Any) -> None:
    layout = Layout([(3,)])
    masters, gradients = (Arena(layout, torch.float32, torch.device("cpu")) for _ in range(2))
    gradients.views[0].fill_(1.0)
    flag = torch.ones(1, dtype=torch.int64)
    optimizer = FlatOptimizer(rule, masters, provider, flag)
    hyper = {"lr": 0.5} | ({"momentum": 0.5} if rule is SGD else {})
    hypers = (rule.read(hyper),)
    optimizer.step(gradients, b"\1", hypers)
    assert not masters.flat.any()
    state = [value for value in optimizer.state(0).values() if value is not None]
    assert not any(torch.as_tensor(value).any() for value in state)
    flag.zero_()
    optimizer.resync()
    optimizer.step(gradients, b"\1", hypers)
    fresh = FlatOptimizer(rule, Arena(layout, torch.float32, torch.device("cpu")), provider, flag)
    fresh.step(gradients, b"\1", hypers)
    assert torch.equal(masters.flat, fresh.masters.flat)


def test_updates_that_somebody_else_writes_are_counted_before_a_kernel_reads_the_count() -> None:
    hypers = (ADAMW.read({"lr": 0.5}),)
    flag = torch.zeros(1, dtype=torch.int64)
    found = []
    for written in (5, 0):
        layout = Layout([(3,), (2,)])
        masters, gradients = (Arena(layout, torch.float32, torch.device("cpu")) for _ in range(2))
        optimizer = FlatOptimizer(ADAMW, masters, "aten", flag)
        zeros = {"exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3), "step": 5 - written}
        optimizer.load(0, zeros if written == 0 else {**dict.fromkeys(zeros), "step": 0})
        for count in range(written):
            if count == 3:
                assert optimizer.keep().steps.tolist() == [3.0, 0.0]
            if count == 4:
                layout.append((100,))  # The counts move to larger memory.
            assert optimizer.stated(bytes([1, 0, 0][: len(layout.segments)]), hypers) is not None
            optimizer.written(hypers)
        if written == 0:
            layout.append((100,))
        gradients.fit()
        gradients.views[0].fill_(1.0)
        optimizer.step(gradients, b"\1\0\0", hypers)
        assert optimizer.keep().steps.tolist() == [6.0, 0.0, 0.0]
        found.append(masters.views[0])
    assert torch.equal(*found)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_groups_have_their_own_hyper_parameters(provider: str) -> None:
    s = Session(provider=provider, device="cpu")
    a, b, c = (s.param([8.0], name=name) for name in "abc")
    loss = s.sum(s.add(s.add(s.use(a), s.use(b)), s.use(c)))
    groups = [{"params": [b], "lr": 2.0}, {"params": [c], "weight_decay": 0.5}]
    s.sgd_step(1.0, s.backward(loss), groups=groups)
    assert [p.value().item() for p in (a, b, c)] == [7.0, 6.0, 3.0]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_group_alone_may_have_state(provider: str) -> None:
    optimizer = Sgd(
        [torch.tensor([8.0]), torch.tensor([8.0])],
        {"lr": 1.0},
        provider,
        groups=[{"params": [1], "momentum": 0.5}],
    )
    for _ in range(2):
        optimizer.step([torch.tensor([2.0]), torch.tensor([2.0])])
    assert [p.item() for p in optimizer.params()] == [4.0, 3.0]
    buffers = optimizer.state()["momentum_buffer"]
    assert buffers[1].item() == 3.0


def test_groups_are_torchs() -> None:
    torch.manual_seed(1)
    start = [torch.randn(shape) for shape in ((128, 8), (128,), (64,))]
    reference = [value.clone().requires_grad_() for value in start]
    torch_optimizer = torch.optim.Adam(
        [
            {"params": [reference[0]]},
            {"params": [reference[1]], "lr": 0.3},
            {"params": [reference[2]], "betas": (0.5, 0.999), "weight_decay": 0.5},
        ],
        lr=0.1,
        fused=True,
    )
    groups = [{"params": [1], "lr": 0.3}, {"params": [2], "beta1": 0.5, "weight_decay": 0.5}]
    optimizer = Adam(start, {"lr": 0.1}, groups=groups)
    for step in range(4):
        gradients = [torch.randn_like(value) for value in start]
        for value, gradient in zip(reference, gradients, strict=True):
            value.grad = gradient
        if step == 2:
            # A schedule changes every group's rate but those that have their own.
            torch_optimizer.param_groups[0]["lr"] = torch_optimizer.param_groups[2]["lr"] = 0.05
            optimizer.set_hyper({"lr": 0.05})
        torch_optimizer.step()
        optimizer.step(gradients)
    assert all(map(torch.equal, optimizer.params(), [value.detach() for value in reference]))


@pytest.mark.holds("Optimizer state, one for each parameter, by leaf id")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_state_is_visible_and_can_be_loaded(provider: str) -> None:
    def step(s: Session, w: Any) -> None:
        s.adamw_step(0.5, grads=s.backward(s.sum(s.square(s.use(w)))))
        s.reset_tape()

    first, second = (Session(provider=provider, device="cpu") for _ in range(2))
    w, unrelated = first.param([1.0, 2.0]), second.param([0.0])
    for _ in range(3):
        step(first, w)
    state = first.optimizer_state("adamw", w)
    assert list(state) == ["exp_avg", "exp_avg_sq", "step"]
    assert state["step"] == 3
    copy = second.param(w.value())
    second.load_optimizer_state("adamw", copy, state)
    for s, p in ((first, w), (second, copy)):
        step(s, p)
    assert torch.equal(w.value(), copy.value())
    again = second.optimizer_state("adamw", copy)
    assert again["step"] == 4
    assert torch.equal(again["exp_avg"], first.optimizer_state("adamw", w)["exp_avg"])
    assert second.optimizer_state("adamw", unrelated)["step"] == 0


@pytest.mark.holds("Stochastic gradient descent, from any form of gradients", "Adam", "AdamW")
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_every_form_of_gradients_gives_the_same_step(name: str, max_norm: float | None) -> None:
    results = []
    for form in ("sparse", "dense", "mapping", "sequence", "buffers"):
        s = Session(provider="aten", device="cpu")
        w, b = s.param([1.0, 2.0]), s.param([5.0])
        x, y = s.use(w), s.use(b)
        loss = s.sum(s.square(x))
        sparse, dense = s.backward(loss), s.backward_dense(loss)
        grads: Any = {
            "sparse": sparse,
            "dense": dense,
            "mapping": {x.id: [2.0, 4.0], y.id: None},
            "sequence": [torch.tensor([2.0, 4.0]), None],
            "buffers": {x.id: dense[x], y.id: None},
        }[form]
        getattr(s, f"{name}_step")(0.5, grads=grads, weight_decay=0.5, max_norm=max_norm)
        state = s.optimizer_state(name, b)
        assert not any(x is not None and torch.as_tensor(x).any() for x in state.values())
        results.append((w.value().tolist(), b.value().tolist(), b.version))
    assert results == [results[0]] * 5
    assert results[0][0] != [1.0, 2.0]
    assert results[0][1:] == ([5.0], 0)


@pytest.mark.holds(
    "Gradients of the trainable leaves", "Stochastic gradient descent, from any form of gradients"
)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("form", ["sparse", "dense", "sequence"])
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_the_frozen_and_the_unreached_keep_everything(
    provider: str, name: str, form: str, max_norm: float | None
) -> None:
    s = Session(provider=provider, device="cpu")
    w, frozen, idle = (s.param([1.0, 2.0], name=n) for n in ("w", "frozen", "idle"))
    momentum = {"momentum": 0.5} if name == "sgd" else {}

    def step(largest: float) -> None:
        s.reset_tape()
        refs = [s.use(p) for p in (w, frozen, idle)]
        loss = s.sum(s.mul(s.add(s.square(refs[0]), s.square(refs[1])), s.input([largest] * 2)))
        if idle.version == 0:
            loss = s.add(loss, s.sum(refs[2]))
        sparse = s.backward(loss)
        grads = {
            "sparse": lambda: sparse,
            "dense": lambda: s.backward_dense(loss),
            "sequence": lambda: [s.grad(sparse, r) if sparse.reached(r) else None for r in refs],
        }[form]()
        frozen.requires_grad = frozen.version == 0
        update = getattr(s, f"{name}_step")
        update(0.5, grads=grads, weight_decay=0.5, max_norm=max_norm, **momentum)
        frozen.requires_grad = True

    def kept() -> list[object]:
        found: list[object] = []
        for p in (frozen, idle):
            found += [p.version, p.value().tolist()]
            state = s.optimizer_state(name, p)
            found += [v.tolist() if isinstance(v, torch.Tensor) else v for v in state.values()]
        return found

    step(1.0)
    before, start = kept(), w.value()
    assert (frozen.version, idle.version) == (1, 1)
    step(1e6)
    assert kept() == before
    assert w.version == 2 and not torch.equal(w.value(), start)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_batch_in_parts_is_the_whole_batch(provider: str, name: str) -> None:
    x = torch.tensor([[1.0, 2.0], [-3.0, 1.0], [2.0, 0.0], [4.0, -1.0]])
    found = []
    for parts in (1, 2, 4):
        s = Session(provider=provider, device="cpu")
        w, b = s.param([[2.0, -1.0], [1.0, 3.0]]), s.param([1.0, -2.0])
        grads = None
        for rows in x.chunk(parts):
            s.reset_tape()
            y = s.linear(s.input(rows), s.use(w), s.use(b))
            grads = s.backward(s.sum(s.square(y)), into=grads)
        gradients = [grads[p].tensor.clone() for p in (w, b)]
        getattr(s, f"{name}_step")(0.5, grads=grads, max_norm=1.0)
        found.append([*gradients, w.value(), b.value()])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_dtypes_are_updated_side_by_side(provider: str) -> None:
    values = torch.tensor([1.0, -2.0], dtype=torch.bfloat16)
    hyper = {"lr": 0.5, "momentum": 0.5, "nesterov": True, "weight_decay": 1.0}
    optimizer = Sgd([values, torch.tensor([1.0, -2.0])], hyper, provider)
    for _ in range(2):
        optimizer.step([torch.ones(2, dtype=torch.bfloat16), torch.ones(2)])
    narrow, wide = optimizer.params()
    assert narrow.tolist() == wide.tolist() == [-1.125, -0.9375]
    assert narrow.dtype is optimizer.state()["momentum_buffer"][0].dtype is torch.bfloat16


def test_runs_and_chunks_cover_what_is_active() -> None:
    layout = Layout([(10,), (64,), (0,), (CHUNK + 6,), (1,)])
    whole = runs(layout, b"\1" * 5, [0] * 5, [3] * 5)
    assert [(run.start, run.end) for run in whole] == [(0, layout.total)]
    parts = runs(layout, b"\1\0\1\1\1", [0, 0, 0, 0, 1], [0] * 5)
    ends = [segment.end for segment in layout.segments]
    assert [(r.start, r.end, r.group) for r in parts] == [
        (0, 64, 0),
        (ends[1], ends[3], 0),
        (ends[3], ends[4], 1),
    ]
    table = chunk_table(layout, b"\1\0\1\1\0", [0, 0, 0, 2, 0], torch.device("cpu"))
    assert table.offsets.tolist() == [0, 128, 128 + CHUNK]
    assert table.lengths.tolist() == [10, CHUNK, 6]
    assert (table.groups.tolist(), table.slots.tolist()) == ([0, 2, 2], [0, 3, 3])
    assert chunk_table(layout, b"\0" * 5, [0] * 5, torch.device("cpu")).chunks == 0


@pytest.mark.parametrize("rule", [SGD, ADAM, ADAMW], ids=lambda rule: rule.name)
def test_padding_stays_zero_whatever_is_computed(rule: Any) -> None:
    layout = Layout([(70,), (3,)])
    masters, gradients = (Arena(layout, torch.float32, torch.device("cpu")) for _ in range(2))
    flag = torch.zeros(1, dtype=torch.int64)
    optimizer = FlatOptimizer(rule, masters, "triton", flag)
    for view in masters.views:
        view.fill_(1.0)
    gradients.flat.fill_(float("nan"))
    given = {"lr": 0.5, "momentum": 0.5} if rule is SGD else {"lr": 0.5}
    scale = torch.tensor([float("nan")])
    optimizer.step(gradients, b"\1\1", optimizer.read({**_defaults(rule), **given}), scale=scale)
    assert all(view.isnan().all() for view in masters.views)
    states = optimizer._states
    assert states is not None
    for arena in (masters, *states):
        assert arena.flat[70:128].eq(0.0).all() and arena.flat[131:].eq(0.0).all()


def _defaults(rule: Any) -> dict[str, Any]:
    return dict(rule.hyper._field_defaults)
