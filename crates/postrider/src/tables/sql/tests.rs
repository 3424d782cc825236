//! Against PostgreSQL, MariaDB and SQLite, started by the test.

use super::super::testing::{Process, find, run, table, unprivileged};
use super::*;
use config::TableSettings as _;
use rustix::process::Signal;
use std::time::Duration;

/// What a database is filled with: a user whose values are of many types, one without any, a list of
/// three, one of 1,000 and one of 1,001.
const FILLED: &str = "
    CREATE TABLE users (address VARCHAR(200), local VARCHAR(100), domain VARCHAR(100),
        mailbox VARCHAR(200), quota BIGINT, small SMALLINT, active BOOLEAN, ratio DOUBLE PRECISION,
        note TEXT);
    INSERT INTO users VALUES ('you@far.test', 'you', 'far.test', 'far.test/you/', 5000000000, -7, TRUE,
        0.5, NULL);
    INSERT INTO users (address, local, domain) VALUES ('bare@far.test', 'bare', 'far.test');
    INSERT INTO users (address, note) VALUES ('lines@far.test', 'a\nb');
    CREATE TABLE lists (name VARCHAR(100), number INTEGER, member VARCHAR(200));
    INSERT INTO lists VALUES ('list', 1, 'a@far.test'), ('list', 2, NULL), ('list', 3, 'b@far.test');
    INSERT INTO lists VALUES ('odd'' OR ''1''=''1', 1, 'odd');
    CREATE TABLE secrets (word VARCHAR(100));
    INSERT INTO secrets VALUES ('hidden');
";

/// The statements that fill a database, in which long texts are of this type.
fn statements(text: &str) -> Vec<String> {
    let many = |name: &str, count: usize| {
        let rows = (0..count).map(|n| format!("('{name}', {n}, 'member{n}')"));
        format!("INSERT INTO lists VALUES {}", rows.collect::<Vec<_>>().join(", "))
    };
    let long = |bytes: usize| {
        format!("INSERT INTO lists VALUES ('long{bytes}', 1, '{}')", "x".repeat(bytes))
    };
    let filled = FILLED.split(';').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned);
    let column = format!("ALTER TABLE lists ADD COLUMN text {text}");
    let texts = [100_000, 100_001]
        .map(|bytes| long(bytes).replace("lists VALUES", "lists (name, number, text) VALUES"));
    let lists = [many("thousand", 1_000), many("more", 1_001)];
    filled.chain(lists).chain([column]).chain(texts).collect()
}

fn settings(keys: &str) -> Sql {
    let table = table::<SqlText>(&format!("sql = {{ {keys} }}")).expect("a good table");
    table.settings.of::<Sql>().expect("its settings").clone()
}

fn fields(fields: &[(&str, &[&str])]) -> Result<Option<Entry>, LookupError> {
    let of = |values: &[&str]| values.iter().map(|value| Box::from(*value)).collect();
    let fields = fields.iter().map(|(name, values)| (Box::from(*name), of(values)));
    Ok(Some(Entry::fields(fields.collect::<Vec<_>>())))
}

