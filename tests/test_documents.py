"""Every written document reads back unchanged, and every alteration is noticed."""

import pytest

from laws.documents import check_document
from zoo import DOCUMENTS


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_read_back_and_nothing_in_them_is_ignored(name):
    kind = DOCUMENTS[name]
    check_document(
        kind.build(), kind.read, kind.write, covered=kind.covered, is_sole=kind.is_sole, unaltered=kind.unaltered
    )
