"""What dkimpy's own tests have verified: which messages, with which records, and what came of it.

Out: `[test, check, message, records, verdict]` of each as JSON, octets as characters, line ends as SMTP has them.
"""

import io
import json
import unittest

import dkim
import dkim.tests

cases = []
running = ""


class Result(unittest.TextTestResult):
    def startTest(self, test):
        global running
        running = test.id().removeprefix("dkim.tests.test_").replace(".TestSignAndVerify.test_", " ")
        super().startTest(test)


def text(octets):
    return octets if isinstance(octets, str) else bytes(octets).decode("latin-1")


def keep_message(original):
    def set_message(self, message):
        self.came = message
        return original(self, message)

    return set_message


def keep_verdict(check, original, verdict_of):
    def verify(self, *words, **named):
        records, ask, verdict = {}, named.get("dnsfunc", dkim.get_txt), "fail"

        def asked(name, **more):
            found = ask(name, **more)
            if found is not None:
                records[text(name).rstrip(".")] = text(found)
            return found

        named["dnsfunc"] = asked
        try:
            done = original(self, *words, **named)
            verdict = verdict_of(done)
            return done
        finally:
            message = self.came.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            cases.append([running, check, text(message), records, verdict])

    return verify


signer = dkim.DomainSigner
signer.set_message = keep_message(signer.set_message)
dkim.DKIM.verify = keep_verdict("dkim", dkim.DKIM.verify, lambda good: "pass" if good else "fail")
dkim.ARC.verify = keep_verdict("arc", dkim.ARC.verify, lambda done: done[0].decode())
names = ["arc", "dkim", "dkim_ed25519", "dkim_generate", "dkim_rsavariants", "dkim_tlsrpt"]
suite = unittest.defaultTestLoader.loadTestsFromNames(f"dkim.tests.test_{name}" for name in names)
ran = unittest.TextTestRunner(stream=io.StringIO(), resultclass=Result).run(suite)
assert ran.wasSuccessful(), ran.errors + ran.failures
print(json.dumps(cases))
