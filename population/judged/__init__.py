"""A member judged like a stranger's backend; the rivals, the matrix and its command enter."""
