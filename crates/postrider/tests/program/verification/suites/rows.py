"""Signed messages, in a manner of their own each: `[group, name, message, records, envelope, outcome]` as JSON, octets as
characters.

The groups: `dkim` (signatures and keys by RFC 6376, 8301, 8463), `arc` (chains by RFC 8617), `author` (what a forger may
have said, with a signature or an envelope that is his). A template of a signature has <bh> and <b> where those go.
argv: a directory for keys.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys

import nacl.signing
from dkim.crypto import RSASSA_PKCS1_v1_5_sign, parse_pem_private_key


def output(*words):
    return subprocess.run(words, check=True, capture_output=True).stdout


class Rsa:
    def __init__(self, name, bits):
        path = os.path.join(sys.argv[1], name)
        output("openssl", "genrsa", "-traditional", "-out", path, str(bits))
        with open(path, "rb") as file:
            self.key = parse_pem_private_key(file.read())
        spki = output("openssl", "rsa", "-in", path, "-pubout", "-outform", "DER")
        self.public = base64.b64encode(spki).decode()
        pkcs1 = output("openssl", "rsa", "-in", path, "-RSAPublicKey_out", "-outform", "DER")
        self.pkcs1 = base64.b64encode(pkcs1).decode()

    def sign(self, octets, algorithm):
        return RSASSA_PKCS1_v1_5_sign(hashlib.new(algorithm, octets), self.key)


class Ed25519:
    def __init__(self):
        self.key = nacl.signing.SigningKey.generate()
        self.public = base64.b64encode(bytes(self.key.verify_key)).decode()

    def sign(self, octets, _):
        return self.key.sign(hashlib.sha256(octets).digest()).signature


KEY, SHORT, EDWARDS = Rsa("key", 1024), Rsa("short", 512), Ed25519()


def relaxed(name, value):
    value = re.sub(rb"[ \t]+", b" ", value.replace(b"\r\n", b"")).strip(b" \t")
    return name.strip(b" \t").lower() + b":" + value + b"\r\n"


def canonical(field, form):
    name, _, value = field.partition(b":")
    return relaxed(name, value) if form == "relaxed" else field + b"\r\n"


def body_of(body, form):
    if form == "relaxed":
        lines = [re.sub(rb"[ \t]+", b" ", line).rstrip(b" ") for line in body.split(b"\r\n")]
        body = b"\r\n".join(lines)
    body = re.sub(rb"(\r\n)+$", b"", body)
    return body + b"\r\n" if body or form == "simple" else b""


def fields_of(head):
    return re.split(rb"\r\n(?![ \t])", head)


def tags_of(field):
    value = field.partition(b":")[2].decode("latin-1")
    pairs = [tag.partition("=") for tag in re.sub(r"\s+", "", value).split(";") if tag]
    return {name: text for name, _, text in pairs}


def signed(message, template, key=KEY, algorithm="sha256"):
    """The field that the template makes, before the message: a signature of it."""
    head, _, body = message.partition(b"\r\n\r\n")
    tags = tags_of(template)
    forms = tags.get("c", "simple/simple").lower().partition("/")
    form, body_form = forms[0], forms[2] or "simple"
    text = body_of(body, body_form)
    length = int(tags["l"]) if tags.get("l", "").isdigit() else len(text)
    digest = hashlib.new(algorithm, text[:length]).digest()
    template = template.replace(b"<bh>", base64.b64encode(digest))
    left = fields_of(head)
    hashed = b""
    for name in tags["h"].lower().encode("latin-1").split(b":"):
        # The last one that is left (RFC 6376 §5.4.2).
        at = [at for at, field in enumerate(left) if field.partition(b":")[0].strip().lower() == name]
        if at:
            hashed += canonical(left.pop(at[-1]), form)
    hashed += canonical(template.replace(b"<b>", b""), form).removesuffix(b"\r\n")
    signature = base64.b64encode(key.sign(hashed, algorithm))
    return template.replace(b"<b>", signature) + b"\r\n" + message


def record(key=KEY, **tags):
    words = {"v": "DKIM1", "k": "ed25519" if key is EDWARDS else "rsa", "p": key.public} | tags
    return "; ".join(f"{name}={text}" for name, text in words.items() if text is not None)


MESSAGE = (
    b"Received: from a by b\r\nFrom: Jo <jo@bank.test>\r\nTo: al@here.test\r\nSubject:  two\r\n\tlines \r\n"
    b"Date: Mon, 23 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@bank.test>\r\n\r\n"
    b"Dear  reader,\r\n\r\n this line ends in blanks \t \r\n.\r\n\r\n\r\n"
)
BANK = "s._domainkey.bank.test"
ROWS = []


def row(group, name, message, records, outcome, **envelope):
    text = message.decode("latin-1")
    ROWS.append([group, name, text, records, envelope, outcome])


def dkim(name, outcome, template="", change=None, key=KEY, text=None, message=MESSAGE, records=None, **more):
    """A row about one signature: its template by tags, `change` of what was signed, the key's record."""
    tags = {"v": "1", "a": "rsa-sha256", "c": "relaxed/relaxed", "d": "bank.test", "s": "s"}
    tags |= {"h": "From:To:Subject:Date", "bh": "<bh>", "b": "<b>"}
    if isinstance(template, dict):
        tags |= template
        template = ""
    fields = "; ".join(f"{name}={value}" for name, value in tags.items() if value is not None)
    template = template or f"DKIM-Signature: {fields}"
    done = signed(message, template.encode("latin-1"), key, **more)
    known = {BANK: record(key) if text is None else text} if records is None else records
    row("dkim", name, change(done) if change else done, known, outcome)


