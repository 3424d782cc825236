//! Next hops that take mail of their users only.

mod peers;
mod senders;

use crate::interop::place::{Place, is_possible};
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::server::{CONFIG, POSTRIDER, Server};
use crate::support::{Files, wait_until};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

pub(crate) const PASSWORD: &str = "p,w=d";

/// A submission server of ours, for `relay`: STARTTLS on the first port, TLS from the start on the second.
pub(crate) fn far(files: &Files) -> Server {
    make_certificate(files.dir(), "mx", EC, &["IP:127.0.0.1"]);
    let listener = |name: &str, tls: &str| {
        format!(
            "[[listener]]\nname = \"{name}\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
             tls = \"{tls}\"\nlogins = {{ table = \"passwords\" }}\nlogin_failure_delay = \"0s\"\n\
             mechanisms = [\"plain\", \"login\", \"scram-sha-256\"]\n"
        )
    };
    let text = format!(
        "hostname = \"mail.far.test\"\nspool = {{ path = \"spool\" }}\n{}{}{}\
         [[table]]\nname = \"passwords\"\n[table.inline]\nrelay = \"{{PLAIN}}{PASSWORD}\"\n\
         [[route]]\ndiscard = {{}}\n",
        section("mx", &["mail.far.test"]),
        listener("submission", "starttls"),
        listener("submissions", "implicit"),
    );
    Server::start(files, &text)
}

/// A secret that only its owner may read.
pub(crate) fn write_secret(files: &Files, name: &str, text: &str) {
    files.write(name, text);
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(files.path(name), mode).expect("a file of ours");
}

fn route(domain: &str, port: u16, keys: &str) -> String {
    format!(
        "[[route]]\nname = \"{domain}\"\ndomains = [\"{domain}.test\"]\nretry = {{ first = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"], {keys} }}\n"
    )
}

fn near(files: &Files, routes: &str, roots: &str) -> Server {
    near_with(files, routes, &[("SSL_CERT_FILE", roots)])
}

/// A relay with these routes, and this in its environment.
pub(crate) fn near_with(files: &Files, routes: &str, environment: &[(&str, &str)]) -> Server {
    let head = "hostname = \"near.test\"\nspool = { path = \"spool\" }\n[[listener]]\n\
                address = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n";
    files.write(CONFIG, &format!("{head}{routes}"));
    Server::start_with(files, environment)
}

pub(crate) fn send(server: &Server, domain: &str) {
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &[&format!("you@{domain}.test")], "Subject: x\r\n\r\nx\r\n");
}

/// Who sent each message that has come, as the log has it.
pub(crate) fn logins(files: &Files) -> Vec<String> {
    let login = |event: &serde_json::Value| {
        assert_eq!(event["protocol"], "ESMTPSA", "{event}");
        event["login"].as_str().expect("a login").to_owned()
    };
    files.events_of("received").iter().map(login).collect()
}

#[test]
fn our_own_submission_is_logged_in_to_by_each_mechanism() {
    let far_files = Files::new();
    let far = far(&far_files);
    let [starttls, implicit] = [0, 1].map(|at: usize| far.addresses[at].port());
    let login = |mechanisms: &str| {
        format!("login = {{ user = \"relay\", password_file = \"secret\"{mechanisms} }}")
    };
    let by = |word: &str| login(&format!(", mechanisms = [\"{word}\"]"));
    let begins = "tls_start = \"implicit\", ";
    let routes = route("any", starttls, &format!("tls = \"verified\", {}", login("")))
        + &route("scram", starttls, &format!("tls = \"required\", {}", by("scram-sha-256")))
        + &route("plain", starttls, &format!("tls = \"required\", {}", by("plain")))
        + &route("login", implicit, &format!("tls = \"required\", {begins}{}", by("login")))
        + &route("implicit", implicit, &format!("tls = \"verified\", {begins}{}", login("")));
    let files = Files::new();
    write_secret(&files, "secret", &format!("{PASSWORD}\n"));
    let near = near(&files, &routes, &far_files.path("mx.pem").display().to_string());
    let all = ["any", "scram", "plain", "login", "implicit"];
    for (count, domain) in all.iter().enumerate() {
        send(&near, domain);
        wait_until(domain, || files.events_of("relayed").len() > count);
    }
    // Who sent it may hear of it before the other server has written down what happened.
    wait_until("five logins", || logins(&far_files) == ["relay"; 5]);
    for event in files.events_of("relayed") {
        assert_eq!(event["tls_version"], "TLSv1.3", "{event}");
    }
    // Nobody is shown the password.
    let explained = Command::new(POSTRIDER)
        .args(["explain", "--config", CONFIG, "you@any.test"])
        .current_dir(files.dir())
        .output()
        .expect("postrider runs");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("relay, by secret") && !explained.contains(PASSWORD), "{explained}");
    assert!(!near.console().iter().any(|line| line.contains(PASSWORD)));
    near.stop();
    far.stop();
}

