"""The parts of a training loop of one's own: what they do, refuse and leave behind."""

from __future__ import annotations

import csv
import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fast import Rejected, Session, Unavailable
from fast.loops import (
    Batches,
    Csv,
    Diverged,
    EarlyStop,
    JsonLines,
    TensorBoard,
    check_finite,
    check_loss,
    plot_curves,
)

ROWS = np.arange(11)


def test_an_epoch_reads_every_row_once_in_an_order_of_its_own() -> None:
    whole = Batches(ROWS, torch.arange(11) * 2, size=4, seed=3, rest=True)
    assert len(whole) == 3
    orders = []
    for number in range(3):
        parts = list(whole.epoch(number))
        assert [len(x) for x, _ in parts] == [4, 4, 3]
        assert all(y.tolist() == (2 * x).tolist() for x, y in parts)
        orders.append(np.concatenate([x for x, _ in parts]).tolist())
        assert sorted(orders[-1]) == ROWS.tolist() != orders[-1]
    assert len({tuple(order) for order in orders}) == 3
    assert [len(x) for (x,) in Batches(ROWS, size=4).epoch(0)] == [4, 4]
    plain = Batches(ROWS, size=4, shuffle=False, rest=True).epoch(7)
    assert np.concatenate([x for (x,) in plain]).tolist() == ROWS.tolist()


def test_a_run_goes_on_where_it_stopped() -> None:
    batches = Batches(ROWS, size=4, seed=1)
    taken = [(k, epoch, x.tolist()) for k, epoch, (x,) in batches.steps(4)]
    assert [k for k, _, _ in taken] == list(range(8))
    assert [epoch for _, epoch, _ in taken] == [0, 0, 1, 1, 2, 2, 3, 3]
    for start in range(9):
        later = [(k, epoch, x.tolist()) for k, epoch, (x,) in batches.steps(4, start=start)]
        assert later == taken[start:]
    other = Batches(ROWS, size=4, seed=2)
    assert [x.tolist() for _, _, (x,) in other.steps(4)] != [x for _, _, x in taken]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Batches(size=2), "one number of rows, got no array"),
        (lambda: Batches(ROWS, ROWS[1:], size=2), r"one number of rows, got \[11, 10\]"),
        (lambda: Batches([1, 2], size=1), "got list"),
        (lambda: Batches(np.float64(1), size=1), "got float64"),
        (lambda: Batches(ROWS, size=0), "size is an int >= 1, got 0"),
        (lambda: Batches(ROWS, size=12), "size is at most the 11 rows, got 12"),
        (lambda: Batches(ROWS[:0], size=1, rest=True), "size is at most the 0 rows"),
        (lambda: Batches(ROWS, size=2, seed=-1), "seed is an int >= 0, got -1"),
        (lambda: Batches(ROWS, size=2).epoch(-1), "an epoch is an int >= 0, got -1"),
        (lambda: Batches(ROWS, size=2).steps(True), "epochs is an int >= 0, got True"),
        (lambda: Batches(ROWS, size=2).steps(1, start=1.0), "start is an int >= 0, got 1.0"),
    ],
)
def test_what_makes_no_batches_is_refused(make: Any, says: str) -> None:
    with pytest.raises(Rejected, match=rf"^Batches: .*{says}"):
        make()


def test_json_lines_are_there_when_write_returns(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with JsonLines(path) as metrics:
        metrics.write(step=0, loss=torch.tensor(0.5), rate=np.float32(0.25), name="first")
        assert json.loads(path.read_text()) == {
            "step": 0, "loss": 0.5, "rate": 0.25, "name": "first"
        }  # fmt: skip
        before = path.read_text()
        with pytest.raises(Rejected, match=r"^metrics: step is a number, .*; got \{1\}$"):
            metrics.write(loss=0.5, step={1})
        assert path.read_text() == before
    with pytest.raises(Rejected, match="was closed"):
        metrics.write(step=1)
    with JsonLines(path, append=True) as metrics:
        metrics.write(step=1)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1]