def about_signatures():
    for head in ("simple", "relaxed"):
        for body in ("simple", "relaxed"):
            form = {"c": f"{head}/{body}"}
            dkim(f"{head}/{body}", "pass", form)
            for of, text in (("empty", b""), ("one line end", b"\r\n"), ("blanks", b" \t \r\n\r\n")):
                message = MESSAGE.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + text
                dkim(f"{head}/{body}, a body of {of}", "pass", form, message=message)
    dkim("c= of the header alone", "pass", {"c": "relaxed"})
    dkim("no c=", "pass", {"c": None})
    dkim("ed25519", "pass", {"a": "ed25519-sha256"}, key=EDWARDS)
    dkim("a body changed", "fail", change=lambda m: m.replace(b"Dear", b"Deer"))
    dkim("a field changed", "fail", change=lambda m: m.replace(b"two", b"too"))
    dkim("a field gone", "fail", change=lambda m: m.replace(b"To: al@here.test\r\n", b""))
    dkim("a field that is not signed changed", "pass", change=lambda m: m.replace(b"from a", b"from c"))
    dkim("blanks changed, relaxed", "pass", change=lambda m: m.replace(b"  two\r\n\t", b" two "))
    simple = {"c": "simple/simple"}
    dkim("blanks changed, simple", "fail", simple, change=lambda m: m.replace(b"  two", b" two"))
    dkim("empty lines behind", "pass", change=lambda m: m + b"\r\n\r\n")
    dkim("a line behind", "fail", change=lambda m: m + b"more\r\n")
    dkim("a field in front of one that is signed twice", "fail", {"h": "From:From:Subject"},
         change=lambda m: b"From: u@evil.test\r\n" + m)
    dkim("fields signed that are not there", "pass", {"h": "From:Subject:X-Not:Reply-To"})
    dkim("one of them added", "fail", {"h": "From:Subject:Reply-To"},
         change=lambda m: b"Reply-To: u@evil.test\r\n" + m)
    dkim("From is not signed", "neutral", {"h": "To:Subject"})
    dkim("no h=", "neutral", change=lambda m: m.replace(b"h=From:To:Subject:Date; ", b"", 1))
    for name in ("v", "a", "d", "s", "bh"):
        gone = rb"\b" + name.encode() + rb"=[^;]*; "
        dkim(f"no {name}=", "neutral", change=lambda m, gone=gone: re.sub(gone, b"", m, count=1))
    dkim("another version", "neutral", {"v": "2"})
    dkim("d= twice", "neutral", {"d": "evil.test; d=bank.test"})
    dkim("an unknown tag", "pass", {"z": "From:x", "xx": "y"})
    dkim("an unknown algorithm", "neutral", {"a": "rsa-md5"})
    dkim("an unknown form", "neutral", change=lambda m: m.replace(b"c=relaxed/relaxed", b"c=nofws", 1))
    dkim("i= below d=", "pass", {"i": "jo@mail.bank.test"})
    dkim("i= beside d=", "neutral", {"i": "jo@bank.test.evil.test"})
    dkim("i= of a kin by letters", "neutral", {"i": "jo@evilbank.test"})
    dkim("over", "fail", {"t": "1000", "x": "2000"})
    dkim("over before it began", "fail", {"t": "2000", "x": "1000"})
    dkim("x= far away", "pass", {"x": "99999999999"})
    dkim("q= of the DNS", "pass", {"q": "dns/txt"})
    dkim("q= of nothing we have", "neutral", {"q": "http"})
    dkim("folds and blanks in values", "pass",
         "DKIM-Signature:v=1 ;\r\n\ta = rsa-sha256; c=relaxed/relaxed;d=bank.test ; s=s;\r\n"
         " h=From :\r\n\tTo: Subject;bh=<bh>;\r\n b=<b>;")
    dkim("a fold in b=", "pass", change=lambda m: re.sub(rb"; b=(.{20})", rb"; b=\1\r\n\t ", m, count=1))
    dkim("b= that is no base64", "neutral", change=lambda m: re.sub(rb"; b=.", b"; b=!", m, count=1))
    dkim("b= of nothing", "neutral", change=lambda m: re.sub(rb"; b=[^\r]*", b"; b=", m, count=1))
    dkim("bh= of another length", "fail", change=lambda m: re.sub(rb"bh=.{4}", b"bh=", m, count=1))
    dkim("l= of the whole", "pass", {"c": "relaxed/simple", "l": str(len(body_of(
        MESSAGE.partition(b"\r\n\r\n")[2], "simple")))})
    dkim("l= of the beginning", "policy", {"l": "5"})
    dkim("l= of nothing", "policy", {"l": "0"})
    dkim("l= beyond the end", "fail", {"l": "9999"})
    dkim("l= that is no number", "neutral", change=lambda m: m.replace(b"bh=", b"l=-1; bh=", 1))
    dkim("rsa-sha1", "neutral", {"a": "rsa-sha1"}, algorithm="sha1")
    good = signed(MESSAGE, b"DKIM-Signature: v=1; a=rsa-sha256; d=bank.test; s=s; h=From; bh=<bh>; b=<b>")
    broken = re.sub(rb"bh=....", b"bh=AAAA", good.partition(b"\r\n")[0]) + b"\r\n"
    row("dkim", "a broken one beside a good one", broken + good, {BANK: record()}, "fail pass")


