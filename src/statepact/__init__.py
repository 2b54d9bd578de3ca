"""State governance for multi-agent Python: contracts, snapshots and a loss ledger.

Everything public is listed here and loaded on first use, so that importing the package, or only its
contracts, stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statepact.__about__ import __version__

if TYPE_CHECKING:
    from statepact.contracts import Answers, Contract, Id, IdOf, Limit, Merge, Pinned, Sensitive, Upgrade
    from statepact.errors import StatepactError
    from statepact.ledger import KeyRing
    from statepact.loss import LossReport
    from statepact.stores import (
        Keep,
        MemoryStore,
        SqliteStore,
        Store,
        check_proof,
        diff,
        erase,
        export_session,
        fork,
        import_session,
        open_store,
        prove,
        retain,
        rotate,
        verify,
    )
    from statepact.workflow import (
        Context,
        Each,
        Gathered,
        Recalled,
        Request,
        Run,
        Session,
        Shared,
        UnclaimedFacts,
        Workflow,
        open_session,
        watch,
    )

_HOMES = {
    "Answers": "contracts",
    "Context": "workflow",
    "Contract": "contracts",
    "Each": "workflow",
    "Gathered": "workflow",
    "Id": "contracts",
    "IdOf": "contracts",
    "Keep": "stores",
    "KeyRing": "ledger",
    "Limit": "contracts",
    "LossReport": "loss",
    "MemoryStore": "stores",
    "Merge": "contracts",
    "Pinned": "contracts",
    "Recalled": "workflow",
    "Request": "workflow",
    "Run": "workflow",
    "Sensitive": "contracts",
    "Session": "workflow",
    "Shared": "workflow",
    "SqliteStore": "stores",
    "StatepactError": "errors",
    "Store": "stores",
    "UnclaimedFacts": "workflow",
    "Upgrade": "contracts",
    "Workflow": "workflow",
    "check_proof": "stores",
    "diff": "stores",
    "erase": "stores",
    "export_session": "stores",
    "fork": "stores",
    "import_session": "stores",
    "open_session": "workflow",
    "open_store": "stores",
    "prove": "stores",
    "retain": "stores",
    "rotate": "stores",
    "verify": "stores",
    "watch": "workflow",
}

__all__ = [
    "Answers",
    "Context",
    "Contract",
    "Each",
    "Gathered",
    "Id",
    "IdOf",
    "Keep",
    "KeyRing",
    "Limit",
    "LossReport",
    "MemoryStore",
    "Merge",
    "Pinned",
    "Recalled",
    "Request",
    "Run",
    "Sensitive",
    "Session",
    "Shared",
    "SqliteStore",
    "StatepactError",
    "Store",
    "UnclaimedFacts",
    "Upgrade",
    "Workflow",
    "__version__",
    "check_proof",
    "diff",
    "erase",
    "export_session",
    "fork",
    "import_session",
    "open_session",
    "open_store",
    "prove",
    "retain",
    "rotate",
    "verify",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
