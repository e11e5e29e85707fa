"""Settings: YAML 1.2 and ``a.b=c`` in, frozen dataclasses out, and back again.  Nothing unknown and nothing guessed."""

from __future__ import annotations

import dataclasses
import io
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from polysemy.core.errors import InputError, nearest
from polysemy.core.files import write_atomic

T = TypeVar("T")
PROBLEMS_SHOWN = 5


def parse(cls: type[T], data: Mapping[str, Any], where: str) -> T:
    """Build the dataclass ``cls`` from plain data (mappings, lists, numbers, strings), nested dataclasses included.

    Types are strict: ``"3"`` is not an integer and ``true`` is not a number.  An unknown key, a wrong type, a missing
    key or a ``ValueError`` of ``__post_init__`` is an InputError that names the dotted path; ``where`` is the file or
    the option that the data came from.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        # strict JSON, because there a list may become a tuple and a string a Path, and nothing else changes its type
        return TypeAdapter(cls).validate_json(json.dumps(to_dict(data)), strict=True, extra="forbid")
    except ValidationError as error:
        problems = [_problem(cls, dict(row)) for row in error.errors(include_url=False)]
        more = f"; and {len(problems) - PROBLEMS_SHOWN} more" if len(problems) > PROBLEMS_SHOWN else ""
        raise InputError("; ".join(problems[:PROBLEMS_SHOWN]) + more, where=where) from None


def _problem(cls: type[Any], row: Mapping[str, Any]) -> str:
    """One finding of pydantic as a sentence with the dotted path."""
    path: tuple[str | int, ...] = row["loc"]
    name = ".".join(str(part) for part in path)
    if row["type"] == "unexpected_keyword_argument":
        return f"unknown setting {name!r}. {nearest(str(path[-1]), _fields_at(cls, path[:-1]))}"
    if row["type"] == "missing":
        return f"setting {name!r} is missing"
    message = str(row["msg"]).removeprefix("Value error, ")
    if row["type"] == "value_error":
        return f"{name}: {message}" if name else message
    shown = json.dumps(row["input"], ensure_ascii=False, default=str)
    return f"{name} is {shown[:60]}: {message[:1].lower()}{message[1:]}"


def _fields_at(cls: Any, path: Sequence[str | int]) -> list[str]:
    """Names of the fields of the dataclasses that may stand at ``path`` below ``cls``."""
    kinds = [cls]
    for part in path:
        below: list[Any] = []
        for kind in kinds:
            if dataclasses.is_dataclass(kind) and isinstance(part, str):
                below += _members(typing.get_type_hints(kind).get(part))
            else:
                below += [m for inner in typing.get_args(kind) for m in _members(inner)]
        kinds = below or kinds
    return [f.name for kind in kinds if dataclasses.is_dataclass(kind) for f in dataclasses.fields(kind)]


def _members(kind: Any) -> list[Any]:
    """The alternatives of a union; anything else is its own only one."""
    return list(typing.get_args(kind)) if typing.get_origin(kind) in (typing.Union, types.UnionType) else [kind]


def override(data: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A copy of ``data`` with each ``"a.b=c"`` set; ``c`` is a YAML 1.2 value, such as ``5e-4`` or ``[1, 2]``."""
    out: dict[str, Any] = to_dict(data)
    for setting in settings:
        name, equals, text = setting.partition("=")
        *path, last = name.strip().split(".")
        if not equals or not all([*path, last]):
            raise InputError(f"cannot read the setting {setting!r}", do="Write it as name=value, e.g. train.lr=5e-4.")
        inner = out
        for i, part in enumerate(path):
            below = inner.get(part)
            if below is None:
                below = inner[part] = {}
            if not isinstance(below, dict):
                raise InputError(f"{'.'.join(path[: i + 1])} holds {below!r}, not further settings", where=setting)
            inner = below
        inner[last] = _load(text, where=setting)
    return out


def to_dict(value: Any) -> Any:
    """Dataclasses and mappings as dicts, sequences as lists, paths as strings: what YAML and JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_dict(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_dict(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML 1.2 file that holds a mapping: ``5e-4`` is a number; ``no``, ``on`` and ``2024-01-01`` are strings."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file", where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read: {error}", where=str(path)) from None
    data = _load(text, where=str(path))
    if not isinstance(data, dict | None):
        raise InputError("settings must be a mapping of names to values", where=str(path))
    return to_dict(data or {})  # type: ignore[no-any-return]


def write_yaml(path: Path, data: Mapping[str, Any]) -> None:
    """Write ``data`` in its own order, whole or not at all; ``read_yaml`` gives back an equal value."""
    out = io.StringIO()
    _yaml().dump(to_dict(data), out)
    write_atomic(path, out.getvalue())


def _load(text: str, where: str) -> Any:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return _yaml().load(text)
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        raise InputError(f"not valid YAML: {problem}", where=where + line) from None
    except YAMLError as error:
        raise InputError(f"not valid YAML: {' '.join(str(error).split())}", where=where) from None


def _yaml() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor

    class CoreSchema(SafeConstructor):
        """YAML 1.2's core schema has no dates, merge keys or value keys; the library still knows them."""

    for tag in ("timestamp", "value", "merge"):
        CoreSchema.add_constructor(f"tag:yaml.org,2002:{tag}", SafeConstructor.construct_yaml_str)
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Constructor = CoreSchema
    yaml.sort_base_mapping_type_on_output = False
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 4096
    yaml.representer.ignore_aliases = lambda _: True
    return yaml
