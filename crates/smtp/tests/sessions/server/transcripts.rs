//! Replays the dialogues in `tests/transcripts`.
//!
//! A line of a dialogue is one of
//! - `# …`: a comment, as is an empty line;
//! - `@ name value`: a limit or a switch of the listener, or `@ rcpt ADDRESS REPLY` and the like:
//!   what the driver answers;
//! - `C: …`: a line from the client, CRLF is added; `c: …`: bytes as they are. With escapes, see
//!   [`smtp::testing::escape`];
//! - `S: …`: a reply line; `N: …`: a need; `E: …`, `M: …`: envelope and content of a message;
//! - `A: 2 0`: the driver answers these recipients, by their numbers, in this order; which ones it
//!   leaves open until then is said by `@ late ADDRESS`, or `@ late` for all;
//! - `T: 300`: so many seconds pass; `X:`: the server stops.
//!
//! Each is played in lockstep, then with all that the client sends between two `A:`, `T:` or `X:` in
//! one piece, byte by byte, and in random pieces, and where no `A:` says when, with each recipient
//! answered late and in any order: all must give the same. With the environment
//! variable `TRANSCRIPTS=write`, what the server says is written into the files, for review.

use smtp::server::{BareNewline, LoginRules, Nul, ServerConfig};
use smtp::testing::escape::unescape;
use smtp::testing::script::Script;
use smtp::testing::server::Driver;
use smtp::testing::transcript::reply;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A line of a dialogue that does something.
enum Step {
    Client(Vec<u8>),
    Server(String),
    Answer(Vec<u32>),
    Pass(Duration),
    Stop,
}

struct Dialogue {
    path: PathBuf,
    config: ServerConfig,
    script: Script,
    steps: Vec<Step>,
}

