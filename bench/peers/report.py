"""Results as JSON, as text and as the table of README.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.runner import Results
from peers.work import MEASURES, Work

SCHEMA = 1
OWN = "rlgen"
BEGIN, END = "<!-- peers: made by bench/peers.py -->", "<!-- peers: end -->"
# The measure of a row that stands in the table.
SHOWN = {"prefill": "prefill", "decode": "decode"}

Document = dict[str, Any]


def document_of(
    results: Results, work: Sequence[Work], peers: Sequence[tuple[str, str]], facts: Document, reports: Document
) -> Document:
    """Everything of a run.

    Args:
        results: what was measured.
        work: the rows.
        peers: name and arithmetic of each engine, rlgen among them.
        facts: what else is to be kept (model, threads, rounds, date).
        reports: row -> the newest report of `rlgen bench`, which has the machine and the limits.
    """
    rows = []
    for row in work:
        for measure in MEASURES:
            best = {name: results.best(row.name, measure, name) for name, _ in peers}
            found = {name: rate for name, rate in best.items() if rate is not None}
            if found:
                rows.append({"row": row.name, "measure": measure, "tokens_per_second": found})
    machine = next((report["machine"] for report in reports.values()), None)
    fractions = {
        name: own["fraction"]
        for name, report in reports.items()
        for own in report["rows"]
        if own["row"] == name and "fraction" in own
    }
    failures = [
        {"row": row or "all", "peer": peer, "reason": reason} for (row, peer), reason in results.failures.items()
    ]
    return {
        "schema": SCHEMA,
        "machine": machine,
        **facts,
        "work": [{"row": row.name, "batch": row.batch, "prompt": row.prompt, "new": row.new} for row in work],
        "peers": [{"name": name, "arithmetic": arithmetic} for name, arithmetic in peers],
        "fractions_of_the_limit": fractions,
        "rows": rows,
        "not_run": failures,
    }


def read_document(path: Path) -> Document:
    """A document that document_of made.

    Raises:
        ValueError: it is something else.
    """
    document = json.loads(path.read_text())
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or "rows" not in document:
        raise ValueError(f"{path} is no result of bench/peers.py of this version")
    return document


def best_peer(rates: dict[str, float]) -> tuple[str, float] | None:
    """The fastest engine but rlgen; None where there is none."""
    others = {name: rate for name, rate in rates.items() if name != OWN}
    if not others:
        return None
    name = max(others, key=lambda peer: others[peer])
    return name, others[name]


def ratio(rates: dict[str, float]) -> float | None:
    """How many times as fast as the best peer rlgen is; None where one of them is missing."""
    peer = best_peer(rates)
    return rates[OWN] / peer[1] if peer and OWN in rates else None


def text_of(document: Document) -> str:
    """For people: a line for each row and measure, then what could not be run."""
    names = [peer["name"] for peer in document["peers"]]
    lines = [f"{'row':<14} {'measure':<8} " + " ".join(f"{name:>18}" for name in names) + f" {'ratio':>7}"]
    for row in document["rows"]:
        rates = row["tokens_per_second"]
        cells = " ".join(f"{rates[name]:>18.1f}" if name in rates else f"{'-':>18}" for name in names)
        factor = ratio(rates)
        lines.append(f"{row['row']:<14} {row['measure']:<8} {cells} {f'{factor:.2f}x' if factor else '-':>7}")
    lines += ["", "tokens a second, the best of the rounds; ratio: rlgen to the best peer"]
    lines += [f"{measure}: {meaning}" for measure, meaning in MEASURES.items()]
    lines += [f"not run: {item['peer']}, {item['row']}: {item['reason']}" for item in document["not_run"]]
    return "\n".join(lines) + "\n"


def table_of(document: Document) -> str:
    """The table of README.md, with the sentence before it."""
    names = [peer["name"] for peer in document["peers"] if peer["name"] != OWN]
    arithmetic = {peer["name"]: peer["arithmetic"] for peer in document["peers"]}
    machine = document["machine"] or {}
    head = ["work", f"rlgen ({arithmetic.get(OWN, '?')})", "of the limit"]
    head += [name if arithmetic[name] in name else f"{name} ({arithmetic[name]})" for name in names]
    head += ["rlgen to the best"]
    lines = [
        f"Tokens a second of {Path(document['model']).name} with weights in bfloat16, {document['threads']} threads of "
        f"{machine.get('cpu', 'an unknown CPU')}, the best of {document['rounds']} rounds in which all engines took "
        "turns. Prefill: one prompt of 2,048 tokens; decode at a batch of that many sequences, 128 new tokens after "
        "128, once the prompts are done.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for row in document["rows"]:
        kind = row["row"].split("/")[0]
        if SHOWN[kind] != row["measure"]:
            continue
        rates = row["tokens_per_second"]
        fraction = document["fractions_of_the_limit"].get(row["row"])
        factor = ratio(rates)
        cells = [row["row"].replace("/", ", "), f"{rates[OWN]:.0f}" if OWN in rates else "-"]
        cells += [f"{100 * fraction:.0f} %" if fraction else "-"]
        cells += [f"{rates[name]:.0f}" if name in rates else "-" for name in names]
        cells += [f"{factor:.2f}x" if factor else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    if document["not_run"]:
        left_out = sorted({f"{item['peer']} ({item['row']}): {item['reason']}" for item in document["not_run"]})
        lines += ["", "Not run: " + "; ".join(left_out) + "."]
    return "\n".join(lines) + "\n"


def put_table(text: str, table: str) -> str:
    """`text` with the table in place of what stands between the marks.

    Raises:
        ValueError: the marks are not there once each, in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the page has no place for the table: {BEGIN} and {END} must stand in it once each")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"