@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_a_file_that_is_opened_anew_keeps_the_rows_of_the_run_before(
    kind: Any, tmp_path: Path
) -> None:
    def run(*steps: int, **given: Any) -> str:
        with kind(path, **given) as metrics:
            for step in steps:
                metrics.write(step=step)
        return path.read_text()

    path, older = tmp_path / "m", tmp_path / "m.1"
    first = run(0, 1)
    assert not older.exists()
    second = run(5)
    assert older.read_text() == first
    assert run() == "" and older.read_text() == second
    assert run() == "" and older.read_text() == second, "nothing is kept of an empty file"
    link = tmp_path / "link"
    link.symlink_to(path)
    run(7)
    kept, path = path, link
    third = run(8)
    assert link.is_symlink() and kept.read_text() == third and "7" in older.read_text()


@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_a_file_that_cannot_be_set_aside_stays(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("kept")
    (tmp_path / "m.1").mkdir()
    with pytest.raises(Rejected, match=r"^metrics: .*m cannot be written: "):
        kind(path)
    assert path.read_text() == "kept"


@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_one_line_opens_the_file_of_a_first_run_and_of_one_that_goes_on(
    kind: Any, tmp_path: Path
) -> None:
    path = tmp_path / "m"
    for done in (0, 2):
        with kind(path, append=done > 0, before=done) as metrics:
            for step in range(done, done + 3):
                metrics.write(step=step)
    assert [int(row["step"]) for row in read_rows(path, kind)] == [0, 1, 2, 3, 4]


def test_columns_are_those_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    with Csv(path) as metrics:
        metrics.write(step=0, loss=1.5)
        with pytest.raises(Rejected, match=r"^metrics: 'rate' is no column of .*; got step, loss$"):
            metrics.write(step=1, rate=0.5)
    with Csv(path, append=True) as metrics:
        metrics.write(loss=np.float64(0.5), step=1)
        metrics.write(step=2)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["step", "loss"], ["0", "1.5"], ["1", "0.5"], ["2", ""]]


def test_json_has_lists_and_no_word_for_what_is_not_finite(tmp_path: Path) -> None:
    with JsonLines(tmp_path / "m") as metrics:
        metrics.write(a=math.nan, b=torch.tensor(-math.inf), c=np.arange(3), d=torch.tensor([0.5]))
        metrics.write(a=[0.5, math.inf, np.int64(2)], b=(1,), c=torch.zeros(2), d=[], e=np.zeros(0))
        metrics.write(a=np.True_, b=None, c=np.array(["x"]), d=Fraction(1, 2), e=2**70)
    strict: Any = {"parse_constant": pytest.fail}
    rows = [json.loads(line, **strict) for line in (tmp_path / "m").read_text().splitlines()]
    assert rows == [
        {"a": None, "b": None, "c": [0, 1, 2], "d": 0.5},
        {"a": [0.5, None, 2], "b": [1], "c": [0.0, 0.0], "d": [], "e": []},
        {"a": True, "b": None, "c": "x", "d": 0.5, "e": 2**70},
    ]


def test_a_cell_is_as_it_is(tmp_path: Path) -> None:
    with Csv(tmp_path / "m") as metrics:
        metrics.write(a=math.nan, b=-math.inf, c=np.array([1.5]), d=True, e="x", f=None)
    assert (tmp_path / "m").read_text() == "a,b,c,d,e,f\nnan,-inf,1.5,True,x,\n"


def strange_values() -> list[Any]:
    session = Session(provider="aten")
    ref = session.input([1.0])
    texts = [b"x", ["a"], {1}, {"a": 1}, object()]
    nested = [np.zeros((2, 2)), torch.zeros(1, 2), [[1]], [True], [None]]
    return [ref, session.param([1.0], name="w"), 1j, *texts, *nested]


