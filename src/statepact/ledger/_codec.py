"""Contracts to canonical bytes and back, equal in value and type.

One value has one form: UTF-8 JSON with sorted keys, sets in the order of their bytes, fields by name.
A value that would come back different is refused when it is written, with its path. Types come
from the contract alone: nothing in stored data names a class, and data that looks as if it did comes
back as the dict it was.

Not part of the bytes: which fields were set explicitly (`_unset.py` keeps that), private attributes,
cached properties, the order of a dict, and which class holds a fixed offset (`timezone` comes back
for Pydantic's own).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import from_json

from statepact.contracts._check import violation
from statepact.contracts._clean import MAX_DEPTH, clean_value, dotted
from statepact.contracts._contract import Contract, label
from statepact.contracts._fields import open_path
from statepact.contracts._upgrade import path_of
from statepact.errors import CorruptState, NotExact, StatepactError, TooLarge
from statepact.ledger._blocks import DOCUMENT_LIMIT, joined
from statepact.ledger._containers import read_python
from statepact.ledger._nodes import Node, finished
from statepact.ledger._plan import OPTIONS, Plan, known_plan, plan_of
from statepact.ledger._rest import add_rest, unknown_fields
from statepact.ledger._tags import UnknownTag
from statepact.ledger._wire import Refused

C = TypeVar("C", bound=Contract)

MAX_BYTES = 64 * 1024 * 1024
"""Largest value that is written or read unless the caller says otherwise."""


class Encoded(NamedTuple):
    """Canonical bytes, and what had to be cleaned to write them."""

    data: bytes
    cleaned: tuple[str, ...] = ()
    """Dotted paths of texts whose lone surrogates or NUL became U+FFFD."""
    members: Mapping[str, bytes] | None = None
    """The fields that `data` is made of, in order, if they were written one by one; see `take_apart`."""


class Decoded(NamedTuple, Generic[C]):
    """A contract read from bytes, with everything that the value itself does not show."""

    value: C
    rest: dict[str, Any]
    """What a newer minor version wrote beyond the reader's fields; pass it to `encode(rest=)`."""

    cleaned: tuple[str, ...] = ()
    """Dotted paths that were cleaned because an old record held half a character."""

    left_behind: tuple[str, ...] = ()
    """Paths of undeclared fields inside items of lists and dicts, which `rest` cannot carry."""


