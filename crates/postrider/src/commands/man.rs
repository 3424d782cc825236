//! `postrider man`: the manual. Pages of commands come from the table of commands, postrider.toml(5) from the schema of
//! the configuration, and sendmail(1) from its document, so that each text has one source.

use crate::cli::{Cli, ManArgs, exit};
use clap::CommandFactory as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The document of sendmail(1).
const SENDMAIL: &str = include_str!("../../../../docs/sendmail.md");

const SENDMAIL_SYNOPSIS: &str = "\
.B sendmail
.RI [ option \" ...] [\" recipient \" ...]\"
.br
.B mailq
.br
.B newaliases
";

const CONFIGURATION_SYNOPSIS: &str = "\
.I /etc/postrider/postrider.toml
";

/// Runs `postrider man`.
pub(crate) fn run(args: &ManArgs) -> ExitCode {
    match write(&args.out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("postrider: {}: {error}", args.out.display());
            ExitCode::from(exit::FAILED)
        }
    }
}

fn write(out: &Path) -> std::io::Result<()> {
    fs::create_dir_all(out)?;
    clap_mangen::generate_to(Cli::command(), out)?;
    let sendmail = ManPage {
        name: "sendmail",
        section: 1,
        names: "sendmail, mailq, newaliases",
        summary: "send mail by Postrider",
        synopsis: SENDMAIL_SYNOPSIS,
        see: &[("postrider", 1), ("postrider.toml", 5)],
    };
    let configuration = ManPage {
        name: "postrider.toml",
        section: 5,
        names: "postrider.toml",
        summary: "configuration of Postrider",
        synopsis: CONFIGURATION_SYNOPSIS,
        see: &[("postrider", 1), ("postrider-check", 1), ("postrider-explain", 1)],
    };
    fs::write(out.join("sendmail.1"), sendmail.roff(SENDMAIL))?;
    // The other names of sendmail(1).
    for name in ["mailq.1", "newaliases.1"] {
        fs::write(out.join(name), ".so man1/sendmail.1\n")?;
    }
    let reference = crate::sections::schema().reference();
    fs::write(out.join("postrider.toml.5"), configuration.roff(&reference))
}

/// A page of the manual, from Markdown.
struct ManPage<'a> {
    name: &'a str,
    section: u8,
    /// Its names, for the index.
    names: &'a str,
    summary: &'a str,
    /// Macros.
    synopsis: &'a str,
    see: &'a [(&'a str, u8)],
}

impl ManPage<'_> {
    /// The page, with macros of man(7). Markdown is that of the documents: headings, paragraphs, lists, tables, code.
    fn roff(&self, markdown: &str) -> String {
        let ManPage { name, section, names, summary, synopsis, see } = self;
        let version = env!("CARGO_PKG_VERSION");
        let mut out = format!(
            ".TH {} {section} \"\" \"Postrider {version}\" \"Postrider\"\n.SH NAME\n\
             {names} \\- {summary}\n.SH SYNOPSIS\n{synopsis}.SH DESCRIPTION\n",
            name.to_uppercase(),
        );
        // The title is in the header of the page.
        let body = markdown.split_once('\n').map_or("", |(_, body)| body);
        let mut blocks = RoffBlocks { out: &mut out, state: BlockState::Heading };
        body.lines().for_each(|line| blocks.line(line));
        out.push_str(".SH SEE ALSO\n");
        let pages = see.iter().map(|(name, section)| format!(".BR {name} ({section})"));
        out.push_str(&pages.collect::<Vec<_>>().join(",\n"));
        out.push('\n');
        out
    }
}

/// The kind of block that the last line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Between,
    /// Its first paragraph needs no macro.
    Heading,
    Paragraph,
    Item,
    /// Its first row is the header.
    TableHead,
    TableRows,
    Code,
}

struct RoffBlocks<'a> {
    out: &'a mut String,
    state: BlockState,
}

impl RoffBlocks<'_> {
    fn line(&mut self, line: &str) {
        if line.starts_with("```") {
            return self.fence();
        }
        if self.state == BlockState::Code {
            return self.push(&literal(line));
        }
        let is_row = line.starts_with('|');
        if is_row {
            self.row(line);
        } else if line.is_empty() || line.starts_with("<!--") {
            if self.state != BlockState::Heading {
                self.state = BlockState::Between;
            }
        } else if let Some(heading) = line.strip_prefix("## ") {
            self.heading(".SH", &heading.to_uppercase());
        } else if line.starts_with('#') {
            self.heading(".SS", line.trim_start_matches('#').trim_start());
        } else if let Some(item) = line.strip_prefix("- ") {
            self.push(".IP \\(bu 2");
            self.state = BlockState::Item;
            self.push(&inline(item));
        } else {
            if self.state == BlockState::Between {
                self.push(".PP");
            }
            if matches!(self.state, BlockState::Between | BlockState::Heading) {
                self.state = BlockState::Paragraph;
            }
            self.push(&inline(line.trim_start()));
        }
    }

    fn push(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn heading(&mut self, macro_name: &str, text: &str) {
        self.push(&format!("{macro_name} \"{}\"", inline(text).replace('"', "\\(dq")));
        self.state = BlockState::Heading;
    }

    fn fence(&mut self) {
        if self.state == BlockState::Code {
            self.push(".fi\n.RE");
            self.state = BlockState::Between;
        } else {
            self.push(".PP\n.RS 4\n.nf");
            self.state = BlockState::Code;
        }
    }

    /// A row is a term, with further columns in parentheses, and the meaning in the last one.
    fn row(&mut self, line: &str) {
        match self.state {
            BlockState::TableHead if line.starts_with("|---") => {
                self.state = BlockState::TableRows;
                return;
            }
            BlockState::TableRows => (),
            _ => {
                self.state = BlockState::TableHead;
                return;
            }
        }
        let guarded = line.trim_matches('|').replace("\\|", "\u{0}");
        let cells: Vec<String> =
            guarded.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
        let [term, between @ .., meaning] = cells.as_slice() else { return };
        let notes: Vec<String> = match between {
            [value, default] if !default.is_empty() => {
                vec![inline(value), format!("default {}", inline(default))]
            }
            other => other.iter().filter(|cell| !cell.is_empty()).map(|c| inline(c)).collect(),
        };
        let notes = match notes.is_empty() {
            true => String::new(),
            false => format!(" ({})", notes.join("; ")),
        };
        self.push(&format!(".TP\n{}{notes}\n{}", inline(term), inline(meaning)));
    }
}

