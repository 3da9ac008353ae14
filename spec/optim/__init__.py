"""Chapter 16. The optimizers, one page each: pure functions of parameter, gradient and state."""
