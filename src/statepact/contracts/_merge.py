"""What becomes of a field that several writers have set: the merge rule of the field.

```python
class Plan(Contract):
    notes: Annotated[list[str], Merge.append]
    budget_left: Annotated[int, Merge.minimum]
    score: Annotated[float, Merge(lambda earlier, later: (earlier + later) / 2)]
```

A type checker sees the plain type. A rule takes two values, the earlier and the later one in the order
of the log, so the result is the same for every reader.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Merge:
    """A rule that makes one value of two, as a mark: `Annotated[list[str], Merge.union]`.

    `Merge(function)` is a rule of your own: it gets the earlier and the later value and returns what
    both make. It must be associative, because several changes of one step are merged first. In the
    rules below `None` counts as nothing, except that `last` takes it.
    """

    rule: Callable[[Any, Any], Any]
    name: str = "custom"
    """The word shown in reports."""

    append: ClassVar[Merge]
    """Lists, tuples, deques or texts one behind the other."""
    union: ClassVar[Merge]
    """Items of lists, each once, where it stood first; members of sets; keys of dicts, if they agree."""
    maximum: ClassVar[Merge]
    """The greatest."""
    minimum: ClassVar[Merge]
    """The least."""
    last: ClassVar[Merge]
    """The one that was committed last."""
    add: ClassVar[Merge]
    """The sum: numbers and durations."""

    def both(self, earlier: Any, later: Any) -> Any:
        """Return what two values make. Raises what the rule raises, and `Differing`."""
        if self.name == "custom":
            # A function that changes its argument would change what others read.
            return self.rule(copy.deepcopy(earlier), copy.deepcopy(later))
        if self is not Merge.last and (earlier is None or later is None):
            return later if earlier is None else earlier
        return self.rule(earlier, later)


class Differing(Exception):
    """Two dicts hold different values under the same keys."""

    def __init__(self, keys: Iterable[str]) -> None:
        super().__init__("different values under the same keys")
        self.keys = tuple(keys)


def _append(earlier: Any, later: Any) -> Any:
    if type(earlier) is not type(later) or not isinstance(earlier, (list, tuple, str, deque)):
        raise TypeError(f"append takes two lists, tuples, deques or texts, not {_kinds(earlier, later)}")
    return earlier + later


def _union(earlier: Any, later: Any) -> Any:
    if isinstance(earlier, dict) and isinstance(later, dict):
        return _union_of_dicts(earlier, later)
    if isinstance(earlier, (set, frozenset)) and isinstance(later, (set, frozenset)):
        return earlier | later
    if type(earlier) is type(later) and isinstance(earlier, (list, tuple)):
        return type(earlier)(_each_once((*earlier, *later)))
    raise TypeError(f"union takes two lists, tuples, sets or dicts, not {_kinds(earlier, later)}")


def _union_of_dicts(earlier: dict[Any, Any], later: dict[Any, Any]) -> dict[Any, Any]:
    if differing := [key for key, value in later.items() if key in earlier and not same(earlier[key], value)]:
        raise Differing(map(str, differing))
    return {**earlier, **later}


def _each_once(items: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    seen: set[Any] = set()
    unhashable: list[Any] = []
    for item in items:
        try:
            # 1, 1.0 and True are three items, as they are three values.
            key = (type(item), item)
            known = key in seen
            seen.add(key)
        except TypeError:
            known = any(same(item, other) for other in unhashable)
            unhashable.append(item)
        if not known:
            found.append(item)
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in value and type, down to their items."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other))


def _kinds(earlier: Any, later: Any) -> str:
    return f"{type(earlier).__name__} and {type(later).__name__}"


def _later(earlier: Any, later: Any) -> Any:
    return later


def _sum(earlier: Any, later: Any) -> Any:
    return earlier + later


Merge.append = Merge(_append, "append")
Merge.union = Merge(_union, "union")
Merge.maximum = Merge(max, "maximum")
Merge.minimum = Merge(min, "minimum")
Merge.last = Merge(_later, "last")
Merge.add = Merge(_sum, "add")
