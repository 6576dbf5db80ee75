"""The adaptors of the Python libraries: `adaptor.py pyjwt …` and `adaptor.py authlib …`.

This file is the half that knows no library: the command line, and the lines of the protocol
(tests/interop/README.md). What a relying party writes is in relying_pyjwt.py and relying_authlib.py; only the one
that is asked for is imported, so that neither sees what the other brings.
"""

import argparse
import importlib
import importlib.metadata
import json
import sys
from typing import NoReturn

OURS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
LIBRARIES = ["pyjwt", "authlib"]
REFUSED = 1
USAGE = 64


class BadRequest(Exception):
    """A line that is none of the protocol's."""


class Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{message}\n")


def main() -> int:
    arguments = Arguments("adaptor.py", description="Without further words: lines of JSON on standard input.")
    arguments.add_argument("library", choices=LIBRARIES)
    arguments.add_argument("--issuer", metavar="URL")
    arguments.add_argument("--audience", metavar="A")
    arguments.add_argument("--algorithms", metavar="RS256,ES256")
    arguments.add_argument("token", nargs="?", metavar="TOKEN|-")
    asked = arguments.parse_intermixed_args()
    library = importlib.import_module(f"relying_{asked.library}")
    if len(sys.argv) == 2:
        return answer(asked.library, library)
    if not (asked.issuer and asked.audience and asked.token):
        arguments.error("wanted: --issuer, --audience and one token")
    return once(library, asked)


def once(library, asked) -> int:
    """The command line for a person: one token."""
    token = sys.stdin.read().strip() if asked.token == "-" else asked.token
    algorithms = asked.algorithms.split(",") if asked.algorithms else None
    try:
        claims = library.RelyingParty(asked.issuer, asked.audience, algorithms).verify(token)
    except Exception as error:
        print(f"{type(error).__name__}: {text_of(error)}", file=sys.stderr)
        return REFUSED
    print(json.dumps(claims))
    return 0


def text_of(error: Exception) -> str:
    """With its notes, such as the URL that urllib leaves out."""
    return "; ".join([str(error), *getattr(error, "__notes__", [])])


def answer(name: str, library) -> int:
    """Speaks the protocol until the input ends."""
    say({
        "library": name,
        "version": importlib.metadata.version(name),
        "algorithms": [algorithm for algorithm in OURS if algorithm in library.algorithms()],
    })
    party = None
    for line in sys.stdin.buffer:
        try:
            request = read(line)
            if request["verb"] == "configure":
                party = None
                party = library.RelyingParty(word(request, "issuer"), word(request, "audience"), request.get("algorithms"))
                say({"ok": True})
            elif party is None:
                raise BadRequest("verify before a configure that was answered with ok")
            else:
                say({"ok": True, "claims": party.verify(word(request, "token"))})
        except BadRequest as error:
            say({"ok": False, "error": "bad_request", "message": str(error)})
        except Exception as error:
            say({"ok": False, "error": type(error).__name__, "message": text_of(error)})
    return 0


def read(line: bytes) -> dict:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(str(error)) from error
    if not isinstance(request, dict) or request.get("verb") not in ("configure", "verify"):
        raise BadRequest("wanted: an object with the verb configure or verify")
    return request


def word(request: dict, name: str) -> str:
    if not isinstance(request.get(name), str):
        raise BadRequest(f"wanted: {name}, a text")
    return request[name]


def say(reply: dict) -> None:
    print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    sys.exit(main())
