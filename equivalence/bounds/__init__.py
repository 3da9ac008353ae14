"""Whether bounds say something: a case of each row, and errors planted in it; `tools` enters."""
