//! Python's `json.dumps`, as Hugging Face's `tojson` filter calls it.

use crate::python_text;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

struct Style {
    ascii: bool,
    sort: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn indent_of(indent: &Value) -> Result<Option<String>, Error> {
    match indent.kind() {
        ValueKind::None | ValueKind::Undefined => Ok(None),
        ValueKind::String => Ok(indent.as_str().map(str::to_string)),
        _ => {
            let width = i64::try_from(indent.clone())?;
            Ok(Some(" ".repeat(usize::try_from(width).unwrap_or(0))))
        }
    }
}

fn separators_of(separators: &Value, indented: bool) -> Result<(String, String), Error> {
    if separators.is_none() || separators.is_undefined() {
        let item = if indented { "," } else { ", " };
        return Ok((item.to_string(), ": ".to_string()));
    }
    let part = |index| {
        let value = separators.get_item_by_index(index)?;
        value
            .as_str()
            .map(str::to_string)
            .ok_or_else(|| refuse("separators are no strings".to_string()))
    };
    Ok((part(0)?, part(1)?))
}

/// `x | tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    separators: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let or_named = |given: Option<Value>, name: &str| -> Result<Value, Error> {
        match given {
            Some(value) => Ok(value),
            None => Ok(kwargs.get::<Option<Value>>(name)?.unwrap_or_default()),
        }
    };
    let ascii = match ensure_ascii {
        Some(ascii) => ascii,
        None => kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    let indent = indent_of(&or_named(indent, "indent")?)?;
    let separators = or_named(separators, "separators")?;
    let (item_separator, key_separator) = separators_of(&separators, indent.is_some())?;
    let sort = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let style = Style { ascii, sort, indent, item_separator, key_separator };
    let mut out = String::new();
    write(&mut out, value, &style, 0)?;
    Ok(Value::from(out))
}

fn write(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => quote(out, value.as_str().unwrap_or_default(), style.ascii),
        ValueKind::Seq => write_items(out, value, style, depth)?,
        ValueKind::Map if value.try_iter().is_ok() => write_map(out, value, style, depth)?,
        kind => return Err(refuse(format!("a value of type {kind} is not JSON serializable"))),
    }
    Ok(())
}

fn number(value: &Value) -> String {
    let text = python_text::number(value).unwrap_or_default();
    match text.as_str() {
        "nan" => "NaN".to_string(),
        "inf" => "Infinity".to_string(),
        "-inf" => "-Infinity".to_string(),
        _ => text,
    }
}

fn new_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        out.push_str(&indent.repeat(depth));
    }
}

fn write_items(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    out.push('[');
    let mut empty = true;
    for item in value.try_iter()? {
        if !empty {
            out.push_str(&style.item_separator);
        }
        empty = false;
        new_line(out, style, depth + 1);
        write(out, &item, style, depth + 1)?;
    }
    if !empty {
        new_line(out, style, depth);
    }
    out.push(']');
    Ok(())
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_string()),
        ValueKind::None => Ok("null".to_string()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_string()),
        ValueKind::Number => Ok(number(key)),
        kind => Err(refuse(format!("a JSON key cannot be of type {kind}"))),
    }
}

fn write_map(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut entries = Vec::new();
    for key in value.try_iter()? {
        entries.push((key_text(&key)?, value.get_item(&key)?));
    }
    if style.sort {
        entries.sort_by(|left, right| left.0.cmp(&right.0));
    }
    out.push('{');
    for (index, (key, item)) in entries.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(out, style, depth + 1);
        quote(out, key, style.ascii);
        out.push_str(&style.key_separator);
        write(out, item, style, depth + 1)?;
    }
    if !entries.is_empty() {
        new_line(out, style, depth);
    }
    out.push('}');
    Ok(())
}

fn quote(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ if u32::from(c) < 0x20 || (ascii && u32::from(c) >= 0x7f && c != '\u{7f}') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