def test_what_no_file_has_a_word_for_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    flat = [np.arange(3), torch.zeros(2), [1.0], (), [0.5, 1]]
    with JsonLines(tmp_path / "j") as lines, Csv(tmp_path / "c") as cells:
        for value in strange_values():
            with pytest.raises(Rejected, match=r"^metrics: loss is a number, a truth value, a te"):
                lines.write(step=1, loss=value)
        for value in strange_values() + flat:
            with pytest.raises(Rejected, match=r"^metrics: loss is a .*, a text or None; got "):
                cells.write(step=1, loss=value)
        assert (tmp_path / "j").read_text() == (tmp_path / "c").read_text() == ""
        cells.write(other=1)


ROWS_OF_A_RUN: tuple[dict[str, Any], ...] = (
    {"step": 0, "loss": 3.0, "note": None},
    {"step": 1, "loss": 2.0, "note": 'of two\nlines, "said"'},
    {"step": None, "loss": 1.5, "note": "held out"},
    {"step": 2, "loss": 1.0, "note": "\u00e9\u2028"},
    {"step": None, "loss": 0.5, "note": "held out"},
    {"step": 3, "loss": 0.25, "note": None},
)


def read_rows(path: Path, kind: Any) -> list[Any]:
    if kind is JsonLines:
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("torn", range(4))
@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_steps_that_are_taken_again_stand_once(
    kind: Any, before: int, torn: int, tmp_path: Path
) -> None:
    def write(metrics: Any, rows: Any) -> None:
        with metrics:
            for row in rows:
                metrics.write(**row)

    first = next((k for k, r in enumerate(ROWS_OF_A_RUN) if (r["step"] or 0) >= before > 0), 6)
    first = 0 if before == 0 else first
    write(kind(tmp_path / "whole"), ROWS_OF_A_RUN)
    write(kind(tmp_path / "killed"), ROWS_OF_A_RUN)
    with (tmp_path / "killed").open("ab") as file:
        file.write((b"", b'{"step": 7, "lo', b'"7, a', "\u00e9".encode()[:1])[torn])
    write(kind(tmp_path / "killed", append=True, before=before), ROWS_OF_A_RUN[first:])
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert len(read_rows(tmp_path / "killed", kind)) == len(ROWS_OF_A_RUN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]


