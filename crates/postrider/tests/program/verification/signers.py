"""Messages signed and sealed by dkimpy, OpenDKIM and rspamd, with the DNS that their keys are in, as JSON.

argv: a directory for keys, and the port of rspamd, if there is one.
"""

import base64
import ctypes
import json
import os
import subprocess
import sys
import urllib.request

import dkim
import nacl.signing

BODY = b"Dear  reader,\r\n\r\n this line ends in blanks \t \r\n.\r\n\r\n\r\n"
PLAIN = (
    b"Received: from a by b\r\nFrom: Jo <jo@example.org>\r\nTo: al@far.test\r\n"
    b"Subject:  two\r\n\tlines \r\nDate: Mon, 23 Nov 2026 10:00:00 +0000\r\n"
    b"Message-ID: <1@example.org>\r\n\r\n" + BODY
)
ZONE = {}


def output(*words):
    return subprocess.run(words, check=True, capture_output=True).stdout


def rsa_key(selector, domain, bits=2048):
    path = os.path.join(sys.argv[1], selector)
    output("openssl", "genrsa", "-traditional", "-out", path, str(bits))
    public = output("openssl", "rsa", "-in", path, "-pubout", "-outform", "DER")
    record = "v=DKIM1; k=rsa; p=" + base64.b64encode(public).decode()
    # As the DNS has it: in pieces.
    ZONE[f"{selector}._domainkey.{domain}"] = [{"TXT": [record[:200], record[200:]]}]
    with open(path, "rb") as file:
        return file.read()


def ed25519_key(selector, domain):
    key = nacl.signing.SigningKey.generate()
    # rspamd takes a key whose base64 begins so for the path of one.
    while base64.b64encode(bytes(key)).startswith(b"/"):
        key = nacl.signing.SigningKey.generate()
    record = "v=DKIM1; k=ed25519; p=" + base64.b64encode(bytes(key.verify_key)).decode()
    ZONE[f"{selector}._domainkey.{domain}"] = [{"TXT": record}]
    return base64.b64encode(bytes(key))


def signed(message, key, algorithm, forms, selector, **options):
    return dkim.sign(
        message,
        selector.encode(),
        b"example.org",
        key,
        canonicalize=forms,
        signature_algorithm=algorithm,
        **options,
    ) + message


def records(name, timeout=5):
    found = ZONE.get(name.decode().rstrip("."), [])
    data = [record["TXT"] for record in found]
    return "".join(data[0]).encode() if data else None


def verdict(message):
    """What dkimpy says."""
    return "pass" if dkim.verify(message, dnsfunc=records) else "fail"


FORMS = [(head, body) for head in (b"simple", b"relaxed") for body in (b"simple", b"relaxed")]
BODIES = {"text": PLAIN, "empty": PLAIN[: -len(BODY)], "long": PLAIN + b"x y\r\n" * 20000}


def tampered(name, message):
    """What may become of it on its way."""
    yield name + " changed body", message.replace(b"Dear", b"Deer")
    yield name + " changed header", message.replace(b"two", b"too")
    yield name + " added line", message + b"more\r\n"
    yield name + " reflowed header", message.replace(b":  two\r\n\t", b": two ")
    yield name + " reflowed body", message.replace(b"Dear  reader", b"Dear reader")
    yield name + " more line ends", message + b"\r\n\r\n"
    yield name + " second From", b"From: evil@evil.org\r\n" + message


def variants(name, sign):
    """What a signer makes of each message, and what becomes of one of them."""
    for kind, plain in BODIES.items():
        message = sign(plain)
        yield f"{name} {kind}", message
        if kind == "text":
            yield from tampered(f"{name} {kind}", message)


def by_dkimpy(keys):
    for algorithm, key, selector in keys:
        for form in FORMS:
            sign = lambda plain: signed(plain, key, algorithm, form, selector)
            yield from variants(f"dkimpy {selector} {form[0].decode()}/{form[1].decode()}", sign)


class OpenDkim:
    """OpenDKIM's library, which its filter signs with."""

    ALGORITHMS = {b"rsa-sha256": 1, b"ed25519-sha256": 2}

    def __init__(self):
        self.library = ctypes.CDLL("libopendkim.so.11")
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        number = ctypes.c_int
        self.library.dkim_init.restype = self.library.dkim_sign.restype = pointer
        kinds = {
            "init": [pointer, pointer],
            "sign": [pointer, text, pointer, text, text, text]
            + [number, number, number, ctypes.c_ssize_t, ctypes.POINTER(number)],
            "header": [pointer, text, size],
            "eoh": [pointer],
            "body": [pointer, text, size],
            "eom": [pointer, pointer],
            "getsighdr": [pointer, text, size, size],
        }
        for name, arguments in kinds.items():
            getattr(self.library, "dkim_" + name).argtypes = arguments
        self.handle = self.library.dkim_init(None, None)

    def do(self, name, *arguments):
        status = getattr(self.library, "dkim_" + name)(*arguments)
        assert status == 0, (name, status)

    def sign(self, message, key, algorithm, form, selector):
        forms = [(b"simple", b"relaxed").index(part) for part in form]
        status = ctypes.c_int()
        words = (b"id", None, key, selector.encode(), b"example.org", *forms)
        made = self.library.dkim_sign(
            self.handle, *words, self.ALGORITHMS[algorithm], -1, ctypes.byref(status)
        )
        assert made, status
        head, _, body = message.partition(b"\r\n\r\n")
        for field in head.replace(b"\r\n\t", b"\0").split(b"\r\n"):
            field = field.replace(b"\0", b"\r\n\t")
            self.do("header", made, field, len(field))
        self.do("eoh", made)
        if body:
            self.do("body", made, body, len(body))
        self.do("eom", made, None)
        value = ctypes.create_string_buffer(4096)
        self.do("getsighdr", made, value, len(value), len("DKIM-Signature: "))
        lines = value.value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return b"DKIM-Signature: " + lines + b"\r\n" + message


