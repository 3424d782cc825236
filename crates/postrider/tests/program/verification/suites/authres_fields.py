"""The fields that the tests of the package authres read and write.

Out: `[authserv-id, field]` of each as JSON. What it finds to be no field is not among them.
"""

import doctest
import json

import authres
import authres.core

fields = {}
header = authres.core.AuthenticationResultsHeader
parse, write = header.parse.__func__, header.__str__


def parsed(kind, context, string):
    found = parse(kind, context, string)
    fields[string] = found.authserv_id
    return found


def written(self):
    string = write(self)
    fields[string] = self.authserv_id
    return string


header.parse, header.__str__ = classmethod(parsed), written
failed = [doctest.testmod(authres).failed, doctest.testfile("tests", package=authres).failed]
assert failed == [0, 0], failed
print(json.dumps([[fields[field], field] for field in sorted(fields)]))
