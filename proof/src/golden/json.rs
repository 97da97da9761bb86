//! JSON values that know where they stand, so that an error can say what is wrong where.

use serde_json::Value;
use std::fmt;

/// A file is not what it says it is.
#[derive(Debug)]
pub(super) struct Malformed(String);

impl Malformed {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) type Parsed<T> = Result<T, Malformed>;

/// A value and the way to it: `file.json: cases[3].mesh.shape`.
#[derive(Clone)]
pub(super) struct Node<'a> {
    value: &'a Value,
    at: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value, file: &str) -> Self {
        Self { value, at: format!("{file}:") }
    }
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// The error that this should have been something else.
    pub(super) fn expected(&self, what: &str) -> Malformed {
        let found = self.value.to_string();
        let short: String = found.chars().take(60).collect();
        let dots = if short.len() < found.len() { ".." } else { "" };
        Malformed(format!("{} should be {what}, found {short}{dots}", self.at))
    }

    pub(super) fn field(&self, name: &str) -> Parsed<Node<'a>> {
        self.optional(name).ok_or_else(|| self.expected(&format!("an object with the field '{name}'")))
    }
    /// The field, if there is one and it is not null.
    pub(super) fn optional(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, at: format!("{} .{name}", self.at) })
    }
    pub(super) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some()
    }
    pub(super) fn is_null(&self) -> bool {
        self.value.is_null()
    }
    pub(super) fn list(&self) -> Parsed<Vec<Node<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        let node = |(i, value)| Node { value, at: format!("{} [{i}]", self.at) };
        Ok(items.iter().enumerate().map(node).collect())
    }
    /// The items of a list, each read by `read`.
    pub(super) fn list_of<T>(&self, read: impl Fn(&Node<'a>) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.list()?.iter().map(read).collect()
    }
    pub(super) fn size(&self) -> Parsed<usize> {
        let size = self.value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| self.expected("a size"))
    }
    pub(super) fn integer(&self) -> Parsed<i64> {
        self.value.as_i64().ok_or_else(|| self.expected("an integer"))
    }
    pub(super) fn number(&self) -> Parsed<f64> {
        self.value.as_f64().ok_or_else(|| self.expected("a number"))
    }
    pub(super) fn text(&self) -> Parsed<&'a str> {
        self.value.as_str().ok_or_else(|| self.expected("a text"))
    }
    pub(super) fn truth(&self) -> Parsed<bool> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// The name of a case, for lines that people read.
    pub(super) fn id(&self) -> String {
        match self.value.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => self.at.clone(),
        }
    }
    /// How many cases there are below this value: objects that have an id.
    pub(super) fn count_cases(&self) -> usize {
        fn count(value: &Value) -> usize {
            match value {
                Value::Object(fields) if fields.contains_key("id") => 1,
                Value::Object(fields) => fields.values().map(count).sum(),
                Value::Array(items) => items.iter().map(count).sum(),
                _ => 0,
            }
        }
        count(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, read: impl Fn(&Node<'_>) -> Parsed<()>, error: &str) {
        let value = serde_json::from_str(text).unwrap();
        assert_eq!(read(&Node::root(&value, "f.json")).unwrap_err().to_string(), error);
    }

    #[test]
    fn errors_say_where_and_what() {
        check("[]", |n| n.field("a").map(drop), "f.json: should be an object with the field 'a', found []");
        check(
            r#"{"a": [1, "x"]}"#,
            |n| n.field("a")?.list_of(Node::size).map(drop),
            "f.json: .a [1] should be a size, found \"x\"",
        );
        check("-1", |n| n.size().map(drop), "f.json: should be a size, found -1");
        check(
            r#"{"a": null}"#,
            |n| n.field("a").map(drop),
            r#"f.json: should be an object with the field 'a', found {"a":null}"#,
        );
    }
}
