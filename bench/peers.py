#!/usr/bin/env python3
"""Measures llama.cpp, vLLM's CPU build and Hugging Face Transformers beside rlgen, in one run.

  peers.py install [PEER ...]   makes the environments, each in a folder of its own under .peers/
  peers.py run --json FILE      runs the same rows on all of them in turns; prints ratios
  peers.py table FILE           prints a table of them; --write puts it into README.md or another page

Same weights in bfloat16, same threads, the best of five rounds. A peer that is not installed or fails
is left out, and the result says why.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from pathlib import Path

from peers import report
from peers.environment import PeerError
from peers.llama_cpp import LlamaCpp
from peers.own import Rlgen, profiles_for
from peers.peer import Peer, Setting
from peers.runner import Results, end_when_told, measure
from peers.transformers_peer import Transformers
from peers.vllm_peer import Vllm
from peers.work import WORK, choose_work

ROOT = Path(__file__).resolve().parent.parent


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "SmolLM2-135M-Instruct")
    parser.add_argument("--folder", type=Path, default=ROOT / ".peers", help="folder of the environments")
    parser.add_argument("--rlgen", type=Path, default=ROOT / "build" / "release" / "bin" / "rlgen")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="make the environments")
    install.add_argument("names", nargs="*", metavar="PEER", help="llama.cpp, Transformers, vLLM (all)")
    run = commands.add_parser("run", help="measure")
    run.add_argument("--json", type=Path, required=True, help="file for the results")
    run.add_argument("--rounds", type=int, default=5)
    run.add_argument("--rows", nargs="*", default=[], help=", ".join(row.name for row in WORK))
    run.add_argument("--peers", nargs="*", default=[], help="beginnings of the peers' names (all)")
    table = commands.add_parser("table", help="make the table of a page")
    table.add_argument("results", type=Path)
    table.add_argument(
        "--write",
        type=Path,
        nargs="?",
        const=ROOT / "README.md",
        metavar="PAGE",
        help="put it into a page that has a place for it (README.md)",
    )
    return parser.parse_args(argv)


def all_peers(setting: Setting) -> list[Peer]:
    """Every engine and configuration but rlgen."""
    return [
        LlamaCpp(setting),
        Vllm(setting, "compiled"),
        Vllm(setting, "eager"),
        Transformers(setting),
        Transformers(setting, "float32"),
    ]


def choose_peers(peers: list[Peer], names: list[str]) -> list[Peer]:
    """The peers whose names begin with one of `names`, in any case; all without names.

    Raises:
        ValueError: a name fits none.
    """
    for name in names:
        if not any(peer.name.lower().startswith(name.lower()) for peer in peers):
            raise ValueError(f"no peer's name begins with {name}; there are {', '.join(peer.name for peer in peers)}")
    return [peer for peer in peers if not names or any(peer.name.lower().startswith(n.lower()) for n in names)]


def install(peers: list[Peer]) -> int:
    """Installs what is missing; 1 where a peer could not be installed."""
    code = 0
    for peer in peers:
        print(f"{peer.name}:", flush=True)
        try:
            peer.install()
            print("  installed")
        except PeerError as error:
            print(f"  not installed: {error}")
            code = 1
    return code


def run(arguments: argparse.Namespace, setting: Setting) -> int:
    """Measures, writes the results after each row, prints them at the end."""
    own = [Rlgen(setting, profile) for profile in profiles_for(Path("/proc/cpuinfo").read_text())]
    peers = [*own, *choose_peers(all_peers(setting), arguments.peers)]
    work = choose_work(arguments.rows)
    document: report.Document = {"rows": []}

    def keep(results: Results) -> None:
        nonlocal document
        facts = {
            "date": datetime.date.today().isoformat(),
            "model": str(setting.model.name),
            "threads": setting.threads,
        }
        named = [(peer.name, peer.arithmetic) for peer in peers]
        document = report.document_of(
            results, work, named, facts, next((one.machine for one in own if one.machine), None)
        )
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")

    measure(peers, work, arguments.rounds, lambda line: print(line, file=sys.stderr, flush=True), keep)
    print(report.text_of(document), end="")
    return 0 if document["rows"] else 1


def table(results: Path, page: Path | None) -> int:
    """Prints the table, or puts it into a page."""
    made = report.table_of(report.read_document(results))
    if page is not None:
        page.write_text(report.put_table(page.read_text(), results.name, made))
    else:
        print(made, end="")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the tool; returns the exit code."""
    end_when_told()
    arguments = parse_arguments(argv)
    setting = Setting(arguments.model.resolve(), arguments.threads, arguments.folder.resolve(), arguments.rlgen)
    try:
        if arguments.command == "install":
            return install(choose_peers(all_peers(setting), arguments.names))
        if arguments.command == "run":
            return run(arguments, setting)
        return table(arguments.results, arguments.write)
    except (ValueError, OSError) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
