//! The fields in the tests of the package authres: what bears our name is renamed, what bears another's stays.

use super::{NOBODY, Stand, made};
use std::collections::BTreeMap;

const SCRIPT: &str = include_str!("authres_fields.py");

#[test]
fn the_fields_of_authres_pass_where_they_bear_anothers_name() {
    let made = made(SCRIPT, &[]);
    let mut by_server: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let pairs = made.as_array().expect("pairs");
    for pair in pairs {
        let of = |n: usize| pair[n].as_str().expect("text");
        by_server.entry(of(0)).or_default().push(of(1));
    }
    assert!(pairs.len() >= 30 && by_server.len() >= 5, "{made}");
    let fields: Vec<&str> = by_server.values().flatten().copied().collect();
    let head: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let message = format!("{head}From: u@client.test\r\nSubject: x\r\n\r\nx\r\n");
    for (server, its) in &by_server {
        let mut stand = Stand::start(server, "spf = \"mark\"");
        let delivered = stand.play(&NOBODY, message.as_bytes()).expect("it is taken");
        let delivered = String::from_utf8(delivered).expect("UTF-8").replace("\r\n", "\n");
        for field in &fields {
            let renamed = field.replacen("Authentication-Results", "X-Foreign-Auth-Results", 1);
            let is_ours = its.contains(field);
            let stays = delivered.contains(&format!("\n{field}\n"));
            let goes = delivered.contains(&format!("\n{renamed}\n"));
            assert_eq!((stays, goes), (!is_ours, is_ours), "{server}: {field}\n{delivered}");
        }
        stand.server.stop();
    }
}
