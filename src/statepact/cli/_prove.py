"""`statepact prove`, and `statepact verify --proof`: facts for people who do not have the store."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from statepact.cli._output import console, print_json
from statepact.cli._show import reading
from statepact.errors import SetupError
from statepact.ledger._shown import shown, visible
from statepact.stores import check_consistency, check_proof, open_store, prove, prove_consistency


def print_proof(
    *, session: str, fact: str | None, store: str, owner: str, head: str | None, old: str | None, clear: bool
) -> None:
    """Write a proof to standard output."""
    if (fact is None) is (old is None):
        raise SetupError("a proof is of one fact or of two heads", hint="name a FACT, or --from SIZE:HEX")
    later = head_of(head) if head is not None else None

    async def made() -> bytes:
        async with open_store(reading(store)) as opened:
            if fact is None:
                return await prove_consistency(opened, session, head_of(old or ""), owner=owner, head=later)
            return await prove(opened, session, fact, owner=owner, head=later, clear=clear)

    sys.stdout.buffer.write(asyncio.run(made()) + b"\n")
    sys.stdout.buffer.flush()


def verify_proof(proof: Path, *, head: str | None, old: str | None, as_json: bool) -> None:
    """Check a proof against a head that was kept, and say what it proves."""
    if head is None:
        raise SetupError("a proof is checked against a head", hint="--head SIZE:HEX, as you have kept it")
    try:
        data = proof.read_bytes()
    except OSError as error:
        raise SetupError(f"{proof} cannot be read: {error.strerror}", hint="name the file with the proof") from None
    out = console()
    if old is not None:
        check_consistency(data, old=head_of(old), head=head_of(head))
        if as_json:
            print_json({"ok": True, "old": head_of(old), "head": head_of(head)})
        else:
            out.print("proven: the log under the old head is the beginning of the one under the later head")
        return
    proven = check_proof(data, head=head_of(head))
    if as_json:
        print_json({"ok": True, **proven.as_dict()})
        return
    out.print(f"proven: revision {proven.revision} of a log of {proven.size} entries holds")
    for name, value in proven.values.items():
        out.print(Text(f"  {visible(name)}: {shown(value)}"))
    for name in proven.sealed:
        out.print(Text(f"  {visible(name)} is encrypted, so nothing is proven about it"))
    if proven.redacted:
        out.print("other fields of it have been erased since it was written, as the log says")


def head_of(text: str) -> str:
    """Return a head that is given as it is, or by the name of its file."""
    with suppress(OSError, ValueError):
        return Path(text).read_text(encoding="utf-8").strip()
    return text
