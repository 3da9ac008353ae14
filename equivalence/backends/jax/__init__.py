"""JAX: how it computes, and JAX as a backend; who declares JAX's arithmetic enters.

Only `backend` and `losses` import the library, which an extra installs.
"""