def about_keys():
    dkim("no record", "permerror", records={})
    dkim("a key that was revoked", "permerror", text="v=DKIM1; p=")
    dkim("p= alone", "pass", text=f"p={KEY.public}")
    dkim("no p=", "permerror", text="v=DKIM1; k=rsa")
    dkim("another version of the record", "permerror", text=record(v="DKIM2"))
    dkim("v= behind others", "permerror", text=f"k=rsa; v=DKIM1; p={KEY.public}")
    dkim("k= of another kind", "permerror", text=record(k="ed25519"))
    dkim("k= that nobody knows", "permerror", text=record(k="dsa"))
    dkim("a key as PKCS 1 has it", "pass", text=record(p=KEY.pkcs1))
    dkim("a key with blanks", "pass", text=record(p=KEY.public[:20] + " \t" + KEY.public[20:]))
    dkim("a key that is no base64", "permerror", text=record(p="???"))
    dkim("a key that is cut off", "permerror", text=record(p=KEY.public[:100]))
    dkim("a key of 512 bits", "permerror", key=SHORT)
    dkim("s= of mail", "pass", text=record(s="email"))
    dkim("s= of all", "pass", text=record(s="*"))
    dkim("s= of mail among others", "pass", text=record(s="tlsrpt : email"))
    dkim("s= of something else", "permerror", text=record(s="tlsrpt"))
    dkim("h= of the right hash", "pass", text=record(h="sha1:sha256"))
    dkim("h= of another hash", "permerror", text=record(h="sha1"))
    dkim("t=s, and i= the same", "pass", {"i": "@bank.test"}, text=record(t="s"))
    dkim("t=s, and i= below", "permerror", {"i": "@mail.bank.test"}, text=record(t="s"))
    dkim("an unknown flag and tag", "pass", text=record(t="q", n="a note", xx="y"))
    dkim("g= of old", "pass", text=record(g="nobody"))
    dkim("a key of another", "fail", text=record(Rsa("other", 1024)))


