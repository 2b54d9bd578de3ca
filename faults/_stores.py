"""The stores that campaigns run on, each in a mode, with what the mode promises."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from faults._place import Place


@dataclass(frozen=True)
class Target:
    """One store in one mode."""

    store: str
    """Name in the table."""
    mode: str
    kind: str
    """Which crash points and servers it has: `sqlite`, `postgres`, `redis`."""
    open: Callable[[Place], AbstractContextManager[str]]
    control: bool = False
    must_hold: bool = True

    @contextmanager
    def opened(self, place: Place) -> Iterator[str]:
        """Give the URL of an empty store, which is gone afterwards."""
        with self.open(place) as url:
            yield url


def sqlite(mode: str) -> Target:
    """Return SQLite in a folder of its own, on a real disk if its flushes count."""

    @contextmanager
    def opened(place: Place) -> Iterator[str]:
        with place.folder(on_disk=mode == "power") as folder:
            yield place.sqlite(folder, mode)

    return Target("sqlite", mode, "sqlite", opened)
