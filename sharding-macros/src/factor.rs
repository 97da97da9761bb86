//! The text of factor notation: parsing, and its checks against the signature.

use crate::arguments::{Arguments, Reduce};
use crate::signature::{Checked, Operand};
use crate::validate::{self as say, Errors};
use syn::LitStr;

/// A term of an operand or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Dots,
    Factor(u8),
}

/// One alternative, ready to be written out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Alternative {
    pub(crate) names: Vec<String>,
    pub(crate) operands: Vec<Vec<Term>>,
    pub(crate) results: Vec<Vec<Term>>,
    pub(crate) reduced: Vec<(u8, Reduce)>,
    pub(crate) whole: Vec<u8>,
}

/// In which operands the op is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linear {
    Each,
    Together,
    Operand(u8),
}

/// A whole rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) alternatives: Vec<Alternative>,
    pub(crate) linear: Vec<Linear>,
}

/// A word of the text and its column, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    /// `...` or a name.
    text: String,
    column: usize,
}

impl Word {
    fn is_dots(&self) -> bool {
        self.text == "..."
    }
}

/// The words of operands and results.
struct Text<'a> {
    literal: &'a LitStr,
    operands: Vec<Vec<Word>>,
    results: Vec<Vec<Word>>,
}

/// Parses and checks the alternatives. `None` if anything was refused.
pub(crate) fn rule(
    texts: &[LitStr],
    arguments: &Arguments,
    signature: &Checked,
    errors: &mut Errors,
) -> Option<Rule> {
    let before = errors.len();
    let parsed: Vec<Text<'_>> = texts.iter().filter_map(|literal| text(literal, errors)).collect();
    if parsed.len() == texts.len() {
        check_words(&parsed, arguments, errors);
    }
    let linear = linear(&parsed, arguments, signature, errors);
    let alternatives: Vec<_> =
        parsed.iter().filter_map(|text| alternative(text, arguments, signature, errors)).collect();
    (errors.len() == before).then_some(Rule { alternatives, linear })
}

/// The words of one text.
fn text<'a>(literal: &'a LitStr, errors: &mut Errors) -> Option<Text<'a>> {
    let value = literal.value();
    let characters: Vec<char> = value.chars().collect();
    let mut sides = vec![vec![Vec::new()]];
    let mut at = 0;
    let before = errors.len();
    while let Some(character) = characters.get(at) {
        let column = at + 1;
        let rest = characters.get(at..).unwrap_or(&[]);
        match rest {
            ['-', '>', ..] => {
                if sides.len() == 2 {
                    errors.push(say::factor_arrow_twice(literal, column));
                    return None;
                }
                sides.push(vec![Vec::new()]);
                at += 2;
            }
            ['.', '.', '.', ..] => {
                word(&mut sides, "...".to_owned(), column);
                at += 3;
            }
            [',', ..] => {
                if let Some(side) = sides.last_mut() {
                    side.push(Vec::new());
                }
                at += 1;
            }
            [first, ..] if first.is_whitespace() => at += 1,
            [first, ..] if first.is_ascii_alphabetic() || *first == '_' => {
                let name: String =
                    rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect();
                at += name.len();
                word(&mut sides, name, column);
            }
            _ => {
                errors.push(say::factor_character(literal, column, *character));
                at += 1;
            }
        }
    }
    if errors.len() > before {
        return None;
    }
    let mut sides = sides.into_iter();
    match (sides.next(), sides.next()) {
        (Some(operands), Some(results)) => Some(Text { literal, operands, results }),
        _ => {
            errors.push(say::factor_no_arrow(literal));
            None
        }
    }
}

fn word(sides: &mut [Vec<Vec<Word>>], text: String, column: usize) {
    if let Some(list) = sides.last_mut().and_then(|side| side.last_mut()) {
        list.push(Word { text, column });
    }
}