@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_rows_of_steps_before_stay_wherever_they_are(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    for wanted, rows in (
        ([0, 1], (0, 5, 1, 4, 5)),
        ([], (4,)),
        ([], ()),
        ([0, 3], (0, 3)),
    ):
        with kind(path) as metrics:
            for step in rows:
                metrics.write(step=step)
        with kind(path, append=True, before=4):
            pass
        assert [int(row["step"]) for row in read_rows(path, kind)] == wanted
    with kind(path) as metrics:
        metrics.write(epoch=1)
    with kind(path, append=True, before=0) as metrics:
        metrics.write(epoch=2)
    assert [int(row["epoch"]) for row in read_rows(path, kind)] == [1, 2]
    with kind(tmp_path / "new", append=True, before=0) as metrics:
        metrics.write(step=0)
    assert len(read_rows(tmp_path / "new", kind)) == 1


@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_a_step_to_go_on_before_is_one_of_a_file_that_goes_on(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("kept")
    with pytest.raises(Rejected, match=r"^metrics: before=3 is of a file .*; add append=True$"):
        kind(path, before=3)
    for wrong in (-1, 1.0, True, "1"):
        with pytest.raises(Rejected, match=r"^metrics: before is an int >= 0 or None, got "):
            kind(path, append=True, before=wrong)
    assert path.read_text() == "kept"


@pytest.mark.parametrize("kind", [JsonLines, Csv])
def test_a_place_that_cannot_be_written_is_named(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^metrics: .*nowhere/m cannot be written: "):
        kind(tmp_path / "nowhere" / "m")


def test_tensorboard_is_an_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(Unavailable, match=r"TensorBoard needs tensorboard, .*\[tensorboard\]"):
        TensorBoard(tmp_path)


def test_tensorboard_writes_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: it is an extra")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with TensorBoard(tmp_path) as metrics:
        for step in range(3):
            metrics.write(step, loss=torch.tensor(1.0 / (1 + step)), better=True)
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("loss")
    assert [(event.step, event.value) for event in events] == [
        (0, 1.0), (1, 0.5), (2, float(np.float32(1 / 3)))
    ]  # fmt: skip


def test_tensorboard_has_numbers_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            self.flush = self.close = lambda: None

        def add_scalar(self, *point: Any) -> None:
            written.append(point)

    library = SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", library)
    with TensorBoard(tmp_path) as metrics:
        metrics.write(np.int64(2), a=torch.tensor([0.5]), b=True, c=math.inf)
        assert written == [("a", 0.5, 2), ("b", 1, 2), ("c", math.inf, 2)]
        for wrong in (*strange_values(), np.arange(3), "1", None):
            with pytest.raises(Rejected, match=r"^metrics: loss is a number or a truth value; got"):
                metrics.write(3, better=0, loss=wrong)
        for step in (0.5, None, True, "1"):
            with pytest.raises(Rejected, match=r"^metrics: step is an int; got "):
                metrics.write(step, loss=3)  # type: ignore[arg-type]
    assert len(written) == 3


def test_numbers_that_are_not_finite_stop_a_run() -> None:
    check_loss(3, 0.5)
    for loss in (math.nan, math.inf):
        with pytest.raises(Diverged, match=rf"^train: .* the loss of step 3 is {loss}$"):
            check_loss(3, loss)
    session = Session(provider="aten")
    w, b = session.param([1.0], name="w"), session.param([2.0], name="b")
    loss = session.sum(session.use(w) * session.use(b))
    session.adamw_step(grads=session.backward(loss))
    check_finite(session, 1)
    w.set([math.inf])
    with pytest.raises(Diverged, match=r"after step 2 the value of w is not finite$"):
        check_finite(session, 2)
    w.set([1.0])
    session.reset_tape()
    loss = session.sum(session.use(b) * 1e30)
    session.adamw_step(grads=session.backward(loss))
    with pytest.raises(Diverged, match=r"the exp_avg_sq of b is not finite$"):
        check_finite(session, 3)
    check_finite(session, 3, optimizers=())


def test_looking_at_a_score_leaves_later_masks_alone() -> None:
    def masks(look: bool) -> list[Any]:
        session = Session(provider="aten")
        found = []
        for _ in range(2):
            counter = session.random_counter
            if look:
                session.dropout(session.input([1.0] * 64), p=0.5, seed=3, training=False)
                assert session.random_counter == counter + 1, "a call without training counts"
                session.random_counter = counter
            kept = session.dropout(session.input([1.0] * 64), p=0.5, seed=3)
            found.append(session.value(kept).tolist())
        return found

    torch.manual_seed(0)
    plain = masks(look=False)
    torch.manual_seed(1)
    assert masks(look=True) == plain and plain[0] != plain[1]


def test_a_run_stops_when_its_score_is_no_longer_better() -> None:
    stop = EarlyStop(patience=2)
    says = [(stop.stop(score), stop.improved) for score in (3.0, 2.0, 2.0, 1.5, math.nan, 1.6)]
    assert says == [
        (False, True), (False, True), (False, False), (False, True), (False, False), (True, False)
    ]  # fmt: skip
    assert (stop.best, stop.best_at, stop.looks) == (1.5, 3, 6)
    rising = EarlyStop(patience=1, least=0.125, larger_is_better=True)
    assert [rising.stop(score) for score in (0.5, 0.75, 0.875)] == [False, False, True]
    never = EarlyStop(patience=2)
    assert [never.stop(math.nan) for _ in range(2)] == [False, True]


@pytest.mark.parametrize("step", [math.nan, 3.0, -1, True, None, "3"])
def test_a_step_is_counted(step: Any) -> None:
    session = Session(provider="aten")
    with pytest.raises(Rejected, match=r"^check_loss: a step is an int >= 0, got "):
        check_loss(step, 3)
    with pytest.raises(Rejected, match=r"^check_finite: a step is an int >= 0, got "):
        check_finite(session, step)
    for loss in (session.input(1.0), "1", None, torch.zeros(2), True):
        with pytest.raises(Rejected, match=r"^check_loss: a loss is a number, got "):
            check_loss(0, loss)  # type: ignore[arg-type]
    check_loss(np.int64(3), torch.tensor(1.0))  # type: ignore[arg-type]
    with pytest.raises(Diverged, match=r"the loss of step 3 is nan$"):
        check_loss(3, torch.tensor(math.nan))  # type: ignore[arg-type]


def test_a_stop_goes_on_from_its_state() -> None:
    for rising in (False, True):
        for scores in (
            (3.0, 2.0, 2.0, 1.5, 2.0, math.nan),
            (math.inf, -math.inf, 1.0),
            (math.nan,),
        ):
            for cut in range(len(scores) + 1):
                whole, first, again = (EarlyStop(2, larger_is_better=rising) for _ in range(3))
                says = [(whole.stop(score), whole.improved) for score in scores]
                parts = [(first.stop(score), first.improved) for score in scores[:cut]]
                again.load(json.loads(json.dumps(first.state(), allow_nan=False)))
                assert again.improved == first.improved
                parts += [(again.stop(score), again.improved) for score in scores[cut:]]
                assert parts == says and vars(again) == vars(whole)
    fresh = EarlyStop(2)
    assert fresh.state() == {"best": None, "best_at": -1, "looks": 0}
    fresh.stop(torch.tensor(0.5))
    assert json.dumps(fresh.state()) == '{"best": 0.5, "best_at": 0, "looks": 1}'


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (None, "a state is a dict of best, best_at and looks, got None"),
        ({"best": 1.0}, "a state is a dict of best, best_at and looks, got {'best': 1.0}"),
        ({"best": 1.0, "best_at": 0, "looks": "1"}, "looks is an int >= 0, got '1'"),
        ({"best": 1.0, "best_at": 1, "looks": 1}, r"best_at is an int in [-1, 1), got 1"),
        ({"best": 1.0, "best_at": 0.0, "looks": 1}, r"best_at is an int in [-1, 1), got 0.0"),
        ({"best": 1.0, "best_at": -1, "looks": 1}, "best is None before there is one, got 1.0"),
        ({"best": "1", "best_at": 0, "looks": 1}, "best is a finite number or None, got '1'"),
        ({"best": math.nan, "best_at": 0, "looks": 1}, "best is a finite number or None, got nan"),
    ],
)
def test_what_is_no_state_of_a_stop_is_refused(state: Any, says: str) -> None:
    stop = EarlyStop(2)
    stop.stop(3.0)
    before = dict(vars(stop))
    with pytest.raises(Rejected) as caught:
        stop.load(state)
    assert str(caught.value) == f"EarlyStop: {says}" and vars(stop) == before


@pytest.mark.parametrize("score", ["1", None, [1.0], torch.zeros(2), True, 1j])
def test_what_is_no_score_is_no_look(score: Any) -> None:
    stop = EarlyStop(2)
    with pytest.raises(Rejected, match=r"^EarlyStop: a score is a number, got "):
        stop.stop(score)
    assert stop.looks == 0


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"patience": 1.0}, {"patience": True}])
def test_a_patience_is_a_number_of_looks(wrong: Any) -> None:
    with pytest.raises(Rejected, match=r"^EarlyStop: patience is an int >= 1, got "):
        EarlyStop(**wrong)
    for least in (-1.0, math.nan, math.inf, "1", None):
        with pytest.raises(Rejected, match=r"^EarlyStop: least is finite and >= 0, got "):
            EarlyStop(1, least=least)


