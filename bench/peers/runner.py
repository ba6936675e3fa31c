"""Runs every row on every peer, round by round, so that what slows the machine meets all of them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from peers.environment import PeerError
from peers.peer import Peer
from peers.work import Work, rates


@dataclass
class Results:
    """What was measured.

    Attributes:
        rates: (row, measure, peer) -> tokens a second, one for each round.
        fractions: (row, peer) -> of the machine's limit, one for each round; only of engines that say.
        failures: (row, peer) -> why there is none; the row "" stands for all of them.
    """

    rates: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    fractions: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def best(self, row: str, measure: str, peer: str) -> float | None:
        """The best of the rounds; None where there is none."""
        found = self.rates.get((row, measure, peer))
        return max(found) if found else None

    def fraction(self, row: str, measure: str, peer: str) -> float | None:
        """The fraction of the limit in the round that was best by `measure`; None where it was not told."""
        found = self.rates.get((row, measure, peer), [])
        fractions = self.fractions.get((row, peer), [])
        return fractions[found.index(max(found))] if found and len(found) == len(fractions) else None

    def rounds(self, row: str) -> int:
        """Rounds in which the row ran."""
        return max((len(found) for (name, _, _), found in self.rates.items() if name == row), default=0)


def end_when_told() -> None:
    """Makes SIGTERM end this process as an exception does, so that no engine outlives it."""

    def end(signum: int, _frame: object) -> None:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, end)


def start_peers(peers: Sequence[Peer], results: Results, say: Callable[[str], None]) -> list[Peer]:
    """Starts the peers; those that came up."""
    ready = []
    for peer in peers:
        say(f"starting {peer.name}")
        try:
            peer.start()
        except PeerError as error:
            results.failures[("", peer.name)] = str(error)
            say(f"  {peer.name} is left out: {error}")
            peer.stop()
        else:
            ready.append(peer)
    return ready


def run_once(peer: Peer, work: Work, seed: int, results: Results, say: Callable[[str], None]) -> None:
    """Runs one row on one peer and notes what came of it."""
    if (work.name, peer.name) in results.failures:
        return
    try:
        timing = peer.run(work, seed)
    except PeerError as error:
        results.failures[(work.name, peer.name)] = str(error)
        say(f"  {work.name} on {peer.name}: {error}")
        return
    found = rates(work, timing)
    for measure, rate in found.items():
        results.rates.setdefault((work.name, measure, peer.name), []).append(rate)
    if timing.fraction is not None:
        results.fractions.setdefault((work.name, peer.name), []).append(timing.fraction)
    say(f"  {work.name} on {peer.name}: " + ", ".join(f"{name} {rate:.1f} tok/s" for name, rate in found.items()))


def measure(
    peers: Sequence[Peer],
    work: Sequence[Work],
    rounds: int,
    say: Callable[[str], None],
    keep: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Measures all rows on all peers `rounds` times; each round turns the order of the peers.

    A round before them, with the smallest row, warms everything up and does not count.

    Args:
        peers: the engines.
        work: the rows.
        rounds: how often each row runs on each engine.
        say: told what happens, line by line.
        keep: called after each row with what is known by then, so that hours of measuring are not lost
            where a later one is broken off.
    """
    results = Results()
    try:
        ready = start_peers(peers, results, say)
        warm = min(work, key=lambda row: row.batch * (row.prompt + row.new))
        for peer in ready:
            run_once(peer, warm, 0, results, say)
        results.rates.clear()
        results.fractions.clear()
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            turned = ready[number % len(ready) :] + ready[: number % len(ready)] if ready else []
            for row in work:
                for peer in turned:
                    run_once(peer, row, number + 1, results, say)
                keep(results)
    finally:
        for peer in peers:
            peer.stop()
    return results
