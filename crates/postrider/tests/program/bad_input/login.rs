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
const LISTENERS: [(&str, &str); 2] = [
    ("clear", "tls = \"starttls\"\nlogin_failures_per_hour = 1"),
    ("login", "tls = \"implicit\"\nlogin_failures_per_hour = 0\nsenders = { table = \"senders\" }"),
];

const TABLES: &str = "\
[[table]]\nname = \"passwords\"\n[table.inline]\n\
jo = \"{PLAIN}right\"\nal = \"{PLAIN}right\"\nbroken = \"$6$salt$short\"\n\
ssha = \"{SSHA}c2VjcmV0\"\ntext = \"right\"\n\
costly = \"{ARGON2ID}$argon2id$v=19$m=4194304,t=9,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5Q\"\n\
[[table]]\nname = \"senders\"\n[table.inline]\njo = \"a@client.test\"\n";

/// Encrypts what comes to its port, and says which that is: from the start, or by STARTTLS.
const BRIDGE: &str = "\
import asyncio, ssl, sys
context = ssl._create_unverified_context()
async def pump(reader, writer):
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    writer.close()
async def clear():
    reader, writer = await asyncio.open_connection('127.0.0.1', int(sys.argv[1]), limit=1 << 22)
    greeting = await reader.readline()
    for command in (b'EHLO bridge.test', b'STARTTLS'):
        writer.write(command + b'\\r\\n')
        while (await reader.readline())[3:4] == b'-':
            pass
    await writer.start_tls(context)
    return greeting, reader, writer
async def encrypted():
    connect = asyncio.open_connection
    return b'', *await connect('127.0.0.1', int(sys.argv[1]), ssl=context, limit=1 << 22)
async def accepted(reader, writer):
    try:
        greeting, *there = await (clear() if sys.argv[2] == 'clear' else encrypted())
    except OSError:
        return writer.close()
    writer.write(greeting)
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
async def main():
    server = await asyncio.start_server(accepted, '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
";

/// A way to an encrypted listener for whoever speaks in clear.
struct Bridge {
    child: Child,
    address: SocketAddr,
}

impl Bridge {
    fn start(to: SocketAddr, how: &str) -> Bridge {
        let mut command = Command::new("python3");
        command.args(["-c", BRIDGE, &to.port().to_string(), how]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a port");
        let port: u16 = line.trim().parse().expect("a port");
        Bridge { child, address: ([127, 0, 0, 1], port).into() }
    }
}

impl Drop for Bridge {
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
    let [clear, login] = [0, 1].map(|at| bench.server.addresses[first + at]);
    let (few, encrypted) = (Bridge::start(clear, "clear"), Bridge::start(login, "encrypted"));
    let reached = BTreeMap::from([
        ("in", bench.listener("in")),
        ("clear", clear),
        ("few", few.address),
        ("login", encrypted.address),
    ]);
    table::check("login", |row| {
        wire::play_at(&bench, row, reached[row.setting("at").unwrap_or("login")])
    });
    bench.server.stop();
}