/// What every database says, whose keys these are (`url` and, where it has one, `password_file`).
async fn answers_as_all_do(keys: &str, truth: &str) {
    let driver = |query: &str| settings(&format!("{keys}, query = \"{query}\"")).backend();
    let asked = async |query: &str, key: &str| find(&*driver(query), key).await;
    let mailbox = "SELECT mailbox FROM users WHERE address = %s";
    let you = driver(mailbox);
    assert_eq!(you.server(), None);
    assert_eq!(find(&*you, "you@far.test").await, fields(&[("mailbox", &["far.test/you/"])]));
    assert!(you.server().is_some());
    assert_eq!(find(&*you, "nobody@far.test").await, Ok(None));
    // A row of nothing but NULL.
    assert_eq!(find(&*you, "bare@far.test").await, Ok(None));
    let parts = "SELECT mailbox FROM users WHERE local = %u AND domain = %d AND address = %s";
    assert_eq!(asked(parts, "you@far.test").await, fields(&[("mailbox", &["far.test/you/"])]));
    assert_eq!(asked(parts, "you").await, Ok(None));
    let every = "SELECT mailbox, quota, small, active, ratio, note FROM users WHERE address = %s";
    let values: [(&str, &[&str]); 6] = [
        ("mailbox", &["far.test/you/"]),
        ("quota", &["5000000000"]),
        ("small", &["-7"]),
        ("active", &[truth]),
        ("ratio", &["0.5"]),
        ("note", &[]),
    ];
    assert_eq!(asked(every, "you@far.test").await, fields(&values));
    let named =
        settings(&format!("{keys}, query = \"{every}\", fields = [\"Quota\", \"mailbox\"]"));
    assert_eq!(named.fields(), ["Quota", "mailbox"]);
    let values: [(&str, &[&str]); 2] =
        [("Quota", &["5000000000"]), ("mailbox", &["far.test/you/"])];
    assert_eq!(find(&*named.backend(), "you@far.test").await, fields(&values));
    let list = "SELECT member FROM lists WHERE name = %s ORDER BY number";
    let members = asked(list, "list").await;
    assert_eq!(members, fields(&[("member", &["a@far.test", "b@far.test"])]));
    assert_eq!(&*members.unwrap().unwrap().text, "a@far.test,b@far.test");
    keys_are_never_text(keys, list).await;
    limits_hold(keys, list).await;
    mistakes_are_told(keys).await;
}

async fn keys_are_never_text(keys: &str, list: &str) {
    let driver = settings(&format!("{keys}, query = \"{list}\"")).backend();
    for key in [
        "' OR '1'='1",
        "x' UNION SELECT word FROM secrets --",
        "x\\' UNION SELECT word FROM secrets -- ",
        "x'; DROP TABLE lists; --",
        "x\"; DROP TABLE lists; --",
        "%",
        "%s",
        "$1",
        "?",
        "\u{2019} OR 1=1",
        "list\u{a0}",
    ] {
        assert_eq!(find(&*driver, key).await, Ok(None), "{key}");
    }
    // It is there, and found by all its characters only.
    let odd = fields(&[("member", &["odd"])]);
    assert_eq!(find(&*driver, "odd' OR '1'='1").await, odd);
}

async fn limits_hold(keys: &str, list: &str) {
    let driver = settings(&format!("{keys}, query = \"{list}\"")).backend();
    let thousand = find(&*driver, "thousand").await.unwrap().expect("a list");
    assert_eq!(thousand.values("member").len(), 1_000);
    let more = find(&*driver, "more").await.unwrap_err();
    assert_eq!(more.kind, LookupErrorKind::Key);
    assert!(more.text.ends_with(": the answer has more than 1000 rows"), "{more}");
    assert!(driver.server().is_some(), "the server is well");
    let text = "SELECT text FROM lists WHERE name = %s";
    let driver = settings(&format!("{keys}, query = \"{text}\"")).backend();
    let long = find(&*driver, "long100000").await.unwrap().expect("a text");
    assert_eq!(long.text.len(), 100_000);
    let longer = find(&*driver, "long100001").await.unwrap_err();
    assert_eq!(longer.kind, LookupErrorKind::Key);
    assert!(longer.text.ends_with(": the answer has more than 100000 bytes"), "{longer}");
    let note = "SELECT note FROM users WHERE address = %s";
    let driver = settings(&format!("{keys}, query = \"{note}\"")).backend();
    let lines = find(&*driver, "lines@far.test").await.unwrap_err();
    assert_eq!(lines.kind, LookupErrorKind::Key);
    assert!(lines.text.contains("control character (U+000A)"), "{lines}");
    // None of them was the last that was answered.
    assert_eq!(find(&*driver, "you@far.test").await, Ok(None));
}

