//! Programs that commands of the documents may name. A command that names another program fails.

use super::blocks::root;
use crate::support::Files;
use crate::support::server::POSTRIDER;
use crate::support::tool::lab;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// No block takes longer, however busy the machine is.
const SECONDS_MAX: &str = "60";

/// Programs that run as they are, from the machine's own `PATH`.
const RUN: &[&str] =
    &["base64", "chmod", "curl", "find", "grep", "openssl", "python3", "swaks", "tail"];

/// A program that does not run here as it is.
struct StandIn {
    /// As commands name it: a word for `PATH`, or a path below the working directory.
    program: &'static str,
    /// Why it does not run, and how its commands are checked instead.
    reason: &'static str,
    /// The shell script that runs in its place. Its status is the command's.
    script: &'static str,
}

const STAND_INS: &[StandIn] = &[
    StandIn {
        program: "postrider",
        reason: "runs the program under test, but for three commands. `serve` would run until it is stopped: the test \
                 has started it, and its command line is parsed here, as that of `events --follow` is. `shaping lift` ends with 1 where no effect is \
                 in force, which must be its only error",
        script: r#"
case "$1 ${2:-}" in
serve\ * | "events --follow") exec "$POSTRIDER" "$@" --help ;;
"shaping lift")
    "$POSTRIDER" "$@" 2>&1 | grep -q "^postrider: effect not found"
    [ "${PIPESTATUS[0]}" = 1 ]
    ;;
*) exec "$POSTRIDER" "$@" ;;
esac
"#,
    },
    StandIn {
        program: "postrider-lab",
        reason: "minutes of load: the command line is parsed up to its end, where help is asked for; scenarios and \
                 contenders must be in the list that it prints",
        script: r#"
"$LAB" "$@" --help >/dev/null
[ "$1" = bench ] || exit 0
shift
case "$1" in all | --*) exit 0 ;; esac
fail() { echo "bench --list has no $1" >&2; exit 1; }
list=$("$LAB" bench --list)
name=${1%%/*}
echo "$list" | grep -q "^  $name " || fail "$name"
if [ "$name" != "$1" ]; then
    echo "$list" | sed -n "/^  $name /,/ contenders: /p" | grep -Eq "variants: (.*, )?${1#*/}(,|\$)" || fail "$1"
fi
before=
for word; do
    if [ "$before" = --against ]; then
        for contender in $(echo "$word" | tr , ' '); do
            case " $* " in *" --adapter $contender="*) continue ;; esac
            echo "$list" | sed '1,/^Contenders:/d' | grep -q "^  $contender " || fail "$contender"
        done
    fi
    before=$word
done
"#,
    },
    StandIn {
        program: "target/release/postrider-lab",
        reason: "checked as `postrider-lab`",
        script: r#"exec "$BIN/postrider-lab" "$@""#,
    },
    StandIn {
        program: "cargo",
        reason: "minutes of building: `run` runs the program, as above; the package, the features, a planted fault, the \
                 test program and the file or module of `test` must exist",
        script: r#"
command=$1 package=postrider bin= features= test= filter=
shift
while [ $# -gt 0 ]; do
    case "$1" in
    -p) package=$2; shift ;;
    --bin) bin=$2; shift ;;
    --test) test=$2; shift ;;
    --features) features=$2; grep -q "^$2 = " "$ROOT/crates/$package/Cargo.toml"; shift ;;
    --) shift; break ;;
    --release | -q) ;;
    -*) echo "cargo: unknown option $1" >&2; exit 1 ;;
    *) filter=$1 ;;
    esac
    shift
done
[ -e "$ROOT/crates/$package/Cargo.toml" ]
case "$command" in
build) ;;
run)
    if [ "$features" = planted ] && [[ "$*" =~ --plant\ ([a-z-]+) ]]; then
        # Some faults are values of the option only in a build with the feature.
        fault=$(sed -E 's/(^|-)(.)/\U\2/g' <<<"${BASH_REMATCH[1]}")
        grep -q "^    $fault," "$ROOT/crates/simulator/src/plant.rs"
        rest=$*
        set -- ${rest/"${BASH_REMATCH[0]}"/}
    fi
    exec "$BIN/$bin" "$@"
    ;;
test)
    [ -z "$test" ] || [ -e "$ROOT/crates/$package/tests/$test/main.rs" ]
    last=${filter##*::}
    find "$ROOT/crates/$package" -name "$last.rs" | grep -q . || grep -rq "mod $last " "$ROOT/crates/$package"
    ;;
*) echo "cargo: unknown command $command" >&2; exit 1 ;;
esac
"#,
    },
    StandIn {
        program: "make",
        reason: "minutes of building and testing: `make -n` knows the target",
        script: r#"exec make -n -C "$ROOT" "$@" >/dev/null"#,
    },
    StandIn {
        program: "scripts/fuzz",
        reason: "minutes of building and fuzzing: the script must have the options, and `fuzz/fuzz_targets` the targets",
        script: r#"
while [ $# -gt 0 ]; do
    case "$1" in
    --*) grep -q "^    $1)" "$ROOT/scripts/fuzz"; shift ;;
    *) [ -e "$ROOT/fuzz/fuzz_targets/$1.rs" ] ;;
    esac
    shift
