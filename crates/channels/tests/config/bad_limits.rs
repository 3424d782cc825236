//! Bad `[[limit]]` sections.

use super::bad::END;

pub(crate) const LIMITS: &[(&str, &str, &str)] = &[
    (END, "[[limit]]\nmessages = \"1/h\"", "6:1: a limit without `by`"),
    (END, "[[limit]]\nby = \"user\"", "7:6: invalid value \"user\" for `by`"),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = \"1/h\"\nwhen = { recipients = [\"@a.test\"] }",
        "9:23: a condition about recipients, which are not known",
    ),
    (END, "[limit]\nby = \"login\"", "6:2: `limit` must be a list, not a table"),
    (END, "[[limit]]\nby = \"login\"", "6:1: a limit without `messages` and `recipients`"),
    (END, "[[limit]]\nby = \"login\"\nrate = \"1/h\"", "8:1: unknown key `rate` in `limit`"),
    (END, "[[limit]]\nby = \"login\"\nmessages = []", "8:12: `messages` is empty"),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = 200",
        "8:12: `messages` must be text in quotes or a list, not a whole number",
    ),
    (END, "[[limit]]\nby = \"login\"\nmessages = \"200\"", "8:12: \"200\" is not a rate"),
    (END, "[[limit]]\nby = \"login\"\nmessages = \"0/h\"", "8:12: \"0/h\" is not a rate"),
    (END, "[[limit]]\nby = \"login\"\nmessages = \"-1/h\"", "8:12: \"-1/h\" is not a rate"),
    (END, "[[limit]]\nby = \"login\"\nmessages = \"5/s\"", "8:12: \"5/s\" is a rate per second"),
    (END, "[[limit]]\nby = \"login\"\nmessages = \"5/w\"", "8:12: \"5/w\" is not a rate"),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = [\"1/h\", \"4294967296/d\"]",
        "8:20: \"4294967296/d\" is not a rate",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nrecipients = [\"300/h\", \"200/d\"]",
        "8:24: \"200/d\" contradicts \"300/h\"",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nrecipients = [\"300/h\", \"200/h\"]",
        "8:24: \"200/h\" contradicts \"300/h\"",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = \"300/h\"\nrecipients = \"200/h\"",
        "8:12: 300/h messages can't be reached with 200/h recipients",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = [\"unlimited\", \"1/h\"]",
        "8:13: \"unlimited\" beside a rate",
    ),
    (
        END,
        "[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\nwhen = { listeners = [\"out\"] }",
        "9:23: unknown listener \"out\"",
    ),
    (
        END,
        "[[tenant]]\nname = \"acme\"\n[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\n\
         when = { tenants = [\"acne\"] }",
        "11:21: unknown tenant \"acne\"",
    ),
    (
        END,
        "[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\n\
         when = { tenants = [\"acme\"], logins = [\"jo\"] }",
        "9:20: no mail has a tenant, so the condition never holds\n\
         9:39: no listener has logins, so the condition never holds",
    ),
    (
        END,
        "[[copy]]\nto = \"archive@here.example\"\nwhen = { logins = [\"jo\"] }",
        "8:19: no listener has logins, so the condition never holds",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = \"1/h\"\nlisteners = [\"out\"]",
        "9:14: unknown listener \"out\"",
    ),
    (
        END,
        "[[limit]]\nby = \"listener\"\nmessages = \"1/h\"\nnames = [\"out\"]",
        "9:10: unknown listener \"out\"",
    ),
    (
        END,
        "[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\nnames = [\"jo@x.test\", \"x.test\"]",
        "9:23: \"x.test\" is not an address",
    ),
    (
        END,
        "[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\nnames = [\"jo+a@x.test\"]",
        "9:10: \"jo+a@x.test\" has a tag, without which senders are counted",
    ),
    (
        END,
        "[[limit]]\nby = \"sender_domain\"\nmessages = \"1/h\"\nnames = [\"jo@x.test\"]",
        "9:10: \"jo@x.test\" is not a domain",
    ),
    (
        END,
        "[[limit]]\nby = \"sender\"\nmessages = \"1/h\"\nwhen = { senders = [\"@x.test\"] }\n\
         [[limit]]\nby = \"sender\"\nmessages = \"2/h\"\nlisteners = [\"127.0.0.1:25\"]\n\
         when = { senders = [\"jo@x.test\"] }",
        "14:1: the limit on line 6 applies to all mail of this one",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nmessages = \"1/h\"\n[[limit]]\nby = \"login\"\nmessages = \"2/h\"",
        "10:6: each login has a limit on line 6 already",
    ),
    (
        END,
        "[[limit]]\nby = \"login\"\nnames = [\"jo\"]\nmessages = \"1/h\"\n\
         [[limit]]\nby = \"login\"\nnames = [\"al\", \"Jo\"]\nmessages = \"2/h\"",
        "12:16: login \"Jo\" has a limit on line 6 already",
    ),
];