async fn mistakes_are_told(keys: &str) {
    for (query, more, kind, words) in [
        ("SELECT a FROM nowhere WHERE k = %s", "", LookupErrorKind::Wrong, "nowhere"),
        ("SELEC a FROM users WHERE k = %s", "", LookupErrorKind::Wrong, "syntax"),
        (
            "SELECT mailbox FROM users WHERE address = %s",
            ", fields = [\"quota\"]",
            LookupErrorKind::Key,
            ": the answer has no column \"quota\"",
        ),
    ] {
        let driver = settings(&format!("{keys}, query = \"{query}\"{more}")).backend();
        for _ in 0..2 {
            let trouble = find(&*driver, "you@far.test").await.unwrap_err();
            assert_eq!(trouble.kind, kind, "{trouble}");
            assert!(trouble.text.contains(words), "{trouble}");
        }
    }
}

/// The server is stopped while a connection is kept, asked, and started again; then it is started again
/// without being asked between.
async fn comes_back(keys: &str, start: impl Fn() -> Process, process: Process, signal: Signal) {
    let query = "SELECT mailbox FROM users WHERE address = %s";
    let driver = settings(&format!("{keys}, query = \"{query}\"")).backend();
    let you = fields(&[("mailbox", &["far.test/you/"])]);
    assert_eq!(find(&*driver, "you@far.test").await, you);
    process.end(signal);
    let away = find(&*driver, "you@far.test").await.unwrap_err();
    assert_eq!(away.kind, LookupErrorKind::Unreachable, "{away}");
    assert!(away.text.contains("onnection refused"), "{away}");
    assert_eq!(driver.server(), None);
    let process = start();
    found_soon(&*driver, "you@far.test", &you).await;
    process.end(signal);
    let _process = start();
    found_soon(&*driver, "you@far.test", &you).await;
    assert!(driver.server().is_some());
}

