//! Rows about recipients that a next hop is asked for, over SMTP as in [`wire`](super::wire).
//!
//! Each domain has a next hop of its own, which misbehaves in one way ([`WAYS`]).

use super::bench::Bench;
use super::table;
use super::wire;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

/// The first label of a domain, the verb that its next hop answers in a way of its own (empty: the
/// greeting), and that answer. A hop whose answer is cut off hangs up behind it.
const WAYS: [(&str, &str, &str); 13] = [
    ("well", "", "220 next.test\r\n"),
    ("never", "", ""),
    ("garbage", "", "HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("unwilling", "", "554 5.7.1 You have no business here\r\n"),
    ("sender", "MAIL", "550 5.7.1 No reports, please\r\n"),
    ("later", "RCPT", "450 4.2.0 Come back later\r\n"),
    ("busy", "RCPT", "421 4.3.2 Too many connections\r\n"),
    ("syntax", "RCPT", "503 5.5.1 Bad sequence of commands\r\n"),
    ("half", "RCPT", "550 5.1.1 No su"),
    ("cut", "RCPT", CUT),
    ("both", "RCPT", "550-5.1.1 No such user\r\n250 2.1.5 Ok\r\n"),
    ("words", "RCPT", "550 5.1.1 Ok, 250 2.1.5 \x1b[2J <b@words.ahead.test>\r\n"),
    ("endless", "RCPT", ENDLESS),
];

/// Hangs up in the middle.
const CUT: &str = "550 5.1.1 No such user\r";

/// A line that comes again and again.
const ENDLESS: &str = "550-5.1.1 and another thing\r\n";

/// What a next hop says that has nothing against it.
fn usual(command: &str) -> &'static str {
    match command.split(' ').next() {
        Some("EHLO") => "250-next.test\r\n250 PIPELINING\r\n",
        Some("RCPT") if !command.contains("<b@") => "550 5.1.1 No such user\r\n",
        Some("QUIT") => "221 2.0.0 Bye\r\n",
        _ => "250 2.0.0 Ok\r\n",
    }
}

/// Answers a client, to the end of what either of them says.
fn answer(stream: TcpStream, verb: &str, said: &'static str) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    writer.write_all(if verb.is_empty() { said } else { "220 next.test\r\n" }.as_bytes())?;
    for command in BufReader::new(stream).lines() {
        let command = command?;
        let is_it = !verb.is_empty() && command.starts_with(verb);
        let reply = if is_it { said } else { usual(&command) };
        writer.write_all(reply.as_bytes())?;
        if is_it && said == ENDLESS {
            loop {
                writer.write_all(said.as_bytes())?;
            }
        }
        if is_it && said == CUT {
            return Ok(());
        }
    }
    Ok(())
}

fn serve(listener: TcpListener, verb: &'static str, said: &'static str) {
    for stream in listener.incoming().map_while(Result::ok) {
        // Whoever hangs up has heard enough.
        std::thread::spawn(move || drop(answer(stream, verb, said)));
    }
}

/// The table and the route of one domain.
fn sections(name: &str, port: u16) -> String {
    format!(
        "[[table]]\nname = \"{name}\"\n\
         call_ahead = {{ route = \"{name}\", connect_timeout = \"500ms\" }}\n\
         [[route]]\nname = \"{name}\"\ndomains = [\"{name}.ahead.test\"]\n\
         recipients = {{ table = \"{name}\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"], tls = \"off\", command_timeout = \"500ms\" }}\n"
    )
}

#[test]
fn call_ahead() {
    let mut text = String::new();
    for (name, verb, said) in WAYS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        text += &sections(name, listener.local_addr().expect("bound").port());
        std::thread::spawn(move || serve(listener, verb, said));
    }
    // Nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    text += &sections("gone", listener.local_addr().expect("bound").port());
    drop(listener);
    let bench = Bench::start_with(&text);
    table::check("call_ahead", |row| wire::play(&bench, row));
    bench.server.stop();
}
