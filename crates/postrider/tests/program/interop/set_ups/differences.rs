//! Differences that are meant, each with its row of the page.

use super::hops::Arrival;
use super::stage::Way;
use super::talk::{Content, Kind, Talk};
use std::collections::BTreeSet;
use std::fmt;

/// No more differences are meant.
pub(super) const ROWS_MAX: usize = 40;

/// What differs.
#[derive(Debug)]
pub(super) enum What<'a> {
    Reply { kind: Kind, postfix: &'a str, ours: &'a str },
    Way { postfix: &'a Way, ours: &'a Way },
}

/// A difference, and where.
pub(super) struct Difference<'a> {
    pub(super) set_up: &'a str,
    pub(super) talk: &'a Talk,
    pub(super) what: What<'a>,
}

/// A row of the page.
pub(super) struct Row {
    /// Its beginning.
    pub(super) begins: &'static str,
    explains: fn(&Difference<'_>) -> bool,
    /// It allows mail that Postfix refuses, or another next hop.
    is_open: bool,
}

const fn row(begins: &'static str, explains: fn(&Difference<'_>) -> bool) -> Row {
    Row { begins, explains, is_open: false }
}

/// The first that explains a difference counts.
pub(super) const ROWS: &[Row] = &[
    row("| malformed addresses |", |it| {
        it.is_reply("", "501 5.1.7") || it.is_reply("", "501 5.1.3")
    }),
    row("| no EHLO or HELO |", |it| it.says("503 5.5.1 Send EHLO first")),
    row("| `AUTH=` in MAIL without a login |", |it| {
        it.is_at(Kind::Mail) && it.is_reply("250", "555 5.5.4")
    }),
    row("| MAIL parameters after HELO |", |it| {
        it.says("555 5.5.4 MAIL and RCPT parameters require EHLO")
    }),
    row("| invalid values of MAIL parameters |", |it| {
        it.is_at(Kind::Mail) && it.is_reply("555 5.5.4", "501 5.5.4")
    }),
    row("| MAIL without a login, to a submission listener |", |it| {
        it.is_at(Kind::Mail) && it.is_reply("", "530 5.7.0")
    }),
    row("| recipients that may not be relayed |", |it| {
        it.is_refused_by_both()
            && (it.says("Relay access denied") || it.says("Source routing not supported"))
    }),
    row("| code of `REJECT` |", |it| {
        it.is_reply("554", "550")
            && matches!(it.what, What::Reply { postfix, .. } if postfix.contains("rejected: "))
    }),
    row("| unknown domain of the sender |", |it| it.is_reply("450 4.1.8", "550 5.1.8")),
    row("| order of the lists |", |it| it.is_rcpt() && it.is_refused_by_both()),
    row("| routes in local parts |", |it| it.says("Source routing not supported")),
    row("| address literals of this server |", |it| {
        it.says("550 5.1.2 Address literals of this server not supported")
    }),
    row("| an alias of an unknown address |", |it| {
        let is_alias = |to: &str| {
            ["lost@", "cy@moved.test", "all-cy@"].iter().any(|start| to.starts_with(start))
                || to.ends_with("@old.test")
        };
        it.recipient().is_some_and(is_alias) && it.is_reply("250", "550 5.1.1")
    }),
    row("| `local_header_rewrite_clients`, `always_add_missing_headers` |", |it| {
        it.talk.content == Content::WithoutFields && it.has_same_ends_but_from()
    }),
    row("| tags in `smtp_generic_maps` |", |it| {
        it.set_up == "generic addresses" && it.has_same_ends_but_tags()
    }),
    row("| quotes that an address does not need |", |it| {
        it.has_same_ends() && (it.talk.sender.contains('"') || it.talk.has_recipient("\""))
    }),
    row("| tags of local aliases |", |it| {
        it.set_up == "local aliases" && it.talk.has_recipient("+") && it.has_same_ends()
    }),
    row("| recipients that differ in case only |", |it| it.has_same_ends() && it.has_more_here()),
    row("| one address by several aliases |", |it| it.has_same_ends() && !it.has_more_here()),
    row("| a fallback relay, and a domain without a mail host |", |it| {
        it.set_up == "fallback relay"
            && ["@unknown.test", "@null.test", "@relay.test"]
                .iter()
                .any(|part| it.talk.has_recipient(part))
            && it.is_returned_here_only()
    }),
    Row {
        begins: "| `@example.org` in `virtual_alias_maps` beside `virtual_mailbox_maps` |",
        explains: |it| it.set_up == "catch-all" && it.talk.has_recipient("bo@here.test"),
        is_open: true,
    },
];

