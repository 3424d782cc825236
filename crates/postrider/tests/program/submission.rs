//! Submission, by the clients that people have.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server};
use crate::support::{Files, tool};

/// The password of everybody here, in each form that is stored.
const PASSWORDS: [(&str, &str); 6] = [
    ("plain", "{PLAIN}pencil"),
    (
        "argon2",
        "{ARGON2ID}$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$jVhqmhryg9cVIz69QRMw92CgHDmJT2jige8KZ+yGwww",
    ),
    ("bcrypt", "{BLF-CRYPT}$2b$05$abcdefghijklmnopqrstuu680Yiaj5hFUaJTH/rTAcbA2PQEGfiZu"),
    (
        "sha512",
        "$6$rounds=1000$saltsalt$bbY.T.ZpN43KapLdmlSbP6MmxBlkMSbhrh.Y1rmY0fYaRO/t.4sKqUiU.Z8byKf8Oa1yagMn/0fncuHSYrb9h.",
    ),
    ("sha256", "{SHA256-CRYPT}$5$rounds=1000$saltsalt$1E80wIeNUk6Tw.cvgykgsGLDhE7YCS/mO7gtCEoKze9"),
    (
        "scram",
        "{SCRAM-SHA-256}4096,W22ZaJ0SNY7soEsUEjb6gQ==,WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
    ),
];

/// On one listener STARTTLS, on the other TLS from the start.
fn server(files: &Files, keys: &str) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mail.here.test", "localhost"]);
    let stored: String =
        PASSWORDS.iter().map(|(user, stored)| format!("{user} = '{stored}'\n")).collect();
    let listener = |name: &str, tls: &str| {
        format!(
            "[[listener]]\nname = \"{name}\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
             tls = \"{tls}\"\nlogins = {{ table = \"passwords\" }}\n\
             mechanisms = [\"plain\", \"login\", \"scram-sha-256\"]\n{keys}\n"
        )
    };
    let text = format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{}{}{}\
         [[table]]\nname = \"passwords\"\n[table.inline]\n{stored}\
         [[table]]\nname = \"senders\"\n[table.inline]\nplain = \"me@source.test\"\n\
         [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        section("mx", &["mail.here.test"]),
        listener("submission", "starttls"),
        listener("submissions", "implicit"),
    );
    Server::start(files, &text)
}

fn metrics(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    get(line.rsplit(' ').next().expect("an address"), "/metrics")
}

/// The login of each `received` event, sorted.
fn logins(files: &Files) -> Vec<String> {
    let events = files.events_of("received");
    let login = |event: &serde_json::Value| {
        assert_eq!(event["protocol"], "ESMTPSA", "{event}");
        event["login"].as_str().expect("a login").to_owned()
    };
    let mut logins: Vec<String> = events.iter().map(login).collect();
    logins.sort();
    logins
}

#[test]
fn swaks_logs_in_by_each_mechanism_and_stored_form() {
    let files = Files::new();
    let server = server(&files, "");
    let swaks = |listener: usize, how: &str, auth: &str, user: &str, password: &str| {
        let port = server.addresses[listener].port().to_string();
        let words = [
            "--server",
            "127.0.0.1",
            "--port",
            &port,
            how,
            "--auth",
            auth,
            "--auth-user",
            user,
            "--auth-password",
            password,
            "--from",
            "me@source.test",
            "--to",
            "you@far.test",
        ];
        tool::run("swaks", &words)
    };
    for (user, _) in PASSWORDS {
        let output = swaks(0, "--tls", "PLAIN", user, "pencil");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("<~  235 2.7.0"), "{user}: {said}");
    }
    for (listener, how) in [(0, "--tls"), (1, "--tls-on-connect")] {
        assert!(swaks(listener, how, "LOGIN", "plain", "pencil").status.success());
    }
    files.wait_events("received", 8);
    assert_eq!(
        logins(&files),
        ["argon2", "bcrypt", "plain", "plain", "plain", "scram", "sha256", "sha512"]
    );
    let wrong = swaks(0, "--tls", "PLAIN", "plain", "pen");
    let said = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert!(!wrong.status.success() && said.contains("535 5.7.8"), "{said}");
    // In clear nothing is offered, and nothing taken.
    let clear = swaks(0, "--auth-hide-password", "PLAIN", "plain", "pencil");
    assert!(!clear.status.success());
    let line = server.wait_console("the failure", |line| line.contains("login failed client="));
    assert!(line.contains("login: login failed client=127.0.0.1:"), "{line}");
    assert!(line.ends_with(" listener=submission user=\"plain\""), "{line}");
    let metrics = metrics(&server);
    assert_eq!(metric(&metrics, "postrider_logins_total"), 8);
    assert_eq!(metric(&metrics, "postrider_login_failures_total"), 1);
    let all = server.console().join("\n")
        + &std::fs::read_to_string(files.path("spool/events.jsonl")).expect("events");
    assert!(!all.contains("pencil"), "a password is shown");
}

