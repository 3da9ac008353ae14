"""Random programs of any extents, judged node by node; `equivalence.sessions.rows` enters."""
