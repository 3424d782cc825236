//! The process that starts programs of `pipe` routes for a server without rights.
//!
//! It is started before the server becomes another user, so that it is outside of no_new_privs and Landlock, and it
//! keeps CAP_SETUID and CAP_SETGID alone. It gets the permitted commands once, while the server still has all rights,
//! and starts no other ones. A server in an attacker's hands can run commands of the configuration with other values in
//! the places of placeholders, and nothing else.
//!
//! Requests are packets over a pair of sockets, with the ends of three descriptors: the program's input, its output, and
//! a connection for this run. Over that the starter reports the start and the end; a byte, or the end of the connection,
//! has it kill the process group.

use crate::account::Account;
use crate::system_user::{Owner, own};
use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, Uid, getuid, kill_process_group, pidfd_open};
use rustix::thread::{CapabilitySet, set_thread_res_uid};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The only variable of a program's environment.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The name by which the program becomes a starter.
const NAME: &str = "postrider-starter";

/// Maximum size of a packet. Commands are shorter: an address has at most 320 octets.
const PACKET_BYTES_MAX: usize = 128 * 1024;

/// Programs at the same time, over all routes.
const RUNS_MAX: usize = 4_096;

/// Time for the programs that were killed at the end of the server.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A part of an argument; `None` is a placeholder.
pub(crate) type ArgumentPattern = Vec<Option<String>>;

/// A command of the configuration, and the account that it runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PermittedProgram {
    pub(crate) command: Vec<ArgumentPattern>,
    pub(crate) owner: Owner,
}

/// The first packet.
#[derive(Debug, Serialize, Deserialize)]
struct Setup {
    permitted: Vec<PermittedProgram>,
    account: Account,
}

/// All further packets.
#[derive(Debug, Serialize, Deserialize)]
struct RunRequest {
    command: Vec<String>,
    owner: Owner,
}

impl PermittedProgram {
    fn permits(&self, command: &[String], owner: Owner) -> bool {
        let arguments = || self.command.iter().zip(command);
        self.owner == owner
            && self.command.len() == command.len()
            && arguments().all(|(pattern, argument)| is_filled(pattern, argument))
    }
}

/// Returns true if an argument is the pattern with some values. A value never starts an option.
fn is_filled(pattern: &[Option<String>], argument: &str) -> bool {
    let starts_option = argument.starts_with('-');
    !(starts_option && matches!(pattern.first(), Some(None))) && matches(pattern, argument)
}

fn matches(pattern: &[Option<String>], text: &str) -> bool {
    match pattern {
        [] => text.is_empty(),
        [Some(literal), rest @ ..] => {
            text.strip_prefix(&**literal).is_some_and(|text| matches(rest, text))
        }
        [None] => true,
        [None, rest @ ..] => text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .any(|at| matches(rest, &text[at..])),
    }
}

/// The server's connection to its starter.
#[derive(Debug)]
pub(crate) struct ProgramStarter {
    requests: OwnedFd,
    permitted: Vec<PermittedProgram>,
    /// It ends when the requests are closed, with this process at the latest.
    _process: Child,
}

impl ProgramStarter {
    /// Starts the process, which becomes `account` and keeps the right to start the permitted programs.
    ///
    /// # Errors
    /// Returns a sentence.
    pub(crate) fn start(
        permitted: Vec<PermittedProgram>,
        account: &Account,
    ) -> Result<ProgramStarter, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("cannot start programs of `pipe`: {why}");
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (requests, theirs) = pair.map_err(|error| wrong(&error))?;
        // It gets no variables, which may be secrets, and no signals of a terminal.
        let started = Command::new("/proc/self/exe")
            .arg0(NAME)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn();
        let process = started.map_err(|error| wrong(&error))?;
        let setup = Setup { permitted, account: account.clone() };
        let packet = serde_json::to_vec(&setup).map_err(|error| wrong(&error))?;
        send(&requests, &packet, SendFlags::NOSIGNAL).map_err(|error| wrong(&error))?;
        let mut answer = [0; 512];
        let (count, _) =
            recv(&requests, &mut answer[..], RecvFlags::empty()).map_err(|error| wrong(&error))?;
        match &answer[..count] {
            b"ready" => {
                let permitted = setup.permitted;
                Ok(ProgramStarter { requests, permitted, _process: process })
            }
            why => Err(wrong(&String::from_utf8_lossy(why))),
        }
    }

    /// Returns true if a command with any values may be run as an account.
    pub(super) fn knows(&self, program: &PermittedProgram) -> bool {
        self.permitted.contains(program)
    }

    /// Has a program started. Returns the connection for the run, over which the start and the end are reported.
    ///
    /// # Errors
    /// Returns the operating system's error: the starter has ended.
    pub(super) fn run(
        &self,
        command: &[String],
        owner: Owner,
        (input, output): (OwnedFd, OwnedFd),
    ) -> io::Result<UnixStream> {
        let request = RunRequest { command: command.to_vec(), owner };
        let packet = serde_json::to_vec(&request)?;
        if packet.len() > PACKET_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is too long"));
        }
        let (ours, theirs) = UnixStream::pair()?;
        let passed = [input.as_fd(), output.as_fd(), theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&passed));
        sendmsg(&self.requests, &[IoSlice::new(&packet)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(ours)
    }
}

