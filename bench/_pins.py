"""What pinned facts cost a step that was not told to read them."""

import statistics
from time import perf_counter

from bench._ours import Ours, step
from bench._payload import SMALL, Brief, Record, values
from bench._report import Report
from bench._scenarios import Plan, folder
from statepact import open_session
from statepact.ledger import DEFAULT_OWNER, session_key

PINS = (0, 10, 100, 1_000)


def pins(report: Report, plan: Plan) -> None:
    """Measure steps of runs that hold so many pinned facts, and what their headers take."""
    steps = max(plan.steps // 10, 20)
    report.title(f"{steps} steps of 1 KB in one run that holds pinned facts, median")
    times: dict[int, float] = {}
    headers: dict[int, float] = {}
    for _ in range(max(1, plan.rounds // 2)):
        for count in PINS:
            with folder(plan.memory) as here:
                ours = Ours(here / "ours.db")
                taken: list[float] = []
                headers[count] = ours.run(_steps(ours, count, steps, taken))
                ours.close()
            times[count] = min(times.get(count, 1e9), statistics.median(taken) * 1e6)
    for count in PINS:
        aim = "<= 1.5" if count else ""
        report.add(f"a step, {count:,} pinned facts", times[count], "us", against="none", base=times[0], aim=aim)
    for count in PINS:
        aim = "<= 1.1" if count else ""
        report.add(
            f"its header, {count:,} pinned facts", headers[count], "bytes", against="none", base=headers[0], aim=aim
        )


async def _steps(ours: Ours, pins: int, steps: int, times: list[float]) -> float:
    """Do the steps, keep the time of each, and return the bytes of a header."""
    outputs = [Record(**values(number, SMALL)) for number in range(steps)]
    async with open_session("pins", store=ours.store) as session:
        for number in range(pins):
            async with session.step("pin", branch=str(number)) as opened:
                await opened.commit(Brief(problem=f"fact {number}: the lid leaks"))
        await step(session, "warm-up", [], Record(**values(steps, SMALL)))
        for number, output in enumerate(outputs):
            start = perf_counter()
            await step(session, "work", [], output, branch=str(number))
            times.append(perf_counter() - start)
    stored = await ours.store.headers(session_key(DEFAULT_OWNER, "pins"))
    return statistics.mean(len(header.header) for header in stored[-steps - 1 : -1])
