//! The process group of a running program.

use crate::mutex::lock;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

/// A process group that may be killed from any thread, and never after its number may be another group's.
#[derive(Debug, Default)]
pub(super) struct ProcessGroup(Mutex<GroupState>);

#[derive(Debug, Default)]
enum GroupState {
    #[default]
    NotStarted,
    /// Its leader is not reaped, so that the number stays its own.
    Running(GroupLeader),
    /// To be killed at once when it starts.
    Cancelled,
    Killed(GroupLeader),
    Over,
}

/// The process that leads a group.
#[derive(Clone, Debug)]
pub(super) enum GroupLeader {
    /// Our child.
    Child(Pid),
    /// A child of another process, which kills its group on request.
    Apart(Arc<UnixStream>),
}

impl ProcessGroup {
    /// The program runs, as the leader of the group with this number.
    pub(super) fn note_started(&self, leader: GroupLeader) {
        let mut state = lock(&self.0);
        *state = match *state {
            GroupState::Cancelled => {
                kill(&leader);
                GroupState::Killed(leader)
            }
            _ => GroupState::Running(leader),
        };
    }

    /// Returns true if it was killed, or will be.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(*lock(&self.0), GroupState::Cancelled | GroupState::Killed(_))
    }

    /// Kills the group, now or when it starts.
    pub(super) fn cancel(&self) {
        let mut state = lock(&self.0);
        match &*state {
            GroupState::NotStarted => *state = GroupState::Cancelled,
            GroupState::Running(leader) | GroupState::Killed(leader) => {
                kill(leader);
                *state = GroupState::Killed(leader.clone());
            }
            GroupState::Cancelled | GroupState::Over => {}
        }
    }

    /// Kills the rest of a group with an ended leader, and reaps the leader.
    pub(super) fn end<T>(&self, reap: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.0);
        if let GroupState::Running(leader) | GroupState::Killed(leader) = &*state {
            kill(leader);
        }
        let reaped = reap();
        *state = GroupState::Over;
        reaped
    }
}

/// An error means that no process of the group is left.
fn kill(leader: &GroupLeader) {
    match leader {
        GroupLeader::Child(pid) => drop(kill_process_group(*pid, Signal::KILL)),
        // Any byte will do.
        GroupLeader::Apart(run) => drop((&**run).write_all(b"K")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Child, Command};

    fn sleeping() -> Child {
        Command::new("/bin/sleep").arg("900").process_group(0).spawn().unwrap()
    }

    #[test]
    fn cancelled_group_is_killed_now_or_at_its_start() {
        for is_early in [true, false] {
            let (group, mut child) = (ProcessGroup::default(), sleeping());
            if is_early {
                group.cancel();
            }
            group.note_started(GroupLeader::Child(Pid::from_child(&child)));
            if !is_early {
                assert!(!group.is_cancelled());
                group.cancel();
            }
            assert!(group.is_cancelled());
            let status = group.end(|| child.wait()).unwrap();
            assert_eq!(status.signal(), Some(9), "early: {is_early}");
        }
    }

    #[test]
    fn ended_group_is_not_killed_again() {
        let (group, mut child) = (ProcessGroup::default(), sleeping());
        group.note_started(GroupLeader::Child(Pid::from_child(&child)));
        // Its number could be another group's from now on: here it is, for the group was not reaped.
        group.end(|| ());
        let mut other = sleeping();
        group.note_started(GroupLeader::Child(Pid::from_child(&other)));
        group.end(|| ());
        group.cancel();
        assert!(!group.is_cancelled());
        for child in [&mut child, &mut other] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }
}
