"""Our own operations as backends, and what their kernels promise; who judges `fast` enters."""
