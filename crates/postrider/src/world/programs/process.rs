//! A program's process: its input, its bounded output and its end.

use super::process_group::{GroupLeader, ProcessGroup};
use super::starter::{LeaderEnd, PATH, ProgramStarter, read_start};
use crate::system_user::Owner;
use crate::world::mailbox_files::LineEnds;
use bytes::Bytes;
use mta::seams::{OUTPUT_BYTES_MAX, ProgramEnd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

/// Output that is read. Beyond it, the program writes into a closed pipe.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of one read.
const PIECE_BYTES: usize = 16 * 1024;

/// A running process.
pub(super) struct Process {
    leader: Leader,
    /// `None` after the end of the input.
    input: Option<Sender>,
    output: Output,
}

/// The process itself.
enum Leader {
    /// Our child. The pidfd is readable when it has ended (pidfd_open(2)).
    Child { child: Child, pidfd: Receiver },
    /// Started by another process, which reports its end.
    Apart(UnixStream),
}

/// The output pipe, and the start of the output.
struct Output {
    /// `None` after its end, or beyond the limit.
    pipe: Option<Receiver>,
    kept: Vec<u8>,
    read_bytes: u64,
}

impl Process {
    /// Starts a program as the leader of a new process group, in the root directory.
    ///
    /// # Errors
    /// Returns the end of a sentence.
    pub(super) fn start(
        command: &[String],
        owner: Option<Owner>,
        group: &ProcessGroup,
    ) -> Result<Process, String> {
        let Some((program, arguments)) = command.split_first() else {
            return Err("`command` is empty".to_owned());
        };
        let wrong = |error: io::Error| format!("cannot run {program}: {error}");
        let (output, theirs) = pipe().map_err(wrong)?;
        let mut starting = Command::new(program);
        starting
            .args(arguments)
            .env_clear()
            .env("PATH", PATH)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(theirs.try_clone().map_err(wrong)?)
            .stderr(theirs);
        if let Some(owner) = owner {
            // From root this also empties the list of supplementary groups.
            starting.uid(owner.user).gid(owner.group);
        }
        let mut child = starting.spawn().map_err(wrong)?;
        // Our copies of the program's ends.
        drop(starting);
        let pid = Pid::from_child(&child);
        group.note_started(GroupLeader::Child(pid));
        let input = child.stdin.take().map(OwnedFd::from);
        match Process::watch(pid, input, output.into()) {
            Ok((pidfd, input, output)) => {
                Ok(Process { leader: Leader::Child { child, pidfd }, input, output })
            }
            Err(error) => {
                group.cancel();
                let _ = group.end(|| child.wait());
                Err(wrong(error))
            }
        }
    }

    /// Has another process start a program.
    ///
    /// # Errors
    /// Returns the end of a sentence.
    pub(super) fn start_apart(
        starter: &ProgramStarter,
        command: &[String],
        owner: Owner,
        group: &ProcessGroup,
    ) -> Result<Process, String> {
        let wrong = |error: io::Error| format!("cannot have a program started: {error}");
        let (their_input, input) = pipe().map_err(wrong)?;
        let (output, their_output) = pipe().map_err(wrong)?;
        let theirs = (OwnedFd::from(their_input), OwnedFd::from(their_output));
        let run = starter.run(command, owner, theirs).map_err(wrong)?;
        read_start(&run)?;
        let ours = run.try_clone().and_then(|run| run.set_nonblocking(true).map(|()| run));
        group.note_started(GroupLeader::Apart(Arc::new(run)));
        let leader = Leader::Apart(ours.and_then(UnixStream::from_std).map_err(wrong)?);
        let input = Some(Sender::from_owned_fd(input.into()).map_err(wrong)?);
        let pipe = Some(Receiver::from_owned_fd(output.into()).map_err(wrong)?);
        let output = Output { pipe, kept: Vec::new(), read_bytes: 0 };
        Ok(Process { leader, input, output })
    }

    fn watch(
        pid: Pid,
        input: Option<OwnedFd>,
        output: OwnedFd,
    ) -> io::Result<(Receiver, Option<Sender>, Output)> {
        // Not a pipe, but only its readiness is used.
        let pidfd = Receiver::from_owned_fd_unchecked(pidfd_open(pid, PidfdFlags::NONBLOCK)?)?;
        let input = input.map(Sender::from_owned_fd).transpose()?;
        let pipe = Some(Receiver::from_owned_fd(output)?);
        Ok((pidfd, input, Output { pipe, kept: Vec::new(), read_bytes: 0 }))
    }

    /// Passes on the input and reads the output until the process ends. `input` is `None` when the process takes no
    /// more.
    pub(super) async fn serve(
        &mut self,
        input: &mut Option<&mut mpsc::Receiver<Bytes>>,
        group: &ProcessGroup,
    ) {
        let Process { leader, input: to, output } = self;
        let mut is_fed = false;
        let feeding = feed(input, to, group);
        tokio::pin!(feeding);
        loop {
            tokio::select! {
                () = &mut feeding, if !is_fed => is_fed = true,
                () = output.read(), if output.pipe.is_some() => {}
                () = leader.ended() => return,
            }
        }
    }

    /// The start of the output so far.
    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output.kept)
    }

    /// Waits for the end, kills the rest of the group and reaps the process.
    pub(super) async fn reap(mut self, group: &ProcessGroup) -> ProgramEnd {
        self.leader.ended().await;
        let end = self.leader.reap(group).await;
        // Output that is there already; another process may hold the pipe for ever.
        self.output.read_rest();
        let output = self.take_output();
        match end {
            Ok(LeaderEnd::Exited(status)) => ProgramEnd::Exited { status, output },
            Ok(LeaderEnd::Signalled(signal)) => ProgramEnd::Signalled { signal, output },
            Err(error) => ProgramEnd::NotStarted(format!("its end is unknown: {error}")),
        }
    }
}

