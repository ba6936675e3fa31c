"""Conversations and expressions that text_template_goldens.py renders. All of them are made up here."""

SPECIAL_TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather of a \"place\" & day",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Town, e.g. São Tomé"},
                "days": {"type": "integer", "enum": [1, 3, 7]},
                "limit": {"type": "number", "default": 0.5},
            },
            "required": ["place"],
        },
    },
}
SUM = {
    "type": "function",
    "function": {
        "name": "sum",
        "description": "Adds numbers",
        "parameters": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}},
    },
}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def case(name, messages, add_generation_prompt=True, tools=None, **extra):
    made = {"name": name, "messages": messages, "add_generation_prompt": add_generation_prompt}
    if tools is not None:
        made["tools"] = tools
    if extra:
        made["extra"] = extra
    return made


TOOL_TURN = [
    user("Is it warm in Zürich?"),
    assistant("", tool_calls=[call("weather", {"place": "Zürich", "days": 3})]),
    {"role": "tool", "name": "weather", "content": "{\"celsius\": 21.5}"},
]

CONVERSATIONS = [
    case("one user turn", [user("Hi!")]),
    case("no generation prompt", [user("Hi!"), assistant("Hello.")], add_generation_prompt=False),
    case("system", [system("Be brief."), user("Why is the sky blue?")]),
    case("three turns", [system(" Padded system \n"), user("One"), assistant(" Two "), user("Three")]),
    case("unicode", [system("\U0001F680 e\u0301\u200d"), user("日本語\u2028と\u00a0한국어 \U0001F469\u200d\U0001F4BB"), assistant("مرحبا"), user("\ta\r\nb\n\n")]),
    case("special tokens in the text", [user("<bos> <|im_end|> {{ messages }} {% raw %} <think>")]),
    case("tools", [user("Weather?")], tools=[WEATHER, SUM]),
    case("tools and system", [system("Use tools."), user("Weather?")], tools=[WEATHER]),
    case("tool call", TOOL_TURN, tools=[WEATHER]),
    case("tool call answered", TOOL_TURN + [assistant("Yes, 21.5 degrees."), user("Thanks")], tools=[WEATHER]),
    case("arguments keep their order", [user("Add"), assistant("", tool_calls=[call("sum", {"z": 1, "a": 2.0, "m": [True, None, 1e-7]})])], tools=[SUM]),
    case("parallel calls", [user("Both"), assistant("Working", tool_calls=[call("weather", {"place": "A"}, id="c1"), call("sum", {"a": 1, "b": 2}, id="c2")]),
         {"role": "tool", "tool_call_id": "c1", "content": "rain"}, {"role": "tool", "tool_call_id": "c2", "content": "3"}], tools=[WEATHER, SUM]),
    case("arguments as text", [user("Add"), assistant(None, tool_calls=[call("sum", "{\"a\": 1}")]), {"role": "tool", "content": "1"}], tools=[SUM]),
    case("thinking on", [user("2+2?")], enable_thinking=True),
    case("thinking off", [user("2+2?")], enable_thinking=False),
    case("earlier thoughts", [user("2+2?"), assistant("<think>\nFour.\n</think>\n\n4"), user("And 3+3?")]),
    case("reasoning field", [user("2+2?"), assistant("4", reasoning_content="Four."), user("And 3+3?"), assistant("6", reasoning_content="Six.")], add_generation_prompt=False),
    case("content parts", [user([{"type": "text", "text": "Part one."}, {"type": "text", "text": " Part 'two'."}])]),
    case("two users in a row", [user("A"), user("B")]),
    case("assistant first", [assistant("A"), user("B")]),
    case("unknown role", [{"role": "critic", "content": "Hm"}]),
    case("empty list", []),
    case("date given", [user("Hi")], date_string="01 Jan 2030"),
]

SNIPPET_VARIABLES = {
    "text": " Ab c \u3000", "empty": "", "items": [3, 1, 2], "floats": [1.0, 1e-7, 1e22, 0.1, -0.0, 1e16],
    "map": {"z": 1, "a": {"é": [None, True]}, "it's": "q\"q"}, "nothing": None, "yes": True,
    "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
}

