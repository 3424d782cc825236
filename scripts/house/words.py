"""Marks of translated English (CONTRIBUTING, "English"), counted in comments, documents and texts that users read."""

import pathlib
import re

OPENING = re.compile(
    r"^(?:(?:Who|Whose|Whom|Whoever|What|Whatever|Which|Whether|How|Where|When|Why|(?:From|To|For|By|In|Of) (?:whom|which|what)"
    r"|So (?:many|much|long|few))\b)",
    re.IGNORECASE,
)
# A hit is a place to look at, and mostly to rewrite.
MARKS = {
    "opening": OPENING,
    "who": re.compile(r"\b(?:who|whoever|whose|whom)\b"),
    "what": re.compile(r"(?<!^)\bwhat\b"),
    "speech": re.compile(r"\b(?:tells?|told|telling|says?|said|saying|hears?|heard|asked for|words?|spoken|speaks?)\b"),
    "there is": re.compile(r"\bthat there (?:is|are|was|were)\b|\bthere (?:is|are|was) none\b"),
    "is to": re.compile(r"\b(?:is|are|was|were) to (?:be|go|wait|get|have)\b"),
    "such": re.compile(r"\bsuch\b"),
    "of it": re.compile(r"\bof (?:it|them|ours|theirs|his own|its own)\b|\bof (?:this|that|these|those)(?=[.,;:)]|$)"),
    "comes of": re.compile(r"\b(?:came|comes?|becomes?|became) (?:of|to)\b"),
    "way": re.compile(r"\b(?:ways?|room|trouble|lack|moment|want of)\b"),
    "others": re.compile(r"\b(?:others|elsewhere|meanwhile|anyhow|somebody|nobody|anybody|strangers?)\b", re.IGNORECASE),
    "put off": re.compile(r"\bput(?:s|ting)? off\b|\bgiv(?:e|en|es|ing) (?:up|back)\b|\blets? go\b|\btaken? (?:for|up)\b"),
}
LONG_SENTENCE_WORDS = 30

SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+(?=[A-Z`\[*])|\s\|\s|\n\n")
CODE = re.compile(r"`[^`]*`")
WORD = re.compile(r"[A-Za-z]{2,}")


class Sentence:
    """A sentence with its place and its marks."""

    def __init__(self, file, line, text):
        self.file, self.line, self.text = file, line, text
        plain = CODE.sub("x", text)
        self.is_long = len(plain.split()) > LONG_SENTENCE_WORDS
        self.marks = [name for name, mark in MARKS.items() if mark.search(plain)]
        # A question is one.
        self.opens = bool(OPENING.match(plain)) and not text.rstrip("*_ ").endswith("?")
        if "opening" in self.marks and not self.opens:
            self.marks.remove("opening")


class Count:
    """Sentences of one area and the marks in them."""

    def __init__(self, sentences):
        self.sentences = sentences
        self.total = len(sentences)
        self.openings = sum(s.opens for s in sentences)
        self.marked = sum(bool(s.marks) for s in sentences)
        self.twice = sum(len(s.marks) > 1 for s in sentences)
        self.long = sum(s.is_long for s in sentences)

    def numbers(self):
        return {"openings": self.openings, "marked": self.marked, "twice": self.twice, "long": self.long}


def split(file, line, text, end=SENTENCE_END):
    for part in end.split(text):
        part = " ".join(part.split()).strip("| ")
        if len(part.split()) > 1 and WORD.search(part):
            yield Sentence(file, line, part)


COMMENT = re.compile(r"^\s*(///|//!|//)(?!/) ?(.*)$")
FENCE = re.compile(r"^\s*```")


def comment_blocks(source):
    """(first line, prefix, lines) of each block of comments; what stands between fences is left out."""
    blocks, current, kind, fenced = [], [], None, False
    for number, line in enumerate(source.split("\n"), 1):
        match = COMMENT.match(line)
        if not match or match.group(1) != kind:
            if current:
                blocks.append((current[0][0], kind, [text for _, text in current]))
            current, fenced = [], False
            kind = match.group(1) if match else None
        if match:
            if FENCE.match(match.group(2)):
                fenced = not fenced
            elif not fenced:
                current.append((number, match.group(2)))
    if current:
        blocks.append((current[0][0], kind, [text for _, text in current]))
    return blocks


def comment_sentences(name, source):
    for line, _, lines in comment_blocks(source):
        for item in joined_items(lines):
            yield from split(name, line, item)


LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s|^#+\s|^\|")


def joined_items(lines):
    """Paragraphs, list items and headings, each as one text."""
    item = []
    for line in lines:
        if not line.strip() or LIST_ITEM.match(line):
            if item:
                yield " ".join(item)
            item = []
        if line.strip():
            item.append(LIST_ITEM.sub("", line, count=1) if not line.startswith("|") else line)
    if item:
        yield " ".join(item)


def document_sentences(name, source):
    lines, fenced, start = [], False, 1
    for number, line in enumerate(source.split("\n") + [""], 1):
        if FENCE.match(line):
            fenced = not fenced
            line = ""
        elif fenced:
            continue
        if line.strip() and not LIST_ITEM.match(line):
            if not lines:
                start = number
            lines.append(line)
            continue
        if lines:
            yield from split(name, start, " ".join(lines))
        lines = []
        if line.strip():
            start = number
            lines = [LIST_ITEM.sub("", line, count=1) if not line.startswith("|") else line]


LITERAL = re.compile(r'//[^\n]*|\'(?:[^\'\\]|\\.)\'|b?r(#*)"(.*?)"\1|b?"((?:[^"\\]|\\.)*)"', re.DOTALL)
PLACE = re.compile(r"\{[^{}]*\}")
# A line of a list, of an example or of a file in a literal is no part of a sentence with the next one; wrapped prose is.
TEXT_LINE_END = re.compile(r"(?<=[.;!?])\s+|\n")
WRAPPED = re.compile(r"^([^\n=]{60,})\n(?=[a-z])", re.MULTILINE)
ESCAPE = re.compile(r"\\\n\s*")
# Assertions and expectations are for us: they name what a reader of the code knows.
FOR_US = re.compile(r"(?:\b(?:expect|unreachable!|panic!|assert\w*!|debug_assert\w*!)\s*\((?:[^()\"]|\([^()]*\))*)$")


def text_sentences(name, source):
    """Texts of three words and more in string literals, but for those that only a panic shows."""
    for match in LITERAL.finditer(source):
        raw = match.group(2) if match.group(2) is not None else match.group(3)
        if raw is None:
            continue
        text = PLACE.sub("x", ESCAPE.sub("", raw).replace('\\"', '"').replace("\\n", "\n\n"))
        if len(WORD.findall(text)) < 3 or " " not in text.strip():
            continue
        if FOR_US.search(source, max(0, match.start() - 200), match.start()):
            continue
        line = source.count("\n", 0, match.start()) + 1
        yield from split(name, line, WRAPPED.sub(r"\1 ", text), TEXT_LINE_END)


OF_TESTS = re.compile(r"(?:^|/)(?:tests?|testing|benches|fuzz)/|(?:^|[/_])(?:tests?|testing)\.rs$")
TEST_MODULE = re.compile(r"\n#\[cfg\(test\)\]\n(?:#\[[^\]]*\]\n)*(?:pub(?:\([^)]*\))? )?mod \w+ \{.*", re.DOTALL)
GENERATED = {"docs/internals/bad-peers-steps.md"}


def areas(root):
    """Name of an area -> its sentences."""
    found = {}
    for crate in sorted((root / "crates").iterdir()):
        comments, texts = [], []
        for path in sorted((crate / "src").rglob("*.rs")):
            name = path.relative_to(root).as_posix()
            if OF_TESTS.search(name):
                continue
            source = TEST_MODULE.sub("\n", path.read_text(encoding="utf-8"))
            comments += comment_sentences(name, source)
            texts += text_sentences(name, source)
        if comments:
            found[f"comments/{crate.name}"] = Count(comments)
        if texts:
            found[f"texts/{crate.name}"] = Count(texts)
    documents = []
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        name = path.relative_to(root).as_posix()
        if name not in GENERATED:
            documents += document_sentences(name, path.read_text(encoding="utf-8"))
    found["docs"] = Count(documents)
    return found


REPLY_OCTETS_MAX = 70
# A literal that goes out as the text of an SMTP reply.
REPLY = re.compile(
    r"(?:Refusal::(?:transient|permanent)\(\s*\(\d+, \d+\),\s*|Reply::new\(\s*\d+,\s*\(\d, \d+, \d+\),\s*"
    r"|\breplies::(?:argument|sequence|line)\(\s*|\bsyntax\(\s*"
    r"|\bself\.(?:end|close)\((?:[^()]|\([^()]*\))*\(\d, \d+, \d+\),\s*)"
    r'"((?:[^"\\]|\\.)+)"'
)
# Refusals there have other readers: a simulated server, and channels and X.400, which reply over no SMTP.
NO_REPLIES = re.compile(r"^crates/(?:lab|load|x400)/|^crates/channels/src/(?:discard\.rs|maildir/|x400/|smtp/outbound/)")


def bad_replies(name, source):
    """Replies that do not begin with a capital or a digit, or are too long; values inserted at run time do not count."""
    for match in REPLY.finditer(source):
        text = ESCAPE.sub("", match.group(1)).replace('\\"', '"')
        line = source.count("\n", 0, match.start(1)) + 1
        if not re.match(r"[A-Z0-9{<]", text):
            yield f"{name}:{line}: an SMTP reply begins with a capital: {text}"
        if len(PLACE.sub("", text).encode()) > REPLY_OCTETS_MAX:
            yield f"{name}:{line}: an SMTP reply has over {REPLY_OCTETS_MAX} octets: {text}"


def reply_breaches(root):
    for path in sorted((root / "crates").glob("*/src/**/*.rs")):
        name = path.relative_to(root).as_posix()
        if not OF_TESTS.search(name) and not NO_REPLIES.search(name):
            yield from bad_replies(name, TEST_MODULE.sub("\n", path.read_text(encoding="utf-8")))


def breaches(root, ratchet):
    """Counts that rose, limits that are passed, and SMTP replies of the wrong form."""
    yield from reply_breaches(root)
    for area, count in areas(root).items():
        allowed = ratchet.get(area, {})
        for name, number in count.numbers().items():
            if number > allowed.get(name, 0):
                yield f"{area}: {number} sentences count as `{name}`, {allowed.get(name, 0)} at most"


PLANTED = {
    "Who has logged in may send.": ["opening"],
    "What is told of others.": ["opening", "speech", "others"],
    "A queue that is put off.": ["put off"],
    "The server puts off mail, and nobody hears of it.": ["speech", "of it", "others", "put off"],
    "Where is the mail?": [],
    "Returns `what` the table holds.": [],
}


def self_test():
    """Each mark is found where it is planted: a count that can't rise proves nothing."""
    for text, marks in PLANTED.items():
        (sentence,) = split("planted", 1, text)
        assert sentence.marks == marks, (text, sentence.marks)
    assert next(split("planted", 1, "word " * 31)).is_long
    for bad in ['Refusal::permanent((7, 1), "access denied")', 'replies::line("' + "Long " * 15 + '")']:
        assert len(list(bad_replies("planted", bad))) == 1, bad
    assert not list(bad_replies("planted", 'self.end(About::step("x"), (4, 7, 0), "Too many {count}")'))
    source = '/// Who it is.\nfn f() { g("what of it"); h("a, b") } // Why not.\n'
    assert [s.opens for s in comment_sentences("planted", source)] == [True]
    assert [s.marks for s in text_sentences("planted", source)] == [["opening", "of it"]]
    listed = 'h("Codes:\n' + "  0  " + "word " * 20 + "\n  1  " + "word " * 20 + '")'
    wrapped = 'h("' + "word " * 20 + "long\n" + "word " * 20 + '")'
    assert [s.is_long for s in text_sentences("planted", listed)] == [False, False]
    assert [s.is_long for s in text_sentences("planted", wrapped)] == [True]
    assert [s.opens for s in document_sentences("planted", "# How it\n\nAn end.\n- Who is c\n```\nWho d\n```\n")] == [True, False, True]
