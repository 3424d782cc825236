//! Certificates that tests make for themselves.

use super::tool;
use std::path::Path;

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

/// The section that names it.
pub fn section(file: &str, names: &[&str]) -> String {
    format!("[[certificate]]\nnames = {names:?}\nchain = \"{file}.pem\"\nkey = \"{file}.key\"\n")
}
