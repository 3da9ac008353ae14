"""Chapter 24. The optimizers, one page each: pure functions of parameter, gradient and state.

>>> from spec.optim import sgd
>>> from spec.tensor import tensor
>>> sgd.update(tensor([1.0]), tensor([2.0]), sgd.State(), sgd.Sgd(lr=0.25))
(Tensor([0.5]), State(momentum_buffer=None))
"""
