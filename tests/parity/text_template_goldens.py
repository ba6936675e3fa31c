"""Renders chat templates with Jinja2, set up as Hugging Face transformers sets it up, and stores the
results as goldens for the C++ test of src/text.

    pip install jinja2 trl      (trl is only read, never imported: --no-deps is enough)
    python tests/parity/text_template_goldens.py            # refreshes tests/fixtures/text
    python tests/parity/text_template_goldens.py --all DIR  # every template of trl, into DIR
    RLGEN_TEXT_GOLDENS=DIR build/bin/text_test --gtest_filter='TemplateParity.*'

The templates come from trl (Apache-2.0) except those that lie in templates/ already and are named
in OWN below.
"""

import argparse
import datetime
import importlib.util
import json
import pathlib
import shutil

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from text_template_cases import CONVERSATIONS, SNIPPETS, SPECIAL_TOKENS, SNIPPET_VARIABLES

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "text"
OWN = ["mistral_like", "smollm2"]
FROM_TRL = [
    "llama3", "llama3_1", "llama3_2", "qwen2_5", "qwen2_5_training", "qwen3", "qwen3_training",
    "qwen3_instruct_2507", "qwen3_5_think", "deepseekv3", "gemma", "gemma3", "phi3", "glm4moe",
    "lfm2",
]
CLOCK = "2024-07-26T01:02:03"


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: a scope of its own that prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("body_of", [])
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def body_of(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime.fromisoformat(CLOCK).strftime
    return env


def render(template, variables):
    """The rendered text, or None where Jinja2 raises."""
    try:
        return environment().from_string(template).render(**variables)
    except Exception:
        return None


def trl_templates():
    spec = importlib.util.find_spec("trl")
    folder = pathlib.Path(spec.submodule_search_locations[0]) / "chat_templates"
    return {path.stem: path for path in sorted(folder.glob("*.jinja"))}


def variables_of(conversation):
    return {
        "messages": conversation["messages"],
        "tools": conversation.get("tools"),
        "documents": None,
        "add_generation_prompt": conversation["add_generation_prompt"],
        **SPECIAL_TOKENS,
        **conversation.get("extra", {}),
    }


def goldens(templates, sources):
    renders = []
    for name in templates:
        for conversation in CONVERSATIONS:
            text = render(sources[name], variables_of(conversation))
            renders.append({"template": name, "conversation": conversation["name"], "text": text})
    snippets = [
        {"source": source, "text": render(source, SNIPPET_VARIABLES)} for source in SNIPPETS
    ]
    return {
        "clock": CLOCK,
        "special_tokens": SPECIAL_TOKENS,
        "conversations": CONVERSATIONS,
        "renders": renders,
        "snippet_variables": SNIPPET_VARIABLES,
        "snippets": snippets,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", metavar="DIR", help="every template of trl, written into DIR")
    options = parser.parse_args()
    out = pathlib.Path(options.all) if options.all else FIXTURES
    folder = out / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    available = trl_templates()
    chosen = list(available) if options.all else FROM_TRL
    for name in chosen:
        shutil.copyfile(available[name], folder / f"{name}.jinja")
    if options.all:
        for name in OWN:
            shutil.copyfile(FIXTURES / "templates" / f"{name}.jinja", folder / f"{name}.jinja")
    names = OWN + chosen
    sources = {name: (folder / f"{name}.jinja").read_bytes().decode() for name in names}
    text = json.dumps(goldens(names, sources), ensure_ascii=False, indent=0)
    (out / "templates_goldens.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
