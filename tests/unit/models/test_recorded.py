"""Recording and replaying a model, and asking identical prompts once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from statepact.errors import ModelError, SetupError
from statepact.models import AnswersModel, Message, OnceModel, Prompt, RecordedModel, Reply, ScriptedModel, Usage


def ask(text: str, *, temperature: float | None = None, **schema: object) -> Prompt:
    return Prompt(messages=(Message(role="user", content=text),), temperature=temperature, schema=schema or None)


class Gate:
    """A model that answers when it is told to."""

    name = "gate"

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked = asyncio.Event()
        self.calls = 0

    async def reply(self, prompt: Prompt) -> Reply:
        self.calls += 1
        self.asked.set()
        await self.open.wait()
        return Reply(text=prompt.text, sent=prompt.text)


async def test_a_recording_replays_without_the_model(tmp_path: Path) -> None:
    """Everything of the reply comes back, in both languages, with the cost it had."""
    file = tmp_path / "calls.jsonl"
    original = Reply(
        text="好 \ud83d",
        sent="问",
        stop_reason="length",
        parsed={"a": 1},
        usage=Usage(input_tokens=3, output_tokens=2, estimated=False),
        model="tiny-1",
    )

    class Tiny:
        name = "tiny"

        async def reply(self, prompt: Prompt) -> Reply:
            return original

    recorder = RecordedModel(file, Tiny())
    assert await recorder.reply(ask("问")) == original
    assert recorder.name == "tiny"

    player = RecordedModel(file)
    assert await player.reply(ask("问")) == original
    assert (player.name, len(player), player.skipped) == ("recorded/calls.jsonl", 1, ())


async def test_identical_prompts_are_recorded_once(tmp_path: Path) -> None:
    """Whatever the order of the schema's keys; another temperature or schema is another prompt."""
    file = tmp_path / "calls.jsonl"
    model = AnswersModel(["1", "2", "3"])
    recorder = RecordedModel(file, model)

    assert (await recorder.reply(ask("x", a=1, b=2))).text == (await recorder.reply(ask("x", b=2, a=1))).text == "1"
    assert (await recorder.reply(ask("x"))).text == "2"
    assert (await recorder.reply(ask("x", temperature=0))).text == "3"
    assert len(model.prompts) == len(file.read_text().splitlines()) == 3


async def test_an_unknown_prompt_says_what_to_do(tmp_path: Path) -> None:
    """Without a model a changed prompt cannot be answered."""
    file = tmp_path / "calls.jsonl"
    await RecordedModel(file, ScriptedModel()).reply(ask("x"))
    with pytest.raises(ModelError, match="has no reply to this prompt") as caught:
        await RecordedModel(file).reply(ask("y"))
    assert "record it again" in caught.value.hint


async def test_a_torn_line_is_passed_over_and_recorded_anew(tmp_path: Path) -> None:
    """What a killed process left half written costs one call, and the next line stands alone."""
    file = tmp_path / "calls.jsonl"
    for text in ("a", "b"):
        await RecordedModel(file, ScriptedModel()).reply(ask(text))
    file.write_bytes(file.read_bytes()[:-9])

    again = RecordedModel(file, ScriptedModel())
    assert (len(again), again.skipped) == (1, (2,))
    assert (await again.reply(ask("b"))).text == "b"
    healed = RecordedModel(file)
    assert (len(healed), healed.skipped) == (2, (2,))
    with pytest.raises(ModelError, match="lines 2 cannot be read"):
        await healed.reply(ask("c"))


@pytest.mark.parametrize("line", ["[]", "{}", '"x"', '{"prompt": 1, "reply": {}}', "\x00"])
def test_lines_of_another_kind_are_passed_over(tmp_path: Path, line: str) -> None:
    """They are listed, not guessed at."""
    file = tmp_path / "calls.jsonl"
    file.write_text(f"{line}\n\n")
    assert RecordedModel(file).skipped == (1,)


async def test_two_recorders_add_to_one_file(tmp_path: Path) -> None:
    """Each line is written whole; for the same prompt the first one counts."""
    file = tmp_path / "calls.jsonl"
    first, second = RecordedModel(file, AnswersModel(["1", "2"])), RecordedModel(file, AnswersModel(["3", "4"]))
    await asyncio.gather(first.reply(ask("x")), second.reply(ask("x")))
    await asyncio.gather(first.reply(ask("y")), second.reply(ask("z")))
    assert len(file.read_text().splitlines()) == 4
    assert (await RecordedModel(file).reply(ask("x"))).text == json.loads(file.read_text().splitlines()[0])["reply"][
        "text"
    ]


async def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    """Without file and model, with a folder, and where nothing can be written."""
    with pytest.raises(SetupError, match=r"there is no recording none\.jsonl"):
        RecordedModel(tmp_path / "none.jsonl")
    with pytest.raises(SetupError, match="cannot be read"):
        RecordedModel(tmp_path, ScriptedModel())
    with pytest.raises(ModelError, match="cannot be added"):
        await RecordedModel(tmp_path / "no" / "folder.jsonl", ScriptedModel()).reply(ask("x"))


async def test_once_asks_identical_prompts_once(tmp_path: Path) -> None:
    """Also when they arrive together; what was spent is counted once."""
    gate = Gate()
    once = OnceModel(gate)
    together = asyncio.gather(*(once.reply(ask("x")) for _ in range(3)))
    gate.open.set()

    assert len({reply.text for reply in await together}) == 1
    await once.reply(ask("y"))
    assert (gate.calls, once.calls, once.reused, once.name) == (2, 2, 2, "gate")


async def test_once_asks_again_after_an_error_and_a_cancelled_call() -> None:
    """Only replies are kept, and a caller that gives up does not take the others with it."""
    once = OnceModel(AnswersModel([ModelError("down"), "up"]))
    with pytest.raises(ModelError, match="down"):
        await once.reply(ask("x"))
    assert (await once.reply(ask("x"))).text == "up"

    gate = Gate()
    waiting = OnceModel(gate)
    first, second = (asyncio.create_task(waiting.reply(ask("x"))) for _ in range(2))
    await gate.asked.wait()
    first.cancel()
    gate.open.set()
    assert (await second).text == "x"
    assert first.cancelled()
    assert (gate.calls, waiting.calls) == (2, 1)


async def test_once_does_not_keep_what_was_asked_by_chance() -> None:
    """A temperature above 0 asks for different answers."""
    once = OnceModel(AnswersModel(["1", "2"]))
    assert [(await once.reply(ask("x", temperature=0.8))).text for _ in range(2)] == ["1", "2"]
    assert (once.calls, once.reused) == (2, 0)
    assert once.usage.output_tokens == 2