impl Dialogue {
    fn read(path: &Path) -> Dialogue {
        let text = std::fs::read_to_string(path).expect("a readable dialogue");
        let mut config =
            ServerConfig { hostname: "mx.example.org".to_owned(), ..ServerConfig::default() };
        let mut script = Script::default();
        let mut steps = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (kind, rest) = line.split_at(2.min(line.len()));
            let rest = rest.strip_prefix(' ').unwrap_or(rest);
            match kind {
                "@ " => set(&mut config, &mut script, rest),
                "C:" => steps.push(Step::Client([&unescape(rest)[..], b"\r\n"].concat())),
                "c:" => steps.push(Step::Client(unescape(rest))),
                "S:" | "N:" | "E:" | "M:" => steps.push(Step::Server(line.to_owned())),
                "A:" => steps.push(Step::Answer(numbers(rest))),
                "T:" => steps.push(Step::Pass(seconds(rest))),
                "X:" => steps.push(Step::Stop),
                _ => panic!("{}: what is {line:?}?", path.display()),
            }
        }
        Dialogue { path: path.to_owned(), config, script, steps }
    }

    fn expected(&self) -> Vec<&str> {
        let said = |step: &'_ Step| matches!(step, Step::Server(_));
        self.steps
            .iter()
            .filter(|step| said(step))
            .map(|step| if let Step::Server(line) = step { line.as_str() } else { "" })
            .collect()
    }

    /// Each line of the client alone, and what the server says compared before the next.
    fn play_in_lockstep(&self) {
        let mut driver = Driver::new(self.config.clone(), self.script.clone());
        let mut seen = 0;
        for step in &self.steps {
            match step {
                Step::Client(bytes) => driver.feed(bytes),
                Step::Answer(open) => open.iter().for_each(|number| driver.answer_open(*number)),
                Step::Pass(time) => driver.advance(*time),
                Step::Stop => driver.shut_down(),
                Step::Server(line) => {
                    let name = self.path.display();
                    assert_eq!(driver.trace.get(seen), Some(line), "{name}, in lockstep");
                    seen += 1;
                }
            }
            driver.end_flight();
        }
        assert_eq!(&driver.trace[seen..], &[] as &[String], "{}: unexpected", self.path.display());
    }

    /// All that the client sends at once, cut by `cut` into pieces of the length that it returns.
    fn play_in_pieces(&self, what: &str, cut: impl FnMut() -> usize) {
        let driver = Driver::new(self.config.clone(), self.script.clone());
        let mut player = Player { driver, flight: Vec::new(), draw: cut, is_late: false };
        self.play(&mut player);
        assert_eq!(player.driver.trace, self.expected(), "{}, {what}", self.path.display());
    }

    /// The same with each recipient answered late and in any order, if the dialogue leaves it open
    /// when.
    fn play_late(&self, draw: impl FnMut() -> usize) {
        if self.steps.iter().any(|step| matches!(step, Step::Answer(_))) {
            return;
        }
        let late = [String::new()].into();
        let script = Script { late, ..self.script.clone() };
        let driver = Driver::new(self.config.clone(), script);
        let mut player = Player { driver, flight: Vec::new(), draw, is_late: true };
        self.play(&mut player);
        let is_of_lateness =
            |line: &String| line.starts_with("N: rcpt ") || line.starts_with("N: answers");
        let mut trace = player.driver.trace;
        trace.retain(|line| !is_of_lateness(line));
        assert_eq!(trace, self.expected(), "{}, late", self.path.display());
    }

    fn play(&self, player: &mut Player<impl FnMut() -> usize>) {
        for step in &self.steps {
            match step {
                Step::Client(bytes) => player.flight.extend_from_slice(bytes),
                Step::Server(line) if line == "N: starttls" => player.send(),
                Step::Server(_) => {}
                Step::Answer(open) => {
                    player.send();
                    open.iter().for_each(|number| player.driver.answer_open(*number));
                }
                Step::Pass(time) => {
                    player.send();
                    player.driver.advance(*time);
                }
                Step::Stop => {
                    player.send();
                    player.driver.shut_down();
                }
            }
        }
        player.send();
    }

    /// Puts what the server says behind each line of the client.
    #[allow(clippy::disallowed_methods, reason = "a test that writes its own expectations")]
    fn rewrite(&self) {
        let text = std::fs::read_to_string(&self.path).expect("a readable dialogue");
        let mut driver = Driver::new(self.config.clone(), self.script.clone());
        let mut lines: Vec<String> = Vec::new();
        let mut steps = self.steps.iter().filter(|step| !matches!(step, Step::Server(_)));
        for line in text.lines() {
            let kind = line.get(..2).unwrap_or(line);
            if matches!(kind, "S:" | "N:" | "E:" | "M:") {
                continue;
            }
            if matches!(kind, "C:" | "c:" | "A:" | "T:" | "X:") {
                lines.append(&mut driver.trace);
                match steps.next() {
                    Some(Step::Client(bytes)) => driver.feed(bytes),
                    Some(Step::Answer(open)) => {
                        open.iter().for_each(|number| driver.answer_open(*number));
                    }
                    Some(Step::Pass(time)) => driver.advance(*time),
                    _ => driver.shut_down(),
                }
                driver.end_flight();
            }
            lines.push(line.to_owned());
            if matches!(kind, "C:" | "c:" | "A:" | "T:" | "X:") {
                lines.append(&mut driver.trace);
            }
        }
        std::fs::write(&self.path, lines.join("\n") + "\n").expect("a writable dialogue");
    }
}

/// Sends what the client says as the numbers it draws want it.
struct Player<F> {
    driver: Driver,
    /// What the client sends at once.
    flight: Vec<u8>,
    draw: F,
    /// The dialogue leaves it open when recipients are answered.
    is_late: bool,
}

impl<F: FnMut() -> usize> Player<F> {
    fn send(&mut self) {
        let flight = std::mem::take(&mut self.flight);
        let mut rest = &flight[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((self.draw)().clamp(1, rest.len()));
            self.driver.feed(piece);
            rest = behind;
            if self.is_late && (self.draw)().is_multiple_of(3) {
                self.answer_one();
            }
        }
        while self.is_late && self.driver.open().next().is_some() {
            self.answer_one();
        }
        self.driver.end_flight();
    }

