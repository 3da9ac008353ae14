"""What the fixed cases of a row meet, read off their tensors. The command `coverage` enters."""
