"""The functions of torch that move entries, or make some, and compute nothing: they run as ever."""

from __future__ import annotations

_VIEWS = """
    _reshape_alias _unsafe_view alias as_strided broadcast_in_dim detach diagonal expand lift_fresh
    permute reshape select slice split split_with_sizes squeeze t transpose unbind unfold unsqueeze
    view
"""
_COPIES = """
    cat clone constant_pad_nd contiguous flip gather index index_copy index_select lift repeat roll
    select_backward select_scatter slice_backward slice_scatter stack take tril triu
"""
_MADE = """
    empty empty_like empty_strided full_like is_same_size new_empty new_empty_strided new_full
    new_ones new_zeros ones_like set_ sym_size sym_stride zero_ zeros_like
"""

VIEWS = frozenset(_VIEWS.split())
"""They return the memory that they are given, or, in place, lay a tensor out anew."""

COPIES = frozenset(_COPIES.split())
"""They return entries of what they are given, among zeros or among each other."""

MADE = frozenset(_MADE.split())
"""They look at the form of what they are given, and at no entry."""

MOVES = VIEWS | COPIES | MADE
