"""The command line, one file for each kind of command. `python -m` and the script enter.

Exit codes: 0 conformant, 1 not conformant, 2 an impossible request, 3 a crash, 4 vacuous,
130 interrupted.
"""

from equivalence.cli.commands import main, parser, script

__all__ = ["main", "parser", "script"]
