// oidc-provider with its memory adapter: `client_credentials`, JWT access tokens by resource indicators. Writes the
// address that it serves at as its first line. Started by bench/src/oidc_provider.rs; by hand: npm ci && node server.mjs
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';

const { Provider } = await import('oidc-provider');

const key = (alg, type, options) => ({
  ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: alg,
});

const provider = new Provider('http://localhost', {
  jwks: { keys: [key('RS256', 'rsa', { modulusLength: 2048 }), key('ES256', 'ec', { namedCurve: 'P-256' })] },
  clients: [{
    client_id: 'bench',
    client_secret: 'bench-secret-of-no-value',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_post',
  }],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      // urn:bench:ALG names the algorithm.
      getResourceServerInfo: (ctx, resource) => ({
        scope: '',
        audience: 'sts.amazonaws.com',
        accessTokenTTL: 3600,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: resource.split(':')[2] } },
      }),
    },
  },
});

const server = createServer(provider.callback());
server.keepAliveTimeout = 75_000;
server.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`));
