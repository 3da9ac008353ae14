"""Wrong cross_entropy and mse_loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from population.pieces.labelled import by_rows, weighed
from population.pieces.tensors import kept_in
from population.record import wrong

LIGER = "https://github.com/linkedin/Liger-Kernel/issues/"
TORCH = "https://github.com/pytorch/pytorch/issues/"
COUNTED = "https://github.com/huggingface/transformers/issues/34191"
BOOK = "Goodfellow, Bengio and Courville, Deep Learning, section 4.1"
OUT_OF_RANGE = "https://github.com/tensorflow/tensorflow/issues/8484"
STRIDES = "Liger 0.8.5, cross_entropy, logits whose last stride is not 1"


def _asked(
    labels: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    weight: None = None,
) -> tuple[Tensor, float, str]:
    """Return which rows count, the smoothing and the reduction of a call."""
    return labels != ignore_index, label_smoothing, reduction


def _loss(logs: Tensor, labels: Tensor, kept: Tensor, smoothing: float, classes: float) -> Tensor:
    """Return the loss of each row from log-probabilities; smoothing divides by `classes`."""
    picked = logs.gather(1, torch.where(kept, labels, 0)[:, None])[:, 0]
    losses = -picked
    if smoothing:
        losses = (1 - smoothing) * losses - logs.sum(1) * (smoothing / classes)
    return torch.where(kept, losses, 0.0)


def _reduced(losses: Tensor, kept: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() / max(int(kept.sum()), 1) if reduction == "mean" else losses.sum()


@wrong("cross_entropy value", "value", source="Szegedy et al., 2016, read as over other classes")
@by_rows("cross_entropy")
def smoothing_over_the_other_classes(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """The smoothed part is divided by the number of classes less one."""
    kept, smoothing, reduction = _asked(labels, **call)
    logs = torch.log_softmax(x, 1)
    losses = _loss(logs, labels, kept, smoothing, max(x.shape[1] - 1, 1))
    return _reduced(losses, kept, reduction)


@wrong("cross_entropy value", "sizes", source=LIGER + "243")
@by_rows("cross_entropy")
def smoothing_of_64_classes(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """The smoothed part reads the first 64 classes."""
    kept, smoothing, reduction = _asked(labels, **call)
    logs = torch.log_softmax(x, 1)
    plain = _loss(logs, labels, kept, 0.0, 1)
    rest = torch.where(kept, -logs[:, :64].sum(1) / x.shape[1], 0.0)
    losses = (1 - smoothing) * plain + smoothing * rest if smoothing else plain
    return _reduced(losses, kept, reduction)


@wrong("cross_entropy value", "value", source=COUNTED)
@by_rows("cross_entropy")
def smoothing_of_ignored_rows(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """Rows that are ignored count in the smoothed part."""
    kept, smoothing, reduction = _asked(labels, **call)
    logs = torch.log_softmax(x, 1)
    plain = _loss(logs, labels, kept, 0.0, 1)
    losses = (1 - smoothing) * plain - smoothing * logs.mean(1)
    return _reduced(losses if smoothing else plain, kept, reduction)


@wrong("cross_entropy value", "sizes", source=BOOK)
@by_rows("cross_entropy", weights=True)
def maximum_of_128_classes(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """The maximum that is subtracted is that of the first 128 classes."""
    shifted = x - x[:, :128].amax(1, keepdim=True)
    logs = shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True))
    return weighed(logs, labels, **call)


@wrong("cross_entropy value", "range", source="eps added to probabilities")
@by_rows("cross_entropy")
def logarithm_of_probabilities(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """The logarithm is of probabilities, with a small number added."""
    kept, smoothing, reduction = _asked(labels, **call)
    logs = torch.log(torch.softmax(x, 1) + 1e-12)
    return _reduced(_loss(logs, labels, kept, smoothing, x.shape[1]), kept, reduction)


@wrong("cross_entropy value", "empty", source=TORCH + "116349")
@by_rows("cross_entropy")
def all_ignored_is_no_number(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """Where all rows are ignored, the mean is 0 / 0."""
    return torch.nn.functional.cross_entropy(x, labels, **call)


@wrong("cross_entropy value", "non-finite", source=TORCH + "36923")
@by_rows("cross_entropy")
def ignored_rows_by_a_product(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """The losses of ignored rows are multiplied by 0, so that NaN stays."""
    kept, smoothing, reduction = _asked(labels, **call)
    every = torch.ones_like(kept)
    safe = torch.where(kept, labels, 0)
    losses = _loss(torch.log_softmax(x, 1), safe, every, smoothing, x.shape[1])
    return _reduced(losses * kept.to(x.dtype), kept, reduction)


@wrong("cross_entropy value", "value", source=OUT_OF_RANGE)
@by_rows("cross_entropy")
def mark_that_is_a_class(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """With a class as the mark of ignored rows, smoothing leaves that class out."""
    kept, smoothing, reduction = _asked(labels, **call)
    mark = call.get("ignore_index", -100)
    logs = torch.log_softmax(x, 1)
    if 0 <= mark < x.shape[1]:
        plain = _loss(logs, labels, kept, 0.0, 1)
        rest = -(logs.sum(1) - logs[:, mark]) / x.shape[1]
        losses = (1 - smoothing) * plain + smoothing * torch.where(kept, rest, 0.0)
        return _reduced(losses if smoothing else plain, kept, reduction)
    return _reduced(_loss(logs, labels, kept, smoothing, x.shape[1]), kept, reduction)


@wrong("cross_entropy value", "dtype", dtypes=("fp16",), source=LIGER + "1253")
@by_rows("cross_entropy")
def exponentials_in_half(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """All is computed in fp16, and the sum of exponentials with it."""
    kept, smoothing, reduction = _asked(labels, **call)
    shifted = x - x.amax(1, keepdim=True)
    logs = shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True))
    losses = _loss(logs, labels, kept, smoothing, x.shape[1])
    return _reduced(losses, kept, reduction)


def _gradient(
    g: Tensor,
    x: Tensor,
    labels: Tensor,
    kept: Tensor,
    smoothing: float,
    reduction: str,
    count: int | None = None,
) -> Tensor:
    """Return the gradient, with another count of rows where one is given."""
    p = torch.softmax(x, 1)
    due = torch.zeros(x.shape, dtype=x.dtype).scatter(
        1, torch.where(kept, labels, 0)[:, None], 1 - smoothing
    )
    due = due + smoothing / x.shape[1]
    rows = max(int(kept.sum()), 1) if count is None else count
    share = g / rows if reduction == "mean" else g
    per_row = share.reshape(-1, 1) if reduction == "none" else share
    return torch.where(kept[:, None], (p - due) * per_row, 0.0)


@wrong("cross_entropy vjp", "gradient", source=LIGER + "243")
@by_rows("cross_entropy")
def smoothing_left_out_of_the_gradient(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """The gradient is that of the loss without smoothing."""
    kept, _, reduction = _asked(labels, **call)
    return _gradient(g, x, labels, kept, 0.0, reduction), None


@wrong("cross_entropy vjp", "gradient", source=LIGER + "968")
@by_rows("cross_entropy")
def cotangent_ignored(g: Tensor, x: Tensor, labels: Tensor, **call: Any) -> tuple[Tensor, None]:
    """The gradient was formed with the loss, for a cotangent of 1."""
    kept, smoothing, reduction = _asked(labels, **call)
    one = torch.ones_like(g)
    return _gradient(one, x, labels, kept, smoothing, reduction), None


@wrong("cross_entropy vjp", "non-finite", source="NaN replaced where a row is not finite")
@by_rows("cross_entropy")
def even_beside_an_infinite_logit(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """Beside an infinite logit all classes are as probable."""
    kept, smoothing, reduction = _asked(labels, **call)
    infinite = (x == torch.inf).any(1, keepdim=True) & ~x.isnan().any(1, keepdim=True)
    logits = torch.where(infinite, 0.0, x)
    return _gradient(g, logits, labels, kept, smoothing, reduction), None


@wrong("cross_entropy vjp", "gradient", source=COUNTED)
@by_rows("cross_entropy")
def gradient_counts_ignored_rows(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """The gradient of the mean is divided by all rows, the ignored ones too."""
    kept, smoothing, reduction = _asked(labels, **call)
    every = labels.numel()
    return _gradient(g, x, labels, kept, smoothing, reduction, every), None


@wrong("cross_entropy vjp", "gradient", source="masks applied to the loss alone")
@by_rows("cross_entropy")
def ignored_rows_learn(g: Tensor, x: Tensor, labels: Tensor, **call: Any) -> tuple[Tensor, None]:
    """Rows that are ignored receive their probabilities as a gradient."""
    kept, smoothing, reduction = _asked(labels, **call)
    right = _gradient(g, x, labels, kept, smoothing, reduction)
    share = g / max(int(kept.sum()), 1) if reduction == "mean" else g
    leak = torch.softmax(x, 1) * (share.reshape(-1, 1) if reduction == "none" else share)
    return torch.where(kept[:, None], right, leak), None


@wrong("cross_entropy vjp", "aliasing", source=LIGER + "272")
@by_rows("cross_entropy")
def gradient_written_into_the_logits(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """The gradient is written over the logits, to spare memory."""
    kept, smoothing, reduction = _asked(labels, **call)
    return x.copy_(_gradient(g, x, labels, kept, smoothing, reduction)), None


@wrong("cross_entropy vjp", "layout", source=STRIDES)
@by_rows("cross_entropy")
def logits_returned_where_strided(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """Where the last stride is not 1, the gradient goes to a copy, and the logits come back."""
    kept, smoothing, reduction = _asked(labels, **call)
    if x.stride(1) != 1 and x.shape[1] > 1:
        return x.clone(), None
    return _gradient(g, x, labels, kept, smoothing, reduction), None


@wrong("cross_entropy vjp", "precision", source=LIGER + "1253")
@by_rows("cross_entropy")
def probabilities_in_bf16(g: Tensor, x: Tensor, labels: Tensor, **call: Any) -> tuple[Tensor, None]:
    """The difference of probabilities and label is rounded to bf16."""
    kept, smoothing, reduction = _asked(labels, **call)
    one = torch.ones_like(g)
    rough = kept_in(
        _gradient(one, x, labels, kept, smoothing, "none" if g.dim() else "sum"),
        torch.bfloat16,
    )
    share = g / max(int(kept.sum()), 1) if reduction == "mean" else g
    return rough * (share.reshape(-1, 1) if reduction == "none" else share), None


@wrong("cross_entropy value", "value", source=TORCH + "25571")
@by_rows("cross_entropy", weights=True)
def weighted_mean_over_rows(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """With class weights, the mean is divided by the number of rows."""
    reduction = call.pop("reduction", "mean")
    kept = labels != call.get("ignore_index", -100)
    safe = torch.where(kept[:, None], x, 0.0)
    losses = weighed(torch.log_softmax(safe, 1), labels, **call, reduction="none")
    return _reduced(losses, kept, reduction)


@wrong("cross_entropy value", "value", source=TORCH + "104776")
@by_rows("cross_entropy", weights=True)
def smoothing_without_weights(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """The smoothed part takes all classes alike, whatever they weigh."""
    kept = labels != call.get("ignore_index", -100)
    logs = torch.log_softmax(torch.where(kept[:, None], x, 0.0), 1)
    smoothing = call.pop("label_smoothing", 0.0)
    exact = weighed(logs, labels, **call)
    alike = weighed(logs, labels, **{**call, "weight": None}, label_smoothing=1.0)
    return (1 - smoothing) * exact + smoothing * alike if smoothing else exact


@wrong("cross_entropy value", "structure", source="a reshape for a transpose")
def axes_reshaped_into_rows(x: Tensor, labels: Tensor, **call: Any) -> Tensor:
    """Any other axes become rows by a reshape, as if the classes came last."""
    rows, at = x.reshape(-1, x.shape[1]), labels.reshape(-1)
    kept = at != call.get("ignore_index", -100)
    logs = torch.log_softmax(torch.where(kept[:, None], rows, 0.0), 1)
    found = weighed(logs, at, **call)
    return found.reshape(labels.shape) if call.get("reduction") == "none" else found


@wrong("cross_entropy vjp", "gradient", source="weights applied to the loss alone")
@by_rows("cross_entropy", weights=True)
def gradient_without_weights(
    g: Tensor, x: Tensor, labels: Tensor, **call: Any
) -> tuple[Tensor, None]:
    """The gradient forgets the class weights."""
    kept, smoothing, reduction = _asked(labels, **{**call, "weight": None})
    return _gradient(g, x, labels, kept, smoothing, reduction), None


@wrong("mse_loss vjp", "gradient")
def factor_forgotten(
    g: Tensor, x: Tensor, y: Tensor, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The factor 2 is missing."""
    share = g / x.numel() if reduction == "mean" else g
    return share * (x - y), share * (y - x)


