//! Mistakes in the header fields that events have. Rows as in [`bad`](super::bad).

use super::bad::END;

/// Frame, what is put into it, and the one error line that must come of it.
pub(crate) const EVENTS: &[(&str, &str, &str)] = &[
    (END, "[events]\nheaders = \"Subject\"", "7:11: `headers` must be a list, not text in quotes"),
    (
        END,
        "[events]\nheaders = [\"Subject\", \"List Id\"]",
        "7:23: \"List Id\" is not a field name",
    ),
    (END, "[events]\nheaders = [\"\"]", "7:12: \"\" is not a field name"),
    (END, "[events]\nheaders = [\"List-Id:\"]", "7:12: \"List-Id:\" is not a field name"),
    (END, "[events]\nheaders = [\"List-Id\", \"list-ID\"]", "7:23: list-ID is listed twice"),
    (
        END,
        "[events]\nheaders = [\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\",\"m\",\"n\",\"o\",\"p\",\"q\"]",
        "7:11: more than 16 header fields",
    ),
];
