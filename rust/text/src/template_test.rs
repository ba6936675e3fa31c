use super::*;

fn render_with(source: &str, messages: &str, extra: &str) -> Result<String, String> {
    ChatTemplate::new(source)?.render(&Request {
        messages,
        tools: "",
        special_tokens: r#"{"bos_token": "<s>"}"#,
        extra,
        add_generation_prompt: true,
        clock: "2024-07-26T01:02:03",
    })
}

fn render(source: &str) -> String {
    render_with(
        source,
        r#"[{"role": "user", "content": "hi", "n": 1.0}]"#,
        r#"{"x": [1, 2, 3], "e": 1e-7}"#,
    )
    .unwrap_or_else(|error| format!("ERROR {error}"))
}

#[test]
fn variables_reach_the_template() {
    assert_eq!(
        render("{{ bos_token }}{{ messages[0].content }}{{ add_generation_prompt }}"),
        "<s>hiTrue"
    );
    assert_eq!(
        render("{{ tools is none }} {{ documents is none }} {{ nothing }}|{{ eos_token }}|"),
        "True True ||"
    );
}

#[test]
fn prints_as_python_does() {
    assert_eq!(
        render("{{ e }} {{ messages[0].n }} {{ messages }}"),
        "1e-07 1.0 [{'role': 'user', 'content': 'hi', 'n': 1.0}]"
    );
    assert_eq!(render("{{ 1.0 | string }} {{ none | string }}"), "1.0 None");
}

