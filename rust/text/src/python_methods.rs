//! Methods of Python's strings and lists that templates call and that minijinja's own set lacks or
//! answers differently.

use minijinja::value::{from_args, Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Python's `str.isspace` of one character: Unicode white space and the separators 0x1c-0x1f.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

pub fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let own = match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => string_method(text, method, args),
        (ValueKind::Seq, _) => list_method(value, method, args),
        _ => Ok(None),
    };
    match own? {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

type Answer = Result<Option<Value>, Error>;

fn refuse(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_string())
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Answer {
    let answer = match method {
        "strip" => strip(text, args, true, true)?,
        "lstrip" => strip(text, args, true, false)?,
        "rstrip" => strip(text, args, false, true)?,
        "split" => split(text, args, false)?,
        "rsplit" => split(text, args, true)?,
        "splitlines" => split_lines(text, args)?,
        "partition" => partition(text, args, false)?,
        "rpartition" => partition(text, args, true)?,
        "find" | "index" => find(text, args, method == "index", false)?,
        "rfind" | "rindex" => find(text, args, method == "rindex", true)?,
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "isspace" => {
            let () = from_args(args)?;
            Value::from(!text.is_empty() && text.chars().all(is_space))
        }
        "zfill" => zero_fill(text, args)?,
        "ljust" => pad(text, args, |missing| (0, missing))?,
        "rjust" => pad(text, args, |missing| (missing, 0))?,
        "center" => center(text, args)?,
        _ => return Ok(None),
    };
    Ok(Some(answer))
}

/// `strip`, `lstrip` and `rstrip`; without characters, or with none, white space.
fn strip(text: &str, args: &[Value], left: bool, right: bool) -> Result<Value, Error> {
    let (chars,): (Option<Value>,) = from_args(args)?;
    Ok(Value::from(trimmed(text, chars.as_ref().and_then(Value::as_str), left, right)))
}

pub fn trimmed<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let is_cut = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(is_cut) } else { text };
    if right {
        text.trim_end_matches(is_cut)
    } else {
        text
    }
}

fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator, limit, kwargs): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(separator) => Some(separator),
        None => kwargs.get::<Option<Value>>("sep")?,
    };
    let limit = match limit {
        Some(limit) => limit,
        None => kwargs.get::<Option<i64>>("maxsplit")?.unwrap_or(-1),
    };
    kwargs.assert_all_used()?;
    let limit = usize::try_from(limit).ok();
    let parts = match separator.filter(|separator| !separator.is_none()) {
        None => split_spaces(text, limit, from_right),
        Some(separator) => {
            let separator = separator.as_str().ok_or_else(|| refuse("split needs a string"))?;
            split_at(text, separator, limit, from_right)?
        }
    };
    Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
}

fn split_at<'a>(
    text: &'a str,
    separator: &str,
    limit: Option<usize>,
    from_right: bool,
) -> Result<Vec<&'a str>, Error> {
    if separator.is_empty() {
        return Err(refuse("split by an empty separator"));
    }
    Ok(match (limit, from_right) {
        (None, _) => text.split(separator).collect(),
        (Some(limit), false) => text.splitn(limit.saturating_add(1), separator).collect(),
        (Some(limit), true) => {
            let mut parts: Vec<&str> = text.rsplitn(limit.saturating_add(1), separator).collect();
            parts.reverse();
            parts
        }
    })
}

/// Splits at runs of white space: no empty parts, and the rest after the last split keeps its
/// inner and far end.
fn split_spaces(text: &str, limit: Option<usize>, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = trimmed(text, None, !from_right, from_right);
    while !rest.is_empty() {
        if limit.is_some_and(|limit| parts.len() == limit) {
            parts.push(rest);
            break;
        }
        let (part, after) = if from_right {
            let cut = rest.char_indices().rev().find(|(_, c)| is_space(*c));
            cut.map_or((rest, ""), |(at, c)| (&rest[at + c.len_utf8()..], &rest[..at]))
        } else {
            let cut = rest.char_indices().find(|(_, c)| is_space(*c));
            cut.map_or((rest, ""), |(at, _)| (&rest[..at], &rest[at..]))
        };
        parts.push(part);
        rest = trimmed(after, None, !from_right, from_right);
    }
    if from_right {
        parts.reverse();
    }
    parts
}

fn split_lines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (keep, kwargs): (Option<bool>, Kwargs) = from_args(args)?;
    let keep = match keep {
        Some(keep) => keep,
        None => kwargs.get::<Option<bool>>("keepends")?.unwrap_or(false),
    };
    kwargs.assert_all_used()?;
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(is_line_end) {
        let width = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(Value::from(&rest[..if keep { end + width } else { end }]));
        rest = &rest[end + width..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    Ok(Value::from(lines))
}

fn partition(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(refuse("partition by an empty separator"));
    }
    let cut = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match (cut, from_right) {
        (Some((before, after)), _) => [before, separator, after],
        (None, false) => [text, "", ""],
        (None, true) => ["", "", text],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

/// The byte offset of a character position as Python's slices take it.
fn byte_offset(text: &str, position: i64) -> usize {
    let length = text.chars().count() as i64;
    let position = if position < 0 { (position + length).max(0) } else { position.min(length) };
    text.char_indices().nth(position as usize).map_or(text.len(), |(offset, _)| offset)
}

fn find(text: &str, args: &[Value], must: bool, from_right: bool) -> Result<Value, Error> {
    let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let start = byte_offset(text, start.unwrap_or(0));
    let end = end.map_or(text.len(), |end| byte_offset(text, end));
    let part = text.get(start..end);
    let found = part.and_then(|part| if from_right { part.rfind(what) } else { part.find(what) });
    match found {
        Some(offset) => Ok(Value::from(text[..start + offset].chars().count())),
        None if must => Err(refuse("substring not found")),
        None => Ok(Value::from(-1)),
    }
}

fn zero_fill(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (width,): (i64,) = from_args(args)?;
    let missing = missing(text, width)?;
    let (sign, digits) = match text.chars().next() {
        Some('+' | '-') => text.split_at(1),
        _ => ("", text),
    };
    Ok(Value::from(format!("{sign}{}{digits}", "0".repeat(missing))))
}

/// How many characters `text` lacks. Widths above a million are refused.
fn missing(text: &str, width: i64) -> Result<usize, Error> {
    if width > 1_000_000 {
        return Err(refuse("width is too large"));
    }
    Ok(usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count()))
}

fn pad(text: &str, args: &[Value], share: fn(usize) -> (usize, usize)) -> Result<Value, Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let (left, right) = share(missing(text, width)?);
    padded(text, fill.unwrap_or(" "), left, right)
}

fn padded(text: &str, fill: &str, left: usize, right: usize) -> Result<Value, Error> {
    if fill.chars().count() != 1 {
        return Err(refuse("the fill must be one character"));
    }
    Ok(Value::from(format!("{}{text}{}", fill.repeat(left), fill.repeat(right))))
}

/// CPython gives the odd character to the left exactly when the width is odd.
fn center(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let missing = missing(text, width)?;
    let left = missing / 2 + usize::from(missing % 2 == 1 && width % 2 == 1);
    padded(text, fill.unwrap_or(" "), left, missing - left)
}

fn list_method(value: &Value, method: &str, args: &[Value]) -> Answer {
    if method != "index" {
        return Ok(None);
    }
    let (what,): (&Value,) = from_args(args)?;
    let found = value.try_iter()?.position(|item| item == *what);
    found.map(|at| Some(Value::from(at))).ok_or_else(|| refuse("value is not in list"))
}
