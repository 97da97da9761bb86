//! A process that measures what it is asked for, one line for one line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{Result, describe};

/// How long a worker may take to load, and for one answer. Those that compile first take minutes; what takes longer than
/// this hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// How long a worker may take to end when it is asked no more.
const FAREWELL: Duration = Duration::from_secs(30);

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
    /// It cannot do it, for this reason; it can be asked for other work.
    Cannot(String),
    /// It did not answer, for this reason, and is asked no more.
    Lost(String),
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
    /// Its lines, read by a thread that ends with its output: a pipe itself cannot be waited for with a limit.
    answers: Receiver<std::io::Result<String>>,
    patience: Duration,
}

impl Worker {
    /// Starts a program that may take so long to load and for each answer. What it writes to its error stream is shown.
    pub(super) fn start(command: &mut Command, patience: Duration) -> Result<Starting> {
        let text = describe(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("could not start `{text}`: {error}"))?;
        let questions = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| format!("`{text}` has no output"))?;
        let (send, answers) = channel();
        thread::spawn(move || BufReader::new(output).lines().try_for_each(|line| send.send(line)));
        Ok(Starting(Running { command: text, child, questions, answers, patience }))
    }

    /// Whether it can do this item.
    pub(super) fn has(&self, item: &str) -> bool {
        self.about.items.iter().any(|known| known == item)
    }

    /// Asks how long an item takes, and waits.
    pub(super) fn ask(&mut self, item: &str) -> Answer {
        self.running.ask(item).unwrap_or_else(|error| {
            // What is late must not be taken for the answer to the next question.
            self.about.items.clear();
            self.running.end();
            Answer::Lost(error.to_string())
        })
    }
}

impl Starting {
    /// Waits until it has loaded.
    pub(super) fn ready(mut self) -> Result<Worker> {
        match self.0.load() {
            Ok(about) => Ok(Worker { running: self.0, about }),
            Err(error) => {
                self.0.end();
                Err(error)
            }
        }
    }
}

impl Running {
    fn load(&mut self) -> Result<About> {
        let line = self.read("loading")?;
        about(&line).ok_or_else(|| format!("`{}` began with `{line}`", self.command).into())
    }

    fn ask(&mut self, item: &str) -> Result<Answer> {
        let pipe = self.questions.as_mut().ok_or_else(|| format!("`{}` has no input", self.command))?;
        writeln!(pipe, "{item}").map_err(|error| format!("`{}` asks no more: {error}", self.command))?;
        let line = self.read(item)?;
        answer(&line, item).ok_or_else(|| format!("`{}` answered `{line}` to {item}", self.command).into())
    }

    /// The next line, which is about this work.
    fn read(&mut self, work: &str) -> Result<String> {
        match self.answers.recv_timeout(self.patience) {
            Ok(line) => Ok(line?),
            Err(RecvTimeoutError::Disconnected) => {
                Err(format!("`{}` ended, where an answer was due: {work}", self.command).into())
            }
            Err(RecvTimeoutError::Timeout) => {
                let limit = self.patience.as_secs_f64();
                Err(format!("`{}` gave no answer within {limit} seconds: {work}", self.command).into())
            }
        }
    }

    /// Ends it, whatever it does. Its exit status changes nothing about what it has answered.
    fn end(&mut self) {
        drop(self.questions.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without questions it ends by itself, and with it what it has started.
        drop(self.questions.take());
        let since = Instant::now();
        while since.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        self.end();
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

    /// A shell that says what it can, then runs these lines.
    #[cfg(unix)]
    fn shell(lines: &str, patience: Duration) -> Starting {
        let script = format!("echo '{ABOUT}'; {lines}");
        Worker::start(Command::new("sh").arg("-c").arg(script), patience).unwrap()
    }

    #[cfg(unix)]
    #[test]
    fn a_process_answers_until_it_is_dropped() {
        let lines = r#"read name; echo '{"name": "'$name'", "seconds": 2}'; read end"#;
        let mut worker = shell(lines, PATIENCE).ready().unwrap();
        assert!(worker.has("b") && !worker.has("c"));
        assert_eq!(worker.ask("a"), Answer::Seconds(2.0));
        let silent = Worker::start(Command::new("sh").args(["-c", "exit 3"]), PATIENCE).unwrap().ready();
        let error = silent.err().unwrap().to_string();
        assert!(error.contains("ended, where an answer was due: loading"), "{error}");
    }

    /// One that hangs, ends or says something else is ended, named with its work, and has none any more.
    #[cfg(unix)]
    #[test]
    fn a_process_that_gives_no_answer_is_lost() {
        // Long enough for a shell to start on a busy machine.
        let brief = Duration::from_secs(2);
        let silent = "while :; do sleep 0.01; done";
        for (lines, patience, want) in [
            (silent, brief, "gave no answer within 2 seconds: a"),
            ("read name", PATIENCE, "ended, where an answer was due: a"),
            ("read name; echo '{\"name\": \"b\", \"seconds\": 2}'; read end", PATIENCE, "answered `"),
        ] {
            let mut worker = shell(lines, patience).ready().unwrap();
            let Answer::Lost(why) = worker.ask("a") else { panic!("{lines} answered") };
            assert!(why.contains("`sh -c") && why.contains(want), "{why}");
            assert!(!worker.has("a") && !worker.has("b"), "{lines} is asked again");
            assert!(worker.running.child.try_wait().unwrap().is_some(), "{lines} still runs");
        }
        let loading = Worker::start(Command::new("sh").args(["-c", silent]), brief).unwrap().ready();
        let error = loading.err().unwrap().to_string();
        assert!(error.contains("gave no answer within 2 seconds: loading"), "{error}");
    }
}
