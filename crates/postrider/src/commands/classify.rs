//! `postrider classify`.

use super::load;
use crate::cli::{ClassifyArgs, exit};
use crate::reply_classes;
use crate::terminal::clean;
use classes::{Classes, PeerReply, REPLY_BYTES_MAX, ReplyClassification, read_reply};
use config::shaping::Providers;
use serde_json::json;
use std::io::Read as _;
use std::process::ExitCode;

/// Of standard input no more is read: a reply is shorter.
const INPUT_BYTES_MAX: u64 = 64 * REPLY_BYTES_MAX as u64;

/// Prints the class of a reply, and the line of the matching rule.
pub(crate) fn run(args: &ClassifyArgs) -> ExitCode {
    match classify(args) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("postrider: {why}");
            ExitCode::from(exit::USAGE)
        }
    }
}

fn classify(args: &ClassifyArgs) -> Result<ExitCode, String> {
    let file = match load::find(args.file.config.as_deref()) {
        Ok(file) => file,
        Err(error) => return Ok(load::shown(&error)),
    };
    let (classes, providers) = match &file {
        None => (Classes::builtin(), Providers::default()),
        Some(path) => {
            let config = match load::load(Some(path)) {
                Ok(config) => config,
                Err(code) => return Ok(code),
            };
            let read = reply_classes::read(&config);
            let classes = read.map_err(|mistakes| mistakes.join("\npostrider: "))?;
            (classes, config.providers())
        }
    };
    let text = if args.reply == "-" { read_input()? } else { args.reply.clone() };
    let (code, status, words) = read_reply(&text)
        .ok_or("a reply begins with its code, for example `550 5.1.1 no such user`")?;
    let provider = match (&args.provider, &args.mx) {
        (Some(name), _) => {
            if !providers.knows(name) {
                return Err(format!("unknown provider `{name}`: not in the shaping files"));
            }
            Some(name.as_str())
        }
        (None, Some(host)) => providers.of(host),
        (None, None) => None,
    };
    let said = PeerReply { code, status, provider, text: &words };
    let verdict = classes
        .classify(&said)
        .ok_or_else(|| format!("{code} is not a failure: it has no class"))?;
    super::print(&if args.json {
        format!("{:#}\n", as_json(&classes, &verdict, provider))
    } else {
        as_text(&classes, &verdict, provider)
    });
    Ok(if verdict.rule.is_some() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn read_input() -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| format!("standard input: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn as_text(classes: &Classes, verdict: &ReplyClassification, provider: Option<&str>) -> String {
    let by = match verdict.rule.and_then(|rule| classes.place(rule)) {
        Some(place) => format!("{}, line {}", clean(place.file), place.line),
        None => "no rule matches".to_owned(),
    };
    format!(
        "class     {}: {}\nkind      {}\nprovider  {}\nrule      {by}\n",
        verdict.class,
        verdict.class.meaning(),
        verdict.kind,
        provider.unwrap_or("-"),
    )
}

fn as_json(
    classes: &Classes,
    verdict: &ReplyClassification,
    provider: Option<&str>,
) -> serde_json::Value {
    let place = verdict.rule.and_then(|rule| classes.place(rule));
    json!({
        "class": verdict.class.as_str(),
        "kind": verdict.kind.as_str(),
        "provider": provider,
        "file": place.map(|place| place.file),
        "line": place.map(|place| place.line),
    })
}
