//! What somebody else needs to repeat the run.

use super::table;
use crate::bench::report::{Contender, Manifest};
use crate::bench::show::markup::Markup;
use crate::bench::show::number::{grouped, with_unit};

/// The run in one line.
pub(super) fn summary(manifest: &Manifest) -> String {
    let machine = &manifest.machine;
    format!(
        "{} · {}, {} cores, {} of memory · {} rounds at {} of the published size · postrider-lab {}",
        manifest.began_at,
        machine.cpu_model,
        machine.cores,
        with_unit(machine.memory_bytes as f64, "bytes"),
        manifest.rounds,
        manifest.scale,
        manifest.version,
    )
}

/// Draws it.
pub(super) fn draw(body: &mut Markup, manifest: &Manifest) {
    body.line();
    body.leaf("h2", &[("id", "manifest")], "How it was measured");
    body.leaf("p", &[], "The command, to be run again on the same machine:");
    body.leaf("pre", &[("class", "command")], &command(&manifest.command_line));
    draw_contenders(body, &manifest.contenders);
    if !manifest.skipped.is_empty() {
        body.leaf("p", &[], "Asked for and not measured:");
        body.element("ul", &[], |list| {
            for skipped in &manifest.skipped {
                list.leaf("li", &[], &format!("{}: {}", skipped.name, skipped.why));
            }
        });
    }
    draw_files(body, &manifest.contenders);
    draw_machine(body, manifest);
}

fn draw_contenders(body: &mut Markup, contenders: &[Contender]) {
    let header = |row: &mut Markup| {
        row.leaf("th", &[], "contender");
        for name in ["what it is", "version", "its 250 promises"] {
            row.leaf("th", &[("class", "prose")], name);
        }
    };
    table::draw(body, header, |rows| {
        for contender in contenders {
            rows.element("tr", &[], |row| {
                row.leaf("th", &[], &contender.name);
                table::prose(row, &contender.title);
                table::prose(row, &contender.version);
                row.element("td", &[("class", "prose")], |cell| {
                    cell.leaf("b", &[], &contender.durability);
                    cell.text(&format!(": {}", contender.durability_note));
                });
            });
        }
    });
}

fn draw_files(body: &mut Markup, contenders: &[Contender]) {
    for contender in contenders {
        for file in &contender.files {
            body.element("details", &[], |details| {
                details.leaf("summary", &[], &format!("{}: {}", contender.name, file.name));
                details.leaf("pre", &[("tabindex", "0")], &file.text);
            });
        }
    }
}

fn draw_machine(body: &mut Markup, manifest: &Manifest) {
    let machine = &manifest.machine;
    let spool = format!(
        "{} on {} ({}, {})",
        machine.spool_directory,
        machine.spool_file_system,
        machine.spool_device,
        machine.spool_mount_options
    );
    let rows = [
        ("machine", format!("{}, {} cores", machine.cpu_model, machine.cores)),
        ("memory", with_unit(machine.memory_bytes as f64, "bytes")),
        ("kernel", machine.kernel.clone()),
        ("spools", spool),
        ("load before", format!("{:.2}", machine.load_before)),
        ("busy before", format!("{:.0} %", machine.busy_before_percent)),
        ("began", manifest.began_at.clone()),
        ("took", format!("{} s", grouped(manifest.seconds, 0))),
        ("seed", manifest.seed.to_string()),
        ("scale", manifest.scale.to_string()),
        ("rounds", manifest.rounds.to_string()),
        ("postrider-lab", manifest.version.clone()),
    ];
    let header = |row: &mut Markup| {
        row.leaf("th", &[], "of the run");
        row.leaf("th", &[], "");
    };
    table::draw(body, header, |body| {
        for (name, value) in rows {
            body.element("tr", &[], |row| {
                row.leaf("th", &[], name);
                table::prose(row, &value);
            });
        }
    });
}

/// A command line that a shell reads as it was.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            return word.clone();
        }
        format!("'{}'", word.replace('\'', r"'\''"))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn a_command_line_can_be_pasted() {
        let words = ["bench", "a b", "it's", "", "--out=x/y"].map(str::to_owned);
        assert_eq!(command(&words), r"bench 'a b' 'it'\''s' '' --out=x/y");
    }
}
