package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// go-jose reads key sets and verifies tokens, and fetches nothing. The fetch is therefore what an application around
// it writes: discovery once, the key set once and again for a kid that it does not have. Nothing limits how often
// unknown kids make it fetch, as nothing does in go-oidc.
//
// The library takes the allowed algorithms from its caller and has no default; where none are given, those that
// discovery lists are allowed.

var joseAlgorithms = []string{
	string(jose.RS256), string(jose.RS384), string(jose.RS512), string(jose.PS256),
	string(jose.ES256), string(jose.ES384), string(jose.EdDSA),
}

type relyingParty struct {
	settings   Settings
	jwksURI    string
	algorithms []jose.SignatureAlgorithm
	keys       jose.JSONWebKeySet
}

func configureJOSE(ctx context.Context, settings Settings) (Verify, error) {
	var metadata struct {
		Issuer     string   `json:"issuer"`
		JWKSURI    string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := fetch(ctx, strings.TrimSuffix(settings.Issuer, "/")+"/.well-known/openid-configuration", &metadata); err != nil {
		return nil, err
	}
	if metadata.Issuer != settings.Issuer {
		return nil, fmt.Errorf("discovery names another issuer: %q", metadata.Issuer)
	}
	names := settings.Algorithms
	if len(names) == 0 {
		names = metadata.Algorithms
	}
	party := &relyingParty{settings: settings, jwksURI: metadata.JWKSURI}
	for _, name := range names {
		party.algorithms = append(party.algorithms, jose.SignatureAlgorithm(name))
	}
	if err := party.refresh(ctx); err != nil {
		return nil, err
	}
	return party.verify, nil
}

func (party *relyingParty) verify(ctx context.Context, raw string) (json.RawMessage, error) {
	token, err := jwt.ParseSigned(raw, party.algorithms)
	if err != nil {
		return nil, err
	}
	var registered jwt.Claims
	var claims json.RawMessage
	err = token.Claims(&party.keys, &registered, &claims)
	if errors.Is(err, jose.ErrJWKSKidNotFound) {
		if err := party.refresh(ctx); err != nil {
			return nil, err
		}
		err = token.Claims(&party.keys, &registered, &claims)
	}
	if err != nil {
		return nil, err
	}
	return claims, registered.Validate(jwt.Expected{
		Issuer:      party.settings.Issuer,
		AnyAudience: jwt.Audience{party.settings.Audience},
	})
}

// refresh keeps the old set when the new one cannot be had.
func (party *relyingParty) refresh(ctx context.Context) error {
	var keys jose.JSONWebKeySet
	if err := fetch(ctx, party.jwksURI, &keys); err != nil {
		return err
	}
	party.keys = keys
	return nil
}

func fetch(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching %q: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
