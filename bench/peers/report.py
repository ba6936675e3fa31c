"""Results as JSON, as text and as the table of README.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.runner import Results
from peers.work import MEASURES, Work

SCHEMA = 2
OWN = "rlgen "  # how the names of its profiles begin
END = "<!-- peers: end -->"
# The measures of rows that stand in the table: one of each row, and of one row the whole work.
SHOWN = {"prefill": "prefill", "decode": "decode"}
WHOLE = ("decode/64", "whole")

Document = dict[str, Any]


def document_of(
    results: Results,
    work: Sequence[Work],
    peers: Sequence[tuple[str, str]],
    facts: Document,
    machine: Document | None,
) -> Document:
    """Everything of a run.

    Args:
        results: what was measured.
        work: the rows.
        peers: name and arithmetic of each engine, the profiles of rlgen among them.
        facts: what else is to be kept (model, threads, date).
        machine: as `rlgen bench` describes it.
    """
    rows = []
    for row in work:
        for measure in MEASURES:
            best = {name: results.best(row.name, measure, name) for name, _ in peers}
            found = {name: rate for name, rate in best.items() if rate is not None}
            if found:
                rows.append({"row": row.name, "measure": measure, "tokens_per_second": found})
    fractions = {
        name: {row.name: fraction for row in work if (fraction := results.fraction(row.name, shown(row.name), name))}
        for name, _ in peers
        if name.startswith(OWN)
    }
    failures = [
        {"row": row or "all", "peer": peer, "reason": reason} for (row, peer), reason in results.failures.items()
    ]
    return {
        "schema": SCHEMA,
        "machine": machine,
        **facts,
        "work": [
            {
                "row": row.name,
                "batch": row.batch,
                "prompt": row.prompt,
                "new": row.new,
                "rounds": results.rounds(row.name),
            }
            for row in work
        ],
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


def ratio(rates: dict[str, float], own: str, arithmetic: dict[str, str]) -> float | None:
    """How many times as fast a profile of rlgen is as the best peer of the same arithmetic.

    Returns:
        None where one of them is missing.
    """
    others = [rate for name, rate in rates.items() if not name.startswith(OWN) and arithmetic[name] == arithmetic[own]]
    return rates[own] / max(others) if others and own in rates else None


def headings(document: Document) -> tuple[dict[str, str], list[str]]:
    """The arithmetic of each engine by name, and the profiles of rlgen."""
    arithmetic = {peer["name"]: peer["arithmetic"] for peer in document["peers"]}
    return arithmetic, [name for name in arithmetic if name.startswith(OWN)]


def factor_text(factor: float | None) -> str:
    """A ratio for people."""
    return "-" if factor is None else f"{factor:.2f}x"


def text_of(document: Document) -> str:
    """For people: a line for each row and measure, then what could not be run."""
    arithmetic, own = headings(document)
    columns = [*arithmetic, *(f"ratio {name.removeprefix(OWN)}" for name in own)]
    lines = [f"{'row':<14} {'measure':<8} " + " ".join(f"{name:>20}" for name in columns)]
    for row in document["rows"]:
        rates = row["tokens_per_second"]
        cells = [f"{rates[name]:.1f}" if name in rates else "-" for name in arithmetic]
        cells += [factor_text(ratio(rates, name, arithmetic)) for name in own]
        lines.append(f"{row['row']:<14} {row['measure']:<8} " + " ".join(f"{cell:>20}" for cell in cells))
    lines += ["", "tokens a second, the best of the rounds"]
    lines += ["ratio: a profile of rlgen to the best peer of the same arithmetic"]
    lines += [f"{measure}: {meaning}" for measure, meaning in MEASURES.items()]
    lines += [f"not run: {item['peer']}, {item['row']}: {item['reason']}" for item in document["not_run"]]
    return "\n".join(lines) + "\n"


def table_row(document: Document, row: Document) -> str:
    """A line of the table of README.md."""
    arithmetic, own = headings(document)
    rates = row["tokens_per_second"]
    whole = row["measure"] == "whole"
    cells = [row["row"].replace("/", ", ") + (", with the prompts" if whole else "")]
    for name in arithmetic:
        # `rlgen bench` sets the stretch after the prompts against the limit.
        fraction = None if whole else document["fractions_of_the_limit"].get(name, {}).get(row["row"])
        share = f" ({100 * fraction:.0f} %)" if fraction else ""
        cells.append(f"{rates[name]:.0f}{share}" if name in rates else "-")
    cells += [factor_text(ratio(rates, name, arithmetic)) for name in own]
    return "| " + " | ".join(cells) + " |"


def shown(row: str) -> str:
    """The measure of a row that stands in the table."""
    return SHOWN[row.split("/")[0]]


def is_shown(row: Document) -> bool:
    """Whether a row and measure stand in the table."""
    return shown(row["row"]) == row["measure"] or (row["row"], row["measure"]) == WHOLE


def rounds_text(document: Document) -> str:
    """How often rows ran: a run that was broken off has more rounds of some than of others."""
    counts = {row["rounds"] for row in document["work"] if row["rounds"] > 0}
    if not counts:
        return "no round"
    if counts == {1}:
        return "one round"
    least, most = min(counts), max(counts)
    return f"the best of {most} rounds" if least == most else f"the best of {least} to {most} rounds"


def table_of(document: Document) -> str:
    """The table, with the sentences before it."""
    arithmetic, own = headings(document)
    machine = document["machine"] or {}
    head = ["work", *(name if kind in name else f"{name} ({kind})" for name, kind in arithmetic.items())]
    head += [f"{name.removeprefix(OWN)}: to the best" for name in own]
    lines = [
        f"Tokens a second of {document['model']} with weights in bfloat16, {document['threads']} threads of "
        f"{machine.get('cpu', 'an unknown CPU')}, {rounds_text(document)} in which all engines took turns. "
        "Prefill: one prompt of 2,048 tokens; decode at a batch of that many sequences, 128 new tokens after "
        "128, once the prompts are done, and at the largest batch from begin to end too. In brackets the fraction of "
        "what the machine allows; the last columns compare a profile of rlgen with the best engine of the same "
        "arithmetic.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    shown = [row for row in document["rows"] if is_shown(row)]
    lines += [table_row(document, row) for row in shown]
    if document["not_run"]:
        left_out = sorted({f"{item['peer']} ({item['row']}): {item['reason']}" for item in document["not_run"]})
        lines += ["", "Not run: " + "; ".join(left_out) + "."]
    return "\n".join(lines) + "\n"


def begin_mark(results: str) -> str:
    """What stands before the table of a file of results in a page; END stands behind it."""
    return f"<!-- peers: made by bench/peers.py of {results} -->"


def put_table(text: str, results: str, table: str) -> str:
    """`text` with the table in place of what stands between its marks.

    Args:
        text: of the page.
        results: name of the file that the table is made of.
        table: what table_of() gives.

    Raises:
        ValueError: the marks are not there once, in order.
    """
    mark = begin_mark(results)
    before, found, rest = text.partition(mark)
    _, ended, after = rest.partition(END)
    if not found or not ended or mark in rest:
        raise ValueError(f"the page has no place for the table: {mark} must stand in it once, and {END} behind it")
    return f"{before}{mark}\n\n{table}\n{END}{after}"
