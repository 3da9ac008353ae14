"""What is asked of the speed, in one place: a row whose ratio is larger has missed its target."""

from __future__ import annotations

STEP = 0.70
"""A training step of the digits on the eager tape, beside torch eager with its fused AdamW."""
STEP_DISPATCHES, STEP_CALLS = 25, 125
"""How many ATen operations that step dispatches, and how many Python functions it calls."""
REPLAY = 1.05
"""A replay saves the program's Python, and makes up for it by looking its recording up."""
CHAIN = 1.2
"""A chain of small ops, forward and backward, beside torch's autograd."""
GELU, DROPOUT = 1.25, 1.8
"""Both passes of an op on ATen, beside torch's; a mask of ours is drawn word by word, by Philox."""
NODE_TIME, NODE_MEMORY = 1.25, 1.1
"""How much more than at 100 nodes a node may cost at 1,000 or 10,000 (a list that grows is not
free of charge, but it has no business being superlinear)."""
FLAT = 1.0
"""The most of a count in the last tenth of a long run, beside the most in its second tenth."""
OLDER = 1.05
"""A training step, beside that of an older commit."""