#[test]
fn mail_waits_where_a_login_is_refused_until_its_file_is_mended() {
    let far_files = Files::new();
    let far = far(&far_files);
    let port = far.addresses[0].port();
    let login = "tls = \"required\", login = { user = \"relay\", password_file = \"secret\" }";
    let files = Files::new();
    write_secret(&files, "secret", "wrong\n");
    let roots = far_files.path("mx.pem").display().to_string();
    let near = near(&files, &route("far", port, login), &roots);
    send(&near, "far");
    let is_told = || {
        files.events_of("suspended").iter().any(|event| {
            let reply = event["reply"].as_str().unwrap_or_default();
            event["status"] == "4.7.8" && reply.starts_with("535")
        })
    };
    wait_until("the refusal is told", is_told);
    assert_eq!(logins(&far_files), [""; 0]);
    write_secret(&files, "secret", PASSWORD);
    wait_until("it goes", || files.events_of("relayed").len() == 1);
    wait_until("the login is told", || logins(&far_files) == ["relay"]);
    near.stop();
    far.stop();
}

#[test]
fn a_secret_that_everybody_may_read_is_none() {
    let files = Files::new();
    files.write("secret", "x");
    let login = "tls = \"required\", login = { user = \"relay\", password_file = \"secret\" }";
    let head = "hostname = \"near.test\"\nspool = { path = \"spool\" }\n\
                [[listener]]\naddress = \"127.0.0.1:0\"\n";
    files.write(CONFIG, &format!("{head}{}", route("far", 25, login)));
    let output = Command::new(POSTRIDER)
        .args(["serve", "--config", CONFIG])
        .current_dir(files.dir())
        .output()
        .expect("postrider runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("the login of route \"far\": secret: readable by all users"), "{said}");
}

/// Takes mail by STARTTLS or TLS from the start, as `rules` at RCPT say, and sends it on as its user `relay`.
fn exim(place: &Place, rules: &str) -> String {
    let (dir, port, implicit, next) = (place.dir(), place.port, place.rude_port, place.next_port);
    format!(
        "primary_hostname = exim.test
spool_directory = {dir}/spool
log_file_path = {dir}/%slog
log_selector = +tls_cipher
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port} : {implicit}
tls_on_connect_ports = {implicit}
disable_ipv6 = true
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
deliver_drop_privilege = true
tls_advertise_hosts = *
tls_certificate = {dir}/tls.pem
tls_privatekey = {dir}/tls.key
auth_advertise_hosts = ${{if def:tls_in_cipher{{*}}{{}}}}
acl_smtp_rcpt = rcpt

begin acl
rcpt:
{rules}  accept

begin routers
all:
  driver = manualroute
  transport = out
  route_list = * 127.0.0.1 byname
  self = send

begin transports
out:
  driver = smtp
  port = {next}
  hosts_require_tls = *
  hosts_require_auth = *
  tls_try_verify_hosts = 192.0.2.1
  allow_localhost

begin retry
* * F,1h,1s

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if and{{{{eq{{$auth2}}{{relay}}}}{{eq{{$auth3}}{{{PASSWORD}}}}}}}}}
  server_set_id = $auth2
  client_send = ^relay^{PASSWORD}
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = Username:: : Password::
  server_condition = ${{if and{{{{eq{{$auth1}}{{relay}}}}{{eq{{$auth2}}{{{PASSWORD}}}}}}}}}
  server_set_id = $auth1
"
    )
}

/// Starts it with the certificate in `tls.pem`, which it has to be able to read.
pub(crate) fn start_exim(place: &mut Place, rules: &str) {
    let key = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("tls.key"), key).expect("a file of ours");
    place.write("exim.conf", &exim(place, rules));
    let file = place.path("exim.conf").display().to_string();
    let command = place.command("exim4-daemon-light", &["exim4", "-C", &file, "-bdf", "-q1s"]);
    place.start(command, "stderr.log");
    place.wait_listening(place.port);
}

#[test]
fn exim_takes_mail_of_its_user_and_logs_in_to_us() {
    if !is_possible(&["exim4-daemon-light"]) {
        return;
    }
    let far_files = Files::new();
    let far = far(&far_files);
    let mut place = Place::new(far.addresses[0].port());
    make_certificate(&place.path("."), "tls", EC, &["IP:127.0.0.1"]);
    let for_users = "  deny !authenticated = *\n       message = log in first\n";
    start_exim(&mut place, for_users);
    let login = "login = { user = \"relay\", password_file = \"secret\"";
    let routes = route("required", place.port, &format!("tls = \"required\", {login} }}"))
        + &route("verified", place.port, &format!("tls = \"verified\", {login} }}"))
        + &route(
            "implicit",
            place.rude_port,
            &format!(
                "tls = \"verified\", tls_start = \"implicit\", {login}, mechanisms = [\"login\"] }}"
            ),
        )
        + &route("nobody", place.port, "tls = \"required\"");
    let files = Files::new();
    write_secret(&files, "secret", &format!("{PASSWORD}\n"));
    let near = near(&files, &routes, &place.path("tls.pem").display().to_string());
    for (count, domain) in ["required", "verified", "implicit"].iter().enumerate() {
        send(&near, domain);
        wait_until(domain, || files.events_of("relayed").len() > count);
    }
    // Exim sends on to us, encrypted and as its own user.
    wait_until("it came", || far_files.events_of("received").len() == 3);
    assert_eq!(logins(&far_files), ["relay"; 3]);
    send(&near, "nobody");
    wait_until("it is refused", || {
        let failed = files.events_of("failed");
        failed.iter().any(|event| event["recipient"] == "you@nobody.test")
    });
    near.stop();
    far.stop();
}
