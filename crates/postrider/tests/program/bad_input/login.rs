//! Rows about users who log in, over SMTP as in [`wire`](super::wire): `at` is `login` unless said otherwise.

use super::bench::Bench;
use super::table;
use super::wire;
use crate::support::Files;
use crate::support::certificate::{EC, make_certificate};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// What the submission listeners are told, in their order behind all others. Failures of a row are no
/// other's.
const LISTENERS: [(&str, &str); 3] = [
    ("clear", "tls = \"starttls\"\nlogin_failures_per_hour = 1"),
    ("hasty", "tls = \"starttls\"\nlogin_timeout = \"1s\""),
    ("login", "tls = \"implicit\"\nlogin_failures_per_hour = 0\nsenders = { table = \"senders\" }"),
];

const TABLES: &str = "\
[[table]]\nname = \"passwords\"\n[table.inline]\n\
jo = \"{PLAIN}right\"\nal = \"{PLAIN}right\"\nbroken = \"$6$salt$short\"\n\
locked = \"!{PLAIN}right\"\nstar = \"*\"\nword = \"*LK*\"\ncrypt = \"{CRYPT}!\"\n\
ssha = \"{SSHA}c2VjcmV0\"\ntext = \"right\"\n\
costly = \"{ARGON2ID}$argon2id$v=19$m=4194304,t=9,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q\"\n\
[[table]]\nname = \"senders\"\n[table.inline]\njo = \"a@client.test\"\n";

/// Encrypts what comes to its port, and says which that is: from the start, or by STARTTLS.
const BRIDGE: &str = "\
import asyncio, functools, ssl, sys
context = ssl._create_unverified_context()
async def pump(reader, writer):
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    writer.close()
async def clear(port):
    reader, writer = await asyncio.open_connection('127.0.0.1', port, limit=1 << 22)
    greeting = await reader.readline()
    for command in (b'EHLO bridge.test', b'STARTTLS'):
        writer.write(command + b'\\r\\n')
        while (await reader.readline())[3:4] == b'-':
            pass
    await writer.start_tls(context)
    return greeting, reader, writer
async def encrypted(port):
    connect = asyncio.open_connection
    return b'', *await connect('127.0.0.1', port, ssl=context, limit=1 << 22)
async def accepted(port, reader, writer):
    try:
        greeting, *there = await (clear if sys.argv[1] == 'clear' else encrypted)(port)
    except OSError:
        return writer.close()
    writer.write(greeting)
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
async def main():
    for port in map(int, sys.argv[2:]):
        serve = functools.partial(accepted, port)
        server = await asyncio.start_server(serve, '127.0.0.1', 0)
        print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
";

/// Ways to encrypted listeners for whoever speaks in clear.
pub(super) struct Bridges {
    child: Child,
    /// In the order of the listeners.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Bridges {
    pub(super) fn start(to: &[SocketAddr], how: &str) -> Bridges {
        let mut command = Command::new("python3");
        command.args(["-c", BRIDGE, how]).stdin(Stdio::null()).stdout(Stdio::piped());
        let ports = to.iter().map(|address| address.port().to_string());
        let mut child = command.args(ports).spawn().expect("python3");
        let lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        let port = |line: Result<String, _>| -> u16 {
            line.expect("a line").trim().parse().expect("a port")
        };
        let addresses = lines.take(to.len()).map(|line| ([127, 0, 0, 1], port(line)).into());
        let addresses = addresses.collect();
        Bridges { child, addresses }
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn login() {
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["relay.test"]);
    let (chain, key) = (files.path("mx.pem"), files.path("mx.key"));
    let mut sections = format!(
        "[[certificate]]\nnames = [\"relay.test\"]\nchain = \"{}\"\nkey = \"{}\"\n{TABLES}",
        chain.display(),
        key.display()
    );
    for (name, keys) in LISTENERS {
        sections += &format!(
            "[[listener]]\nname = \"{name}\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
             logins = {{ table = \"passwords\" }}\nlogin_failures_per_hour_of_user = 0\n\
             login_failure_delay = \"0s\"\nmechanisms = [\"plain\", \"login\", \"scram-sha-256\"]\n\
             {keys}\n"
        );
    }
    let bench = Bench::start_with(&sections);
    let first = bench.server.addresses.len() - LISTENERS.len();
    let [clear, hasty, login] = [0, 1, 2].map(|at| bench.server.addresses[first + at]);
    let few = Bridges::start(&[clear], "clear");
    let encrypted = Bridges::start(&[login], "encrypted");
    let reached = BTreeMap::from([
        ("in", bench.listener("in")),
        ("clear", clear),
        ("hasty", hasty),
        ("few", few.addresses[0]),
        ("login", encrypted.addresses[0]),
    ]);
    table::check("login", |row| {
        wire::play_at(&bench, row, reached[row.setting("at").unwrap_or("login")])
    });
    bench.server.stop();
}
