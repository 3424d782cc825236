//! Whatever a web server gives out as a domain's MTA-STS policy, and the DNS as the record of it: what is
//! read keeps to its limits, and reads the same when it is written again.

use auth::mta_sts::{AGE_MAX, POLICY_BYTES_MAX, Policy, policy_id};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Some(id) = policy_id(&[bytes]) {
        assert!((1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric()));
    }
    let Ok(policy) = Policy::parse(bytes) else { return };
    assert!(bytes.len() <= POLICY_BYTES_MAX && policy.max_age <= AGE_MAX);
    let mut text = format!(
        "version: STSv1\r\nmode: {}\r\nmax_age: {}\r\n",
        policy.mode.word(),
        policy.max_age.as_secs()
    );
    for mx in policy.mx() {
        text += &format!("mx: {mx}\r\n");
        let host = mx.strip_prefix("*.").map_or(mx.to_owned(), |parent| format!("any.{parent}"));
        assert!(policy.has_host(&host) && policy.has_host(&host.to_ascii_uppercase()));
    }
    // What stands there twice with different line ends may have been shorter.
    if text.len() <= POLICY_BYTES_MAX {
        assert_eq!(Policy::parse(text.as_bytes()).as_ref(), Ok(&policy));
    }
}