def test_curves_become_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "loss.svg"
    plot_curves(path, {"one": [3.0, 2.0, 1.0], "other": ([5, 9], [2.0, 1.0])}, window=2, title="T")
    drawn = path.read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("T", "one, mean of 2", "other, mean of 2"))
    plot_curves(tmp_path / "loss.png", {"one": [3.0, -2.0]}, logarithmic=False)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_points_may_be_pairs_or_none(tmp_path: Path) -> None:
    def drawn(**curves: Any) -> bytes:
        plot_curves(tmp_path / "a.png", curves, window=2)
        return (tmp_path / "a.png").read_bytes()

    expected = drawn(val=([79, 159, 239], [2.0, 1.0, 0.5]))
    assert expected != drawn(val=[2.0, 1.0, 0.5]) == drawn(val=([0, 1, 2], [2.0, 1.0, 0.5]))
    assert expected == drawn(val=[(79, 2.0), (159, 1.0), (239, 0.5)])
    assert expected == drawn(val=[[79, torch.tensor(2.0)], [159, np.float32(1)], [239, 0.5]])
    assert expected == drawn(val=(np.array([79, 159, 239]), torch.tensor([2.0, 1.0, 0.5])))
    assert drawn(val=[]) == drawn(val=()) == drawn(val=([], [])) == drawn(val=np.zeros(0))
    assert drawn()


