"""Formulas that torch follows where they are less stable, or rounded more, than those of the pages.

They are written like pages of `spec`, and count for whoever declares torch's contract, who enters.
"""

from __future__ import annotations

from collections.abc import Mapping

from equivalence.backends.torch.forms.batches import (
    BATCHES,
    BATCHES_FROM_BF16,
    BATCHES_FROM_STORAGE,
)
from equivalence.backends.torch.forms.curves import CHAINS, CURVES
from equivalence.backends.torch.forms.groups import GROUPS, GROUPS_FROM_STORAGE
from equivalence.backends.torch.forms.losses import (
    LABELLED_IN_STORAGE,
    LOSSES,
    TRIPLETS_FROM_STORAGE,
)
from equivalence.backends.torch.forms.products import PRODUCTS
from equivalence.backends.torch.forms.rows import (
    ADD_LAYER_NORM_FROM_STORAGE,
    LAYER_NORM_FROM_STORAGE,
    ROWS,
)
from equivalence.worlds.contract import Form

__all__ = ["FORMS", "FROM_BF16", "FROM_STORAGE", "LABELLED_IN_STORAGE"]

FORMS: Mapping[str, tuple[Form, ...]] = {
    **CURVES,
    **CHAINS,
    **ROWS,
    **GROUPS,
    **BATCHES,
    **PRODUCTS,
    **LOSSES,
}
"""By op: the programs that torch follows at every dtype."""

FROM_STORAGE: Mapping[str, Form] = {
    "layer_norm": LAYER_NORM_FROM_STORAGE,
    "add_layer_norm": ADD_LAYER_NORM_FROM_STORAGE,
    "group_norm": GROUPS_FROM_STORAGE,
    "batch_norm": BATCHES_FROM_STORAGE,
    "triplet_margin_loss": TRIPLETS_FROM_STORAGE,
}
"""By op: the program that torch follows in 16 bits, which says itself what passes through them."""

FROM_BF16: Mapping[str, Form] = {"batch_norm": BATCHES_FROM_BF16}
"""By op: the program that torch follows in bf16, where it is not that of fp16."""