/// Returns true if the program was started as a starter.
pub(crate) fn is_named(name: Option<&std::ffi::OsStr>) -> bool {
    name.is_some_and(|name| name == NAME)
}

/// Runs a starter until the server ends.
pub(crate) fn serve() -> ExitCode {
    let requests = io::stdin();
    // A service manager's signals are for the server, which may have work for the starter until it ends.
    let mut signals = SigSet::empty();
    for signal in [NixSignal::SIGTERM, NixSignal::SIGINT, NixSignal::SIGHUP] {
        signals.add(signal);
    }
    let blocked = signals.thread_block().map_err(|error| error.to_string());
    let setup = blocked.and_then(|()| set_up(requests.as_fd()));
    let (answer, setup) = match setup {
        Ok(setup) => ("ready".to_owned(), Some(setup)),
        Err(why) => (why, None),
    };
    let sent = send(requests.as_fd(), answer.as_bytes(), SendFlags::NOSIGNAL);
    let (Ok(_), Some(permitted)) = (sent, setup) else { return ExitCode::FAILURE };
    let permitted: Arc<[PermittedProgram]> = permitted.into();
    let runs = Arc::new(AtomicUsize::new(0));
    while let Ok(Some((request, descriptors))) = next(requests.as_fd()) {
        let (permitted, running) = (Arc::clone(&permitted), Arc::clone(&runs));
        let count = runs.fetch_add(1, Ordering::Relaxed);
        let run = move || {
            serve_run(&request, descriptors, &permitted, count);
            running.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("run".to_owned()).spawn(run).is_err() {
            // The server notices the end of the connection.
            runs.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let ended = Instant::now();
    while runs.load(Ordering::Relaxed) > 0 && ended.elapsed() < END_TIMEOUT {
        thread::sleep(Duration::from_millis(5));
    }
    ExitCode::SUCCESS
}

/// Reads the first packet and drops all other rights.
fn set_up(requests: impl AsFd) -> Result<Vec<PermittedProgram>, String> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let (count, _) = recv(requests, &mut packet[..], RecvFlags::empty())
        .map_err(|error| format!("it is started by the server only: {error}"))?;
    let setup: Setup = serde_json::from_slice(&packet[..count])
        .map_err(|error| format!("it is started by the server only: {error}"))?;
    let Setup { permitted, account } = setup;
    let is_other = |program: &PermittedProgram| program.owner.user != account.owner.user;
    let rights = match own().user == 0 || permitted.iter().any(is_other) {
        true => CapabilitySet::SETUID | CapabilitySet::SETGID,
        false => CapabilitySet::empty(),
    };
    account.alone().assume(rights)?;
    Ok(permitted)
}

/// The descriptors of a run.
struct RunDescriptors {
    input: OwnedFd,
    output: OwnedFd,
    connection: UnixStream,
}

/// The next request; `None` at the end of the server. A packet that is no request is left out.
fn next(requests: impl AsFd) -> io::Result<Option<(RunRequest, RunDescriptors)>> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let count = recvmsg(&requests, &mut pieces, &mut ancillary, flags)?.bytes;
        if count == 0 {
            return Ok(None);
        }
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let passed: Vec<OwnedFd> = rights.flatten().collect();
        let request = serde_json::from_slice(&packet[..count]);
        if let (Ok(request), Ok([input, output, connection])) =
            (request, <[OwnedFd; 3]>::try_from(passed))
        {
            let connection = UnixStream::from(connection);
            return Ok(Some((request, RunDescriptors { input, output, connection })));
        }
    }
}

/// Runs one program, and reports a line for its start and one for its end.
fn serve_run(
    request: &RunRequest,
    descriptors: RunDescriptors,
    permitted: &[PermittedProgram],
    others: usize,
) {
    let RunDescriptors { input, output, mut connection } = descriptors;
    let is_permitted = permitted.iter().any(|one| one.permits(&request.command, request.owner));
    let started = match is_permitted {
        _ if others >= RUNS_MAX => Err(format!("{others} programs run already")),
        true => spawn(request, input, output),
        false => Err("this command is not in the configuration of the start: restart".to_owned()),
    };
    let (mut child, pidfd) = match started {
        Ok(started) => started,
        Err(why) => {
            let _ = writeln!(connection, "failed {}", why.replace('\n', " "));
            return;
        }
    };
    let _ = connection.write_all(b"started\n");
    let group = Pid::from_child(&child);
    wait(&pidfd, &connection, || kill_as(request.owner, group));
    // The rest of the group, while its number is still its own.
    kill_as(request.owner, group);
    let end = child.wait().map_or_else(|error| format!("unknown {error}"), line_of_end);
    let _ = writeln!(connection, "{end}");
}