/// What `reduce` and `whole` name must be there, and be what they say.
fn check_words(texts: &[Text<'_>], arguments: &Arguments, errors: &mut Errors) {
    let has = |lists: &[Vec<Word>], name: &str| lists.iter().flatten().any(|word| word.text == name);
    let known = |name: &str| texts.iter().any(|text| has(&text.operands, name));
    for reduced in &arguments.reduce {
        let name = reduced.factor.to_string();
        let missing =
            |text: &Text<'_>| text.results.iter().any(|list| list.iter().all(|word| word.text != name));
        if !known(&name) {
            errors.push(say::unknown_factor(&reduced.factor, "reduce"));
        } else if !texts.iter().any(|text| has(&text.operands, &name) && missing(text)) {
            errors.push(say::reduced_in_results(&reduced.factor));
        }
    }
    for whole in &arguments.whole {
        if !known(&whole.to_string()) {
            errors.push(say::unknown_factor(whole, "whole"));
        }
    }
}

/// The operands that `linear` names.
fn linear(
    texts: &[Text<'_>],
    arguments: &Arguments,
    signature: &Checked,
    errors: &mut Errors,
) -> Vec<Linear> {
    let mut list = Vec::new();
    let names: Vec<_> = signature.operands().map(|(name, _)| name.to_string()).collect();
    for word in &arguments.linear {
        let (linear, touches): (_, Option<usize>) = match word.to_string().as_str() {
            "each" => (Linear::Each, None),
            "together" => (Linear::Together, None),
            name => match names.iter().position(|operand| operand == name) {
                Some(i) => (Linear::Operand(u8::try_from(i).unwrap_or(u8::MAX)), Some(i)),
                // Without a whole signature, the operand may be one that was refused.
                None if signature.broken => continue,
                None => {
                    errors.push(say::linear_operand(word, &names));
                    continue;
                }
            },
        };
        if list.iter().any(|other| {
            matches!((other, linear), (Linear::Each, Linear::Together) | (Linear::Together, Linear::Each))
        }) {
            errors.push(say::linear_both(word));
        }
        let clash = arguments.reduce.iter().find(|reduced| {
            let has = |list: &Vec<Word>| list.iter().any(|word| reduced.factor == word.text);
            let mut texts = texts.iter();
            reduced.op != Reduce::Sum
                && texts.any(|text| touches.is_none_or(|i| text.operands.get(i).is_some_and(has)))
        });
        if let Some(clash) = clash {
            errors.push(say::linear_not_sum(&clash.op_at, word));
        }
        list.push(linear);
    }
    list
}

/// Checks one text against the signature and numbers its factors.
fn alternative(
    text: &Text<'_>,
    arguments: &Arguments,
    signature: &Checked,
    errors: &mut Errors,
) -> Option<Alternative> {
    let before = errors.len();
    let Text { literal, operands, results } = text;
    let declared: Vec<_> = signature.operands().collect();
    // `-> ` alone is no result where the op has none, and a zero-dimensional one where it has one.
    let blank = |lists: &[Vec<Word>]| matches!(lists, [only] if only.is_empty());
    let results: &[Vec<Word>] =
        if signature.results.count == Some(0) && blank(results) { &[] } else { results };
    if !signature.broken {
        if operands.len() != declared.len() {
            errors.push(say::factor_operands(literal, operands.len(), &declared));
        }
        match signature.results.count {
            Some(declared) if results.len() != declared => {
                errors.push(say::factor_results(literal, results.len(), declared));
            }
            Some(_) => {}
            None => errors.push(say::factor_vector(literal)),
        }
        if errors.len() > before {
            return None;
        }
    }

    for list in operands.iter().chain(results) {
        for (i, word) in list.iter().enumerate() {
            if list.iter().take(i).any(|other| other.text == word.text) {
                errors.push(say::factor_repeated(literal, word.column, &word.text));
            }
        }
    }
    let in_operands = |name: &str| operands.iter().flatten().any(|word| word.text == name);
    for word in results.iter().flatten() {
        if !in_operands(&word.text) {
            errors.push(say::factor_from_nowhere(literal, word.column, &word.text));
        }
    }
    // What follows would follow from that.
    if errors.len() > before {
        return None;
    }
    let reduce = |name: &str| arguments.reduce.iter().find(|reduced| reduced.factor == name).map(|r| r.op);
    let is_whole = |name: &str| arguments.whole.iter().any(|whole| whole == name);
    let mut seen: Vec<&str> = Vec::new();
    for word in operands.iter().flatten() {
        if seen.contains(&word.text.as_str()) {
            continue;
        }
        seen.push(&word.text);
        let lost = results.iter().any(|list| list.iter().all(|other| other.text != word.text));
        if lost && word.is_dots() {
            errors.push(say::factor_dots_lost(literal, word.column));
        } else if lost && !arguments.broken && reduce(&word.text).is_none() && !is_whole(&word.text) {
            errors.push(say::factor_lost(literal, word.column, &word.text));
        }
    }
    if errors.len() > before {
        return None;
    }

    // Factors of the results first, in their order: the order in which their rows break ties.
    let mut names: Vec<String> = Vec::new();
    for word in results.iter().chain(operands).flatten() {
        if !word.is_dots() && !names.contains(&word.text) {
            names.push(word.text.clone());
        }
    }
    let Ok(_) = u8::try_from(names.len()) else {
        errors.push(say::factor_too_many(literal));
        return None;
    };
    let number = |name: &str| (0_u8..).zip(&names).find(|(_, known)| *known == name).map(|(i, _)| i);
    let terms = |lists: &[Vec<Word>]| {
        let term = |word: &Word| {
            if word.is_dots() { Some(Term::Dots) } else { number(&word.text).map(Term::Factor) }
        };
        lists.iter().map(|list| list.iter().filter_map(term).collect()).collect()
    };
    Some(Alternative {
        operands: terms(operands),
        results: terms(results),
        reduced: names.iter().filter_map(|name| Some((number(name)?, reduce(name)?))).collect(),
        whole: names.iter().filter(|name| is_whole(name)).filter_map(|name| number(name)).collect(),
        names,
    })
}

/// How an operand is written in a message about factors.
pub(crate) fn spelled(kind: Operand) -> &'static str {
    match kind {
        Operand::Tensor | Operand::Scalar => "&LocalArray",
        Operand::Many => "&[&LocalArray]",
        Operand::Optional => "Option<&LocalArray>",
        Operand::Written => "&mut LocalArray",
    }
}
