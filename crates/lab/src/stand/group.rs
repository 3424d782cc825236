//! A control group for a server: its processes can't get away, and none of their time is lost, also
//! of those that nobody waits for. Where there is none (no cgroup v2, or no right to make one) the
//! processes are found by their descent.

use load::on_panic::OnPanic;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where cgroup v2 is mounted, alone or beside v1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
/// The file of a group to which 1 is written.
const KILL: &str = "cgroup.kill";
/// Killed processes are gone within this time.
const KILL_MAX: Duration = Duration::from_secs(10);

/// Removed with all its processes when it is dropped; killed when this program panics.
#[derive(Debug)]
pub(crate) struct ControlGroup(PathBuf, #[expect(dead_code, reason = "it is dropped")] OnPanic);

impl ControlGroup {
    /// Makes one, if that is possible here. `name` must be unlike that of any other.
    pub(crate) fn create(name: &str) -> Option<ControlGroup> {
        MOUNTS.iter().map(Path::new).find_map(|mount| {
            // cgroup v2: v1 has no such file at its root.
            mount.join("cgroup.controllers").exists().then_some(())?;
            let path = mount.join(name);
            std::fs::create_dir(&path).ok()?;
            let kill = path.join(KILL);
            let group = ControlGroup(path, OnPanic::new(move || _ = std::fs::write(kill, "1")));
            (group.times().is_some() && group.0.join(KILL).exists()).then_some(group)
        })
    }

    /// A command whose process, and all that descend from it, will be members.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        command.args(["-c", script]).arg(self.0.join("cgroup.procs")).arg(program);
        command
    }

    /// Seconds in user space and in the kernel, of all that ever were members.
    pub(crate) fn times(&self) -> Option<(f64, f64)> {
        let text = std::fs::read_to_string(self.0.join("cpu.stat")).ok()?;
        let seconds = |name: &str| -> Option<f64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            value.parse::<f64>().ok().map(|usec| usec / 1e6)
        };
        Some((seconds("user_usec")?, seconds("system_usec")?))
    }

    /// Processes that are members now.
    pub(crate) fn members(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// SIGKILL for all members; returns when they are gone.
    pub(crate) fn kill(&self) {
        // Without the right to it there would be no group.
        let _ = std::fs::write(self.0.join(KILL), "1");
        let begun = Instant::now();
        while !self.members().is_empty() && begun.elapsed() < KILL_MAX {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.kill();
        // A zombie may hold it for a moment longer.
        let begun = Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && begun.elapsed() < KILL_MAX {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ControlGroup;
    use std::path::Path;

    #[test]
    fn who_slips_away_from_its_parent_is_counted_and_killed_all_the_same() {
        let Some(group) =
            ControlGroup::create(&format!("postrider-bench-test-{}", std::process::id()))
        else {
            skips::machine(skips::Machine::ControlGroups, "none can be made");
            return;
        };
        let path = group.0.clone();
        let mut command = group.command(Path::new("/bin/sh"));
        let burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 1000";
        // The shell ends at once; what it started is nobody's child any more.
        let status = command.args(["-c", &format!("( {burn} ) > /dev/null 2>&1 &")]).status();
        assert!(status.expect("a shell").success());
        let begun = std::time::Instant::now();
        while group.times().expect("times").0 < 0.01 {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", group.times());
        }
        assert!(!group.members().is_empty());
        drop(group);
        assert!(!path.exists());
    }
}
