"""Every phrase exists in both languages and takes the same values."""

from __future__ import annotations

import string

import pytest

from polysemy.core.errors import InputError
from polysemy.core.messages import LANGS, areas, count, language, phrases, say


@pytest.mark.parametrize("area", areas())
def test_both_languages_take_the_same_values(area: str) -> None:
    assert phrases(area)
    for key, phrase in phrases(area).items():
        fields = [{name for _, name, _, _ in string.Formatter().parse(phrase[lang]) if name} for lang in LANGS]
        assert fields[0] == fields[1], f"{area}.{key}: {fields}"
        assert all(phrase[lang].strip() for lang in LANGS), f"{area}.{key} is empty"


def test_a_phrase_with_values_and_a_number() -> None:
    assert count("compare.seeds", 1, "en") == "1 seed"
    assert count("compare.seeds", 3, "en") == "3 seeds"
    assert "3" in count("compare.seeds", 3, "zh")
    with pytest.raises(KeyError):
        say("compare.no_such_phrase", "en")


def test_chinese_is_spaced_where_it_meets_letters_and_digits() -> None:
    values = {"system": "线性标注器", "metric": "准确率", "score": "0.9", "budget": "x"}
    assert say("compare.verdict.enough", "zh", **values).startswith("这里用线性标注器就够了：准确率 0.9，")
    assert say("compare.verdict.enough", "zh", **values | {"system": "TF-IDF"}).startswith("这里用 TF-IDF 就够了：")
    assert say("compare.note.pretraining_paid", "zh", system="bert", gain="+0.1", low="+0.0", high="+0.2") == (
        "预训练有效：bert +0.1（+0.0 至 +0.2）。"
    )


def test_an_unknown_language_is_the_users_input() -> None:
    with pytest.raises(InputError, match="unknown language 'cn'"):
        language("cn")
