"""A model's answers in a file: asked once, replayed without the model from then on.

The file is JSON Lines, one line a call: the digest of the prompt and the reply. It holds what was
sent and what came back, so treat it like the data in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from statepact.errors import ModelError, SetupError

from ._base import Model, Prompt, Reply, StopReason, Usage
from ._calls import Turns, prompt_digest


class RecordedModel:
    """Replays the replies in a file; with a model, asks it the prompts that are new and adds them.

    A prompt is known if its messages, schema, token limit and temperature are the same as then.
    Identical prompts are asked once, also when they arrive together. Lines that cannot be read,
    such as one that a killed process left half written, are passed over and listed in `skipped`.

    Raises `SetupError` if there is no file and no model to make one, `ModelError` for a prompt
    that is neither recorded nor can be asked or kept.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model | None = None) -> None:
        self._path = Path(path)
        self._model = model
        self._turns = Turns()
        self._replies: dict[str, Reply] = {}
        self.skipped: tuple[int, ...] = ()
        """Numbers of the lines that could not be read, counted from 1."""
        self._load()

    @property
    def name(self) -> str:
        """The name of the model that is asked, or `recorded/` and the name of the file."""
        return self._model.name if self._model is not None else f"recorded/{self._path.name}"

    def __repr__(self) -> str:
        return f"RecordedModel({self._path.name!r}, model={self._model!r})"

    def __len__(self) -> int:
        return len(self._replies)

    async def reply(self, prompt: Prompt) -> Reply:
        """Answer one prompt from the file, or ask the model and add its reply to the file."""
        key = prompt_digest(prompt)
        async with self._turns.of(key):
            known = self._replies.get(key)
            if known is not None:
                return known
            if self._model is None:
                raise self._unknown(key)
            reply = await self._model.reply(prompt)
            self._append(key, reply)
            self._replies[key] = reply
            return reply

    def _unknown(self, key: str) -> ModelError:
        lines = f" (lines {', '.join(map(str, self.skipped))} cannot be read)" if self.skipped else ""
        return ModelError(
            f"{self._path.name} has no reply to this prompt, {key[:12]}{lines}",
            hint="the prompt has changed since the recording: record it again, "
            f"RecordedModel({self._path.name!r}, model=...), or undo the change",
        )

    def _load(self) -> None:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            if self._model is None:
                raise SetupError(
                    f"there is no recording {self._path.name}",
                    hint=f"check the path, or make one: RecordedModel({self._path.name!r}, model=...)",
                ) from None
            return
        except OSError as error:
            raise SetupError(
                f"the recording {self._path.name} cannot be read", hint="check that it is a file you may read"
            ) from error
        skipped = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                key, reply = _read(json.loads(line))
            except (ValueError, TypeError, KeyError, RecursionError):
                skipped.append(number)
            else:
                # The first reply counts: a later line of the same prompt is of a process that ran beside.
                self._replies.setdefault(key, reply)
        self.skipped = tuple(skipped)

    def _append(self, key: str, reply: Reply) -> None:
        line = json.dumps({"prompt": key, "reply": _write(reply)}, ensure_ascii=False) + "\n"
        try:
            with self._path.open("ab+", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    # Without a line break here, our line would become part of a torn one.
                    line = line if file.read(1) == b"\n" else "\n" + line
                # One write to a file opened for appending: lines of two processes do not mix.
                file.write(line.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise ModelError(
                f"the reply cannot be added to {self._path.name}",
                hint="check that the folder exists, may be written to and has room",
            ) from error


def _write(reply: Reply) -> dict[str, Any]:
    return {
        "text": reply.text,
        "sent": reply.sent,
        "stop_reason": reply.stop_reason,
        "parsed": None if reply.parsed is None else dict(reply.parsed),
        "usage": asdict(reply.usage),
        "model": reply.model,
    }


def _read(line: Any) -> tuple[str, Reply]:
    key, stored = line["prompt"], line["reply"]
    usage = stored["usage"]
    texts = (key, stored["text"], stored["sent"], stored["model"])
    if not all(isinstance(text, str) for text in texts) or stored["stop_reason"] not in get_args(StopReason):
        raise ValueError("not a recorded reply")
    if not isinstance(stored["parsed"], Mapping | None):
        raise ValueError("not a recorded reply")
    return key, Reply(
        text=stored["text"],
        sent=stored["sent"],
        stop_reason=stored["stop_reason"],
        parsed=stored["parsed"],
        usage=Usage(
            input_tokens=int(usage["input_tokens"]),
            output_tokens=int(usage["output_tokens"]),
            estimated=bool(usage["estimated"]),
        ),
        model=stored["model"],
    )
