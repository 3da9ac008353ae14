"""The machine's instructions, read from what nvdisasm prints; the samples are from our kernels."""

from __future__ import annotations

import struct
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from fast.binaries import sass

LISTING = """\
	.headerflags	@"EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/               @P1 LDG.E.U16 R8, desc[UR4][R6.64+0x2] ;
        /*0030*/                   FADD R4, R4, R5 ;
        /*0040*/             @!UP0 UIADD3 UR26, UP0, UR26, -0x1, URZ ;
        /*0050*/                   STG.E.64 desc[UR4][R2.64], R4 ;
        /*0060*/                   EXIT ;
        /*0070*/                   NOP;
        /*0080*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR6][R2.64], P0 ;
        /*0090*/                   LDGDEPBAR ;
        /*00a0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00b0*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR24].tnspB, R24 ;
        /*00c0*/                   F2FP.BF16.F32.PACK_AB R24, R25, R24 ;
        /*00d0*/                   FLO.U32 R3, R2 ;
        /*00e0*/                   STL [R1], R3 ;
        /*00f0*/                   BRA `(.L_x_2) ;
"""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The two kernels of the listing, of 128 bytes each."""
    path = SimpleNamespace(nvidia=SimpleNamespace(nvdisasm=SimpleNamespace(path="nvdisasm")))

    def run(command: list[str], **_: Any) -> Any:
        assert command[1:4] == ["-ndf", "-b", "SM90a"]
        return SimpleNamespace(stdout=LISTING)

    monkeypatch.setattr(sass.importlib, "import_module", lambda name: path)
    monkeypatch.setattr(subprocess, "run", run)
    return sass.listings("sm_90", [b"x" * 128, b"y" * 128])


def test_a_listing_is_cut_where_kernels_end(read: list[list[str]]) -> None:
    assert [kernel[0] for kernel in read] == ["LDC", "LDGSTS.E.BYPASS.128"]
    assert [len(kernel) for kernel in read] == [7, 8]
    assert "NOP" not in read[0]


def test_facts_of_a_listing(read: list[list[str]]) -> None:
    first, second = map(sass.facts, read)
    assert first == {
        "instructions": 7,
        "mix": {"global": 3, "control": 1, "float": 1, "integer": 2},
        "loads": {"128": 1, "16": 1},
        "stores": {"64": 1},
        "barriers": 0,
        "tensor": {},
    }
    assert second["loads"] == {"128": 1} and second["stores"] == {}
    assert second["barriers"] == 1
    assert second["tensor"] == {"HGMMA.64x64x16.F32.BF16": 1}
    assert second["mix"] == {
        "tensor": 1, "global": 1, "local": 1, "barrier": 2, "control": 1, "convert": 1,
        "integer": 1,
    }  # fmt: skip


def test_too_short_a_listing_is_no_answer(read: list[list[str]]) -> None:
    with pytest.raises(RuntimeError, match="fewer instructions"):
        sass.listings("sm_90", [b"x" * 128, b"y" * 128, b"z" * 128])


def elf(*sections: tuple[str, bytes]) -> bytes:
    """A file of ELF64 with these sections, and their names in one more."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in sections)
    contents = [(1 + names.index(name.encode()) - 1, data) for name, data in sections]
    contents.append((0, names))
    body, headers, at = b"", b"", 64
    for name, data in contents:
        headers += struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at + len(body), len(data), 0, 0, 0, 0)
        body += data
    head = bytearray(64)
    struct.pack_into("<Q", head, 0x28, at + len(body))
    struct.pack_into("<HHH", head, 0x3A, 64, len(contents), len(contents) - 1)
    return bytes(head) + body + headers


def test_code_is_the_one_section_of_text() -> None:
    assert sass.code(elf((".nv.info", b"no"), (".text._kernel", b"code"))) == b"code"
    with pytest.raises(RuntimeError, match="one section of code, got 2"):
        sass.code(elf((".text.a", b"a"), (".text.b", b"b")))
    with pytest.raises(RuntimeError, match="one section of code, got 0"):
        sass.code(elf((".nv.info", b"no")))
