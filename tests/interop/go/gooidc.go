package main

import (
	"context"
	"encoding/json"

	"github.com/coreos/go-oidc/v3/oidc"
)

// go-oidc does all of it: discovery, the remote key set with its cache, the signature and the claims. Without
// algorithms it takes those that discovery lists.

var oidcAlgorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.ES256, oidc.ES384, oidc.EdDSA}

func configureOIDC(ctx context.Context, settings Settings) (Verify, error) {
	provider, err := oidc.NewProvider(ctx, settings.Issuer)
	if err != nil {
		return nil, err
	}
	verifier := provider.Verifier(&oidc.Config{
		ClientID:             settings.Audience,
		SupportedSigningAlgs: settings.Algorithms,
	})
	return func(ctx context.Context, raw string) (json.RawMessage, error) {
		token, err := verifier.Verify(ctx, raw)
		if err != nil {
			return nil, err
		}
		var claims json.RawMessage
		err = token.Claims(&claims)
		return claims, err
	}, nil
}