@pytest.mark.parametrize(
    "wrong",
    [
        (1.0, 2.0, 3.0),
        (1.0, 2.0),
        [(1, 2.0, 3.0)],
        [(1, 2.0), 3.0],
        [[1.0], [2.0]],
        [(1, "2")],
        ["1"],
        "12",
        [None],
        3.0,
        {1: 2.0},
        np.zeros((2, 2)),
        torch.zeros(2, 2),
        [1j],
        [True],
        ([[1], [2]], [1.0, 2.0]),
    ],
    ids=repr,
)
def test_what_has_no_form_of_a_curve_is_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^plot_curves: the curve 'a' is a flat list, .*; got "):
        plot_curves(tmp_path / "a.png", {"a": wrong})
    with pytest.raises(Rejected, match=r"^plot_curves: curves is a dict, of curves by name, got "):
        plot_curves(tmp_path / "a.png", [1.0])  # type: ignore[arg-type]


def test_what_is_no_curve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^plot_curves: 'a' has 1 steps and 2 values$"):
        plot_curves(tmp_path / "a.png", {"a": ([1], [1.0, 2.0])})
    with pytest.raises(Rejected, match=r"^plot_curves: window is an int >= 1, got 0$"):
        plot_curves(tmp_path / "a.png", {"a": [1.0]}, window=0)
    for path in (tmp_path / "nowhere" / "a.png", tmp_path / "a.nothing"):
        with pytest.raises(Rejected, match=r"^plot_curves: .* cannot be written: "):
            plot_curves(path, {"a": [1.0]})
    assert not list(tmp_path.iterdir())


def test_the_norm_is_that_of_what_an_update_writes() -> None:
    session = Session(provider="aten")
    w, frozen = session.param([3.0, 0.0]), session.param([1.0, 1.0], requires_grad=False)
    unused = session.param([7.0])
    a, b = session.use(w), session.use(w)
    loss = session.sum(a * a + b * session.use(frozen) + session.input([1.0, 1.0], None, True))
    with session.backward(loss) as grads:
        # 2 w and 1 meet in w: (7, 1). The input is no parameter.
        assert session.gradient_norm(grads) == math.sqrt(50.0)
        before = w.value()
        session.sgd_step(1.0, grads, max_norm=session.gradient_norm(grads) / 2)
        moved = (before - w.value()).norm().item()
        assert 0.49 < moved / math.sqrt(50.0) <= 0.5
    assert session.gradient_norm({0: None, 1: None}) == 0.0
    assert unused.version == 0
    with pytest.raises(Rejected, match=r"^gradient_norm: grads must be what backward"):
        session.gradient_norm(3.0)
