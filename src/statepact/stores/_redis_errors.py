"""What the errors of Redis and Valkey mean to us. No error repeats a URL or a password."""

from __future__ import annotations

from statepact.errors import StatepactError, StoreError, StoreFull, StoreReadOnly, StoreTimeout, StoreUnavailable

_UNKNOWN = "whether the commit was kept is not known; the library looks before it tries again"


def explain(error: Exception, place: str, *, writing: bool) -> StatepactError:
    """Return the error a user sees for an error of the driver. `place` names the server without secrets."""
    from redis import exceptions as driver

    text = str(error)
    if isinstance(error, (driver.AuthenticationError, driver.AuthorizationError)) or _begins(
        text, "NOAUTH", "WRONGPASS"
    ):
        return StoreUnavailable(f"{place} refuses the user or the password", hint="check them in the store URL")
    if _begins(text, "NOPERM") or isinstance(error, driver.NoPermissionError):
        return StoreUnavailable(
            f"the user at {place} lacks a right that the store needs",
            hint="allow EVALSHA, EVAL, SCRIPT, PUBLISH, SUBSCRIBE and the commands on hashes, lists and sets",
        )
    if isinstance(error, driver.OutOfMemoryError) or _begins(text, "OOM"):
        return StoreFull(f"{place} has no memory left; the commit was not kept", hint="raise maxmemory, or keep less")
    if isinstance(error, driver.ReadOnlyError) or _begins(text, "READONLY"):
        return StoreReadOnly(f"{place} is a replica and takes no writes", hint="name the primary, or use Sentinel")
    if _begins(text, "NOREPLICAS"):
        return StoreUnavailable(
            f"{place} has too few replicas to take writes (min-replicas-to-write); the commit was not kept",
            hint="bring the replicas back",
        )
    if _begins(text, "MISCONF"):
        return StoreFull(f"{place} cannot write its snapshot and takes no writes", hint="free its disk, see its log")
    if isinstance(error, driver.BusyLoadingError) or _begins(text, "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"):
        return StoreUnavailable(f"{place} is not ready ({text.split(' ')[0]})", hint="try again in a moment")
    if isinstance(error, driver.MaxConnectionsError) or "max number of clients" in text:
        return StoreUnavailable(f"{place} takes no more connections", hint="raise maxclients, or use fewer")
    if isinstance(error, driver.TimeoutError):
        return StoreTimeout(f"{place} did not answer in time" + (f"; {_UNKNOWN}" if writing else ""))
    if isinstance(error, (driver.ConnectionError, driver.RedisClusterException, OSError)):
        if writing and not _never_sent(error):
            return StoreTimeout(f"the connection to {place} broke while it wrote; {_UNKNOWN}")
        return StoreUnavailable(f"{place} cannot be reached", hint="check that it runs, host, port and network")
    return StoreError(f"{place} refused an operation ({type(error).__name__} {text.split(' ')[0][:40]})")


def _begins(text: str, *codes: str) -> bool:
    return text.split(" ")[0] in codes


def _never_sent(error: Exception) -> bool:
    """Whether the connection could not even be made, so that nothing was sent."""
    text = str(error)
    return text.startswith(("Error ", "Error while connecting", "No master found", "Redis Cluster cannot be connected"))
