"""PyJWT as its page on OpenID Connect shows it: discovery by hand, PyJWKClient for the keys, decode for the rest."""

import json
import urllib.request

import jwt


def algorithms() -> list[str]:
    return list(jwt.algorithms.get_default_algorithms())


class RelyingParty:
    def __init__(self, issuer: str, audience: str, wanted: list[str] | None):
        location = f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
        try:
            with urllib.request.urlopen(location, timeout=30) as answer:
                metadata = json.load(answer)
        except OSError as error:
            error.add_note(f"while reading {location}")
            raise
        if metadata["issuer"] != issuer:
            raise ValueError(f"discovery names another issuer: {metadata['issuer']!r}")
        self.issuer = issuer
        self.audience = audience
        # PyJWT has no default of its own; its page takes those that discovery lists.
        self.algorithms = wanted or metadata["id_token_signing_alg_values_supported"]
        self.keys = jwt.PyJWKClient(metadata["jwks_uri"])

    def verify(self, token: str) -> dict:
        key = self.keys.get_signing_key_from_jwt(token)
        return jwt.decode(token, key, algorithms=self.algorithms, audience=self.audience, issuer=self.issuer)
