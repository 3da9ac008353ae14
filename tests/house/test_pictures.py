"""Pictures in documents are what the programs above them draw."""

from __future__ import annotations

from tools.generate_pictures import DOCUMENTS, FOLDER, PART, shown
from tools.tree import ROOT, files


def test_each_picture_in_a_document_is_generated() -> None:
    found = shown()
    assert len(found) >= 3
    assert {path.parent for path in found} == {FOLDER.resolve()}
    for path, text in found.items():
        assert text.startswith("<svg") and text == path.read_text(encoding="utf-8"), path.name


def test_documents_with_pictures_are_all_read() -> None:
    with_pictures = {
        path.relative_to(ROOT).as_posix()
        for path in files(ROOT, ".md")
        if any(name for _, name in PART.findall(path.read_text(encoding="utf-8")))
    }
    assert with_pictures == set(DOCUMENTS)
