//! What somebody else needs to repeat the run.

use crate::bench::report::{Contender, Manifest};
use crate::show;
use crate::show::number::{grouped, with_unit};
use maud::{Markup, html};

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
pub(super) fn draw(manifest: &Manifest) -> Markup {
    html! {
        "\n"
        h2 id="manifest" { "Method" }
        p { "The command, for a repetition on the same machine:" }
        pre class="command" { (command(&manifest.command_line)) }
        (draw_contenders(&manifest.contenders))
        @if !manifest.skipped.is_empty() {
            p { "Requested, but not measured:" }
            ul { @for skipped in &manifest.skipped { li { (skipped.name) ": " (skipped.why) } } }
        }
        (draw_files(&manifest.contenders))
        (draw_machine(manifest))
    }
}

fn draw_contenders(contenders: &[Contender]) -> Markup {
    let header = html! {
        th { "contender" }
        @for name in ["description", "version", "promise of its 250"] { th class="prose" { (name) } }
    };
    let rows = html! {
        @for contender in contenders {
            tr {
                th { (contender.name) }
                (show::prose(&contender.title))
                (show::prose(&contender.version))
                td class="prose" { b { (contender.durability) } ": " (contender.durability_note) }
            }
        }
    };
    show::scrolling(&header, &rows)
}

fn draw_files(contenders: &[Contender]) -> Markup {
    html! {
        @for contender in contenders {
            @for file in &contender.files {
                details {
                    summary { (contender.name) ": " (file.name) }
                    pre tabindex="0" { (file.text) }
                }
            }
        }
    }
}

fn draw_machine(manifest: &Manifest) -> Markup {
    let machine = &manifest.machine;
    let spool = format!(
        "{} on {} ({}, {})",
        machine.spool_directory,
        machine.spool_file_system,
        machine.spool_device,
        machine.spool_mount_options
    );
    let offered = manifest.rate.map(|rate| ("offered", format!("{rate} messages/s")));
    let read_after = manifest.read_after_seconds;
    let read_after = read_after.map(|seconds| ("mail is read after", format!("{seconds} s")));
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
    let header = html! { th { "of the run" } th {} };
    let rows = html! {
        @for (name, value) in rows.into_iter().chain(offered).chain(read_after) { tr { th { (name) } (show::prose(&value)) } }
    };
    show::scrolling(&header, &rows)
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
