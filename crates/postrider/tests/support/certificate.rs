//! Certificates that tests make for themselves.

use super::tool;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const RSA: &str = "rsa:2048";
pub const EC: &str = "ec -pkeyopt ec_paramgen_curve:prime256v1";

/// A certificate of its own authority, in `NAME.pem` and `NAME.key`, for these names (or `IP:…`).
pub fn make_certificate(dir: &Path, file: &str, kind: &str, names: &[&str]) {
    let at = |extension: &str| dir.join(format!("{file}.{extension}")).display().to_string();
    let alternative = |name: &&str| match name.starts_with("IP:") {
        true => (*name).to_owned(),
        false => format!("DNS:{name}"),
    };
    let alternatives: Vec<String> = names.iter().map(alternative).collect();
    let command = format!(
        "openssl req -x509 -newkey {kind} -nodes -days 2 -subj /CN={} -addext subjectAltName={} \
         -addext basicConstraints=critical,CA:FALSE \
         -keyout {} -out {}",
        names[0],
        alternatives.join(","),
        at("key"),
        at("pem"),
    );
    tool::succeed("sh", &["-c", &command]);
}

/// The same for one name, without an authority; it lasts no longer than the second in which it is made.
pub fn make_ended(dir: &Path, file: &str, name: &str) {
    let at = |extension: &str| dir.join(format!("{file}.{extension}")).display().to_string();
    let command = format!(
        "echo subjectAltName=DNS:{name} > {ext} && \
         openssl req -new -newkey {EC} -nodes -subj /CN={name} -keyout {key} -out {request} && \
         openssl x509 -req -in {request} -signkey {key} -days 0 -extfile {ext} -out {pem}",
        ext = at("ext"),
        key = at("key"),
        request = at("request"),
        pem = at("pem"),
    );
    tool::succeed("sh", &["-c", &command]);
    std::thread::sleep(Duration::from_millis(1_100));
}

/// The same for `NAME.test`, from a time to another one, in seconds from now.
pub fn make_lasting(dir: &Path, name: &str, (from, to): (i64, i64)) {
    let key = rcgen::KeyPair::generate().expect("random numbers");
    let names = vec![format!("{name}.test")];
    let mut parameters = rcgen::CertificateParams::new(names).expect("a host name");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let at = |seconds: i64| {
        let since = Duration::from_secs(now.saturating_add_signed(seconds));
        rcgen::date_time_ymd(1970, 1, 1) + since
    };
    (parameters.not_before, parameters.not_after) = (at(from), at(to));
    let made = parameters.self_signed(&key).expect("a signature");
    std::fs::write(dir.join(format!("{name}.pem")), made.pem()).expect("a file");
    let secret = dir.join(format!("{name}.key"));
    std::fs::write(&secret, key.serialize_pem()).expect("a file");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a file of ours");
}

/// The section that names it.
pub fn section(file: &str, names: &[&str]) -> String {
    format!("[[certificate]]\nnames = {names:?}\nchain = \"{file}.pem\"\nkey = \"{file}.key\"\n")
}

/// An authority in `CA.pem`, and certificates that it issues, each in `NAME.pem` with the authority's
/// behind it and `NAME.key`.
pub fn make_issued(dir: &Path, ca: &str, issued: &[(&str, &str)]) {
    let at =
        |file: &str, extension: &str| dir.join(format!("{file}.{extension}")).display().to_string();
    let (ca_pem, ca_key) = (at(ca, "pem"), at(ca, "key"));
    let authority = format!(
        "openssl req -x509 -newkey {EC} -nodes -days 2 -subj /CN={ca} \
         -addext basicConstraints=critical,CA:TRUE -keyout {ca_key} -out {ca_pem}"
    );
    tool::succeed("sh", &["-c", &authority]);
    for (file, names) in issued {
        let alternatives = names.split(' ').map(|name| format!("DNS:{name}")).collect::<Vec<_>>();
        let command = format!(
            "openssl req -x509 -newkey {EC} -nodes -days 2 -subj /CN={file} -CA {ca_pem} \
             -CAkey {ca_key} -addext subjectAltName={} -addext basicConstraints=critical,CA:FALSE \
             -keyout {} -out {pem} && cat {ca_pem} >> {pem}",
            alternatives.join(","),
            at(file, "key"),
            pem = at(file, "pem"),
        );
        tool::succeed("sh", &["-c", &command]);
    }
}