AAR = b"ARC-Authentication-Results: i=%d; hop.test; spf=pass smtp.mailfrom=bank.test"
AMS = (b"ARC-Message-Signature: i=%d; a=rsa-sha256; c=relaxed/relaxed; d=hop.test; s=s; "
       b"h=From:To:Subject; bh=<bh>; b=<b>")
SEAL = b"ARC-Seal: i=%d; a=rsa-sha256; cv=%s; d=hop.test; s=s; b=<b>"


def number(field):
    found = re.search(rb"i=(\d+)", field)
    return int(found[1]) if found else 0


def sealed(message, n, aar=AAR, ams=AMS, seal=SEAL, cv=None, change=lambda text: text):
    """The message with another set. What is to be wrong with it is so before it is signed."""
    part = lambda text: change(text % n if b"%d" in text else text)
    chain = [field for field in fields_of(message.partition(b"\r\n\r\n")[0])
             if field.lower().startswith(b"arc-")]
    aar = part(aar)
    message = aar + b"\r\n" + signed(message, part(ams))
    message_signature = fields_of(message.partition(b"\r\n\r\n")[0])[1]
    # The results come first in a set, then the signature (RFC 8617 §5.1.1).
    moved = message_signature + b"\r\n"
    message = moved + message.replace(moved, b"", 1)
    seal = change(seal.replace(b"%d", b"%d" % n).replace(b"%s", cv or (b"none" if n == 1 else b"pass")))
    order = {b"arc-a": 0, b"arc-m": 1, b"arc-s": 2}
    sets = sorted(chain, key=lambda field: (number(field), order[field[:5].lower()]))
    covered = b"".join(canonical(field, "relaxed") for field in [*sets, aar, message_signature])
    covered += canonical(seal.replace(b"<b>", b""), "relaxed").removesuffix(b"\r\n")
    return seal.replace(b"<b>", base64.b64encode(KEY.sign(covered, "sha256"))) + b"\r\n" + message


def chain(length, start=MESSAGE):
    for n in range(1, length + 1):
        start = sealed(start, n)
    return start


