//! A process that measures what it is asked for, one line for one line.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::run::{Result, describe};

/// What a worker says of itself in its first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// The system.
    pub(super) peer: String,
    /// Its version.
    pub(super) version: String,
    /// In which of several ways it runs, in one word.
    pub(super) way: String,
    /// What that way is.
    pub(super) means: String,
    /// The names of what it can do.
    pub(super) items: Vec<String>,
}

/// What a worker answers.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// The seconds of one call.
    Seconds(f64),
    /// It cannot do it, for this reason.
    Cannot(String),
}

/// A worker that has been started and has said nothing yet.
pub(super) struct Starting(Running);

/// A worker that waits for questions.
pub(super) struct Worker {
    running: Running,
    pub(super) about: About,
}

/// The process. It ends when nobody can ask it any more.
struct Running {
    command: String,
    child: Child,
    questions: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a program. What it writes to its error stream is shown.
    pub(super) fn start(command: &mut Command) -> Result<Starting> {
        let text = describe(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("could not start `{text}`: {error}"))?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| format!("`{text}` has no output"))?;
        Ok(Starting(Running { command: text, child, questions, answers: BufReader::new(answers).lines() }))
    }

    /// Whether it can do this item.
    pub(super) fn has(&self, item: &str) -> bool {
        self.about.items.iter().any(|known| known == item)
    }

    /// Asks how long an item takes, and waits.
    pub(super) fn ask(&mut self, item: &str) -> Result<Answer> {
        let running = &mut self.running;
        let pipe = running.questions.as_mut().ok_or_else(|| format!("`{}` has no input", running.command))?;
        writeln!(pipe, "{item}").map_err(|error| format!("`{}` asks no more: {error}", running.command))?;
        let line = running.read()?;
        answer(&line, item).ok_or_else(|| format!("`{}` answered `{line}` to {item}", running.command).into())
    }
}

impl Starting {
    /// Waits until it has loaded.
    pub(super) fn ready(mut self) -> Result<Worker> {
        let line = self.0.read()?;
        let about = about(&line).ok_or_else(|| format!("`{}` began with `{line}`", self.0.command))?;
        Ok(Worker { running: self.0, about })
    }
}

impl Running {
    fn read(&mut self) -> Result<String> {
        match self.answers.next() {
            Some(line) => Ok(line?),
            None => Err(format!("`{}` ended, where an answer was due", self.command).into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.questions.take());
        // Its exit status changes nothing about what it has answered.
        let _ = self.child.wait();
    }
}

fn about(line: &str) -> Option<About> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let items = value.get("items")?.as_array()?.iter();
    Some(About {
        peer: text("peer")?,
        version: text("version")?,
        way: text("way")?,
        means: text("means")?,
        items: items.map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()?,
    })
}

/// The answer in a line, if it is one about the item.
fn answer(line: &str, item: &str) -> Option<Answer> {
    let value: Value = serde_json::from_str(line).ok()?;
    if value.get("name")?.as_str()? != item {
        return None;
    }
    if let Some(why) = value.get("error") {
        return Some(Answer::Cannot(why.as_str()?.to_owned()));
    }
    let seconds = value.get("seconds")?.as_f64()?;
    (seconds.is_finite() && seconds > 0.0).then_some(Answer::Seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: &str =
        r#"{"peer": "p", "version": "1", "way": "w", "means": "in some way", "items": ["a", "b"]}"#;

    #[test]
    fn lines_are_read_and_other_lines_are_not() {
        let read = about(ABOUT).unwrap();
        assert_eq!((read.peer.as_str(), read.items.len()), ("p", 2));
        assert_eq!(about("{}"), None);
        assert_eq!(answer(r#"{"name": "a", "seconds": 0.5}"#, "a"), Some(Answer::Seconds(0.5)));
        let cannot = Answer::Cannot("no".to_owned());
        assert_eq!(answer(r#"{"name": "a", "error": "no"}"#, "a"), Some(cannot));
        for wrong in [r#"{"name": "b", "seconds": 0.5}"#, r#"{"name": "a", "seconds": 0.0}"#, "hello"] {
            assert_eq!(answer(wrong, "a"), None, "{wrong}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_process_answers_until_it_is_dropped() {
        let script =
            format!("echo '{ABOUT}'; read name; echo '{{\"name\": \"'$name'\", \"seconds\": 2}}'; read end");
        let mut worker = Worker::start(Command::new("sh").arg("-c").arg(script)).unwrap().ready().unwrap();
        assert!(worker.has("b") && !worker.has("c"));
        assert_eq!(worker.ask("a").unwrap(), Answer::Seconds(2.0));
        let silent = Worker::start(Command::new("sh").args(["-c", "exit 3"])).unwrap().ready();
        let error = silent.err().unwrap().to_string();
        assert!(error.contains("ended, where an answer was due"), "{error}");
    }
}