#[test]
fn pythons_smtplib_logs_in() {
    let files = Files::new();
    let server = server(&files, "hide_client = true");
    let ports: Vec<String> = server.addresses.iter().map(|a| a.port().to_string()).collect();
    tool::python(
        "import smtplib, ssl, sys\n\
         context = ssl._create_unverified_context()\n\
         text = b'Subject: x\\r\\n\\r\\nbody\\r\\n'\n\
         for mechanism in ('plain', 'login'):\n\
         \x20   c = smtplib.SMTP('127.0.0.1', int(sys.argv[1]))\n\
         \x20   c.starttls(context=context)\n\
         \x20   c.ehlo()\n\
         \x20   c.user, c.password = 'sha512', 'pencil'\n\
         \x20   for initial in (True, False):\n\
         \x20       try:\n\
         \x20           c.password = 'pen'\n\
         \x20           c.auth(mechanism, getattr(c, 'auth_' + mechanism), initial_response_ok=initial)\n\
         \x20           sys.exit('let in')\n\
         \x20       except smtplib.SMTPAuthenticationError as e:\n\
         \x20           assert e.smtp_code == 535, e\n\
         \x20   c.password = 'pencil'\n\
         \x20   c.auth(mechanism, getattr(c, 'auth_' + mechanism))\n\
         \x20   c.sendmail('me@source.test', ['you@far.test'], text)\n\
         \x20   c.quit()\n\
         c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[2]), context=context)\n\
         try:\n\
         \x20   c.sendmail('me@source.test', ['you@far.test'], text)\n\
         \x20   sys.exit('not asked')\n\
         except smtplib.SMTPSenderRefused as e:\n\
         \x20   assert e.smtp_code == 530, e\n\
         c.login('bcrypt', 'pencil')\n\
         c.sendmail('me@source.test', ['you@far.test'], text)\n\
         c.quit()\n",
        &[&ports[0], &ports[1]],
    );
    let messages = files.wait_maildir("mail/you", 3);
    for message in &messages {
        let text = String::from_utf8_lossy(message);
        let has = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!([has("Date: "), has("Message-ID: <")], [1, 1], "{text}");
        assert!(
            text.contains("Received: by mail.here.test (Postrider) with ESMTPSA id "),
            "{text}"
        );
        assert!(!text.contains("127.0.0.1"), "{text}");
    }
    files.wait_events("received", 3);
    assert_eq!(logins(&files), ["bcrypt", "sha512", "sha512"]);
}

#[test]
fn curl_logs_in_by_each_mechanism() {
    let files = Files::new();
    let server = server(&files, "");
    files.write("message", "From: me@source.test\r\nSubject: x\r\n\r\nbody\r\n");
    let message = files.path("message").display().to_string();
    let curl = |scheme: &str, listener: usize, options: &str, user: &str| {
        let url = format!("{scheme}://127.0.0.1:{}/here.test", server.addresses[listener].port());
        let words = [
            "--silent",
            "--show-error",
            "--insecure",
            "--ssl-reqd",
            "--url",
            &url,
            "--user",
            user,
            "--login-options",
            options,
            "--mail-from",
            "me@source.test",
            "--mail-rcpt",
            "you@far.test",
            "--upload-file",
            &message,
        ];
        tool::run("curl", &words)
    };
    let version = tool::succeed("curl", &["--version"]);
    let mut mechanisms = vec!["AUTH=PLAIN", "AUTH=LOGIN"];
    // Only where it is built with GNU SASL.
    if version.contains("gsasl") {
        mechanisms.push("AUTH=SCRAM-SHA-256");
    }
    for mechanism in &mechanisms {
        for (scheme, listener) in [("smtp", 0), ("smtps", 1)] {
            let output = curl(scheme, listener, mechanism, "scram:pencil");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{mechanism} {scheme}: {said}");
        }
    }
    files.wait_maildir("mail/you", 2 * mechanisms.len());
    let refused = curl("smtps", 1, "AUTH=PLAIN", "scram:pen");
    // CURLE_LOGIN_DENIED.
    assert_eq!(refused.status.code(), Some(67));
}