def about_chains():
    hop = {"s._domainkey.hop.test": record()}
    arc = lambda name, message, outcome, records=hop: row("arc", name, message, records, outcome)
    arc("no set", MESSAGE, "none")
    for length in (1, 2, 3, 50):
        arc(f"{length} sets", chain(length), "pass")
    arc("51 sets", chain(51), "fail")
    arc("no key", chain(1), "fail", {})
    one, two = chain(1), chain(2)
    arc("a body changed", one.replace(b"Dear", b"Deer"), "fail")
    arc("a signed field changed", one.replace(b"two", b"too"), "fail")
    arc("results changed", one.replace(b"spf=pass", b"spf=fail"), "fail")
    arc("results of the first hop changed", two.replace(b"i=1; hop.test; spf=pass", b"i=1; hop.test; spf=fail"), "fail")
    changed = sealed(one.replace(b"Dear", b"Deer"), 2)
    arc("a body changed between the hops", changed, "pass")
    arc("a chain that was found broken", sealed(one, 2, cv=b"fail"), "fail")
    arc("a chain that says none behind a first", sealed(one, 2, cv=b"none"), "fail")
    arc("a first that says pass", sealed(MESSAGE, 1, cv=b"pass"), "fail")
    arc("a gap", sealed(one, 3), "fail")
    arc("a number twice", sealed(one, 1), "fail")
    arc("the number 0", sealed(MESSAGE, 0), "fail")
    for name in ("ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results"):
        of = name.encode()
        gone = re.sub(of + rb":[^\r]*\r\n", b"", two, count=1)
        arc(f"a set without {name}", gone, "fail")
        field = re.search(of + rb":[^\r]*\r\n", two)[0]
        arc(f"a set with a second {name}", field + two, "fail")
        arc(f"{name} in other capitals", two.replace(of, of.upper()), "pass")
    wrong = lambda name, outcome="fail", **words: arc(name, sealed(MESSAGE, 1, **words), outcome)
    for name, old, new in (
        ("no i=", b"i=1; ", b""), ("no a=", b"a=rsa-sha256; ", b""), ("no d=", b"d=hop.test; ", b""),
        ("no s=", b"s=s; ", b""), ("another d=", b"d=hop.test", b"d=other.test"),
        ("another s=", b"s=s", b"s=t"), ("d= twice", b"d=hop.test", b"d=hop.test; d=hop.test"),
        ("s= twice", b"s=s", b"s=s; s=s"), ("an unknown algorithm", b"rsa-sha256", b"rsa-md5"),
        ("rsa-sha1", b"rsa-sha256", b"rsa-sha1"), ("i= twice", b"i=1", b"i=1; i=1"),
        ("i= that is no number", b"i=1", b"i=a"), ("i= with a sign", b"i=1", b"i=+1"),
        ("d= of nothing", b"d=hop.test", b"d="), ("s= of nothing", b"s=s", b"s="),
    ):
        wrong(f"a seal with {name}", seal=SEAL.replace(b"i=%d", b"i=1").replace(old, new))
        wrong(f"a signature with {name}", ams=AMS.replace(b"i=%d", b"i=1").replace(old, new))
    wrong("a seal with h=", seal=SEAL.replace(b"s=s", b"s=s; h=From"))
    wrong("a seal with bh=", seal=SEAL.replace(b"s=s", b"s=s; bh=YQ=="))
    wrong("a seal without cv=", seal=SEAL.replace(b"cv=%s; ", b""))
    wrong("a seal with another word in cv=", cv=b"invalid")
    wrong("a seal with cv= twice", seal=SEAL.replace(b"cv=%s", b"cv=%s; cv=%s"))
    wrong("a seal with t=", "pass", seal=SEAL.replace(b"s=s", b"s=s; t=12345"))
    wrong("a seal with an unknown tag", "pass", seal=SEAL.replace(b"s=s", b"s=s; w=x"))
    wrong("a seal in another order", "pass", seal=b"ARC-Seal: a=rsa-sha256; d=hop.test; cv=%s; s=s; b=<b>; i=%d")
    wrong("a signature with an unknown tag", "pass", ams=AMS.replace(b"s=s", b"s=s; w=x"))
    wrong("a signature of the seal", ams=AMS.replace(b"h=From", b"h=From:ARC-Seal"))
    wrong("a signature without From", ams=AMS.replace(b"h=From:", b"h="))
    wrong("a signature with v=, which it has not", "pass", ams=AMS.replace(b"c=relaxed", b"v=1; c=relaxed"))
    for form in (b"simple/simple", b"simple/relaxed", b"relaxed/simple", b"relaxed"):
        wrong(f"a signature with {form.decode()}", "pass", ams=AMS.replace(b"relaxed/relaxed", form))
    wrong("a signature without c=", "pass", ams=AMS.replace(b"c=relaxed/relaxed; ", b""))
    wrong("results without i=", aar=AAR.replace(b"i=%d; ", b""))
    wrong("results of another number", aar=AAR.replace(b"%d", b"2"))
    wrong("results of nothing", "pass", aar=b"ARC-Authentication-Results: i=%d; hop.test; none")
    arc("a set behind other fields", MESSAGE[:23] + chain(1, MESSAGE[23:]), "pass")


