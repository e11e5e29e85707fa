"""Settings are strict, say where they are wrong, and survive YAML unchanged."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from polysemy.core.config import override, parse, read_yaml, to_dict, write_yaml
from polysemy.core.errors import InputError


@dataclass(frozen=True)
class Inner:
    lr: float = 0.5
    steps: int = 3
    kind: Literal["linear", "cosine"] = "linear"

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError("steps is negative")


@dataclass(frozen=True)
class Outer:
    corpus: tuple[str, ...]
    folder: Path = Path("runs")
    name: str | None = None
    lowercase: bool = False
    train: Inner = field(default_factory=Inner)
    again: Inner | None = None
    many: tuple[Inner, ...] = ()


FULL = Outer(("a.txt", "ụ b.txt"), Path("x/y"), "no", True, Inner(5e-4, 7, "cosine"), None, (Inner(1.0), Inner(2.0)))


def test_parse_builds_nested_dataclasses_and_is_the_inverse_of_to_dict():
    assert parse(Outer, to_dict(FULL), "here") == FULL
    assert parse(Outer, {"corpus": ["a"], "train": {"lr": 1}}, "here") == Outer(("a",), train=Inner(1.0))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"corpus": [], "trian": {}}, "unknown setting 'trian'. Did you mean 'train'?"),
        ({"corpus": [], "train": {"stesp": 1}}, "unknown setting 'train.stesp'. Did you mean 'steps'?"),
        ({"corpus": [], "again": {"rl": 1}}, "unknown setting 'again.rl'. Did you mean 'lr'?"),
        ({"corpus": [], "many": [{}, {"knd": 1}]}, "unknown setting 'many.1.knd'. Did you mean 'kind'?"),
        ({"corpus": [], "train": {"lr": "fast"}}, 'train.lr is "fast": input should be a valid number'),
        ({"corpus": [], "train": {"steps": 2.5}}, "train.steps is 2.5: input should be a valid integer"),
        ({"corpus": [], "train": {"steps": True}}, "train.steps is true: input should be a valid integer"),
        ({"corpus": [], "lowercase": "no"}, 'lowercase is "no": input should be a valid boolean'),
        ({"corpus": [], "name": 3}, "name is 3: input should be a valid string"),
        ({"corpus": "a.txt"}, 'corpus is "a.txt": input should be a valid array'),
        ({"corpus": [], "train": {"kind": "line"}}, "train.kind is \"line\": input should be 'linear' or 'cosine'"),
        ({"corpus": [], "train": {"steps": -1}}, "train: steps is negative"),
        ({}, "setting 'corpus' is missing"),
    ],
)
def test_parse_refuses_and_names_the_dotted_path(data, message):
    with pytest.raises(InputError) as caught:
        parse(Outer, data, "recipe.yaml")
    assert str(caught.value) == f"recipe.yaml: {message}"


def test_override_sets_nested_yaml_values_in_a_copy():
    data = {"train": {"lr": 1.0}, "name": None}
    out = override(data, ["train.lr=5e-4", "train.kind=cosine", "corpus=[a, b]", "name=no", "new.deep.key=~", "x=a=b"])
    assert out == {
        "train": {"lr": 5e-4, "kind": "cosine"},
        "name": "no",
        "corpus": ["a", "b"],
        "new": {"deep": {"key": None}},
        "x": "a=b",
    }
    assert data == {"train": {"lr": 1.0}, "name": None}


@pytest.mark.parametrize("setting", ["lr", "=3", "a..b=1", "name.x=1", "x=[1"])
def test_override_refuses_what_it_cannot_place(setting):
    with pytest.raises(InputError):
        override({"name": "text"}, [setting])


SCALARS = """
rate: 5e-4
country: no
switch: on
day: 2024-01-01
clock: 1:30
octal: 010
text: "5e-4"
none: ~
truth: true
merge: <<
"""


def test_yaml_scalars_are_those_of_version_1_2(tmp_path):
    (tmp_path / "a.yaml").write_text(SCALARS)
    assert read_yaml(tmp_path / "a.yaml") == {
        "rate": 5e-4, "country": "no", "switch": "on", "day": "2024-01-01", "clock": "1:30", "octal": 10,
        "text": "5e-4", "none": None, "truth": True, "merge": "<<",
    }  # fmt: skip


def test_yaml_is_deterministic_keeps_order_and_loads_back_equal(tmp_path):
    shared = ["a", "b"]
    data = {
        "z": 1, "a": {"q": 1e-5, "r": 1e22, "s": 1.0, "t": 0.1 + 0.2, "u": math.inf}, "empty": [], "none": None,
        "e": {},
        "strings": ["no", "on", "5e-4", "null", "~", "true", "", " a ", "a\nb", "ụ \u2028\x00\ufeff", "2024-01-01",
                    "=", "<<", "- a", "a: b", "#", "%", "@", "`", "'", '"', "1:30", "0o7", "x" * 300],
        "again": shared, "shared": shared, "nested": [[1, 2], [{"a": 1}]],
    }  # fmt: skip
    write_yaml(tmp_path / "a.yaml", data)
    write_yaml(tmp_path / "b.yaml", data)
    back = read_yaml(tmp_path / "a.yaml")
    assert back == data
    assert list(back) == list(data)
    assert (tmp_path / "a.yaml").read_bytes() == (tmp_path / "b.yaml").read_bytes()
    assert "&" not in (tmp_path / "a.yaml").read_text()
    write_yaml(tmp_path / "c.yaml", to_dict(FULL))
    assert parse(Outer, read_yaml(tmp_path / "c.yaml"), "c") == FULL


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb: [1\n", "a.yaml:3: not valid YAML"),
        (b"a: 1\na: 2\n", "a.yaml:2: not valid YAML"),
        (b"a: !!python/object:os.system x\n", "a.yaml:1: not valid YAML"),
        (b"- 1\n", "must be a mapping"),
        (b"\xff\xfe", "cannot read"),
    ],
)
def test_yaml_that_is_no_settings_is_refused_with_its_place(tmp_path, content, message):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_yaml(tmp_path / "a.yaml")


def test_an_absent_file_is_an_input_error_and_an_empty_one_has_no_settings(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_yaml(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "a.yaml") == {}
