"""The commands and their options. Their work is in one module each, imported when they run.

Exit codes: 0 all well; 1 checked, and not well (loss above `--max-loss`, a broken chain or contract,
an input that failed); 2 the command was used wrongly; 3 there was nothing to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="statepact",
    help="State governance for multi-agent Python: contracts, snapshots and a loss ledger.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

STORE = "sqlite:///statepact.db"

StoreOption = Annotated[str, typer.Option("--store", help="Where the state is kept.", metavar="URL")]
OwnerOption = Annotated[str, typer.Option("--owner", help="Whose state.", metavar="NAME")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, nothing else.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        help="local, scripted, openai:NAME, anthropic:NAME or recorded:FILE.",
        metavar="MODEL",
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="Server of an OpenAI-compatible or Anthropic model.", metavar="URL")
]


@app.command()
def demo(
    model: ModelOption = "scripted",
    cases: Annotated[int, typer.Option("--cases", min=1, help="How many complaints.")] = 6,
    notes: Annotated[int, typer.Option("--notes", min=0, help="Notes of other agents in between.")] = 16,
    seed: Annotated[int, typer.Option("--seed", help="Draws cases and notes.")] = 0,
    lang: Annotated[str, typer.Option("--lang", help="en or zh.")] = "en",
    long: Annotated[bool, typer.Option("--long", help="Corrections, confusing notes, a full window.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with a retail set (db.json, tasks.json).", metavar="DIR")
    ] = None,
    understand: Annotated[
        str, typer.Option("--understand", help="Who understands the complaint: case (its truth) or model.")
    ] = "case",
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page.", metavar="FILE")] = None,
    base_url: BaseUrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Answer complaints under several ways of passing state, and show what was lost."""
    from statepact.cli._demo import run_demo
    from statepact.cli._output import guarded

    with guarded(debug=debug):
        run_demo(
            model=model,
            cases=cases,
            notes=notes,
            seed=seed,
            lang=lang,
            long=long,
            data=data,
            understand=understand,
            html=html,
            base_url=base_url,
            as_json=as_json,
        )


@app.command()
def run(
    workflow: Annotated[str, typer.Argument(help="Where the workflow is: package.module:name.", metavar="MODULE:NAME")],
    input: Annotated[Path, typer.Option("--input", help="JSON Lines: one request a line.", metavar="FILE")],
    model: Annotated[
        str | None, typer.Option("--model", help=ModelOption.__metadata__[0].help, metavar="MODEL")
    ] = None,
    store: StoreOption = STORE,
    owner: OwnerOption = "local",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Requests at the same time.")] = 4,
    max_loss: Annotated[
        float | None,
        typer.Option("--max-loss", min=0, max=1, help="Exit 1 if a larger share of any question is lost."),
    ] = None,
    base_url: BaseUrlOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a workflow on every line of a file.

    A line is a JSON string (the request), or an object with "request" and, if you like, "id" and
    "session". The same file again continues: what is committed is not done twice.
    """
    from statepact.cli._output import guarded
    from statepact.cli._run import run_file

    with guarded(debug=debug):
        run_file(
            workflow,
            input,
            model=model,
            store=store,
            owner=owner,
            jobs=jobs,
            max_loss=max_loss,
            base_url=base_url,
            as_json=as_json,
        )


@app.command()
def show(
    session: Annotated[str, typer.Argument(help="Name of the session.")],
    store: StoreOption = STORE,
    owner: OwnerOption = "local",
    run: Annotated[str | None, typer.Option("--run", help="Which run; by default the newest.", metavar="ID")] = None,
    max_loss: Annotated[
        float | None,
        typer.Option("--max-loss", min=0, max=1, help="Exit 1 if a larger share of any question is lost."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one self-contained page.", metavar="FILE")] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the fact ledger of a run: what was born, delivered, proven and lost, step by step."""
    from statepact.cli._output import guarded
    from statepact.cli._show import show_session

    with guarded(debug=debug):
        show_session(session, store=store, owner=owner, run=run, max_loss=max_loss, html=html, as_json=as_json)


@app.command()
def verify(
    session: Annotated[str, typer.Argument(help="Name of the session.")],
    store: StoreOption = STORE,
    owner: OwnerOption = "local",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check that the log of a session is what was committed, byte for byte."""
    from statepact.cli._output import guarded
    from statepact.cli._verify import verify_session

    with guarded(debug=debug):
        verify_session(session, store=store, owner=owner, as_json=as_json)


@app.callback(invoke_without_command=True)
def version(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if show_version:
        from statepact.__about__ import __version__

        typer.echo(__version__)
        raise typer.Exit