SNIPPETS = [
    # printing
    "{{ floats }}", "{{ floats[1] }} {{ floats[2] }} {{ floats[5] }}", "{{ map }}", "{{ nothing }}|{{ yes }}|{{ missing }}",
    "{{ [1, 'a', (2,), {}] }}", "{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }}", "{{ 10000000000000000000000 }}",
    "{{ 'a' ~ 1 ~ 2.5 ~ true ~ none }}", "{{ '%s-%s' | format('a', 1) }}", "{{ \"tab\\tquote\\\"\" }}",
    # tojson
    "{{ map | tojson }}", "{{ map | tojson(indent=2) }}", "{{ map | tojson(sort_keys=true) }}", "{{ floats | tojson }}",
    "{{ map | tojson(ensure_ascii=true) }}", "{{ [] | tojson(indent=4) }}{{ {} | tojson(indent=4) }}",
    "{{ map | tojson(separators=(',', ':')) }}", "{{ '<a href=\"x\">&\\u2028' | tojson }}", "{{ missing | tojson }}",
    "{{ {1: 2, none: 3} | tojson }}",
    # strings
    "[{{ text.strip() }}]", "[{{ text | trim }}]", "[{{ text.lstrip() }}] [{{ text.rstrip() }}]", "[{{ 'xaxx'.strip('x') }}]",
    "{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }}", "{{ text.split() }} {{ ''.split() }} {{ ''.split(',') }}",
    "{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}", "{{ 'abc'[::-1] }} {{ 'abc'[1:] }} {{ 'abc'[-1] }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}", "{{ 'a-b'.partition('-') }} {{ 'a-b-c'.rpartition('-') }}",
    "{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }}", "{{ 'ab'.find('b') }} {{ 'ab'.find('z') }} {{ 'abab'.rfind('ab') }}",
    "{{ 'ab' in 'cabd' }} {{ 'z' not in 'abc' }}", "{{ 'hello world'.title() }} {{ 'hELLO'.capitalize() }} {{ 'aB'.upper() }} {{ 'aB'.lower() }}",
    "{{ '{} and {b}'.format(1, b=2) }}", "{{ '5'.zfill(3) }} {{ 'a'.ljust(3, '.') }}{{ 'a'.rjust(3, '.') }}{{ 'a'.center(4, '.') }}",
    "{{ 'pre_x'.removeprefix('pre_') }} {{ 'x.y'.removesuffix('.y') }}", "{{ ', '.join(['a', 'b']) }} {{ ['a', 'b'] | join('-') }}",
    "{{ 'a\\nb\\r\\nc\\u2028d'.splitlines() }} {{ 'a\\n\\nb\\n'.splitlines(true) }}", "{{ 'abc'.index('c') }}", "{{ 'abc'.index('z') }}",
    "{{ '\\x1ca\\x1f'.strip() }}|{{ ' \\u200b'.strip() | length }}", "{{ 'é世'.upper() }} {{ 'ß'.upper() }} {{ 'İ'.lower() | length }}",
    "{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'a'.isalpha() }} {{ 'Ab'.islower() }}", "{{ 'aXa'.count('a') }}",
    "{{ 'a b' | replace(' ', '_') }} {{ 'abc' | first }} {{ 'abc' | last }} {{ 'abc' | length }} {{ 'cab' | list }}", "{{ 'abc' | reverse }}",
    "{{ 'a' | upper }} {{ 'some words here' | wordcount }}", "{{ 'a' * 3 }} {{ [0] * 2 }} {{ [1] + [2] }}",
    # lists and maps
    "{{ items | sort }} {{ items | sort(reverse=true) }} {{ items | max }} {{ items | min }} {{ items | sum }}", "{{ items[-1] }} {{ items[:2] }} {{ items[-2:] }}",
    "{{ items.index(1) }} {{ items.count(3) }}", "{{ items | first }} {{ items | last }} {{ items | length }}", "{{ items | map('string') | join(',') }}",
    "{{ messages | map(attribute='role') | list }}", "{{ messages | selectattr('role', 'equalto', 'user') | list }}", "{{ messages | rejectattr('role', '==', 'user') | map(attribute='content') | first }}",
    "{{ map.keys() | list }} {{ map.values() | list | length }} {{ map.items() | list | length }}", "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in map | dictsort %}{{ k }};{% endfor %}", "{% for k, v in map | items %}{{ k }};{% endfor %}", "{{ map.get('z') }} {{ map.get('y') }} {{ map.get('y', 5) }} {{ map['y'] is defined }}",
    "{{ 'z' in map }} {{ map.a is mapping }} {{ map.z is number }}", "{{ dict(a=1, b=2) }}", "{{ map.missing.deeper }}", "{{ items | unique | list }} {{ [1, [2]] | list }}",
    "{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(4, 0, -2) | list }}", "{{ items | join }} {{ items | batch(2) | list }}", "{{ [3, 1] | sort | first }}",
    "{{ items | select('odd') | list }} {{ items | reject('odd') | list }}", "{{ {'a': 1} | length }} {{ {} == {} }} {{ [1, 2] == [1, 2] }}", "{{ 1 in items }} {{ 9 in items }}",
    # tests
    "{{ 'a' is string }} {{ 1 is string }} {{ items is iterable }} {{ nothing is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ missing is iterable }}",
    "{{ 'a' is sequence }} {{ map is sequence }} {{ items is sequence }} {{ missing is sequence }} {{ 1 is sequence }}", "{{ nothing is none }} {{ missing is none }} {{ missing is defined }} {{ missing is undefined }}",
    "{{ true is boolean }} {{ 1 is boolean }} {{ 1 is integer }} {{ 1.0 is float }} {{ 1.0 is integer }}", "{{ 1 is odd }} {{ 2 is even }} {{ 4 is divisibleby(2) }} {{ true is true }} {{ 1 is true }}",
    "{{ map is mapping }} {{ items is mapping }} {{ 1 is sameas(1) }} {{ 'A' is upper }} {{ 3 is in(items) }}",
    # control
    "{% for i in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }};{% endfor %}",
    "{% for i in items %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in items if i > 1 %}{{ i }}{% endfor %}",
    "{% for i in items %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% endfor %}", "{% set ns = namespace(a=1) %}{% for i in items %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% for i in items %}{% set x = 9 %}{% endfor %}{{ x }}", "{% macro m(a, b='d') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}",
    "{% set t %}block {{ 1 }}{% endset %}{{ t | upper }}", "{{ 'a' if false }}|{{ 'a' if yes else 'b' }}", "{{ missing or 'd' }} {{ '' or 'd' }} {{ 1 and 2 }} {{ not nothing }}",
    "{{ missing | default('d') }} {{ '' | default('d', true) }} {{ nothing | default('d') }}", "{% filter upper %}abc{% endfilter %}", "{% with a = 1 %}{{ a }}{% endwith %}", "{# gone #}x{% raw %}{{ y }}{% endraw %}",
    "  {%- if true %}  a  {%- endif %}  b\n", "{% if true %}\n  a\n  {% endif %}\nb\n", "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\rd", "{% generation %}\nx{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{{ raise_exception('no') }}", "{{ 'a' | nosuchfilter }}", "{{ nosuchfunction() }}", "{{ 1 is nosuchtest }}", "{{ strftime_now('%d %b %Y %H:%M') }}", "{{ 5 | string + 'x' }} {{ '3' | int + 1 }} {{ '2.5' | float }} {{ 2.567 | round(1) }} {{ -3 | abs }}",
    # known differences, named in src/text/template_parity_test.cpp
    "{{ cycler('a', 'b') }}", "{% for x in nothing %}{{ x }}{% endfor %}", "{{ 'a' ~ 1e-7 }}", "{{ 1 < 'a' }}", "{{ '%s' % 1 }}",
    # more "{{ 'x' | safe }} {{ '<a>' | e }}", "{{ [[1, 2], [3]] | sum(start=[]) }}", "{{ {'a': [1, {'b': 2}]}['a'][1].b }}", "{{ messages[-1]['content'] }} {{ messages[::-1][0].role }}",
]
