//! `postrider auth`.

mod lookups;
mod shown;

use super::load;
use crate::cli::{AuthArgs, AuthCheckArgs, AuthCommand, exit};
use crate::world::clock::wall_now;
use crate::world::resolver::Resolver;
use auth::checks::{CheckSelection, Subject, check};
use auth::spf::{Sender, SpfQuery};
use config::Config;
use lookups::RecordingResolver;
use shown::AuthReport;
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn run(args: &AuthArgs) -> ExitCode {
    let AuthCommand::Check(args) = &args.command;
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match checked(args, &config) {
        Ok(shown) if args.json => {
            super::print(&format!("{:#}\n", shown.to_json()));
            ExitCode::SUCCESS
        }
        Ok(shown) => {
            super::print(&shown.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("postrider: {error}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn checked(args: &AuthCheckArgs, config: &Config) -> Result<AuthReport, String> {
    let path = args.message.display();
    let content = std::fs::read(&args.message);
    let content = content.map_err(|error| format!("cannot read {path}: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let asked = CheckSelection { spf: true, dkim: true, dmarc: true, arc: true, iprev: false };
    let mut scan = asked.scan();
    scan.push(&with_crlf(content));
    let message = scan.finish();
    let sender = args.from.0.as_ref().map(|from| {
        let domain = from.domain().to_ascii();
        (from.local_unquoted(), domain.unwrap_or_else(|_| from.domain_str().to_owned()))
    });
    let now = wall_now().0 / 1_000;
    let question = args.client_ip.map(|client| SpfQuery {
        client,
        sender: sender.as_ref().map(|(local, domain)| Sender { local, domain }),
        helo: &args.helo,
        receiver: config.hostname.as_str(),
        now,
    });
    let chance = u8::try_from(wall_now().0 % 100).unwrap_or(0);
    let subject = Subject { question, message: &message, now, chance };
    let (told, verdicts) = runtime.block_on(async {
        let told = RecordingResolver::new(Resolver::new(&config.dns));
        let verdicts = check(&told, asked, subject).await;
        (told, verdicts)
    });
    Ok(AuthReport { server: config.hostname.to_string(), verdicts, told: told.into_answers() })
}

/// Files end their lines with LF, messages with CRLF.
fn with_crlf(content: Vec<u8>) -> Vec<u8> {
    let first = content.iter().position(|byte| *byte == b'\n');
    if first.is_none_or(|at| at > 0 && content[at - 1] == b'\r') {
        return content;
    }
    let mut out = Vec::with_capacity(content.len() + content.len() / 32);
    for byte in content {
        if byte == b'\n' && out.last() != Some(&b'\r') {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}
