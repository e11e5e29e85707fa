"""Write the pages that follow from the table of systems: docs/systems/<name>.md and docs/lineage.md.

``--check`` changes nothing and exits with 1 where a page is not what the table and the docstrings say.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from polysemy.systems import NOMINAL_VOCABULARY, SYSTEMS, Entry, module_of, resolve

DOCS = Path(__file__).parents[1] / "docs"
MADE = "<!-- made by tools/make_docs.py from the table of systems and the docstring; edit those -->"


def system_page(name: str, entry: Entry) -> str:
    """One system: its docstring, its sizes, where its parts are."""
    module, system_class = module_of(name), resolve(entry.model)
    file = entry.model.split(":")[0].replace(".", "/")
    rows = [
        f"| `{name}:{size}` | {module.parameters(config):,} | {module.flops_per_token(config):,} |"
        for size, fields in module.SIZES.items()
        for config in [system_class.Config(**{**fields, "vocab_size": NOMINAL_VOCABULARY})]
    ]
    objective = import_module(entry.objective.split(":")[0])
    summary = " ".join((objective.__doc__ or "").strip().split("\n\n")[0].split())
    parents = ", ".join(f"[{p}]({p}.md)" for p in entry.parents) or "none in this table"
    return "\n".join(
        [
            f"# {name}", "", MADE, "", (module.__doc__ or "").strip(), "",
            f"- Code: [`src/{file}.py`](../../src/{file}.py)",
            f"- Reads: {entry.tokenizer}; batch fields {', '.join(f'`{i}`' for i in entry.inputs)}",
            f"- Pretrained with: {summary}",
            f"- Under a task: {'frozen features' if entry.mode == 'features' else 'fine-tuned whole'} (`--mode` overrides)",
            f"- Descends from: {parents}", "",
            f"With a vocabulary of {NOMINAL_VOCABULARY:,}:", "", "| size | parameters | FLOPs a token, forward |", "|---|---|---|", *rows, "",
        ]
    )  # fmt: skip


def lineage_page() -> str:
    rows = [
        f"| {entry.year} | [{name}](systems/{name}.md) | {entry.title} | {entry.paper} | {', '.join(entry.parents) or ''} |"
        for name, entry in sorted(SYSTEMS.items(), key=lambda item: item[1].year)
    ]
    return "\n".join(
        [
            "# The lineage",
            "",
            MADE,
            "",
            "| year | system | paper | id | descends from |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def pages() -> dict[Path, str]:
    out = {DOCS / "systems" / f"{name}.md": system_page(name, entry) for name, entry in SYSTEMS.items()}
    out[DOCS / "lineage.md"] = lineage_page()
    return out


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for path, text in pages().items():
        if not path.is_file() or path.read_text("utf-8") != text:
            stale.append(path)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
    for path in stale:
        print(f"{'stale' if check else 'wrote'} {path.relative_to(DOCS.parent)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