#[test]
fn tojson_is_pythons_dumps() {
    assert_eq!(
        render("{{ messages | tojson }}"),
        r#"[{"role": "user", "content": "hi", "n": 1.0}]"#
    );
    assert_eq!(
        render("{{ {'b': '<é\\n>', 'a': none} | tojson(sort_keys=true, separators=(',', ':')) }}"),
        r#"{"a":null,"b":"<é\n>"}"#
    );
    assert_eq!(
        render("{{ {'a': [], 'b': [1]} | tojson(indent=2) }}"),
        "{\n  \"a\": [],\n  \"b\": [\n    1\n  ]\n}"
    );
    assert_eq!(render("{{ 'é😀' | tojson(ensure_ascii=true) }}"), r#""\u00e9\ud83d\ude00""#);
    assert!(render("{{ nothing | tojson }}").contains("not JSON serializable"));
}

#[test]
fn fb191_methods_and_indices_of_python() {
    assert_eq!(render("{{ x[-1] }} {{ 'abc'[-2:] }} {{ messages[0] is defined }}"), "3 bc True");
    assert_eq!(render("{{ 'a, b,c'.rsplit(',', 1) }}"), "['a, b', 'c']");
    assert_eq!(render("{{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ ' a  b c '.rsplit(maxsplit=1) }}"),
        "['a', 'b', 'c'] ['a', 'b c '] [' a  b', 'c']");
    assert_eq!(
        render("{{ 'k=v=w'.partition('=') }} {{ 'k'.rpartition('=') }}"),
        "('k', '=', 'v=w') ('', '', 'k')"
    );
    assert_eq!(render("{{ 'abcabc'.index('c') }} {{ 'abcabc'.find('c', 3) }} {{ 'é世c'.rfind('c') }} {{ 'a'.find('z') }}"), "2 5 2 -1");
    assert_eq!(
        render("{{ 'prefix'.removeprefix('pre') }} {{ 'a.py'.removesuffix('.py') }}"),
        "fix a"
    );
    assert_eq!(render("{{ '-7'.zfill(4) }} {{ 'a'.center(4, '*') }} {{ 'ab'.center(5, '*') }} {{ 'a'.ljust(3, '.') }} {{ 'a'.rjust(3) }}"),
        "-007 *a** **ab* a..   a");
    assert_eq!(
        render("{{ x.index(2) }} {{ 'a\\r\\nb\\u2028c'.splitlines() }}"),
        "1 ['a', 'b', 'c']"
    );
    assert!(render("{{ 'a'.index('z') }}").contains("line 1"));
}

#[test]
fn fb189_pythons_white_space_is_stripped() {
    assert_eq!(render("[{{ '\\x1c a \\u3000'.strip() }}] [{{ '\\x1f\\u0085a ' | trim }}] [{{ 'xxaxx'.lstrip('x') }}]"), "[a] [a] [axx]");
}

#[test]
fn fb189_arguments_keep_their_order() {
    let messages = r#"[{"role": "assistant", "arguments": {"z": 1, "a": 2}}]"#;
    let source = "{{ messages[0].arguments | tojson }}{% for k, v in messages[0].arguments | items %}{{ k }}{% endfor %}";
    assert_eq!(render_with(source, messages, "").unwrap(), r#"{"z": 1, "a": 2}za"#);
}

#[test]
fn fb189_an_unknown_filter_is_an_error_with_its_line() {
    assert_eq!(
        render("a\n{{ 'x' | nosuch }}"),
        "ERROR chat template at line 2: unknown filter: filter nosuch is unknown"
    );
    let broken = ChatTemplate::new("a\n\n{% if %}").err().unwrap();
    assert!(broken.starts_with("chat template at line 3: syntax error"), "{broken}");
}

#[test]
fn tests_that_differ_from_jinja2_are_replaced() {
    assert_eq!(
        render(
            "{{ none is iterable }} {{ 'a' is iterable }} {{ x is iterable }} {{ 1 is iterable }}"
        ),
        "False True True False"
    );
    assert_eq!(render("{{ 'a' is sequence }} {{ {} is sequence }} {{ nothing is sequence }} {{ 1 is sequence }}"), "True True True False");
}

#[test]
fn line_ends_and_generation_marks() {
    assert_eq!(render("{% if true %}\r\na\r\nb{% endif %}"), "a\nb");
    assert_eq!(render("{% set y = 1 %}{%- generation -%}\n{% set y = 2 %}in{{ y }}\n{%- endgeneration %}\n{{ y }}"), "in21");
}

#[test]
fn a_template_can_refuse_and_ask_for_the_time() {
    assert_eq!(
        render("\n{{ raise_exception('roles must alternate') }}"),
        "ERROR the chat template refused at line 2: roles must alternate"
    );
    assert_eq!(
        render("{% macro day() %}{{ strftime_now('%d %b %Y') }}{% endmacro %}{{ day() }}"),
        "26 Jul 2024"
    );
}

#[test]
fn bad_requests_name_the_part() {
    assert!(render_with("", "[", "").unwrap_err().starts_with("messages: not valid JSON"));
    assert_eq!(render_with("", "{}", "").unwrap_err(), "messages: not a JSON array");
    assert_eq!(render_with("", "[]", "[]").unwrap_err(), "chat_template_kwargs: not a JSON object");
    assert_eq!(
        render_with("", "[]", r#"{"tools": []}"#).unwrap_err(),
        "chat_template_kwargs.tools: give it as 'tools' of the request"
    );
}

#[test]
fn knows_which_variables_are_read() {
    let reads = |source: &str, name: &str| ChatTemplate::new(source).unwrap().reads(name);
    for source in [
        "{{ tools }}",
        "{% if tools is defined %}x{% endif %}",
        "{% for tool in tools %}{{ tool.name }}{% endfor %}",
        "{% if messages[0].tools and tools %}x{% endif %}",
        "{% macro f(x) %}{{ x }}{{ tools | length }}{% endmacro %}{{ f(1) }}",
        "{% set tools = tools or [] %}{{ tools }}",
        "{% set ns = namespace(a=tools) %}{{ ns.a }}",
        "{% if false %}{% set tools = none %}{% endif %}{{ tools }}",
        "{% with tools = tools %}{{ tools }}{% endwith %}",
    ] {
        assert!(reads(source, "tools"), "{source}");
    }
    for source in [
        "{{ messages[0].tools }}",
        "{{ messages[0]['tools'] }} tools {# tools #}",
        "{% set x = 'tools and tools' %}{{ x }}",
        "{% set tools = none %}{{ tools }}",
        "{% for tools in messages %}{{ tools }}{% endfor %}",
        "{% set ns = namespace(tools=1) %}{{ ns.tools }}",
        "{% set message = {'tools': message.tools} %}",
    ] {
        assert!(!reads(source, "tools"), "{source}");
    }
    assert!(reads("{% set message = message.tools %}{{ message }}", "message"));
}