def pem_of(key):
    """An Ed25519 key of dkimpy as OpenSSL has it (RFC 8410)."""
    der = bytes.fromhex("302e020100300506032b657004220420") + base64.b64decode(key)
    return b"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n" % base64.b64encode(der)


def by_opendkim(keys):
    library = OpenDkim()
    for algorithm, key, selector in keys:
        key = pem_of(key) if algorithm.startswith(b"ed") else key
        for form in FORMS:
            sign = lambda plain: library.sign(plain, key, algorithm, form, selector)
            yield from variants(f"OpenDKIM {selector} {form[0].decode()}/{form[1].decode()}", sign)


def by_rspamd(keys, port):
    """It has but one form: relaxed/relaxed."""
    for algorithm, key, selector in keys:
        if not algorithm.startswith(b"ed"):
            key = base64.b64encode(output("openssl", "rsa", "-in", os.path.join(sys.argv[1], selector),
                                          "-traditional", "-outform", "DER"))

        def sign(plain):
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/checkv2", data=plain)
            fields = {"Sign-Dkim": "1", "DkimDomain": "example.org", "DkimSelector": selector,
                      "DkimPrivateKey": key.decode()}
            for name, value in fields.items():
                asked.add_header(name, value)
            with urllib.request.urlopen(asked) as answer:
                value = json.load(answer)["dkim-signature"].encode()
            lines = value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            return b"DKIM-Signature: " + lines + b"\r\n" + plain

        yield from variants(f"rspamd {selector} relaxed/relaxed", sign)


def all_cases():
    keys = [
        (b"rsa-sha256", rsa_key("rsa2048", "example.org"), "rsa2048"),
        (b"rsa-sha256", rsa_key("rsa1024", "example.org", 1024), "rsa1024"),
        (b"rsa-sha256", rsa_key("rsa4096", "example.org", 4096), "rsa4096"),
        (b"ed25519-sha256", ed25519_key("ed", "example.org"), "ed"),
    ]
    yield from by_dkimpy(keys)
    some = [keys[0], keys[3]]
    yield from by_opendkim(some)
    if len(sys.argv) > 2:
        yield from by_rspamd(some, sys.argv[2])


def with_length():
    """Signatures of a part of the body (l=): whole it is good, with more behind it is not the body that
    somebody answers for. dkimpy takes it."""
    with open(os.path.join(sys.argv[1], "rsa2048"), "rb") as file:
        key = file.read()
    for form in ((b"simple", b"simple"), (b"relaxed", b"relaxed")):
        message = signed(PLAIN, key, b"rsa-sha256", form, "rsa2048", length=True)
        assert b"l=" in message and verdict(message + b"more\r\n") == "pass"
        yield "a length", message, "pass"
        yield "a length, and more", message + b"more\r\n", "policy"
        yield "a length, and less", message[:-20], "fail"


def expected(name, message):
    """OpenDKIM signs one From: what it signed holds with another in front, which is no proof of that."""
    if name.startswith("OpenDKIM") and name.endswith("second From"):
        without = message.partition(b"\r\n")[2]
        return "policy" if verdict(without) == "pass" else "fail"
    return verdict(message)


def by_opendkim_testmsg():
    """What opendkim-testmsg signs it signs with rsa-sha1, which counts for nothing (RFC 8301)."""
    path = os.path.join(sys.argv[1], "rsa2048")
    words = ["opendkim-testmsg", "-C", "-d", "example.org", "-k", path, "-s", "rsa2048"]
    done = subprocess.run(words, input=PLAIN, check=True, capture_output=True)
    assert b"a=rsa-sha1" in done.stdout
    return done.stdout


def chains():
    key = rsa_key("seal", "hop.test")
    message = PLAIN
    for hop in range(1, 6):
        server = f"hop{hop}.test".encode()
        message = b"Authentication-Results: " + server + b"; spf=pass\r\n" + message
        fields = dkim.arc_sign(message, b"seal", b"hop.test", key, server)
        message = b"".join(fields) + message
        yield f"{hop} hops", message
        yield f"{hop} hops, changed body", message.replace(b"Dear", b"Deer")
        yield f"{hop} hops, changed results", message.replace(b"; spf=pass\r\n", b"; spf=fail\r\n")


def chain_verdict(message):
    found, _, _ = dkim.arc_verify(message, dnsfunc=records)
    return {dkim.CV_Pass: "pass", dkim.CV_Fail: "fail", dkim.CV_None: "none"}[found]


def main():
    of = lambda name, message, word: [name, message.decode("latin-1"), word]
    signatures = [of(name, m, expected(name, m)) for name, m in all_cases()]
    signatures.extend(of(*case) for case in with_length())
    signatures.append(of("opendkim-testmsg", by_opendkim_testmsg(), "neutral"))
    sealed = [of(name, m, chain_verdict(m)) for name, m in chains()]
    print(json.dumps({"zone": ZONE, "dkim": signatures, "arc": sealed}))


main()
