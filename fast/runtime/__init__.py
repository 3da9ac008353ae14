"""What a session is made of: parameters, gradients, updates, bindings; sessions enter."""