    fn answer_one(&mut self) {
        let open: Vec<u32> = self.driver.open().collect();
        if let Some(at) = (self.draw)().checked_rem(open.len()) {
            self.driver.answer_open(open[at]);
        }
    }
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().expect("seconds"))
}

fn set(config: &mut ServerConfig, script: &mut Script, line: &str) {
    let (name, value) = line.split_once(' ').unwrap_or((line, ""));
    let number = || value.parse::<u64>().expect("a number");
    let small = || value.parse::<u32>().expect("a number");
    let length = || value.parse::<usize>().expect("a number");
    let pair = || {
        let (address, answer) = value.split_once(' ').expect("an address and a reply");
        (address.to_owned(), reply(answer))
    };
    match name {
        "message_bytes_max" => config.message_bytes_max = number(),
        "content_line_bytes_max" => config.content_line_bytes_max = number(),
        "recipients_max" => config.recipients_max = length(),
        "recipients_open_max" => config.recipients_open_max = length(),
        "command_line_bytes_max" => config.command_line_bytes_max = length(),
        "commands_max" => config.commands_max = small(),
        "errors_max" => config.errors_max = small(),
        "refused_recipients_max" => config.refused_recipients_max = small(),
        "messages_max" => config.messages_max = small(),
        "command_timeout" => config.command_timeout = seconds(value),
        "content_timeout" => config.content_timeout = seconds(value),
        "transfer_timeout" => config.transfer_timeout = seconds(value),
        "session_timeout" => config.session_timeout = seconds(value),
        "starttls" => config.starttls = true,
        "no_requiretls" => config.require_tls = false,
        "logins" => {
            let mechanisms = vec!["PLAIN", "LOGIN"];
            let timeout = Duration::from_secs(3_600);
            config.logins = Some(LoginRules { mechanisms, failures_max: small(), timeout });
        }
        "plain" => {
            config.chunking = false;
            config.pipelining = false;
            config.smtputf8 = false;
            config.dsn = false;
        }
        "nul_strip" => config.nul = Nul::Strip,
        "nul_keep" => config.nul = Nul::Keep,
        "lenient" => config.is_lenient = true,
        "normalize" => config.bare_newline = BareNewline::Normalize,
        "lmtp" => {
            config.lmtp = true;
            config.banner = "LMTP".to_owned();
        }
        "mail" => script.mail.extend([pair()]),
        "rcpt" => script.rcpt.extend([pair()]),
        "late" => script.late.extend([value.to_owned()]),
        "data" => script.data = Some(reply(value)),
        "message" => script.message = Some(reply(value)),
        "recipient" => script.recipients.push(reply(value)),
        "refused" => script.refused = Some(reply(value)),
        _ => panic!("unknown setting {name}"),
    }
}

fn dialogues() -> Vec<Dialogue> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let entries = std::fs::read_dir(folder).expect("a folder of dialogues");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths.iter().map(|path| Dialogue::read(path)).collect()
}

#[test]
fn dialogues_are_the_same_in_lockstep_whole_by_bytes_and_in_random_pieces() {
    if std::env::var("TRANSCRIPTS").is_ok_and(|value| value == "write") {
        dialogues().iter().for_each(Dialogue::rewrite);
    }
    let dialogues = dialogues();
    assert!(dialogues.len() >= 40, "only {} dialogues", dialogues.len());
    for dialogue in dialogues {
        assert!(!dialogue.expected().is_empty(), "{} expects nothing", dialogue.path.display());
        dialogue.play_in_lockstep();
        dialogue.play_in_pieces("whole", || usize::MAX);
        dialogue.play_in_pieces("by bytes", || 1);
        for seed in 1..=20_u64 {
            // A xorshift generator: the pieces are the same in each run.
            let mut state = seed;
            let mut draw = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state % 24) as usize
            };
            dialogue.play_in_pieces("in random pieces", &mut draw);
            dialogue.play_late(&mut draw);
        }
    }
}
