//! Whether a server listens, and what it says first.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A server may take so long to greet.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// The greeting of a server, which is let go with QUIT.
pub(crate) fn greeting(address: &str) -> Result<String, String> {
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