done
"#,
    },
    StandIn {
        program: "scripts/with-packages",
        reason: "fetches packages: the script must exist; the command behind the packages' names is checked",
        script: r#"
[ -x "$ROOT/scripts/with-packages" ]
case "$1" in
--*) grep -q -e "$1" "$ROOT/scripts/with-packages" ;;
*) shift; PATH=$BIN; exec "$@" ;;
esac
"#,
    },
    StandIn {
        program: "scripts/install-test-packages",
        reason: "installs packages: the script must exist",
        script: r#"[ -x "$ROOT/scripts/install-test-packages" ]"#,
    },
    StandIn {
        program: "scripts/build-dist",
        reason: "minutes of building: the script must exist",
        script: r#"[ -x "$ROOT/scripts/build-dist" ]"#,
    },
    StandIn {
        program: "scripts/bench-sendmail",
        reason: "minutes of measuring: the script must exist",
        script: r#"[ -x "$ROOT/scripts/bench-sendmail" ]"#,
    },
    StandIn { program: "sudo", reason: "the command behind it is checked", script: r#"exec "$@""# },
    StandIn {
        program: "install",
        reason: "writes where only root may: a file of the repository must exist",
        script: r#"for word; do case "$word" in examples/*) [ -e "$ROOT/$word" ] ;; esac; done"#,
    },
    StandIn {
        program: "socat",
        reason: "not a test package: the same bytes go to the control socket, and the reply must end with `done`",
        script: r#"
exec python3 -c '
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
server.sendall(sys.stdin.buffer.read())
reply = server.makefile().read()
sys.exit("\"done\"" not in reply.splitlines()[-1])' "${2#UNIX-CONNECT:}"
"#,
    },
    StandIn {
        program: "psql",
        reason: "PostgreSQL's: prints two columns as `-F` and the tabulator have it",
        script: r#"[ "$1 $2" = $'-AtF \t' ] && printf 'jo@example.org\t4f/jo\n'"#,
    },
    StandIn { program: "chown", reason: "needs root, and a group `vmail`", script: "" },
    StandIn {
        program: "useradd",
        reason: "needs root, and changes the machine's users",
        script: "",
    },
    StandIn { program: "rustup", reason: "downloads", script: "" },
    StandIn {
        program: "ldapadd",
        reason: "slapd's: `directories` starts one with a schema and an index like these",
        script: "cat >/dev/null",
    },
    StandIn { program: "ldapmodify", reason: "as `ldapadd`", script: "cat >/dev/null" },
    StandIn { program: "doveadm", reason: "Dovecot's, with its own configuration", script: "" },
    StandIn {
        program: "testssl.sh",
        reason: "minutes of connections: `openssl s_client` runs, with the same address",
        script: "",
    },
];

/// The stand-ins in a test's directory: `bin`, which is all of `PATH`, and those below the working directory.
pub(super) struct Programs<'a> {
    files: &'a Files,
}

impl<'a> Programs<'a> {
    /// Writes all of them.
    pub(super) fn new(files: &'a Files) -> Programs<'a> {
        fs::create_dir_all(files.path("bin")).expect("a directory");
        let programs = Programs { files };
        for program in RUN {
            let missing = format!("{{ echo {program} >>\"$MISSING\"; cat >/dev/null; exit 0; }}");
            programs.add(
                program,
                &format!("command -v {program} >/dev/null || {missing}\nexec {program} \"$@\""),
            );
        }
        for stand_in in STAND_INS {
            assert!(!stand_in.reason.is_empty(), "{} has no reason", stand_in.program);
            programs.add(stand_in.program, stand_in.script);
        }
        programs
    }

    fn add(&self, program: &str, script: &str) {
        let below = if program.contains('/') { "work" } else { "bin" };
        let path = self.files.path(below).join(program);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        let text = format!(
            "#!/bin/bash\nset -eu\nPATH=$MACHINE_PATH\necho {program} >>\"$USED\"\n{script}\n"
        );
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script of ours");
    }

    /// A shell in the working directory that finds these programs and no others.
    pub(super) fn shell(&self) -> Command {
        let machine = std::env::var_os("PATH").unwrap_or_default();
        // A block that hangs fails.
        let mut command = Command::new("/usr/bin/timeout");
        command
            .args([SECONDS_MAX, "/bin/bash"])
            .current_dir(self.files.path("work"))
            .env("PATH", self.files.path("bin"))
            .env("BIN", self.files.path("bin"))
            .env("MACHINE_PATH", machine)
            .env("USED", self.files.path("used"))
            .env("MISSING", self.files.path("missing"))
            .env("ROOT", root())
            .env("POSTRIDER", POSTRIDER)
            .env("LAB", lab());
        command
    }

    /// Reports programs that the machine lacks as skipped, and fails for those that no command has named.
    pub(super) fn finish(&self) {
        for missing in self.names_in("missing") {
            skips::missing(&missing);
        }
        let used = self.names_in("used");
        let all = RUN.iter().copied().chain(STAND_INS.iter().map(|stand_in| stand_in.program));
        let unused: Vec<_> = all.filter(|program| !used.contains(*program)).collect();
        assert!(unused.is_empty(), "no document has a command of {unused:?}: remove them here");
    }

    fn names_in(&self, file: &str) -> BTreeSet<String> {
        let text = fs::read_to_string(self.files.path(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
