"""Torch's functions on exact numbers, their gradients by autograd included; exact may enter."""
