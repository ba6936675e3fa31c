//! Chat templates: minijinja set up to give what Jinja2 gives in Hugging Face's environment.

use crate::clock::Moment;
use crate::python_json;
use crate::python_methods;
use crate::python_text;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{escape_formatter, AutoEscape, Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use std::fmt;

const NAME: &str = "chat_template";
/// Names that a caller cannot give as extra arguments.
const RESERVED: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// What a rendering needs; the texts are JSON.
pub struct Request<'a> {
    pub messages: &'a str,
    /// Empty: no tools.
    pub tools: &'a str,
    /// An object of special tokens; empty: none.
    pub special_tokens: &'a str,
    /// An object of further variables; empty: none.
    pub extra: &'a str,
    pub add_generation_prompt: bool,
    /// `YYYY-MM-DDTHH:MM:SS`; empty: now.
    pub clock: &'a str,
}

pub struct ChatTemplate {
    environment: Environment<'static>,
    reads: HashSet<String>,
}

/// The source of an error that the template raised itself.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl ChatTemplate {
    pub fn new(source: &str) -> Result<Self, String> {
        let mut environment = environment()?;
        let source = prepare(source);
        let mut reads = names_set_from_themselves(&source);
        environment.add_template_owned(NAME, source).map_err(|error| describe(&error))?;
        let template = environment.get_template(NAME).map_err(|error| describe(&error))?;
        reads.extend(template.undeclared_variables(false));
        Ok(ChatTemplate { environment, reads })
    }

    /// True where some branch of the template looks at the variable `name`.
    pub fn reads(&self, name: &str) -> bool {
        self.reads.contains(name)
    }

    pub fn render(&self, request: &Request) -> Result<String, String> {
        let context = context(request)?;
        let template = self.environment.get_template(NAME).map_err(|error| describe(&error))?;
        template.render(context).map_err(|error| describe(&error))
    }
}

/// Jinja2 reads every line end as "\n"; `{% generation %}` marks what the assistant wrote, and its
/// body is a scope of its own.
fn prepare(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let normal = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut rest = normal.as_str();
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length + 2];
        out.push_str(&rest[..start]);
        match tag[2..length].trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace()) {
            "generation" => out.push_str(&tag.replace("generation", "with")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endwith")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + length + 2..];
    }
    out.push_str(rest);
    out
}

/// Names that stand twice in one `{% set %}` or `{% with %}`, like x in `set x = x or []`: the
/// engine's own analysis takes them for assigned before they are read.
fn names_set_from_themselves(source: &str) -> HashSet<String> {
    let mut twice = HashSet::new();
    for tag in source.split("{%").skip(1).filter_map(|rest| rest.split("%}").next()) {
        let mut names = variables(tag).into_iter();
        if !matches!(names.next(), Some("set" | "with")) {
            continue;
        }
        let mut seen = HashSet::new();
        twice.extend(names.filter(|name| !seen.insert(*name)).map(str::to_string));
    }
    twice
}

/// The identifiers of a tag, in order, without attributes and without what stands in strings.
fn variables(tag: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = tag;
    let mut attribute = false;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '"' | '\'' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            c if is_name(c) => rest.find(|c: char| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        if is_name(first) && !attribute {
            names.push(&rest[..length]);
        }
        attribute = first == '.';
        rest = &rest[length..];
    }
    names
}

fn environment() -> Result<Environment<'static>, String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| describe(&error))?);
    environment.set_debug(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(python_methods::call);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            out.write_str(&python_text::str(value)).map_err(Error::from)
        }
        _ => escape_formatter(out, state, value),
    });
    environment.add_filter("tojson", python_json::tojson);
    environment.add_filter("string", |value: &Value| python_text::str(value));
    environment.add_filter("trim", |value: &Value, chars: Option<&str>| {
        python_methods::trimmed(&python_text::str(value), chars, true, true).to_string()
    });
    environment.add_filter("wordcount", |value: &Value| {
        let is_break = |c: char| !(c.is_alphanumeric() || c == '_');
        python_text::str(value).split(is_break).filter(|word| !word.is_empty()).count()
    });
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map
        )
    });
    environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        let message = python_text::str(&message);
        let error = Error::new(ErrorKind::InvalidOperation, message.clone());
        Err(error.with_source(Raised(message)))
    });
    Ok(environment)
}

fn parse(text: &str, what: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| format!("{what}: not valid JSON: {error}"))
}

fn object(text: &str, what: &str) -> Result<Map<String, Json>, String> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    match parse(text, what)? {
        Json::Object(map) => Ok(map),
        _ => Err(format!("{what}: not a JSON object")),
    }
}

fn list(text: &str, what: &str) -> Result<Json, String> {
    match parse(text, what)? {
        Json::Array(items) => Ok(Json::Array(items)),
        _ => Err(format!("{what}: not a JSON array")),
    }
}

fn context(request: &Request) -> Result<Value, String> {
    let mut variables = object(request.special_tokens, "special tokens")?;
    variables.insert("messages".to_string(), list(request.messages, "messages")?);
    let tools = if request.tools.is_empty() { Json::Null } else { list(request.tools, "tools")? };
    variables.insert("tools".to_string(), tools);
    variables.insert("documents".to_string(), Json::Null);
    variables
        .insert("add_generation_prompt".to_string(), Json::Bool(request.add_generation_prompt));
    for (name, value) in object(request.extra, "chat_template_kwargs")? {
        if RESERVED.contains(&name.as_str()) && name != "documents" {
            return Err(format!("chat_template_kwargs.{name}: give it as '{name}' of the request"));
        }
        variables.insert(name, value);
    }
    let moment = if request.clock.is_empty() { None } else { Some(Moment::parse(request.clock)?) };
    let strftime_now = Value::from_function(move |format: &str| -> Result<String, Error> {
        let text = match &moment {
            Some(moment) => moment.format(format),
            None => Moment::now().and_then(|moment| moment.format(format)),
        };
        text.map_err(|message| Error::new(ErrorKind::InvalidOperation, message))
    });
    let mut pairs: Vec<(String, Value)> = vec![("strftime_now".to_string(), strftime_now)];
    pairs.extend(variables.into_iter().map(|(name, value)| (name, Value::from(Serde(value)))));
    Ok(Value::from_pairs(pairs))
}

fn raised(error: &Error) -> Option<&Raised> {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(raised) = inner.downcast_ref::<Raised>() {
            return Some(raised);
        }
        source = inner.source();
    }
    None
}

fn describe(error: &Error) -> String {
    let line = error.line().map_or(String::new(), |line| format!(" at line {line}"));
    if let Some(message) = raised(error) {
        return format!("the chat template refused{line}: {message}");
    }
    match error.detail() {
        Some(detail) => format!("chat template{line}: {}: {detail}", error.kind()),
        None => format!("chat template{line}: {}", error.kind()),
    }
}

#[cfg(test)]
#[path = "template_test.rs"]
mod tests;
