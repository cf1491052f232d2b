"""Laws of the catalogues: each language has the same ids with the same parameters."""

import re

import pytest

from fitnoise import messages


def parameters(text):
    """Return the names in the braces of a text."""
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_languages_have_equal_ids_and_parameters(language):
    english, own = messages.catalogue("en"), messages.catalogue(language)
    assert english.keys() == own.keys()
    for text_id, text in own.items():
        assert text.strip(), text_id
        assert parameters(text) == parameters(english[text_id]), text_id