/// Text of a paragraph: code and strong text are bold, links are their text.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut is_code = false;
    while let Some(first) = rest.chars().next() {
        if first == '`' {
            out.push_str(if is_code { "\\fR" } else { "\\fB" });
            is_code = !is_code;
        } else if !is_code && let Some((label, after)) = link(rest) {
            out.push_str(&inline(label));
            rest = after;
            continue;
        } else if !is_code && let Some((strong, after)) = strong(rest) {
            out.push_str(&format!("\\fB{}\\fR", inline(strong)));
            rest = after;
            continue;
        } else {
            push_escaped(&mut out, first, is_code);
        }
        rest = &rest[first.len_utf8()..];
    }
    guarded(out)
}

/// The label of a link at the beginning, and the text after the link.
fn link(text: &str) -> Option<(&str, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    (!label.contains(['[', ']'])).then_some((label, after))
}

fn strong(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("**")?.split_once("**")
}

/// A line of code.
fn literal(line: &str) -> String {
    let mut out = String::new();
    line.chars().for_each(|character| push_escaped(&mut out, character, true));
    guarded(out)
}

/// A line that begins with a dot or an apostrophe would be a request.
fn guarded(line: String) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// Escapes characters that roff would replace, so that they can be copied from the page.
fn push_escaped(out: &mut String, character: char, is_code: bool) {
    match character {
        '\\' => out.push_str("\\(rs"),
        '-' if is_code => out.push_str("\\-"),
        '\'' => out.push_str("\\(aq"),
        '`' => out.push_str("\\(ga"),
        '^' => out.push_str("\\(ha"),
        '~' => out.push_str("\\(ti"),
        character if character.is_ascii() => out.push(character),
        character => out.push_str(&format!("\\[u{:04X}]", u32::from(character))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_macros() {
        let page = ManPage {
            name: "x",
            section: 5,
            names: "x",
            summary: "a test",
            synopsis: ".B x\n",
            see: &[("y", 1), ("z", 5)],
        };
        let text = "# Title\n\nA **strong** `--key` of [a link](x.md#y).\n.next's\n\n- item\n  more\n\n\
                    ## Part one\n\n| key | value | default | meaning |\n|---|---|---|---|\n\
                    | `a\\|b` | text | `1` | Meaning \\ … |\n| `c` | text |  | Other. |\n\n\
                    ```toml\n.a = \"-\"\n\n```\n";
        let roff = page.roff(text);
        for part in [
            ".TH X 5 ",
            "\nx \\- a test\n",
            ".SH DESCRIPTION\nA \\fBstrong\\fR \\fB\\-\\-key\\fR of a link.\n\\&.next\\(aqs\n",
            ".IP \\(bu 2\nitem\nmore\n.SH \"PART ONE\"\n.TP\n",
            ".TP\n\\fBa|b\\fR (text; default \\fB1\\fR)\nMeaning \\(rs \\[u2026]\n",
            ".TP\n\\fBc\\fR (text)\nOther.\n",
            ".PP\n.RS 4\n.nf\n\\&.a = \"\\-\"\n\n.fi\n",
            ".SH SEE ALSO\n.BR y (1),\n.BR z (5)\n",
        ] {
            assert!(roff.contains(part), "{part}: {roff}");
        }
    }

    #[test]
    fn manual_has_pages_of_commands_and_files() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("man");
        assert_eq!(run(&ManArgs { out: out.clone() }), ExitCode::SUCCESS);
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        assert!(read("postrider.1").contains("First steps"));
        assert!(read("postrider-serve.1").contains("SIGHUP"));
        assert!(read("postrider-spool-verify.1").contains("changes nothing"));
        assert!(read("postrider-queue-why.1").contains("waits for"));
        assert!(read("postrider-spool-verify.1").contains("Exit codes"));
        let configuration = read("postrider.toml.5");
        let schema = crate::sections::schema();
        for key in schema.json()["properties"].as_object().unwrap().keys() {
            assert!(configuration.contains(&format!("\n\\fB{key}\\fR")), "{key}");
        }
        assert!(read("sendmail.1").contains("\\fB\\-t\\fR"));
        assert_eq!(read("mailq.1"), ".so man1/sendmail.1\n");
    }
}
