"""Chapter 18. The optimizers, one page each: pure functions of parameter, gradient and state."""
