"""Second derivatives of `fast`: of drawn programs, and of every op at calls of its design."""
