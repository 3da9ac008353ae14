"""Kernels of other libraries in Triton's interpreter; who tries the judge on them enters.

Each backend is written as a user of the library would write it, and stays out of the install.
Importing this room asks for the interpreter, before a library's kernels are decorated. It raises
`fast.errors.Unavailable` where triton was loaded to compile.
"""

import os

from fast.device import mode

if mode.compile_target() is None:
    os.environ[mode.INTERPRET] = "1"
mode.ring.cache_clear()
mode.require_triton()
