"""What the benchmarks are held to: ratios of times, and counts of a step."""

from __future__ import annotations

EAGER = 0.70
"""The eager digits step beside torch's."""

REPLAY = 1.05
"""A replay saves the program's Python, and makes up for it by looking its recording up."""

INDUCTOR = 0.20
"""The digits step through the engine inductor, beside torch's."""

INDUCTOR_AS_IT_IS = 0.55
"""What that step is held to meanwhile: the artifact takes 41 us of some 190, and the session's own
Python, the copies of gradients and the update, which it does not hold yet, take the rest."""

CHAIN = 1.2
"""A chain of small ops on the eager tape beside torch's autograd."""

AGAINST = 1.05
"""The eager digits step beside that of an older commit."""

DISPATCHES, CALLS = 25, 125
"""ATen operations and Python calls of the eager digits step, at most (`make test` counts them)."""

GELU, DROPOUT = 1.25, 1.8
"""Both passes of an op on ATen, beside torch's; a mask of ours is drawn word by word, by Philox."""

GELU_AS_IT_IS = 2.0
"""What gelu, which misses its target, is held to meanwhile.

torch's own gradient is quicker by an erf with an error of 1.5e-7, which is beyond our budget in
fp32, and torch's accurate erf and exp alone take about 1.46 of its time.
"""
