//! A panic in any thread or task ends the process.
//!
//! Without a shard, a commit thread or a bulk thread the server would look alive, but deliver or acknowledge nothing.
//! It is better that the supervisor restarts it, and recovery continues from disk.

use std::panic;
use std::process::abort;

/// Makes each panic abort the process after its report.
pub(crate) fn ends_the_process() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::Duration;
    use std::{env, thread};

    const CHILD: &str = "POSTRIDER_TEST_PANICS";

    /// Does nothing but in a process of its own, which the next test starts.
    #[test]
    fn a_thread_and_a_task_that_panic() {
        let Ok(which) = env::var(CHILD) else { return };
        super::ends_the_process();
        let _ = thread::spawn(move || {
            if which == "task" {
                // A runtime catches the panics of its tasks.
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let set = tokio::task::LocalSet::new();
                set.spawn_local(async { panic!("in a task") });
                set.block_on(&runtime, std::future::pending::<()>());
            }
            panic!("in a thread");
        });
        thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn a_panic_in_any_thread_or_task_ends_the_process() {
        for which in ["thread", "task"] {
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", "panic::tests::a_thread_and_a_task_that_panic"])
                .env(CHILD, which)
                .output()
                .unwrap();
            // SIGABRT.
            assert_eq!(output.status.signal(), Some(6), "{which}: {output:?}");
        }
    }
}