def about_authors():
    """A forger would be bank.test, which refuses what is not its own; evil.test is his, with all that he may publish."""
    zone = {"bank.test": "v=spf1 -all", "_dmarc.bank.test": "v=DMARC1; p=reject", "evil.test": "v=spf1 +all",
            "_dmarc.evil.test": "v=DMARC1; p=none",
            "s._domainkey.evil.test": record()}
    plain = b"From: u@bank.test\r\nSubject: x\r\n\r\nx\r\n"
    by = lambda d, s="s": f"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d={d}; s={s}; h=From; bh=<bh>; b=<b>"

    def author(name, outcome, message=plain, template=None, more=None, **envelope):
        if template:
            message = signed(message, template.encode("latin-1"))
        row("author", name, message, zone | (more or {}), outcome, **envelope)

    author("himself", "250 pass evil.test", plain.replace(b"bank", b"evil"), sender="u@evil.test")
    author("his envelope", "550 5.7.1", sender="u@evil.test")
    author("his signature", "550 5.7.1", template=by("evil.test"))
    author("a name below that there is not", "550 5.7.1", plain.replace(b"bank", b"no.bank"), sender="u@evil.test")
    author("an envelope below that there is not", "550 5.7.1", sender="u@no.bank.test")
    author("no sender, his EHLO", "550 5.7.1", sender="", helo="evil.test")
    author("a sender that is a comment", "501", sender="(u@bank.test")
    author("a sender with a quote", "501", sender="u@bank.test'@x.evil.test")
    author("a route to himself", "550 5.7.1", sender="@bank.test,@x.test:u@evil.test")
    author("d= with a bracket", "550 5.7.1", template=by("bank.test(.evil.test"),
           more={"s._domainkey.bank.test(.evil.test": record()})
    author("d= with a quote", "550 5.7.1", template=by("bank.test'x.evil.test"),
           more={"s._domainkey.bank.test'x.evil.test": record()})
    author("s= that ends the name early", "550 5.6.0", template=by("bank.test", "s._domainkey.evil.test.\0.x"))
    author("s= that leads elsewhere", "550 5.7.1", template=by("bank.test", "s._domainkey.evil.test"))
    author("i= of the bank", "550 5.7.1", template=by("evil.test").replace("s=s;", "s=s; i=u@bank.test;"))
    # No field: an empty line is put before it, and there is no author.
    author("a folded name of the field", "250 none", b"From\r\n : u@bank.test\r\nFrom: u@evil.test\r\n\r\nx\r\n",
           sender="u@evil.test")
    author("a blank before the first field", "250 none", b" From: u@bank.test\r\nFrom: u@evil.test\r\n\r\nx\r\n",
           sender="u@evil.test")
    author("two of them", "550 5.7.1", b"From: u@evil.test\r\nFrom: u@bank.test\r\n\r\nx\r\n", sender="u@evil.test")
    author("none, but a sender", "250 none", b"Sender: u@bank.test\r\nSubject: x\r\n\r\nx\r\n", sender="u@evil.test")


about_signatures()
about_keys()
about_chains()
about_authors()
print(json.dumps(ROWS))