@wrong("mse_loss vjp", "gradient", source="targets detached in silence")
def target_without_a_gradient(
    g: Tensor, x: Tensor, y: Tensor, reduction: str = "mean"
) -> tuple[Tensor, Tensor]:
    """The target receives zeros."""
    share = g / x.numel() if reduction == "mean" else g
    return share * 2 * (x - y), torch.zeros_like(y)


@wrong("mse_loss value", "value", source="means over the batch")
def mean_over_rows(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """The mean divides by the rows of a matrix of two columns or more."""
    losses = (x - y) ** 2
    if reduction == "none":
        return losses
    rows = x.shape[0] if x.dim() > 1 else x.numel()
    return losses.sum() / rows if reduction == "mean" else losses.sum()


@wrong("mse_loss value", "precision", source="expanded squares")
def square_multiplied_out(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """The square is multiplied out, and cancels where prediction and target agree."""
    losses = x * x - 2 * x * y + y * y
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


@wrong("mse_loss value", "dtype", dtypes=("fp16",), source=LIGER + "1253")
def squares_overflow_in_half(x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Differences are squared in fp16, where 256 is too much."""
    losses = (x - y) * (x - y)
    if reduction == "none":
        return losses
    total = losses.float().sum()
    return (total / x.numel() if reduction == "mean" else total).to(x.dtype)
