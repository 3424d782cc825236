//! What stands for a TLS handshake in the simulated world: the client says whom it wants, the server
//! shows its certificate, and what follows counts as encrypted. Nobody can read along there anyway.

use super::network::SimStream;
use mta::seams::Trust;
use std::io::{self, ErrorKind};

/// How a hello begins, in both directions: as the records of a handshake do.
const HELLO: u8 = 0x16;

/// A hello with all its names.
const HELLO_BYTES_MAX: usize = 1_024;

/// What a host shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// What it may be called.
    pub names: Vec<String>,
    /// Stands for its key, and the digest of that.
    pub key: u8,
    /// It comes from an authority that everybody knows, and its time has come and not passed.
    pub is_valid: bool,
}

impl Certificate {
    /// Whether it is one of a host of this name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        self.is_valid && self.names.iter().any(|own| own == name)
    }

    /// Whether it is one that the client wants from the host of this name.
    #[must_use]
    pub fn convinces(&self, name: &str, trust: &Trust) -> bool {
        match trust {
            Trust::Anyone => true,
            Trust::Roots | Trust::MtaSts => self.is_for(name),
            Trust::Dane(trust) => {
                trust.records.iter().any(|record| record.data.first() == Some(&self.key))
            }
        }
    }

    fn write(&self) -> Vec<u8> {
        let valid = if self.is_valid { "valid" } else { "invalid" };
        let text = format!("{} {valid} {}\n", self.key, self.names.join(" "));
        [&[HELLO], text.as_bytes()].concat()
    }

    fn read(hello: &str) -> Option<Certificate> {
        let mut words = hello.split(' ');
        let key = words.next()?.parse().ok()?;
        let is_valid = words.next()? == "valid";
        Some(Certificate { names: words.map(str::to_owned).collect(), key, is_valid })
    }
}

/// The client's side: asks for the host of this name.
///
/// # Errors
/// The connection broke, or what came is no handshake.
pub async fn ask(stream: &mut SimStream, name: &str) -> io::Result<Certificate> {
    stream.write_all(&[&[HELLO], name.as_bytes(), b"\n"].concat()).await?;
    let hello = read_hello(stream).await?;
    Certificate::read(&hello).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Waits for the client's hello; how many bytes it was.
///
/// # Errors
/// The connection broke, or what came is no handshake.
pub async fn await_hello(stream: &mut SimStream) -> io::Result<u64> {
    Ok(read_hello(stream).await?.len() as u64 + 2)
}

/// Answers it.
///
/// # Errors
/// The connection broke.
pub async fn show(stream: &mut SimStream, certificate: &Certificate) -> io::Result<()> {
    stream.write_all(&certificate.write()).await
}

/// Byte by byte, so that nothing is read of what follows.
async fn read_hello(stream: &mut SimStream) -> io::Result<String> {
    let mut hello = Vec::new();
    let mut byte = [0];
    loop {
        if stream.read(&mut byte).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match byte[0] {
            b'\n' => break,
            first if hello.is_empty() && first != HELLO => {
                return Err(ErrorKind::InvalidData.into());
            }
            other => hello.push(other),
        }
        if hello.len() > HELLO_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    let text = hello.get(1..).unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::tlsa::Tlsa;
    use mta::seams::DaneTrust;
    use std::sync::Arc;

    #[test]
    fn a_certificate_says_the_same_to_both_sides_and_convinces_who_wants_it() {
        let certificate = Certificate {
            names: vec!["10.1.3.1".to_owned(), "mx0.d4.test".to_owned()],
            key: 7,
            is_valid: true,
        };
        let written = certificate.write();
        let text = std::str::from_utf8(&written[1..written.len() - 1]).expect("it is text");
        assert_eq!(Certificate::read(text), Some(certificate.clone()));
        let expired = Certificate { is_valid: false, ..certificate.clone() };
        let record = |key| Tlsa { usage: 3, selector: 1, matching: 1, data: [key; 32].into() };
        let dane = |key| {
            let names = vec![Arc::from("mx0.d4.test")];
            Trust::Dane(Arc::new(DaneTrust { names, records: vec![record(key)] }))
        };
        for (shown, name, trust, convinces) in [
            (&certificate, "mx0.d4.test", Trust::Roots, true),
            (&certificate, "mx1.d4.test", Trust::Roots, false),
            (&certificate, "mx1.d4.test", Trust::Anyone, true),
            (&expired, "mx0.d4.test", Trust::MtaSts, false),
            (&expired, "mx0.d4.test", dane(7), true),
            (&certificate, "mx0.d4.test", dane(8), false),
        ] {
            assert_eq!(shown.convinces(name, &trust), convinces, "{shown:?} {name} {trust:?}");
        }
    }
}
