"""What errors of Redis, Valkey and their client mean to us. No text repeats a password or a value."""

from __future__ import annotations

from statepact.errors import StatepactError, StoreError, StoreFull, StoreReadOnly, StoreTimeout, StoreUnavailable

_REFUSALS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    (
        "OOM",
        StoreFull,
        "has no memory left (maxmemory); the commit was not kept",
        "give the server more memory, or erase what is not needed; see INFO memory",
    ),
    (
        "READONLY",
        StoreReadOnly,
        "is a replica and takes no commits",
        "name the primary server, or let Sentinel name it: redis+sentinel://",
    ),
    ("MASTERDOWN", StoreUnavailable, "is a replica without its primary", "wait for the failover, or name the primary"),
    ("CLUSTERDOWN", StoreUnavailable, "does not serve all slots of the cluster", "look at CLUSTER INFO"),
    ("NOAUTH", StoreUnavailable, "wants a password", "put user and password into the URL"),
    ("WRONGPASS", StoreUnavailable, "does not take this user and password", "check user and password of the URL"),
    (
        "NOPERM",
        StoreUnavailable,
        "does not give this user the right to do this",
        "grant the user the keys of our prefix, its channels and the commands evalsha, eval, hmget, sscan, zadd",
    ),
    ("LOADING", StoreUnavailable, "is loading its data", "try again in a moment"),
    ("BUSY", StoreUnavailable, "is busy with somebody's script", "wait, or end it with SCRIPT KILL"),
    ("MISCONF", StoreReadOnly, "takes no commits because it cannot write its own files", "free its disk"),
    (
        "NOREPLICAS",
        StoreReadOnly,
        "takes no commits because too few replicas are connected (min-replicas-to-write)",
        "bring the replicas back",
    ),
    ("TRYAGAIN", StoreUnavailable, "is moving these keys to another node", "try again in a moment"),
    ("CROSSSLOT", StoreUnavailable, "is a cluster", "use redis+cluster:// in the URL"),
    ("MOVED", StoreUnavailable, "is a node of a cluster", "use redis+cluster:// in the URL"),
    ("WRONGTYPE", StoreError, "has another program's data under our keys", "choose another prefix"),
)


def refused(error: Exception, where: str) -> StatepactError:
    """Return the error for something that the server has answered: it was not done."""
    # The client cuts the code off the text of some errors and makes a class of it.
    said = f"{type(error).__name__} {error}".upper()
    words = said.replace("ERROR", " ").replace("(", " ").split()
    for code, kind, message, hint in (*_REFUSALS, *_BY_CLASS):
        if code in words:
            return kind(f"{where} {message}", hint=hint)
    if "AUTHENTICATION" in said or "USERNAME-PASSWORD" in said:
        return StoreUnavailable(f"{where} does not take this user and password", hint="check those of the URL")
    if "DB INDEX" in said:
        return StoreUnavailable(f"{where} has no database of that number", hint="check the path of the URL")
    return StoreError(f"{where} refused an operation", hint="the cause has the server's words")


_BY_CLASS: tuple[tuple[str, type[StoreError], str, str], ...] = tuple(
    (name, *next(rest for code, *rest in _REFUSALS if code == same))  # type: ignore[misc]
    for name, same in (
        ("OUTOFMEMORY", "OOM"),
        ("MASTERDOWN", "MASTERDOWN"),
        ("CLUSTERDOWN", "CLUSTERDOWN"),
        ("BUSYLOADING", "LOADING"),
        ("NOPERMISSION", "NOPERM"),
        ("CLUSTERCROSSSLOT", "CROSSSLOT"),
    )
)


def unreachable(where: str) -> StoreUnavailable:
    """Return the error for a connection that could not be made."""
    return StoreUnavailable(
        f"{where} cannot be reached", hint="check that the server runs, and host and port of the URL"
    )


def lost(where: str, *, writing: bool) -> StatepactError:
    """Return the error for a connection that ended before the answer came."""
    if writing:
        return StoreTimeout(
            f"the connection to {where} ended before the answer came: whether the commit was kept is not known",
            hint="read the session again; running the same step again finds out and changes nothing twice",
        )
    return StoreUnavailable(f"the connection to {where} ended", hint="check that the server runs")


def late(where: str, seconds: float, *, writing: bool) -> StoreTimeout:
    """Return the error for an answer that did not come before the deadline."""
    return StoreTimeout(
        f"{where} did not answer within {seconds:g} s"
        + (": whether the commit was kept is not known" if writing else ""),
        hint="check the server and the network, or raise timeout",
    )
