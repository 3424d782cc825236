//! Guesses passwords, at a steady rate and from many addresses of this machine: what a submission server
//! suffers all day.

use crate::listener::resolve;
use crate::random::Random;
use crate::source::ReplyReader;
use crate::stop::{CommandError, Outcome, Stop};
use crate::tls::{HandshakeCount, Handshakes, TlsClient};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;

/// A guess that isn't answered within this time is given up.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Try wrong passwords with AUTH PLAIN after STARTTLS, one connection per attempt.
///
/// Attempts come from changing addresses in 127.0.0.0/8 and name changing users, so that limits per
/// client or user do not stop them early.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exits at SIGTERM or Ctrl-C, and prints counts of the replies.

Exit codes:
  0  done
  1  a password was accepted
  2  the command line is wrong")]
pub struct GuessOptions {
    /// Address of the server, on this machine
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// Attempts per second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub rate: u64,
    /// Number of users: user0, user1, ...
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub users: u64,
    /// Seed for users and addresses
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// What all guesses share.
struct Guesser {
    to: SocketAddr,
    users: u64,
    tls: TlsClient,
    handshakes: HandshakeCount,
    random: RefCell<Random>,
    begun: Cell<u64>,
    /// By the code of the last reply, or what broke.
    answers: RefCell<BTreeMap<String, u64>>,
}

/// The command.
pub fn run(options: &GuessOptions) -> Outcome {
    let failed = |error: io::Error| CommandError::new(format!("{}: {error}", options.to));
    let guesser = Rc::new(Guesser {
        to: resolve(&options.to).map_err(failed)?,
        users: options.users,
        // A stranger has no session to resume.
        tls: TlsClient::new(Handshakes::Full).map_err(failed)?,
        handshakes: HandshakeCount::default(),
        random: RefCell::new(Random::new(options.seed)),
        begun: Cell::new(0),
        answers: RefCell::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, guess(Rc::clone(&guesser), options.rate)).map_err(failed)?;
    drop(tasks);
    let answers = guesser.answers.borrow();
    println!("{}", json!({ "begun": guesser.begun.get(), "answers": *answers }));
    let was_right = answers.contains_key("235");
    Ok(if was_right { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Begins a guess at each tick, until it is stopped.
async fn guess(guesser: Rc<Guesser>, rate: u64) -> io::Result<()> {
    let mut stop = Stop::listen()?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate as u32);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        tokio::select! {
            biased;
            () = stop.wait() => return Ok(()),
            _ = ticks.tick() => {}
        }
        guesser.begun.set(guesser.begun.get() + 1);
        let guesser = Rc::clone(&guesser);
        tokio::task::spawn_local(async move {
            let answer = tokio::time::timeout(ANSWER_MAX, guesser.ask()).await;
            let answer = match answer {
                Ok(Ok(code)) => code.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(_elapsed) => "timed out".to_owned(),
            };
            *guesser.answers.borrow_mut().entry(answer).or_default() += 1;
        });
    }
}

impl Guesser {
    /// One guess; the code of the reply that decided it.
    async fn ask(&self) -> io::Result<u16> {
        let mut replies = ReplyReader::default();
        let mut stream = self.connect().await?;
        let greeting = replies.read(&mut stream, |_| {}).await?;
        if greeting != 220 {
            return Ok(greeting);
        }
        for command in ["EHLO guess.invalid\r\n", "STARTTLS\r\n"] {
            stream.write_all(command.as_bytes()).await?;
            let code = replies.read(&mut stream, |_| {}).await?;
            if !(200..300).contains(&code) {
                return Ok(code);
            }
        }
        let mut stream = self.tls.encrypt(stream, &self.handshakes).await?;
        let user = self.random.borrow_mut().below(self.users);
        let credentials = STANDARD.encode(format!("\0user{user}\0wrong"));
        let mut code = 0;
        for command in ["EHLO guess.invalid".to_owned(), format!("AUTH PLAIN {credentials}")] {
            stream.write_all(format!("{command}\r\n").as_bytes()).await?;
            stream.flush().await?;
            code = replies.read(&mut stream, |_| {}).await?;
        }
        Ok(code)
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let host = self.random.borrow_mut().below(1 << 24) as u32;
        let socket = TcpSocket::new_v4()?;
        // The first address is the machine's own, the last the broadcast.
        let from = Ipv4Addr::from(0x7f00_0000 | host.clamp(2, (1 << 24) - 2));
        socket.bind(SocketAddr::from((from, 0)))?;
        let stream = socket.connect(self.to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
