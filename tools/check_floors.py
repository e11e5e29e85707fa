"""A file imports from lower floors and from its own folder; a system imports another only along the lineage.

Exits with 1 and one line a fault.  The floors are those of docs/decisions/0001-the-house.md.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FLOORS = (
    {"core"},
    {"text"},
    {"data", "nn"},
    {"objectives"},
    {"systems"},
    {"decode"},
    {"tasks"},
    {"train"},
    {"interop", "compress", "look"},
    {"recipes"},
    {"compare", "serve", "compat"},
    {"cli"},
)
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}
NEVER_TORCH = {"core", "text"}
ONLY_HERE = {"pickle": set(), "accelerate": {"train/parallel.py"}}
MAX_LINES = 400


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, inside functions too."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def faults(path: Path, parents: dict[str, set[str]]) -> list[str]:
    """What is wrong with one file."""
    relative = path.relative_to(SOURCE / "polysemy")
    folder = relative.parts[0] if len(relative.parts) > 1 else None
    out = []
    if (lines := path.read_text("utf-8").count("\n")) > MAX_LINES:
        out.append(f"{relative}: {lines} lines, more than {MAX_LINES}")
    for line, name in imports(path):
        parts = name.split(".")
        where = f"{relative}:{line}"
        if folder in NEVER_TORCH and parts[0] == "torch":
            out.append(f"{where}: {folder}/ never imports torch")
        if parts[0] in ONLY_HERE and str(relative) not in ONLY_HERE[parts[0]]:
            out.append(f"{where}: {parts[0]} is not imported here")
        if parts[0] != "polysemy" or len(parts) < 2 or folder is None:
            continue
        target = parts[1]
        if target in LEVEL and target != folder and LEVEL[target] >= LEVEL[folder]:
            out.append(f"{where}: {folder} imports {target}, which is not a lower floor")
        if folder == target == "systems" and len(parts) > 2:
            mine, theirs = relative.stem, parts[2]
            if mine != "__init__" and theirs in parents and theirs not in parents.get(mine, set()):
                out.append(f"{where}: {mine} does not descend from {theirs}")
    return out


def lineage() -> dict[str, set[str]]:
    """For each file of systems/, the files that its rows of SYSTEMS name as parents."""
    sys.path.insert(0, str(SOURCE))
    from polysemy.systems import SYSTEMS

    stem = {name: entry.model.split(":")[0].rsplit(".", 1)[1] for name, entry in SYSTEMS.items()}
    out: dict[str, set[str]] = {}
    for name, entry in SYSTEMS.items():
        out.setdefault(stem[name], set()).update(stem[parent] for parent in entry.parents)
    return out


def main() -> int:
    parents = lineage()
    found = [fault for path in sorted((SOURCE / "polysemy").rglob("*.py")) for fault in faults(path, parents)]
    print("\n".join(found) if found else "floors: every import goes down")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