/// A client of its own, by the RFC: few programs have SCRAM.
#[test]
fn scram_is_spoken_as_its_rfc_says() {
    let files = Files::new();
    let server = server(&files, "");
    let said = tool::python(
        "import base64, hashlib, hmac, os, smtplib, ssl, sys\n\
         def scram(user, password):\n\
         \x20   c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
         \x20   c.ehlo()\n\
         \x20   assert 'SCRAM-SHA-256' in c.esmtp_features['auth'], c.esmtp_features\n\
         \x20   say = lambda text: c.docmd(base64.b64encode(text.encode()).decode())\n\
         \x20   nonce = base64.b64encode(os.urandom(18)).decode()\n\
         \x20   bare = f'n={user},r={nonce}'\n\
         \x20   code, text = c.docmd('AUTH SCRAM-SHA-256 ' + base64.b64encode(('n,,' + bare).encode()).decode())\n\
         \x20   assert code == 334, (code, text)\n\
         \x20   first = base64.b64decode(text).decode()\n\
         \x20   f = dict(part.split('=', 1) for part in first.split(','))\n\
         \x20   assert f['r'].startswith(nonce) and len(f['r']) > len(nonce) + 16\n\
         \x20   salted = hashlib.pbkdf2_hmac('sha256', password.encode(), base64.b64decode(f['s']), int(f['i']))\n\
         \x20   key = hmac.digest(salted, b'Client Key', 'sha256')\n\
         \x20   final = 'c=biws,r=' + f['r']\n\
         \x20   auth = ','.join((bare, first, final)).encode()\n\
         \x20   sign = hmac.digest(hashlib.sha256(key).digest(), auth, 'sha256')\n\
         \x20   proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, sign))).decode()\n\
         \x20   code, text = say(final + ',p=' + proof)\n\
         \x20   if code != 334: return code\n\
         \x20   server = hmac.digest(hmac.digest(salted, b'Server Key', 'sha256'), auth, 'sha256')\n\
         \x20   assert base64.b64decode(text) == b'v=' + base64.b64encode(server)\n\
         \x20   return c.docmd('')[0]\n\
         for user in ('scram', 'plain', 'bcrypt', 'nobody'):\n\
         \x20   print(user, scram(user, 'pencil'), scram(user, 'pen'))\n",
        &[&server.addresses[1].port().to_string()],
    );
    assert_eq!(said, "scram 235 535\nplain 235 535\nbcrypt 535 535\nnobody 535 535\n");
}

#[test]
fn senders_are_held_to_their_own_addresses() {
    let files = Files::new();
    let server = server(&files, "senders = { table = \"senders\" }");
    let port = server.addresses[1].port().to_string();
    let swaks = |from: &str| {
        let words = [
            "--server",
            "127.0.0.1",
            "--port",
            &port,
            "--tls-on-connect",
            "--auth-user",
            "plain",
            "--auth-password",
            "pencil",
            "--from",
            from,
            "--to",
            "you@far.test",
        ];
        String::from_utf8_lossy(&tool::run("swaks", &words).stdout).into_owned()
    };
    assert!(swaks("me@source.test").contains("250 2.0.0 Ok: queued"));
    assert!(swaks("boss@source.test").contains("553 5.7.1"));
    files.wait_events("refused", 1);
    let refused = files.events_of("refused").remove(0);
    assert_eq!((&refused["step"], &refused["login"]), (&"MAIL".into(), &"plain".into()));
}

#[test]
fn explain_shows_what_users_may() {
    let files = Files::new();
    let server = server(&files, "");
    let text = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    let far = "smtp = { hosts = [\"127.0.0.1:9\"] }";
    files.write(CONFIG, &text.replace("maildir = { path = \"mail/{local}\" }", far));
    let answer = server.command(&["explain", "you@far.test", "--listener", "submission"]);
    assert_eq!(answer.code, 0, "{}{}", answer.out, answer.err);
    let says = "accepted: authenticated users may send to any domain";
    assert!(answer.out.contains(says) && !answer.out.contains("pencil"), "{}", answer.out);
}