impl Leader {
    /// Waits for the end of the process.
    async fn ended(&self) {
        let _ = match self {
            Leader::Child { pidfd, .. } => pidfd.readable().await,
            Leader::Apart(run) => run.readable().await,
        };
    }

    /// Kills the rest of the group, and reaps the process.
    async fn reap(&mut self, group: &ProcessGroup) -> io::Result<LeaderEnd> {
        match self {
            Leader::Child { child, .. } => {
                let status = group.end(|| child.wait())?;
                Ok(match status.code() {
                    Some(status) => LeaderEnd::Exited(status),
                    None => LeaderEnd::Signalled(status.signal().unwrap_or(0)),
                })
            }
            Leader::Apart(run) => {
                let mut line = String::new();
                let read = run.read_to_string(&mut line).await;
                // The other process has done both.
                group.end(|| ());
                read?;
                LeaderEnd::parse(line.trim_end()).map_err(io::Error::other)
            }
        }
    }
}

/// Writes the input with this system's line ends, then closes the pipe. A program may end without reading all.
async fn feed(
    input: &mut Option<&mut mpsc::Receiver<Bytes>>,
    to: &mut Option<Sender>,
    group: &ProcessGroup,
) {
    let (Some(pieces), Some(pipe)) = (input.as_mut(), to.as_mut()) else { return };
    let (mut lines, mut out) = (LineEnds::default(), Vec::new());
    let mut is_open = true;
    while is_open && let Some(piece) = pieces.recv().await {
        out.clear();
        lines.localise(&piece, &mut out);
        is_open = pipe.write_all(&out).await.is_ok();
    }
    if is_open {
        // The end of a part of a message must not look like the message's end.
        if group.is_cancelled() {
            return;
        }
        let _ = pipe.write_all(lines.rest()).await;
    }
    *to = None;
    drain_input(input.take());
}

/// Ends the input: its sender is not kept waiting.
pub(super) fn drain_input(input: Option<&mut mpsc::Receiver<Bytes>>) {
    if let Some(input) = input {
        input.close();
    }
}

impl Output {
    /// Reads a piece.
    async fn read(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        match pipe.readable().await {
            Ok(()) => {
                self.read_now();
            }
            Err(_) => self.pipe = None,
        }
    }

    fn read_rest(&mut self) {
        while self.read_now() {}
    }

    /// Reads a piece that is there. Returns true if there may be more.
    fn read_now(&mut self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut piece = [0; PIECE_BYTES];
        match pipe.try_read(&mut piece) {
            Ok(count) if count > 0 => {
                let room = OUTPUT_BYTES_MAX - self.kept.len();
                self.kept.extend_from_slice(&piece[..count.min(room)]);
                self.read_bytes += count as u64;
                if self.read_bytes >= READ_BYTES_MAX {
                    self.pipe = None;
                }
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Ok(_) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}
