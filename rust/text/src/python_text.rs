//! How Python prints values: `str`, `repr` and the numbers inside JSON.

use minijinja::value::ValueKind;
use minijinja::Value;

/// Python's `repr` of a float: the shortest digits that read back, an exponent below 1e-4 and from
/// 1e16 on.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') {
        plain
    } else {
        format!("{plain}.0")
    }
}

/// A number as Python prints it; None for anything else.
pub fn number(value: &Value) -> Option<String> {
    if value.kind() != ValueKind::Number {
        return None;
    }
    if value.is_integer() {
        return Some(value.to_string());
    }
    f64::try_from(value.clone()).ok().map(float)
}

/// Python's `str`: strings as they are, undefined as nothing, the rest as `repr`.
pub fn str(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.as_str().unwrap_or_default().to_string(),
        _ => repr(value),
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Python's `repr`. What Python would print as an object (iterators, functions) comes as minijinja
/// prints it.
pub fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_string(),
        ValueKind::None => "None".to_string(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_string(),
        ValueKind::Number => number(value).unwrap_or_else(|| value.to_string()),
        ValueKind::String => string(value.as_str().unwrap_or_default()),
        ValueKind::Seq => sequence(value),
        ValueKind::Map if value.try_iter().is_ok() => mapping(value),
        _ => value.to_string(),
    }
}

fn sequence(value: &Value) -> String {
    let items: Vec<String> =
        value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect();
    match (value.is_tuple(), items.as_slice()) {
        (true, [only]) => format!("({only},)"),
        (true, _) => format!("({})", items.join(", ")),
        (false, _) => format!("[{}]", items.join(", ")),
    }
}

fn mapping(value: &Value) -> String {
    let entry = |key: Value| {
        let item = value.get_item(&key).unwrap_or(Value::UNDEFINED);
        format!("{}: {}", repr(&key), repr(&item))
    };
    format!("{{{}}}", join(value.try_iter().into_iter().flatten().map(entry)))
}

fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_whitespace() || format!("a{c}").escape_debug().to_string().contains("\\u{"))
}

fn string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        let code = u32::from(c);
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if is_printable(c) => out.push(c),
            _ if code < 0x100 => out.push_str(&format!("\\x{code:02x}")),
            _ if code < 0x10000 => out.push_str(&format!("\\u{code:04x}")),
            _ => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (1e300, "1e+300"),
            (123456.789, "123456.789"),
            (5e-324, "5e-324"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn strings_and_containers_print_as_in_python() {
        let value: serde_json::Value = serde_json::from_str(
            r#"{"z": [1, 2.0, null, true], "it's": "a\n\u0007\u2028é\u0301"}"#,
        )
        .unwrap();
        let value = Value::from(minijinja::value::Serde(value));
        assert_eq!(
            str(&value),
            "{'z': [1, 2.0, None, True], \"it's\": 'a\\n\\x07\\u2028é\u{301}'}"
        );
        assert_eq!(string("'\""), "'\\'\"'");
    }
}
