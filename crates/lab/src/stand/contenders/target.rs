//! A server that runs already, and whose next hop is the sink.

use crate::stand::contender::{Contender, Durability, RunningServer, greeting};
use crate::stand::error::{Error, Result};
use crate::stand::place::ServerSetup;
use crate::stand::server::{ExitReport, Server};
use load::proc;
use std::path::Path;
use std::str::FromStr;

/// `NAME=HOST:PORT,pid=PID[,sink=HOST:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    name: String,
    address: String,
    pid: u32,
    /// Where it relays to; the sink listens there.
    sink: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Target, String> {
        let wrong = || format!("{text:?} is not NAME=HOST:PORT,pid=PID,sink=HOST:PORT");
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        let mut parts = rest.split(',');
        let address = parts.next().filter(|address| address.contains(':')).ok_or_else(wrong)?;
        let (mut pid, mut sink) = (None, String::new());
        for part in parts {
            match part.split_once('=') {
                Some(("pid", value)) => pid = Some(value.parse().map_err(|_| wrong())?),
                Some(("sink", value)) if value.contains(':') => value.clone_into(&mut sink),
                _ => return Err(wrong()),
            }
        }
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let pid = pid.ok_or_else(wrong)?;
        Ok(Target { name: name.to_owned(), address: address.to_owned(), pid, sink })
    }
}

impl Contender for Target {
    fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> String {
        format!("the server at {}", self.address)
    }

    fn durability(&self) -> Durability {
        Durability { word: "unknown", sentence: "we did not configure it" }
    }

    /// What it greets with.
    fn find(&self, _: &Path) -> Result<String> {
        let Target { name, address, .. } = self;
        if self.sink.is_empty() {
            let help = "name its next hop with sink=HOST:PORT";
            return Err(Error::Missing(format!("{name}: {help}")));
        }
        greeting(address).map_err(|error| Error::Missing(format!("{address}: {error}")))
    }

    fn start(&self, _: &ServerSetup) -> Result<Box<dyn Server>> {
        Ok(Box::new(self.clone()))
    }

    fn survives_a_kill(&self) -> bool {
        false
    }

    fn limits_connections(&self) -> bool {
        false
    }

    fn running_at(&self) -> Option<RunningServer<'_>> {
        Some(RunningServer { address: &self.address, sink: &self.sink })
    }
}

impl Server for Target {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn check_running(&mut self) -> Result<()> {
        if proc::has_ended(self.pid) {
            return Err(Error::Server(format!("{} has ended", self.name)));
        }
        Ok(())
    }

    /// It was there before us.
    fn stop(self: Box<Self>) -> Result<ExitReport> {
        Ok(ExitReport::default())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        Err(Error::Server(format!("{} is not ours to kill", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn a_target_is_read_or_refused() {
        let target: Target = "kumo=127.0.0.1:2525,pid=42,sink=127.0.0.1:26".parse().expect("good");
        assert_eq!((target.name.as_str(), target.pid), ("kumo", 42));
        assert_eq!(
            (target.address.as_str(), target.sink.as_str()),
            ("127.0.0.1:2525", "127.0.0.1:26")
        );
        for bad in
            ["", "x", "x=1.2.3.4:25", "x=y,pid=1", "=h:1,pid=1", "x=h:1,pid=z", "x=h:1,pid=1,y=2"]
        {
            let error = bad.parse::<Target>().expect_err("wrong");
            assert!(error.contains(bad), "{error}");
        }
    }
}
