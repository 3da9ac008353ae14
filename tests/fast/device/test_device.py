"""The mode of a process: chosen by `fast`, before triton is imported, and refused if too late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_INT", "TWINGRAD"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_triton_loaded_too_early_is_refused_with_advice() -> None:
    done = run(
        "import triton\n"
        "import fast\n"
        "from fast.device.mode import ring\n"
        "print(ring())\n"
        "try:\n"
        "    from fast.ops import OPS\n"
        "except fast.Unavailable as error:\n"
        "    print(error)\n"
    )
    assert done.returncode == 0, done.stderr
    ring, message = done.stdout.splitlines()
    assert ring == "interpreted"
    assert "loaded in compiled mode" in message
    assert "TRITON_INTERPRET=1" in message
    assert "import fast before" in message


def test_importing_fast_first_decides_for_a_later_import_of_triton() -> None:
    done = run(
        "import sys, fast\n"
        "assert 'triton' not in sys.modules\n"
        "import triton\n"
        "from fast.device.mode import ring\n"
        "from fast.ops import OPS\n"
        "print(ring(), type(triton.language.standard.zeros).__name__, len(OPS) > 0)\n"
    )
    assert done.stdout.split() == ["interpreted", "InterpretedFunction", "True"], done.stderr


def test_compile_only_refuses_an_interpreted_triton() -> None:
    done = run(
        "import triton\n"
        "import fast\n"
        "try:\n"
        "    from fast.device.mode import tl\n"
        "except fast.Unavailable as error:\n"
        "    print(error)\n",
        TRITON_INTERPRET="1",
        TWINGRAD_COMPILE_TARGET="sm_90",
    )
    assert "loaded in interpreted mode" in done.stdout, done.stderr
    assert "remove TRITON_INTERPRET" in done.stdout


@pytest.mark.parametrize("module", ["torch", "numpy", "safetensors", "triton"])
def test_a_missing_library_is_one_sentence_that_names_the_extra(module: str) -> None:
    done = run(
        f"import sys; sys.modules[{module!r}] = None\n"
        "try:\n"
        "    import fast\n"
        "    from fast.device.mode import tl\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    kind, message = done.stdout.strip().split(" ", 1)
    assert kind == ("Unavailable" if module == "triton" else "ImportError"), done.stderr
    assert "extra [fast]" in message
    assert "in a checkout of twingrad, pip install '.[fast]', " in message
    assert message.endswith("from a wheel, pip install 'FILE.whl[fast]'")
    assert "\n" not in message


TRITON = "import fast; s = fast.Session(provider='triton'); s.exp(s.input([1.0]));"


def test_a_session_says_that_triton_is_interpreted() -> None:
    done = run(TRITON + "print(s.providers())")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'exp': 'triton (interpreted)'}"
    assert (
        done.stderr.count("<string>:1: Interpreted: session: provider 'triton' is interpreted here")
        == 1
    )


@pytest.mark.parametrize("call", ["softmax(x, 0", "AdamW([x]"])
def test_so_do_functions_and_optimizers_for_torch(call: str) -> None:
    done = run(f"import torch, fast.torch as t; x = torch.ones(2); t.{call}, provider='triton')")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("provider 'triton' is interpreted here") == 1
    assert done.stderr.startswith("<string>:1: ")


def test_nothing_is_said_where_the_interpreter_was_asked_for_or_is_not_used() -> None:
    for code, environment in (
        (TRITON, {"TRITON_INTERPRET": "1"}),
        (TRITON.replace("triton", "aten"), {}),
        ("import fast; fast.Session()", {}),
    ):
        done = run(code, **environment)
        assert (done.returncode, done.stderr) == (0, "")
