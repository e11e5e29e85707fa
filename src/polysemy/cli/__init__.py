"""The command line: one thin file a command group; parsing and printing only.

Exit codes: 0 done, 1 our fault, 2 the user's input is wrong, 130 interrupted and resumable.
"""

from __future__ import annotations

import errno
import sys
import traceback

import typer

from polysemy.cli import compare, corpus, embed, lineage, pretrain, tasks
from polysemy.cli.output import fail
from polysemy.core.errors import InputError, Interrupted

app = typer.Typer(
    name="polysemy",
    help="Train, compare, compress and serve every generation of language representation, on your own text.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for group in (lineage, corpus, pretrain, embed, tasks, compare):
    group.register(app)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from polysemy import __version__

        typer.echo(__version__)
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with the exit code that the outcome deserves."""
    raise SystemExit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code, with at most one message on standard error."""
    try:
        code = app(arguments, prog_name="polysemy", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except InputError as error:
        return fail(str(error), 2)
    except (Interrupted, KeyboardInterrupt, typer.Abort) as stop:
        return fail(f"interrupted. {stop} Run the same command again to go on.".replace("  ", " "), 130)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except typer.Exit as leave:
        return leave.exit_code
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EISDIR):
            return fail(f"{error.filename or 'disk'}: {error.strerror}. Check space and rights, then run again.", 2)
        return _fault()
    except Exception as error:  # noqa: BLE001 - whatever escapes is reported once, with its trace
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # click's own: a wrong option or argument
            return fail(f"{error.format_message()} (polysemy --help lists the commands)", 2)
        return _fault()


def _fault() -> int:
    traceback.print_exc()
    return fail("this is a fault of polysemy; please report the lines above.", 1)
