//! `bench sign`: what signing costs at least, to hold runs that sign against: bare signatures and hashes by the
//! library that signs, and nothing of mail.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use comfy_table::{Table, presets};
use load::cpu::thread_time;
use load::stop::{CommandError, Outcome};
use serde_json::{Value, json};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

/// As it is named on the command line.
pub(super) const NAME: &str = "sign";

/// Each figure is taken for so long unless the command line says otherwise.
const SECONDS: u64 = 3;

/// What is signed of a header in canonical form has about so many octets.
const HEADER_BYTES: usize = 1_000;

/// What is hashed: the content of the scenarios that sign.
const CONTENT_BYTES: [usize; 2] = [10_000, 100_000];

/// One line of the result.
struct SignatureCost {
    what: String,
    /// Processor time of one, in microseconds.
    us: f64,
}

/// The command: a line for each signature and each hash.
pub(super) fn run(seconds: Option<u64>, as_json: bool) -> Outcome {
    let lasts = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let failed = |_| CommandError::new("no key could be made, or none signed".to_owned());
    let lines = measure(lasts).map_err(failed)?;
    if as_json {
        let to_json = |line: &SignatureCost| json!({ "what": line.what, "us": line.us });
        println!("{}", Value::from_iter(lines.iter().map(to_json)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(["bare", "µs"]);
    for line in lines {
        table.add_row([line.what, format!("{:.1}", line.us)]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

fn measure(lasts: Duration) -> Result<Vec<SignatureCost>, Unspecified> {
    let (header, random) = (vec![b'h'; HEADER_BYTES], SystemRandom::new());
    let rsa = rsa_key()?;
    let mut signature = vec![0; rsa.public_modulus_len()];
    let mut lines = vec![timed("signature, RSA 2048".to_owned(), lasts, || {
        rsa.sign(&RSA_PKCS1_SHA256, &random, black_box(&header), &mut signature)
    })?];
    let ed25519 = Ed25519KeyPair::generate()?;
    lines.push(timed("signature, Ed25519".to_owned(), lasts, || {
        // RFC 8463 §3: over the hash of the header.
        let hash = digest(&SHA256, black_box(&header));
        black_box(ed25519.try_sign(hash.as_ref())?);
        Ok(())
    })?);
    for bytes in CONTENT_BYTES {
        let content = vec![b'c'; bytes];
        lines.push(timed(format!("SHA-256 over {bytes} B"), lasts, || {
            black_box(digest(&SHA256, black_box(&content)));
            Ok(())
        })?);
    }
    Ok(lines)
}

/// One that was read from DER, as those that sign mail are.
fn rsa_key() -> Result<RsaKeyPair, Unspecified> {
    let der = RsaKeyPair::generate(KeySize::Rsa2048)?.as_der()?;
    RsaKeyPair::from_pkcs8(der.as_ref()).map_err(|_| Unspecified)
}

fn timed(
    what: String,
    lasts: Duration,
    mut once: impl FnMut() -> Result<(), Unspecified>,
) -> Result<SignatureCost, Unspecified> {
    let begun = thread_time();
    let mut count = 0u32;
    loop {
        once()?;
        count += 1;
        let used = thread_time().saturating_sub(begun);
        if used >= lasts {
            return Ok(SignatureCost { what, us: used.as_secs_f64() * 1e6 / f64::from(count) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_costs_more_and_rsa_more_than_ed25519() {
        let lines = measure(Duration::from_millis(50)).expect("measured");
        let us: Vec<f64> = lines.iter().map(|line| line.us).collect();
        let [rsa, ed25519, small, large] = us[..] else { panic!("four figures: {us:?}") };
        assert!(rsa > ed25519 && large > 5.0 * small, "{us:?}");
    }
}
