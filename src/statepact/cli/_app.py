"""The commands and their options. Their work is in one module each, imported when they run.

Exit codes: 0 all well; 1 checked, and not well (loss above `--max-loss`, a broken chain or contract,
an input that failed); 2 the command was used wrongly; 3 there was nothing to read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from statepact.__about__ import __version__

F = TypeVar("F", bound=Callable[..., Any])

STORE = "sqlite:///statepact.db"
A_FILE = click.Path(path_type=Path)


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that applies several, in the order in which the help shows them."""

    def apply(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


of_a_store = options(
    click.option("--store", default=STORE, metavar="URL", show_default=True, help="Where the state is kept."),
    click.option("--owner", default="local", metavar="NAME", show_default=True, help="Whose state."),
)
of_a_cache = options(
    click.option("--cache", metavar="URL", help="A cache in front of the store: redis://host:6379/0."),
)
of_a_report = options(
    click.option(
        "--max-loss",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Exit 1 if a larger share of any of the three questions is lost.",
    ),
)
of_a_model = options(
    click.option("--base-url", metavar="URL", help="Server of an OpenAI-compatible or Anthropic model."),
)
of_all = options(
    click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output, nothing else."),
    click.option("--debug", is_flag=True, help="Show the traceback of an error."),
)
of_keys = options(
    click.option(
        "--keys",
        type=A_FILE,
        metavar="FILE",
        envvar="STATEPACT_KEYS",
        help="Key ring of sensitive values (JSON); also from STATEPACT_KEYS.",
    ),
)
of_a_log_key = options(
    click.option("--key-file", type=A_FILE, metavar="FILE", help="Key of the log; else that of STATEPACT_LOG_KEY."),
)
page = click.option("--html", type=A_FILE, metavar="FILE", help="Write one self-contained page.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statepact")
def app() -> None:
    """State governance for multi-agent Python: contracts, snapshots and a loss ledger."""


@app.command()
@click.option(
    "--model",
    default="scripted",
    metavar="MODEL",
    show_default=True,
    help="local, scripted, openai:NAME, anthropic:NAME or recorded:FILE.",
)
@click.option("--cases", type=click.IntRange(min=1), default=6, show_default=True, help="How many complaints.")
@click.option("--notes", type=click.IntRange(min=0), default=16, show_default=True, help="Notes of other agents.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws cases and notes.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the shop.")
@click.option("--long", is_flag=True, help="Corrections, confusing notes, a full window.")
@click.option("--data", type=A_FILE, metavar="DIR", help="Folder with a retail set (db.json, tasks.json).")
@click.option(
    "--understand",
    type=click.Choice(["case", "model"]),
    default="case",
    show_default=True,
    help="Who understands the complaint: its own truth, or the model.",
)
@page
@of_a_model
@of_all
def demo(*, debug: bool, **chosen: Any) -> None:
    """Answer complaints under several ways of passing state, and show what was lost."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._demo import run_demo

        run_demo(**chosen)


@app.command()
@click.argument("workflow", metavar="MODULE:NAME")
@click.option("--input", "path", type=A_FILE, required=True, metavar="FILE", help="JSON Lines: one request a line.")
@click.option("--model", metavar="MODEL", help="The model that steps ask, as for demo.")
@of_a_store
@of_a_cache
@click.option("--jobs", type=click.IntRange(min=1), default=4, show_default=True, help="Requests at the same time.")
@of_a_report
@of_a_model
@of_all
def run(*, debug: bool, **chosen: Any) -> None:
    """Run a workflow on every line of a file.

    A line is a JSON string (the request), or an object with "request" and, if you like, "id" and
    "session". The same file again continues: what is committed is not done twice.
    """
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._run import run_file

        run_file(**chosen)


@app.command()
@click.argument("session")
@of_a_store
@of_a_cache
@of_keys
@click.option("--run", metavar="ID", help="Which run; by default the newest.")
@click.option("--at", type=click.IntRange(min=1), metavar="REVISION", help="As it stood then; by default as it is.")
@of_a_report
@page
@of_all
def show(*, debug: bool, **chosen: Any) -> None:
    """Show the fact ledger of a run: what was born, delivered, proven and lost, step by step."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._show import show_session

        show_session(**chosen)


@app.command()
@click.argument("session", required=False)
@of_a_store
@of_keys
@of_a_log_key
@click.option("--anchor", "--head", metavar="SIZE:HEX", help="A head that an earlier check has printed, or its file.")
@click.option("--proof", type=A_FILE, metavar="FILE", help="Check a proof for --head instead; needs no store.")
@click.option("--old", metavar="SIZE:HEX", help="The earlier head, if the proof is about two.")
@of_all
def verify(*, debug: bool, **chosen: Any) -> None:
    """Check that the log of a session is what was committed, byte for byte, or check a proof."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._verify import verify_session

        verify_session(**chosen)


@app.command()
@of_a_store
@click.option("--session", metavar="NAME", help="Only this session; by default all of the owner.")
@of_keys
@of_all
def rotate(*, debug: bool, **chosen: Any) -> None:
    """Seal sensitive values anew under the current key of the ring; no log changes."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._rotate import rotate_keys

        rotate_keys(**chosen)


@app.command()
@click.argument("session", required=False)
@of_a_store
@of_a_cache
@of_a_log_key
@click.option("--all-sessions", is_flag=True, help="Of all sessions of the owner.")
@click.option("--fact", metavar="CONTRACT[.FIELD][@REVISION]", help="Only this fact and what was made from it.")
@click.option("--by", required=True, metavar="NAME", help="Who erases. Committed to the log.")
@click.option("--reason", required=True, metavar="TEXT", help="Why, without any value. Committed to the log.")
@click.option("--forks", is_flag=True, help="In forks of the session too, and in what it was forked from.")
@click.option("--keep-derived", is_flag=True, help="Keep what was made from erased values; the log says so.")
@of_all
def erase(*, debug: bool, **chosen: Any) -> None:
    """Erase values for good; the log still verifies and says who, when and why."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._erase import erase_values

        erase_values(**chosen)


@app.command()
@click.argument("session", required=False)
@of_a_store
@of_a_cache
@of_a_log_key
@click.option("--all-sessions", is_flag=True, help="Of all sessions of the owner.")
@click.option("--starts-with", metavar="TEXT", help="Of all sessions whose names start so.")
@click.option("--keep-days", type=click.FloatRange(min=0), metavar="N", help="Keep runs of the last N days.")
@click.option("--keep-runs", type=click.IntRange(min=0), metavar="N", help="Keep the newest N runs of a session.")
@click.option(
    "--unfinished-days",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Give up runs that have not ended after N days without an entry; else they stay for good.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@of_all
def retain(*, debug: bool, **chosen: Any) -> None:
    """Remove the oldest runs of sessions; a run stays if --keep-days or --keep-runs keeps it.

    Shared values of a session stay, the log still verifies, and what has not ended is never removed.
    """
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._retain import retain_runs

        retain_runs(**chosen)


@app.command()
@click.argument("session")
@click.argument("new")
@of_a_store
@of_a_log_key
@click.option("--at", type=click.IntRange(min=1), metavar="REVISION", help="As it was then; by default as it is.")
@of_all
def fork(*, debug: bool, **chosen: Any) -> None:
    """Make a session NEW that begins as SESSION was, and goes its own way from there."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._fork import fork_session

        fork_session(**chosen)


@app.command()
@click.argument("session")
@click.argument("before", metavar="[R1]", type=click.IntRange(min=0), required=False)
@click.argument("after", metavar="[R2]", type=click.IntRange(min=0), required=False)
@of_a_store
@of_keys
@click.option("--runs", nargs=2, metavar="A B", help="Compare two runs, as they stood at R1.")
@click.option("--with", "other", metavar="SESSION", help="Compare with another session, such as a fork, at R2.")
@of_all
def diff(*, debug: bool, **chosen: Any) -> None:
    """Show what has changed in a session from revision R1 to R2, by default until now; 0 is before the first."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._diff import diff_session

        diff_session(**chosen)


@app.command()
@click.argument("session")
@click.argument("fact", metavar="[CONTRACT[.FIELD][@REVISION]]", required=False)
@of_a_store
@click.option("--head", metavar="SIZE:HEX", help="For this head, or one in a file; by default for the newest.")
@click.option("--from", "old", metavar="SIZE:HEX", help="Prove that the log of this older head has only grown.")
@click.option("--clear", is_flag=True, help="Also if that shows sensitive values that are stored in plain text.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def prove(*, debug: bool, **chosen: Any) -> None:
    """Print a proof, as JSON, that a fact stands in the log of a session, for whoever keeps a head of it."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._prove import print_proof

        print_proof(**chosen)


@app.command()
@click.argument("session")
@click.argument("path", metavar="FILE", type=A_FILE)
@of_a_store
@click.option("--at", type=click.IntRange(min=1), metavar="REVISION", help="As it was then; by default as it is.")
@click.option("--clear", is_flag=True, help="With sensitive values that are stored in plain text; else masked.")
@of_all
def export(*, debug: bool, **chosen: Any) -> None:
    """Write a session to one new FILE; encrypted values stay ciphertext."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._transfer import export_to

        export_to(**chosen)


@app.command("import")
@click.argument("path", metavar="FILE", type=A_FILE)
@of_a_store
@of_a_log_key
@click.option("--as", "name", metavar="NAME", help="Name of the session; by default its old one.")
@click.option("--head", metavar="SIZE:HEX", help="Only if the file holds the log under this head.")
@of_all
def import_(*, debug: bool, **chosen: Any) -> None:
    """Make a session from a FILE that was exported; it is verified before anything is written."""
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        from statepact.cli._transfer import import_from

        import_from(**chosen)
