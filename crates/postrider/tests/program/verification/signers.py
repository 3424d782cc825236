"""Messages signed and sealed by dkimpy and OpenDKIM, with the DNS that their keys are in, as JSON.

argv: a directory for keys.
"""

import base64
import json
import os
import subprocess
import sys

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


def cases():
    keys = [
        (b"rsa-sha256", rsa_key("rsa2048", "example.org"), "rsa2048"),
        (b"rsa-sha256", rsa_key("rsa1024", "example.org", 1024), "rsa1024"),
        (b"rsa-sha256", rsa_key("rsa4096", "example.org", 4096), "rsa4096"),
        (b"ed25519-sha256", ed25519_key("ed", "example.org"), "ed"),
    ]
    forms = [(head, body) for head in (b"simple", b"relaxed") for body in (b"simple", b"relaxed")]
    bodies = {"text": PLAIN, "empty": PLAIN[: -len(BODY)], "long": PLAIN + b"x y\r\n" * 20000}
    for algorithm, key, selector in keys:
        for form in forms:
            for kind, plain in bodies.items():
                name = f"{algorithm} {selector} {form} {kind}"
                message = signed(plain, key, algorithm, form, selector)
                yield name, message
                if kind != "text":
                    continue
                yield name + " changed body", message.replace(b"Dear", b"Deer")
                yield name + " changed header", message.replace(b"two", b"too")
                yield name + " added line", message + b"more\r\n"
                yield name + " reflowed header", message.replace(b":  two\r\n\t", b": two ")
                yield name + " reflowed body", message.replace(b"Dear  reader", b"Dear reader")
                yield name + " more line ends", message + b"\r\n\r\n"
                yield name + " second From", b"From: evil@evil.org\r\n" + message


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


def by_opendkim():
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
    signatures = [of(name, m, verdict(m)) for name, m in cases()]
    signatures.extend(of(*case) for case in with_length())
    signatures.append(of("OpenDKIM", by_opendkim(), "neutral"))
    sealed = [of(name, m, chain_verdict(m)) for name, m in chains()]
    print(json.dumps({"zone": ZONE, "dkim": signatures, "arc": sealed}))


main()
