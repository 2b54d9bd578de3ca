"""LangGraph with its SQLite saver, each step's output in a channel of its own, written before the next step starts."""

import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from bench._timing import Laps

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True


class LangGraph:
    def __init__(self, path: Path, *, full: bool = True) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._saver = SqliteSaver(self._db)
        self._saver.setup()  # WAL; SQLite's default for `synchronous` is FULL
        if not full:
            self._db.execute("pragma synchronous=normal")
        self._thread = itertools.count()
        self._steps: Sequence[dict[str, Any]] = ()

    def chain(self, chains: Sequence[Sequence[dict[str, Any]]]) -> float:
        """Return the seconds of one chain; the graph is compiled once, as a user does."""
        graph, names = self._graph(len(chains[0]))
        for before, after in itertools.pairwise([START, *names, END]):
            graph.add_edge(before, after)
        return self._run(graph, chains)

    def fan_out(self, chains: Sequence[Sequence[dict[str, Any]]]) -> float:
        """Return the seconds of one fan-out into all but the first and the last step."""
        graph, (first, *between, last) = self._graph(len(chains[0]))
        graph.add_edge(START, first)
        for name in between:
            graph.add_edge(first, name)
        graph.add_edge(between, last)
        graph.add_edge(last, END)
        return self._run(graph, chains)

    def _graph(self, length: int) -> tuple[Any, list[str]]:
        graph = StateGraph(TypedDict("State", {f"out{n}": dict for n in range(length)}))  # type: ignore[operator]
        names = [f"step{n}" for n in range(length)]
        for number, name in enumerate(names):
            graph.add_node(name, self._node(number))
        return graph, names

    def _node(self, number: int) -> Any:
        def node(state: dict[str, Any]) -> dict[str, Any]:
            return {f"out{number}": self._steps[number]}

        return node

    def _run(self, graph: Any, chains: Sequence[Sequence[dict[str, Any]]]) -> float:
        app, laps = graph.compile(checkpointer=self._saver), Laps()
        for steps in chains:
            self._steps = steps
            config = {"configurable": {"thread_id": f"t{next(self._thread)}"}, "recursion_limit": len(steps) + 10}
            with laps:
                app.invoke({"out0": {}}, config, durability="sync")
        return laps.typical

    def close(self) -> None:
        self._db.close()