impl Difference<'_> {
    /// The row that explains it. Rows that are not open never explain that this server accepts, relays or sends in clear
    /// what Postfix refuses, or sends by another next hop.
    pub(super) fn row(&self) -> Option<&'static str> {
        let is_more_open = self.is_more_open();
        let may = |row: &&Row| (!is_more_open || row.is_open) && (row.explains)(self);
        ROWS.iter().find(may).map(|row| row.begins)
    }

    fn is_more_open(&self) -> bool {
        match self.what {
            What::Reply { postfix, ours, .. } => is_accepted(ours) && !is_accepted(postfix),
            What::Way { postfix, ours } => ours.arrivals.iter().any(|arrival| {
                let is_there = postfix.arrivals.iter().any(|other| {
                    other.hop == arrival.hop
                        && mailbox(&other.recipient) == mailbox(&arrival.recipient)
                        && (other.secured == arrival.secured || other.secured == "clear")
                });
                // A DSN is this server's own.
                !arrival.sender.is_empty() && !is_there
            }),
        }
    }

    fn is_at(&self, at: Kind) -> bool {
        matches!(self.what, What::Reply { kind, .. } if kind == at)
    }

    fn is_rcpt(&self) -> bool {
        matches!(self.what, What::Reply { kind: Kind::Rcpt(_), .. })
    }

    /// The recipient that has different replies.
    fn recipient(&self) -> Option<&str> {
        match self.what {
            What::Reply { kind: Kind::Rcpt(n), .. } => Some(&self.talk.recipients[n]),
            _ => None,
        }
    }

    /// Replies that begin so.
    fn is_reply(&self, there: &str, here: &str) -> bool {
        matches!(self.what, What::Reply { postfix, ours, .. } if postfix.starts_with(there) && ours.starts_with(here))
    }

    fn is_refused_by_both(&self) -> bool {
        matches!(self.what, What::Reply { postfix, ours, .. } if !is_accepted(postfix) && !is_accepted(ours))
    }

    /// The reply here has these words.
    fn says(&self, words: &str) -> bool {
        matches!(self.what, What::Reply { ours, .. } if ours.contains(words))
    }

    /// All mail has reached the same mailboxes, though not as often or not in the same form.
    fn has_same_ends(&self) -> bool {
        matches!(self.what, What::Way { postfix, ours } if ends(postfix) == ends(ours) && waits(postfix) == waits(ours))
    }

    /// The same, but for From, which Postfix adds.
    fn has_same_ends_but_from(&self) -> bool {
        self.has_same_ends_without(|fields| fields[0].clear())
    }

    /// The same, but for tags in address fields.
    fn has_same_ends_but_tags(&self) -> bool {
        self.has_same_ends_without(|fields| {
            for field in fields {
                *field = field.replace("+x@", "@");
            }
        })
    }

    /// The same after this change of all address fields.
    fn has_same_ends_without(&self, change: impl Fn(&mut [String; 5])) -> bool {
        let without = |way: &Way| {
            let mut way = way.clone();
            for arrival in &mut way.arrivals {
                arrival.fields.iter_mut().for_each(&change);
            }
            way
        };
        match self.what {
            What::Way { postfix, ours } => {
                ends(&without(postfix)) == ends(&without(ours)) && waits(postfix) == waits(ours)
            }
            What::Reply { .. } => false,
        }
    }

    fn has_more_here(&self) -> bool {
        matches!(self.what, What::Way { postfix, ours } if ours.arrivals.len() > postfix.arrivals.len())
    }

    /// What arrived only with one of them: mail with Postfix, and here the DSN about it.
    fn is_returned_here_only(&self) -> bool {
        let What::Way { postfix, ours } = self.what else { return false };
        let (there, here) = (ends(postfix), ends(ours));
        here.difference(&there).all(|end| end.sender.is_empty()) && waits(postfix) == waits(ours)
    }
}

/// Where mail has arrived, each mailbox once.
fn ends(way: &Way) -> BTreeSet<Arrival> {
    let end = |arrival: &Arrival| Arrival {
        sender: mailbox(&arrival.sender),
        recipient: mailbox(&arrival.recipient),
        ..arrival.clone()
    };
    way.arrivals.iter().map(end).collect()
}

fn waits(way: &Way) -> BTreeSet<String> {
    way.waits.iter().map(|recipient| mailbox(recipient)).collect()
}

/// An address without case, quotes and tag.
fn mailbox(address: &str) -> String {
    let address = address.to_ascii_lowercase().replace('"', "");
    match address.rsplit_once('@') {
        Some((local, domain)) => {
            let local = local.split_once('+').map_or(local, |(user, _)| user);
            format!("{local}@{domain}")
        }
        None => address,
    }
}

fn is_accepted(reply: &str) -> bool {
    reply.starts_with('2') || reply.starts_with('3')
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.is_more_open() { " (more open)" } else { "" };
        writeln!(f, "{}{open}: {:?}", self.set_up, self.talk)?;
        match self.what {
            What::Reply { kind, postfix, ours } => {
                write!(f, "{}\n  Postfix: {postfix}\n  here: {ours}", self.talk.command(kind))
            }
            What::Way { postfix, ours } => write!(f, "Postfix: {postfix:#?}\nhere: {ours:#?}"),
        }
    }
}
