"""Words one edit apart: found by the forms they share, and by nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from forager.sdk.search.ranking import are_near, can_be_misspelt, forms_of, words_of

LETTERS = st.text("abcdefgh", min_size=1, max_size=9)


def edits(word: str) -> set[str]:
    """Every word that is one edit away, made the plain way."""
    splits = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    letters = "abcdefghz"
    made = {a + b[1:] for a, b in splits if b}
    made |= {a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1}
    made |= {a + c + b[1:] for a, b in splits if b for c in letters}
    made |= {a + c + b for a, b in splits for c in letters}
    return made


@given(LETTERS, st.data())
def test_every_word_one_edit_away_is_near_and_shares_a_form__PR_19(word: str, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from(sorted(edits(word))))
    assert are_near(word, other)
    assert are_near(other, word)
    assert forms_of(word) & forms_of(other)


@given(LETTERS, LETTERS)
def test_no_other_word_is_near__PR_19(word: str, other: str) -> None:
    assert are_near(word, other) == (other == word or other in edits(word))


def test_words_have_no_case_and_no_accents() -> None:
    assert words_of("Café Süß, 24\" O'Neill") == ["cafe", "suß", "24", "o", "neill"]
    assert [can_be_misspelt(word) for word in ("lamp", "lamps", "x1000x")] == [False, True, False]
