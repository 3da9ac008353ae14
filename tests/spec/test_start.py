"""`python -m spec` says where to start, and prints each chapter and each operation."""

from __future__ import annotations

import subprocess
import sys

import pytest

import spec
from spec.__main__ import main
from spec.ops import OPS
from spec.refusals import Unknown


def test_every_chapter_and_operation_is_printed_by_its_name() -> None:
    numbers = [main([name]).split("Chapter ")[1].split(".")[0] for name in spec.CHAPTERS[:-1]]
    assert numbers == [str(k) for k in range(1, len(spec.CHAPTERS))]
    for name in OPS:
        assert main([f"ops.{name}"]).startswith('"""'), name


def test_the_first_page_names_what_there_is() -> None:
    page = main([])
    for word in ("ledger", "svg", "opened", "observer", *spec.REVERSE_MODE):
        assert word in page


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(Unknown, match=r"no chapter or operation 'tpae'; the nearest are tape"):
        main(["tpae"])
    done = subprocess.run(
        [sys.executable, "-m", "spec", "tpae"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stderr.startswith("spec: there is no chapter")