fn spawn(
    request: &RunRequest,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<(Child, OwnedFd), String> {
    let (program, arguments) = request.command.split_first().ok_or("`command` is empty")?;
    let wrong = |error: io::Error| format!("cannot run {program}: {error}");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .process_group(0)
        .stdin(input)
        .stdout(output.try_clone().map_err(wrong)?)
        .stderr(output);
    let Owner { user, group } = request.owner;
    if request.owner != own() {
        // The starter has no supplementary groups, and so has the program.
        command.uid(user).gid(group);
    }
    let mut child = command.spawn().map_err(wrong)?;
    match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            kill_as(request.owner, Pid::from_child(&child));
            let _ = child.wait();
            Err(wrong(error.into()))
        }
    }
}

/// Waits for the end of a process, and calls `kill` once the server asks for it or has ended.
fn wait(pidfd: &OwnedFd, connection: &UnixStream, kill: impl Fn()) {
    let mut is_asked = false;
    loop {
        let mut fds = [PollFd::new(pidfd, PollFlags::IN), PollFd::new(connection, PollFlags::IN)];
        let watched = if is_asked { &mut fds[..1] } else { &mut fds[..] };
        if poll(watched, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            kill();
            return;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        if !is_asked && !fds[1].revents().is_empty() {
            is_asked = true;
            kill();
        }
    }
}

/// Kills a process group as the user that it belongs to, on this thread: the starter has no CAP_KILL.
fn kill_as(owner: Owner, group: Pid) {
    let (target, own) = (Uid::from_raw(owner.user), getuid());
    let is_other = target != own;
    if is_other && set_thread_res_uid(None::<Uid>, target, None::<Uid>).is_err() {
        return;
    }
    // An error means that no process of the group is left.
    let _ = kill_process_group(group, Signal::KILL);
    if is_other {
        let _ = set_thread_res_uid(None::<Uid>, own, None::<Uid>);
    }
}

fn line_of_end(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited {code}"),
        None => format!("killed {}", status.signal().unwrap_or(0)),
    }
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderEnd {
    Exited(i32),
    Signalled(i32),
}

impl LeaderEnd {
    /// The report of an end.
    pub(super) fn parse(line: &str) -> Result<LeaderEnd, String> {
        let known = |(word, number): (&str, &str)| match (word, number.parse()) {
            ("exited", Ok(status)) => Some(LeaderEnd::Exited(status)),
            ("killed", Ok(signal)) => Some(LeaderEnd::Signalled(signal)),
            _ => None,
        };
        let ended = || "the process that starts programs has ended: restart".to_owned();
        line.split_once(' ').and_then(known).ok_or_else(ended)
    }
}

/// The report of a start.
///
/// # Errors
/// Returns the end of a sentence if the program was not started.
pub(super) fn read_start(connection: &UnixStream) -> Result<(), String> {
    let mut line = Vec::new();
    let mut byte = [0];
    let mut reader = connection;
    while !line.ends_with(b"\n") {
        match reader.read(&mut byte) {
            Ok(1) if line.len() < 4_096 => line.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return Err("the process that starts programs has ended: restart".to_owned()),
        }
    }
    let line = String::from_utf8_lossy(&line);
    match line.trim_end().split_once(' ') {
        Some(("failed", why)) => Err(why.to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(pieces: &[&str]) -> ArgumentPattern {
        let piece = |text: &&str| (*text != "*").then(|| (*text).to_owned());
        pieces.iter().map(piece).collect()
    }

    #[test]
    fn only_commands_of_the_configuration_are_permitted() {
        let owner = Owner { user: 7, group: 8 };
        let command = vec![
            pattern(&["/bin/post"]),
            pattern(&["-d"]),
            pattern(&["*"]),
            pattern(&["to=", "*", "@x"]),
        ];
        let program = PermittedProgram { command, owner };
        let permits = |words: &[&str], owner| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            program.permits(&words, owner)
        };
        assert!(permits(&["/bin/post", "-d", "jo", "to=jo@y@x"], owner));
        assert!(permits(&["/bin/post", "-d", "", "to=@x"], owner));
        for words in [
            &["/bin/sh", "-d", "jo", "to=jo@x"][..],
            &["/bin/post", "-e", "jo", "to=jo@x"],
            &["/bin/post", "-d", "-jo", "to=jo@x"],
            &["/bin/post", "-d", "jo", "to=jo@y"],
            &["/bin/post", "-d", "jo", "xto=jo@x"],
            &["/bin/post", "-d", "jo"],
            &["/bin/post", "-d", "jo", "to=jo@x", "more"],
        ] {
            assert!(!permits(words, owner), "{words:?}");
        }
        assert!(!permits(&["/bin/post", "-d", "jo", "to=jo@x"], Owner { user: 7, group: 9 }));
        assert!(!permits(&["/bin/post", "-d", "jo", "to=jo@x"], Owner { user: 0, group: 8 }));
    }
}
