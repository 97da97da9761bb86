//! Calls as the suite writes them: `sum(0,keepdim)`, `slice rows 1:4`, `view(-1).view(8,4) round trip`.

use sharding_core::Scalar;

/// A function, and what stands in its parentheses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Method<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Vec<&'a str>,
}

/// Functions, each of the result of the one before, and the words after them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub(super) methods: Vec<Method<'a>>,
    pub(super) words: Vec<&'a str>,
}

impl<'a> Text<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let mut rest = text.trim();
        let mut methods = Vec::new();
        loop {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            rest = rest.get(name.len()..).unwrap_or_default();
            let mut arguments = Vec::new();
            if let Some((inside, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
                arguments = split(inside);
                rest = after;
            }
            methods.push(Method { name, arguments });
            match rest.strip_prefix('.') {
                Some(more) => rest = more,
                None => break,
            }
        }
        Self { methods, words: rest.split_whitespace().collect() }
    }

    /// The word after this one.
    pub(super) fn after(&self, word: &str) -> Option<&'a str> {
        let at = self.words.iter().position(|other| *other == word)?;
        self.words.get(at + 1).copied()
    }

    /// The tensor axis after the word `dim`.
    pub(super) fn dim(&self) -> Option<isize> {
        self.after("dim")?.parse().ok()
    }

    /// The first number among the words.
    pub(super) fn number(&self) -> Option<Scalar> {
        self.words.iter().find_map(|word| number(word))
    }
}

impl<'a> Method<'a> {
    /// Whether `keepdim` or the like is among the arguments.
    pub(super) fn says(&self, word: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('=').next() == Some(word))
    }
    /// The integers among the arguments that have no name.
    pub(super) fn integers(&self) -> Vec<isize> {
        self.arguments.iter().filter_map(|argument| argument.parse().ok()).collect()
    }
    /// The argument of a name.
    pub(super) fn named(&self, name: &str) -> Option<&'a str> {
        self.arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='))
    }
    /// The axis named `dim`, or the integer at a place among those without a name.
    pub(super) fn axis(&self, at: usize) -> Option<isize> {
        let named = self.named("dim").and_then(|axis| axis.parse().ok());
        named.or_else(|| self.integers().get(at).copied())
    }
    /// The first argument as a number.
    pub(super) fn number(&self) -> Option<Scalar> {
        number(self.arguments.first()?)
    }
    /// The first argument as a list: `[2, 3]`.
    pub(super) fn list(&self) -> Option<Vec<usize>> {
        let inside = self.arguments.first()?.strip_prefix('[')?.strip_suffix(']')?;
        inside.split(',').map(|item| item.trim().parse().ok()).collect()
    }
}

/// Arguments between commas, but not those inside brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let mut arguments: Vec<&str> = text
        .split(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ',' && depth == 0
        })
        .map(str::trim)
        .collect();
    arguments.retain(|argument| !argument.is_empty());
    arguments
}

/// A number; `inf` and `nan` are words.
fn number(text: &str) -> Option<Scalar> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    let integer = text.parse().ok().map(Scalar::Int);
    integer.or_else(|| text.parse().ok().map(Scalar::Float))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_arguments_and_words() {
        let text = Text::read("view(-1).view(8,4) round trip");
        let method = |name, arguments: &[&'static str]| Method { name, arguments: arguments.to_vec() };
        assert_eq!(text.methods, [method("view", &["-1"]), method("view", &["8", "4"])]);
        assert_eq!(text.words, ["round", "trip"]);
        let text = Text::read("sum(0, keepdim=True) of dim 3 by -2.5");
        let [sum] = &text.methods[..] else { panic!("{text:?}") };
        assert!(sum.says("keepdim") && !sum.says("keep"));
        assert_eq!((sum.integers(), text.dim(), text.number()), (vec![0], Some(3), Some(Scalar::Int(3))));
        let text = Text::read("split([2,3], dim=-1)");
        let [cut] = &text.methods[..] else { panic!("{text:?}") };
        assert_eq!((cut.list(), cut.axis(1)), (Some(vec![2, 3]), Some(-1)));
        assert_eq!(Text::read("norm inf").number(), None);
    }
}
