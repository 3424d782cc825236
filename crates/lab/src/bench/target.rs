//! A server that runs already, and whose next hop is the sink.

use super::report::ConfigFile;
use super::server::{Farewell, Server};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::str::FromStr;
use std::time::Duration;

/// A server may take so long to greet.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// `NAME=HOST:PORT,pid=PID[,sink=HOST:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) pid: u32,
    /// Where it relays to; the sink listens there.
    pub(super) sink: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
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

impl Target {
    /// What it greets with.
    pub(super) fn greeting(&self) -> Result<String, String> {
        if self.sink.is_empty() {
            return Err(format!("{}: say with sink=HOST:PORT where it relays to", self.name));
        }
        greeting(&self.address).map_err(|error| format!("{}: {error}", self.address))
    }

    pub(super) fn start(&self) -> Box<dyn Server> {
        Box::new(self.clone())
    }
}

/// The greeting of a server, which is let go with QUIT.
pub(super) fn greeting(address: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(text)?;
    stream.set_read_timeout(Some(GREETING_MAX)).map_err(text)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(text)?);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(text)?;
    stream.write_all(b"QUIT\r\n").map_err(text)?;
    let greeting = line.trim().strip_prefix("220").map(|rest| rest.trim().to_owned());
    greeting.ok_or_else(|| format!("it greets with {:?}", line.trim()))
}

impl Server for Target {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn files(&self) -> Vec<ConfigFile> {
        Vec::new()
    }

    /// It was there before us.
    fn stop(self: Box<Self>) -> Result<Farewell, String> {
        Ok(Farewell::default())
    }

    fn kill(self: Box<Self>) -> Result<(), String> {
        Err(format!("{} is not ours to kill", self.name))
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
