"""What the measurements say of the goals, and the sentence on when to choose which way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.pipeline.cases import FOUR, WAYS

BASE, PIPELINE, ONE_BIT, HYBRID = "graph parallel", "pipeline", "one-bit pipeline", "hybrid"
WANTED = 2.45
"""Times as fast as graph parallelism, in the best case: the paper's best."""
FEWER = {"coauthor-physics": 7.0, "ogbn-arxiv": 4.0}
"""About how many times fewer bytes the float32 pipeline sends than graph parallelism."""
ABOUT = 0.8
"""Of that is near enough."""
MORE = "cnr-2000"
"""Where it sends more: a tiny cut."""
ONE_BIT_FEWER = 22.0
"""Times fewer bytes with one-bit stage links."""

Case = Mapping[str, Any]


def rows_bytes(case: Case, way: str) -> float | None:
    """Halo and stage bytes of an epoch, as counted, or by the formula where the time was computed only."""
    if way in case["runs"]:
        return float(case["runs"][way]["halo_bytes"] + case["runs"][way]["stage_bytes"])
    return float(sum(case["computed"][way]["formula"].values())) if way in case["computed"] else None


def seconds(case: Case, way: str) -> float | None:
    """Seconds of an epoch; at least so many where they were computed."""
    found = case["runs"].get(way) or case["computed"].get(way)
    return None if found is None else float(found["seconds"])


def fewer(case: Case, than: str, way: str) -> float | None:
    """How many times fewer bytes ``way`` sends."""
    first, second = rows_bytes(case, than), rows_bytes(case, way)
    return first / second if first and second else None


def goals(result: Mapping[str, Any]) -> list[str]:
    """A line for every goal that something was measured for."""
    cases: dict[str, Case] = result["cases"]
    return [*_times(cases), *_fewer_bytes(cases), *_one_bit(cases)]


def _times(cases: Mapping[str, Case]) -> Iterator[str]:
    """Against graph parallelism of two workers; the hybrid also against that of its own four."""
    for way, base in [*((way, BASE) for way in list(WAYS)[1:]), (HYBRID, FOUR)]:
        ratios = {
            name: case["runs"][base]["seconds"] / case["runs"][way]["seconds"]
            for name, case in cases.items()
            if {base, way} <= case["runs"].keys()
        }
        if ratios:
            best, worst = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
            goal = f"; {WANTED} in the best case: {_met(ratios[best] >= WANTED)}" if way == PIPELINE else ""
            words = f"{way} against {base}" if base == FOUR else way
            yield f"- {words}: {ratios[best]:.2f} times as fast on {best}, {ratios[worst]:.2f} times on {worst}{goal}"


def _fewer_bytes(cases: Mapping[str, Case]) -> Iterator[str]:
    """float32; GCNII, whose initial rows travel too, has twice the bytes in the pipeline and is left out."""
    for graph in (*FEWER, MORE):
        found = {name: fewer(case, BASE, PIPELINE) for name, case in cases.items() if _plain_on(case, graph)}
        ratios = {name: ratio for name, ratio in found.items() if ratio is not None}
        if not ratios:
            continue
        worst = min(ratios.values()) if graph in FEWER else max(ratios.values())
        if graph in FEWER:
            words, good = f"about {FEWER[graph]:g} times fewer bytes", worst >= ABOUT * FEWER[graph]
        else:
            words, good = "more bytes than graph parallelism", worst < 1
        yield f"- {graph}, float32 pipeline without initial rows: {words} wanted, {times_fewer(worst)}: {_met(good)}"


def _one_bit(cases: Mapping[str, Case]) -> Iterator[str]:
    for than, words in ((PIPELINE, "float32 stage links"), (BASE, "float32 graph parallelism")):
        found = {name: fewer(case, than, ONE_BIT) for name, case in cases.items()}
        ratios = {name: ratio for name, ratio in found.items() if ratio is not None}
        if ratios:
            short = [f"{name} ({times_fewer(ratio)})" for name, ratio in ratios.items() if ratio < ONE_BIT_FEWER]
            good = f"{_met(not short)}, {min(ratios.values()):.1f} at least"
            where = "" if not short else f"; less on {', '.join(short)}"
            yield f"- one-bit stage links, {ONE_BIT_FEWER:g} times fewer bytes than {words} everywhere: {good}{where}"


def choice(result: Mapping[str, Any]) -> str:
    """When to choose which way, as far as it was measured."""
    cases = {name: case for name, case in result["cases"].items() if BASE in case["runs"]}
    fastest: dict[str, list[str]] = {}
    for name, case in cases.items():
        times = {way: found for way in WAYS if (found := seconds(case, way)) is not None}
        if len(times) > 1:
            fastest.setdefault(min(times, key=times.__getitem__), []).append(name)
    if not fastest:
        return ""
    won = "; ".join(f"{way} on {_places(names, cases)}" for way, names in fastest.items())
    return f"**When to choose which.** Fastest: {won}. {_turn(cases)}".strip()


def _places(names: list[str], cases: Mapping[str, Case]) -> str:
    """Cases in words: a graph by its name alone where all its models are meant."""
    found = []
    for graph in dict.fromkeys(cases[name]["graph"] for name in names):
        won = [cases[name]["model"] for name in names if cases[name]["graph"] == graph]
        whole = len(won) == sum(case["graph"] == graph for case in cases.values())
        found.append(graph if whole and len(won) > 1 else f"{graph} {', '.join(won)}")
    return "; ".join(found) if any("," in place for place in found) else ", ".join(found)


def _turn(cases: Mapping[str, Case]) -> str:
    """From how many times fewer bytes on the float32 pipeline was faster, without exception."""
    pairs = []
    for case in cases.values():
        ratio, slow, fast = fewer(case, BASE, PIPELINE), seconds(case, BASE), seconds(case, PIPELINE)
        if ratio is not None and slow is not None and fast is not None:
            pairs.append((ratio, fast < slow))
    if not pairs:
        return ""
    losses = [ratio for ratio, faster in pairs if not faster]
    wins = [ratio for ratio, faster in pairs if faster and ratio > max(losses, default=0.0)]
    words = "At these speeds the float32 pipeline was "
    if not wins:
        return f"{words}never faster than graph parallelism beyond the cases in which it lost."
    always = f"{words}faster than graph parallelism wherever it sends {min(wins):.1f} times fewer bytes or more"
    return (
        f"{always}, and slower on some graph with {times_fewer(max(losses))}." if losses else f"{always}: everywhere."
    )


def times_fewer(ratio: float) -> str:
    """Words for a ratio on either side of 1."""
    return f"{ratio:.1f} times fewer" if ratio >= 1 else f"{1 / ratio:.1f} times more"


def communication(run: Mapping[str, Any], stages: int, chunks: int) -> float:
    """Seconds of waiting that are not the bubble: ``wait - busy (S-1) / C`` of equal stages and chunks."""
    busy = run["seconds"] - run["waiting"]
    return max(0.0, float(run["waiting"] - busy * (stages - 1) / chunks))


def _plain_on(case: Case, graph: str) -> bool:
    return bool(case["graph"] == graph and case["model"] != "gcnii")


def _met(good: bool) -> str:
    return "met" if good else "**missed**"