def encode(value: Contract, *, rest: Mapping[str, Any] | None = None, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the canonical bytes of a validated contract instance.

    `rest` are fields of a newer minor version, as `decode_with_rest` returned them. Raises
    `NotExact` with the path of a value that would not come back equal, and `TooLarge`. Texts with
    lone surrogates or NUL are cleaned; `encode_clean` says where.
    """
    return _encode(value, rest, max_bytes).data


def encode_clean(value: Contract, *, rest: Mapping[str, Any] | None = None, max_bytes: int = MAX_BYTES) -> Encoded:
    """Encode, and report which texts had to be cleaned."""
    return _encode(value, rest, max_bytes)


def decode(contract: type[C], data: bytes, *, max_bytes: int = MAX_BYTES) -> C:
    """Return what `encode` wrote as an instance of `contract`.

    Fields that the contract does not have are left out, as an older reader needs it. Raises
    `ContractViolation` if the value does not fit the contract, `CorruptState` if the bytes are not
    what this codec writes, `TooLarge` before anything is parsed.
    """
    return _decode(contract, data, max_bytes)[0]


def upgraded(contract: type[Contract], data: bytes, *, written: str) -> bytes:
    """Return the bytes of a value as the upgrades of `contract` make it; what is stored is not touched."""
    steps = path_of(contract, written)
    if not steps:
        return data
    try:
        fields = from_json(data)
    except ValueError:
        raise _corrupt(contract, "it is not JSON as this library writes it") from None
    for upgrade in steps:
        fields = upgrade(fields)
    return orjson.dumps(finished(fields), option=orjson.OPT_SORT_KEYS)


def decode_with_rest(contract: type[C], data: bytes, *, max_bytes: int = MAX_BYTES) -> Decoded[C]:
    """Decode, and return the fields left out, so that a write-back can carry them along."""
    value, good, cleaned = _decode(contract, data, max_bytes)
    stuck: list[str] = []
    rest = unknown_fields(plan_of(contract).root, from_json(good), (), stuck)
    return Decoded(value, rest, cleaned, tuple(stuck))


# -- writing -------------------------------------------------------------------------------------


def _encode(value: Contract, rest: Mapping[str, Any] | None, max_bytes: int) -> Encoded:
    plan = known_plan(type(value)) or plan_of(type(value))
    encoded = None if rest else _encode_directly(plan, value.__dict__)
    if encoded is None:
        encoded = _encode_walked(plan, value, rest)
    data, cleaned, _ = encoded
    refuse_too_large(type(value), data, max_bytes)
    if plan.checked or cleaned:
        _try_round_trip(plan, value, data, rest, changed=bool(cleaned))
    if cleaned:
        paths = dict.fromkeys(open_path(type(value), path) for path in cleaned)
        return Encoded(data, tuple(paths))
    return encoded


def refuse_too_large(contract: type[Contract], data: bytes, max_bytes: int) -> None:
    """Raise `TooLarge` for bytes that would not be read again."""
    if len(data) > max_bytes:
        raise TooLarge(f"{label(contract)} has {len(data):,} bytes, more than the limit of {max_bytes:,}")
    if not plan_of(contract).bounded and _is_deeper(data, MAX_DEPTH):
        raise TooLarge(f"{label(contract)} is nested deeper than {MAX_DEPTH} levels")


def _encode_directly(plan: Plan, fields: dict[str, Any]) -> Encoded | None:
    """Return the bytes, or `None` where only the walk can tell what is there."""
    if len(fields) != plan.size:
        return None
    members: dict[str, bytes] | None = None
    try:
        if plan.walked:
            fields = fields.copy()
            for name, node in plan.walked:
                fields[name] = node.encode(fields[name])
        if plan.large:
            members = {name: orjson.dumps(fields[name], plan.hook, OPTIONS) for name in plan.names}
            data = joined(members)
        else:
            data = orjson.dumps(fields, plan.hook, OPTIONS)
    except (TypeError, ValueError, KeyError, Refused):
        return None  # half a character, a long integer, or a value of another type
    plan.large = len(data) > DOCUMENT_LIMIT
    # The single byte first: looking for it costs a twentieth of looking for six.
    return None if _BACKSLASH in data and b"\\u0000" in data else Encoded(data, (), members)


def _encode_walked(plan: Plan, value: Contract, rest: Mapping[str, Any] | None) -> Encoded:
    try:
        wire = plan.root.encode(value)
    except Refused as refused:
        _raise_not_exact(type(value), refused)
    except RecursionError:
        raise TooLarge(f"{label(type(value))} is nested deeper than {MAX_DEPTH} levels") from None
    if rest:
        add_rest(plan.root, wire, dict(rest))
    wire, cleaned = clean_value(wire)
    return Encoded(orjson.dumps(finished(wire), option=orjson.OPT_SORT_KEYS), tuple(cleaned))


def _raise_not_exact(contract: type[Contract], refused: Refused) -> NoReturn:
    path = open_path(contract, dotted(tuple(reversed(refused.path))))
    raise NotExact(path, found=refused.found, reason=refused.reason, hint=refused.hint) from None


def _try_round_trip(plan: Plan, value: Contract, data: bytes, rest: Mapping[str, Any] | None, *, changed: bool) -> None:
    """Refuse a value that its own contract would change or refuse when it is read again.

    Needed where validators of the user run on reading, and where cleaning has `changed` a text.
    """
    reason = "does not come back equal through the validators of its contract"
    hint = "a validator must accept and return unchanged what it returned before"
    again: Contract | None = None
    path = ""
    try:
        again = _read(plan, type(value), data)
    except ValidationError as error:
        path = dotted(error.errors(include_input=False, include_context=False, include_url=False)[0]["loc"])
    if again is None:  # out here: Pydantic's error holds values
        raise NotExact(open_path(type(value), path), found="the value", reason=reason, hint=hint)
    same = (None if rest else _encode_directly(plan, again.__dict__)) or _encode_walked(plan, again, rest)
    if same.data != data:
        path = next((n for n, node in plan.root.fields.items() if _differs(node, n, again, value)), "")
        raise NotExact(path, found=type(getattr(value, path, value)).__name__, reason=reason, hint=hint)
    if not changed and again != value:
        # Equal bytes but not equal: another type, which the walk finds, or NaN, which it lets pass.
        _encode_walked(plan, value, rest)


def _differs(node: Node, name: str, one: Contract, other: Contract) -> bool:
    return bool(node.encode(one.__dict__[name]) != node.encode(other.__dict__[name]))


# -- reading -------------------------------------------------------------------------------------


def _decode(contract: type[C], data: bytes, max_bytes: int) -> tuple[C, bytes, tuple[str, ...]]:
    if len(data) > max_bytes:
        raise TooLarge(f"{label(contract)} has {len(data):,} bytes, more than the limit of {max_bytes:,}")
    plan = known_plan(contract) or plan_of(contract)
    if not plan.bounded and _is_deeper(data, MAX_DEPTH):
        raise TooLarge(f"{label(contract)} is nested deeper than {MAX_DEPTH} levels")
    cleaned: tuple[str, ...] = ()
    problem: StatepactError | None = None
    try:
        if _BACKSLASH in data and _SUSPICIOUS.search(data):
            data, cleaned = _repaired(data)
        return _read(plan, contract, data), data, cleaned
    except ValidationError as error:
        if error.errors(include_input=False, include_context=False, include_url=False)[0]["type"] != "json_invalid":
            problem = violation(contract, error, side="a stored value")
    except (ValueError, RecursionError):
        pass
    if problem is not None:
        raise problem
    try:
        # Half a character may also stand there as bytes, written by something that did not look.
        data, cleaned = _repaired(data)
        return _read(plan, contract, data), data, cleaned
    except ValidationError as error:
        problem = violation(contract, error, side="a stored value")
    except UnknownTag as error:
        problem = _corrupt(contract, str(error))
    except (ValueError, RecursionError):
        problem = _corrupt(contract, "it is not JSON as this library writes it")
    raise problem  # out here: the errors above hold the text, as value or as the document that was read


def _corrupt(contract: type[Contract], why: str) -> StatepactError:
    return CorruptState(f"a stored value of {label(contract)} cannot be read: {why}")


def _read(plan: Plan, contract: type[C], data: bytes) -> C:
    if plan.by_pydantic:
        return contract.__pydantic_validator__.validate_json(  # type: ignore[no-any-return]
            data, strict=True, extra="ignore", by_alias=False, by_name=True
        )
    raw = from_json(data, allow_inf_nan=False)
    return read_python(contract, plan.root.decode(raw))  # type: ignore[no-any-return]


_BACKSLASH = ord("\\")
_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_ROUND = bytes.maketrans(b"[]{}", b"()()")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def _repaired(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return stored JSON with half characters cleaned, and their paths; pairs are whole characters."""
    tree = json.loads(data.decode("utf-8", "surrogatepass"), parse_constant=_no_constant)
    tree, cleaned = clean_value(tree)
    return orjson.dumps(finished(tree), option=orjson.OPT_SORT_KEYS), tuple(cleaned)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_deeper(data: bytes, limit: int) -> bool:
    """Whether JSON is nested deeper than `limit`, in time linear in its size."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    # What is left between quotes after taking out the escaped ones is outside of strings.
    outside = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(outside).translate(_ROUND, _NO_BRACKET)
    for _ in range(limit):
        # Each round takes off the innermost level everywhere.
        shorter = brackets.replace(b"()", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return bool(brackets)
