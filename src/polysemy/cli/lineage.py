"""``polysemy systems``: the table of the lineage."""

from __future__ import annotations

import typer

from polysemy.cli.output import result


def register(app: typer.Typer) -> None:
    app.command("systems")(systems)


def systems(as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output.")) -> None:
    """The lineage: name, year, paper, sizes with their parameters, and how its paper uses it.

    Example: polysemy systems --json
    """
    from polysemy.systems import NOMINAL_VOCABULARY, SYSTEMS, module_of, resolve

    rows = []
    for name, entry in SYSTEMS.items():
        module, system_class = module_of(name), resolve(entry.model)
        sizes = {
            size: module.parameters(system_class.Config(**{**fields, "vocab_size": NOMINAL_VOCABULARY}))
            for size, fields in module.SIZES.items()
        }
        rows.append(
            {"system": name, "year": entry.year, "title": entry.title, "paper": entry.paper, "parents": entry.parents,
             "sizes": sizes, "reads": entry.tokenizer, "mode": entry.mode}
        )  # fmt: skip
    lines = [f"Parameters are those with a vocabulary of {NOMINAL_VOCABULARY:,}.  The first size is the default."]
    for row in rows:
        lines.append(f"{row['system']:10} {row['year']}  {row['title']} ({row['paper']})")
        sizes = ", ".join(f"{size} {count / 1e6:.1f} M" for size, count in row["sizes"].items())
        lines.append(f"{'':16} reads {row['reads']}; used with {row['mode']}; parameters: {sizes}")
    result(lines, {"systems": rows}, as_json)
