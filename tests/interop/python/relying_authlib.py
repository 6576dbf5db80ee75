"""Authlib's own OpenID Connect client, as its integrations for web frameworks are made of it.

Flask's and Django's clients add a session to these classes and nothing to the checks, so none of the frameworks is
needed here. Discovery, the key set and its cache, the signature and the claims are Authlib's; the JOSE part below is
joserfc's, to which Authlib has handed its own.
"""

from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc.jws import JWSRegistry


def algorithms() -> list[str]:
    return list(JWSRegistry.algorithms)


class App(OAuth2Mixin, OpenIDMixin, BaseApp):
    client_cls = OAuth2Session


class RelyingParty:
    def __init__(self, issuer: str, audience: str, wanted: list[str] | None):
        self.app = App(
            framework=None,
            client_id=audience,
            server_metadata_url=f"{issuer.removesuffix('/')}/.well-known/openid-configuration",
        )
        metadata = self.app.load_server_metadata()
        if wanted:
            metadata["id_token_signing_alg_values_supported"] = wanted
        self.issuer = issuer
        self.audience = audience

    def verify(self, token: str) -> dict:
        # Without an access token beside it Authlib takes a token for one of the implicit flow and wants a nonce; a
        # workload's token has none. Each call has options of its own, since Authlib empties them of their hooks.
        return self.app.parse_id_token(
            {"id_token": token},
            nonce=None,
            claims_cls=CodeIDToken,
            claims_options={
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self.audience},
            },
        )
