//! nginx's mail proxy before our listeners: it says XCLIENT once, and then passes its client's octets on.

use super::place::Place;
use crate::support::Files;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::tool::free_port;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

const REFUSED: &str = "550 5.7.0 Insufficient authorization";

/// nginx connects from 127.0.0.1. Clients of 127.0.0.17 may relay, users send from their own addresses.
fn server(files: &Files) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mx.here.test"]);
    Server::start(
        files,
        &format!(
            "hostname = \"mx.here.test\"\nspool = {{ path = \"spool\" }}\n{}\
             [[listener]]\nname = \"mx\"\naddress = \"127.0.0.1:0\"\n\
             relay_from = [\"127.0.0.17\"]\nxclient_from = [\"127.0.0.1\"]\n\
             [[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
             logins = {{ table = \"passwords\" }}\nsenders = {{ table = \"senders\" }}\n\
             xclient_from = [\"127.0.0.1\"]\n\
             [[table]]\nname = \"passwords\"\ninline = {{ jo = \"{{PLAIN}}right\" }}\n\
             [[table]]\nname = \"senders\"\n\
             inline = {{ jo = \"jo@here.test\", boss = \"boss@here.test\" }}\n\
             [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
             [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"] }}\n",
            section("mx", &["mx.here.test"])
        ),
    )
}

/// Answers nginx's questions where a client is to be led: users with the password `right` to one listener, all
/// others to the other one. Ends with the test's process.
fn answer_nginx(mx: SocketAddr, users: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer_to(&stream, mx, users);
            // nginx may be gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn answer_to(stream: &TcpStream, mx: SocketAddr, users: SocketAddr) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let asked: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let has = |header: &str| asked.iter().any(|line| line.eq_ignore_ascii_case(header));
    let to = match has("Auth-Method: none") {
        true => Some(mx),
        false => has("Auth-Pass: right").then_some(users),
    };
    let told = match to {
        Some(to) => {
            format!("Auth-Status: OK\r\nAuth-Server: {}\r\nAuth-Port: {}", to.ip(), to.port())
        }
        None => "Auth-Status: Invalid login".to_owned(),
    };
    format!("HTTP/1.0 200 OK\r\n{told}\r\n\r\n")
}

/// Starts nginx with a port for strangers and one for users.
fn start(place: &mut Place, server: &Server) -> [SocketAddr; 2] {
    let asks = answer_nginx(server.addresses[0], server.addresses[1]);
    let (dir, ports) = (place.dir(), [free_port(), free_port()]);
    place.write(
        "nginx.conf",
        &format!(
            "load_module /usr/lib/nginx/modules/ngx_mail_module.so;\n\
             daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log info;\n\
             events {{ worker_connections 64; }}\n\
             mail {{ server_name mx.here.test; auth_http 127.0.0.1:{asks}/auth;\n\
             server {{ listen 127.0.0.1:{}; protocol smtp; smtp_auth none; }}\n\
             server {{ listen 127.0.0.1:{}; protocol smtp; smtp_auth plain login; }} }}\n",
            ports[0], ports[1]
        ),
    );
    let path = place.path("nginx.conf").display().to_string();
    let log = place.path("error.log").display().to_string();
    let words = ["nginx", "-c", &path, "-e", &log];
    let command = place.command("nginx-light,libnginx-mod-mail", &words);
    place.start(command, "nginx.log");
    ports.map(|port| {
        place.wait_listening(port);
        ([127, 0, 0, 1], port).into()
    })
}

/// A client of nginx, up to EHLO.
fn client_of(nginx: SocketAddr, from: &str) -> Client {
    let mut client = Client::from(from.parse().expect("an address"), nginx);
    client.expect("220 ");
    client.say("EHLO client.test", "250");
    client
}

/// What nginx passes on says XCLIENT in vain.
fn is_refused_xclient(client: &mut Client) {
    for said in ["ADDR=127.0.0.17", "ADDR=127.0.0.1", "LOGIN=boss", "NAME=mx.here.test"] {
        client.say("RSET", "250");
        client.send(format!("XCLIENT {said}\r\n"));
        let reply = client.reply();
        let expected = match said.starts_with("LOGIN") {
            // Not even an attribute, where nobody logs in.
            true => "55",
            false => REFUSED,
        };
        assert!(reply.starts_with(expected), "{said}: {reply}");
        client.send("EHLO client.test\r\n");
        let offered = client.reply();
        assert!(offered.starts_with("250") && !offered.contains("XCLIENT"), "{offered}");
    }
}

pub(crate) fn clients_behind_it_stay_who_they_are() {
    let (mut place, files) = (Place::new(0), Files::new());
    let server = server(&files);
    let [mx, users] = start(&mut place, &server);
    let mut stranger = client_of(mx, "127.0.0.18");
    stranger.mail("me@source.test", &["you@here.test"], "Subject: x\r\n\r\nBody.\r\n");
    is_refused_xclient(&mut stranger);
    stranger.say("MAIL FROM:<me@source.test>", "250");
    stranger.say("RCPT TO:<you@elsewhere.test>", "550 5.7.1 Relay access denied");
    // The right of the announced client is its own.
    let mut friend = client_of(mx, "127.0.0.17");
    friend.say("MAIL FROM:<me@source.test>", "250");
    friend.say("RCPT TO:<you@elsewhere.test>", "250");

    let mut jo = client_of(users, "127.0.0.18");
    jo.say(&format!("AUTH PLAIN {}", STANDARD.encode("\0jo\0right")), "235");
    jo.say("MAIL FROM:<boss@here.test>", "553 5.7.1");
    is_refused_xclient(&mut jo);
    jo.say("MAIL FROM:<boss@here.test>", "553 5.7.1");
    jo.mail("jo@here.test", &["you@here.test"], "Subject: y\r\n\r\nBody.\r\n");
    files.wait_events("received", 2);
    let received = files.events_of("received");
    let seen = |at: usize, name: &str| received[at][name].as_str().unwrap_or("-").to_owned();
    let who = |at| ["client", "proxy", "login"].map(|name| seen(at, name)).join(" ");
    assert_eq!([who(0), who(1)], ["127.0.0.18 127.0.0.1 -", "127.0.0.18 127.0.0.1 jo"]);
    server.stop();
}