/// A server that was killed listens before it lets anybody in.
async fn found_soon(driver: &dyn Backend, key: &str, wanted: &Result<Option<Entry>, LookupError>) {
    for _ in 0..300 {
        let answer = find(driver, key).await;
        match &answer {
            Err(trouble) if trouble.kind == LookupErrorKind::Unreachable => {}
            _ => return assert_eq!(&answer, wanted),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not come back");
}

/// A connection, as soon as the server lets us in: it listens before it does.
async fn connected<O: ConnectOptions<Connection: Sized>>(options: &O) -> O::Connection {
    for _ in 0..300 {
        if let Ok(connection) = options.connect().await {
            return connection;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    options.connect().await.expect("a connection")
}

async fn fill<D>(mut connection: D::Connection, text: &str)
where
    D: sqlx::Database,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    for statement in statements(text) {
        let statement = AssertSqlSafe(statement);
        connection.execute(sqlx::raw_sql(statement)).await.expect("a good statement");
    }
    connection.close().await.expect("an end");
}

#[test]
fn postgresql_answers() {
    const PACKAGE: &str = "postgresql";
    if !unprivileged::is_possible(PACKAGE) {
        return;
    }
    let (dir, port) = (unprivileged::directory(), unprivileged::free_port());
    let path = dir.path().display().to_string();
    let programs = "$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)";
    unprivileged::succeed(
        PACKAGE,
        &format!(
            "echo secret >{path}/password && {programs}/initdb -D {path}/data -U admin -A scram-sha-256 \
             --pwfile={path}/password --no-sync --no-locale -E UTF8"
        ),
    );
    let start = || {
        let line = format!(
            "{programs}/postgres -D {path}/data -p {port} -c listen_addresses=127.0.0.1 \
             -c unix_socket_directories={path} -c fsync=off"
        );
        unprivileged::start(PACKAGE, &line, port)
    };
    let process = start();
    let url = format!("postgres://admin@127.0.0.1:{port}/postgres");
    let keys = format!("url = \"{url}\", password_file = \"{path}/password\"");
    run(async {
        let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
        fill::<Postgres>(connected(&options.password("secret")).await, "TEXT").await;
        answers_as_all_do(&keys, "t").await;
        postgresql_answers_alone(&keys, &url, &path).await;
        let socket = format!(
            "url = \"postgres://admin@localhost:{port}/postgres?host={path}\", \
             password_file = \"{path}/password\", query = \"SELECT %s || '!' AS word\""
        );
        let loud = find(&*settings(&socket).backend(), "aloud").await;
        assert_eq!(loud, fields(&[("word", &["aloud!"])]));
        comes_back(&keys, start, process, Signal::INT).await;
    });
}

/// What only PostgreSQL does.
async fn postgresql_answers_alone(keys: &str, url: &str, path: &str) {
    let driver = |query: &str| settings(&format!("{keys}, query = \"{query}\"")).backend();
    // No number, a NUL: the key is bad, and the connection as good as before.
    let numbers =
        driver("SELECT member FROM lists WHERE number = CAST(%s AS integer) AND name = 'list'");
    for bad in ["one", "1\0"] {
        let trouble = find(&*numbers, bad).await.unwrap_err();
        assert_eq!(trouble.kind, LookupErrorKind::Key, "{trouble}");
    }
    assert_eq!(find(&*numbers, "3").await, fields(&[("member", &["b@far.test"])]));
    // The statement that was prepared is not what the table is any more.
    let all = driver("SELECT * FROM secrets WHERE word = %s");
    let hidden = fields(&[("word", &["hidden"])]);
    assert_eq!(find(&*all, "hidden").await, hidden);
    let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
    let mut admin = options.password("secret").connect().await.unwrap();
    admin.execute("ALTER TABLE secrets ADD COLUMN more TEXT").await.unwrap();
    let both = fields(&[("word", &["hidden"]), ("more", &[])]);
    assert_eq!(find(&*all, "hidden").await, both);
    let slow = driver("SELECT pg_sleep(5)::text, %s");
    let limited = "ALTER ROLE admin SET statement_timeout = '300ms'";
    admin.execute(limited).await.unwrap();
    let late = find(&*slow, "x").await.unwrap_err();
    assert_eq!(late.kind, LookupErrorKind::Timeout, "{late}");
    admin.execute("ALTER ROLE admin RESET statement_timeout").await.unwrap();
    let stamped = find(&*driver("SELECT now(), %s"), "x").await.unwrap_err();
    assert_eq!(stamped.kind, LookupErrorKind::Key);
    let words = "column \"now\": a value of type TIMESTAMPTZ is not text: cast it in the query";
    assert!(stamped.text.ends_with(words), "{stamped}");
    // Who has the wrong password is not let in, until it is mended.
    std::fs::write(format!("{path}/other"), "wrong").unwrap();
    let keys = format!("url = \"{url}\", password_file = \"{path}/other\"");
    let driver = settings(&format!("{keys}, query = \"SELECT %s AS word\"")).backend();
    let refused = find(&*driver, "x").await.unwrap_err();
    assert_eq!(refused.kind, LookupErrorKind::Unreachable);
    assert!(
        refused.text.contains("password authentication failed for user \"admin\""),
        "{refused}"
    );
    std::fs::write(format!("{path}/other"), "secret").unwrap();
    assert_eq!(find(&*driver, "x").await, fields(&[("word", &["x"])]));
}

#[test]
fn mariadb_answers() {
    const PACKAGE: &str = "mariadb-server";
    if !unprivileged::is_possible(PACKAGE) {
        return;
    }
    let (dir, port) = (unprivileged::directory(), unprivileged::free_port());
    let path = dir.path().display().to_string();
    unprivileged::succeed(
        PACKAGE,
        &format!(
            "mariadb-install-db --no-defaults --datadir={path}/data --skip-test-db \
             --auth-root-authentication-method=normal"
        ),
    );
    let start = || {
        let line = format!(
            "/usr/sbin/mariadbd --no-defaults --datadir={path}/data --port={port} \
             --bind-address=127.0.0.1 --socket={path}/socket --pid-file={path}/pid \
             --character-set-server=utf8mb4 --innodb-buffer-pool-size=16M --log-error={path}/log"
        );
        unprivileged::start(PACKAGE, &line, port)
    };
    let process = start();
    std::fs::write(dir.path().join("password"), "secret\n").unwrap();
    let url = format!("mysql://reader@127.0.0.1:{port}/mail");
    let keys = format!("url = \"{url}\", password_file = \"{path}/password\"");
    run(async {
        let admin = format!("mysql://root@localhost/?socket={path}/socket");
        let options: sqlx::mysql::MySqlConnectOptions = admin.parse().unwrap();
        let mut root = connected(&options).await;
        for statement in [
            "CREATE DATABASE mail CHARACTER SET utf8mb4",
            "CREATE USER reader@127.0.0.1 IDENTIFIED BY 'secret'",
            "GRANT SELECT ON mail.* TO reader@127.0.0.1",
        ] {
            root.execute(sqlx::raw_sql(statement)).await.unwrap();
        }
        fill::<MySql>(connected(&options.database("mail")).await, "LONGTEXT").await;
        answers_as_all_do(&keys, "1").await;
        let other = format!("{path}/other");
        std::fs::write(&other, "wrong").unwrap();
        let query =
            "query = \"SELECT CAST(sum(quota) AS DECIMAL(20, 2)) AS sum, %s AS word FROM users\"";
        let driver =
            settings(&format!("url = \"{url}\", password_file = \"{other}\", {query}")).backend();
        let refused = find(&*driver, "x").await.unwrap_err();
        assert_eq!(refused.kind, LookupErrorKind::Unreachable);
        assert!(refused.text.contains("Access denied for user 'reader'"), "{refused}");
        std::fs::write(&other, "secret").unwrap();
        let sum = fields(&[("sum", &["5000000000.00"]), ("word", &["x"])]);
        assert_eq!(find(&*driver, "x").await, sum);
        let stamped = settings(&format!("{keys}, query = \"SELECT now() AS now, %s\"")).backend();
        let stamped = find(&*stamped, "x").await.unwrap_err();
        assert_eq!(stamped.kind, LookupErrorKind::Key);
        assert!(
            stamped.text.contains("column \"now\": a value of type DATETIME is not text"),
            "{stamped}"
        );
        comes_back(&keys, start, process, Signal::TERM).await;
    });
}

#[test]
fn sqlite_answers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mail.db");
    let keys = format!("url = \"sqlite:{}\"", file.display());
    let query = "query = \"SELECT mailbox FROM users WHERE address = %s\"";
    run(async {
        let driver = settings(&format!("{keys}, {query}")).backend();
        let missing = find(&*driver, "you@far.test").await.unwrap_err();
        assert_eq!(missing.kind, LookupErrorKind::Unreachable);
        assert!(missing.text.contains("unable to open database file"), "{missing}");
        assert!(!file.exists(), "it is not for us to make");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
        let options = options.create_if_missing(true);
        fill::<Sqlite>(connected(&options).await, "TEXT").await;
        answers_as_all_do(&keys, "1").await;
        let bytes = settings(&format!("{keys}, query = \"SELECT x'ff', %s\"")).backend();
        assert_eq!(find(&*bytes, "x").await.unwrap_err().kind, LookupErrorKind::Key);
        let writes = settings(&format!("{keys}, query = \"DELETE FROM users WHERE address = %s\""));
        let refused = find(&*writes.backend(), "you@far.test").await.unwrap_err();
        assert!(refused.text.contains("readonly"), "{refused}");
        assert_eq!(
            find(&*driver, "you@far.test").await,
            fields(&[("mailbox", &["far.test/you/"])])
        );
        // Somebody else changes it.
        let mut writer = options.connect().await.unwrap();
        writer.execute("UPDATE users SET mailbox = 'new'").await.unwrap();
        assert_eq!(find(&*driver, "you@far.test").await, fields(&[("mailbox", &["new"])]));
        // And takes a second for it: longer than is waited for.
        writer.execute("BEGIN EXCLUSIVE").await.unwrap();
        let hasty = settings(&format!("{keys}, connect_timeout = \"200ms\", {query}")).backend();
        let busy = find(&*hasty, "you@far.test").await.unwrap_err();
        assert_eq!(busy.kind, LookupErrorKind::Timeout, "{busy}");
        writer.execute("COMMIT").await.unwrap();
        assert!(find(&*hasty, "you@far.test").await.is_ok());
        std::fs::write(&file, "this is no database, however long it may be".repeat(100)).unwrap();
        let damaged = settings(&format!("{keys}, {query}")).backend();
        let damaged = find(&*damaged, "you@far.test").await.unwrap_err();
        assert!(damaged.text.contains("file is not a database"), "{damaged}");
    });
}

#[test]
fn mistakes_in_the_file_are_told_with_their_places() {
    let query = "query = \"SELECT a FROM t WHERE k = %s\"";
    for (keys, message) in [
        (query.to_owned(), "11:1: an sql table without `url`"),
        ("url = \"postgres://h/d\"".to_owned(), "11:1: an sql table without `query`"),
        (format!("url = \"oracle://h/d\", {query}"), "11:15: unknown kind of database \"oracle\""),
        (format!("url = \"users.db\", {query}"), "11:15: \"users.db\" is not a URL"),
        (format!("url = \"sqlite:users.db\", {query}"), "does not name a file"),
        (format!("url = \"sqlite::memory:\", {query}"), "does not name a file"),
        (format!("url = \"sqlite:/a?mode=odd\", {query}"), "is not a database"),
        (format!("url = \"postgres://u:p@h/d\", {query}"), "a password in `url`"),
        (format!("url = \"mysql://u:p@h/d\", {query}"), "a password in `url`"),
        (format!("url = \"postgres://h:x/d\", {query}"), "11:15: \"postgres://h:x/d\" is not"),
        (format!("url = \"postgres://h/d?sslmode=odd\", {query}"), "is not a database"),
        (
            format!("url = \"sqlite:/a\", password_file = \"/p\", {query}"),
            "a file of SQLite has no password",
        ),
        (
            "url = \"postgres://h/d\", query = \"SELECT a FROM t WHERE k = '%s'\"".to_owned(),
            "11:41: \"%s\" is in quotes",
        ),
        (
            "url = \"mysql://h/d\", query = \"SELECT a FROM %d WHERE k = %s\"".to_owned(),
            "11:38: \"%d\" is not in place of a value",
        ),
        (
            format!("url = \"mysql://h/d\", fields = [\"a\", \"A\"], {query}"),
            "\"A\" is listed twice",
        ),
        (format!("url = \"mysql://h/d\", fields = [\"\"], {query}"), "a column without a name"),
        (format!("url = \"mysql://h/d\", connect_timeout = \"0s\", {query}"), "a timeout must be"),
    ] {
        let problems = table::<SqlText>(&format!("sql = {{ {keys} }}")).unwrap_err();
        assert!(problems.iter().any(|p| p.contains(message)), "{keys}: {problems:?}");
    }
    let like = |a: &str, b: &str| settings(a).is_like(&settings(b));
    let one = format!("url = \"postgres://h/d\", {query}");
    assert!(like(&one, &one));
    assert!(!like(&one, &one.replace("postgres:", "mysql:")));
    assert!(!like(&one, &one.replace("%s", "%u")));
    assert!(!like(&one, &format!("{one}, fields = [\"a\"]")));
}
