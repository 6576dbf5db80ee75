// jose as a relying party: discovery, createRemoteJWKSet, jwtVerify.
//
// Reads one JSON object a line, { issuer, token, audience, now? }, and answers each with { ok, claims } or
// { ok: false, code }. One process for all lines, so that its cache lives as a relying party's does. `now`, in Unix
// seconds, stands in for the clock, so that an expired token need not be waited for.
import { createInterface } from "node:readline";
import { createRemoteJWKSet, jwtVerify } from "jose";

const keySets = new Map();

async function keysOf(issuer) {
  if (!keySets.has(issuer)) {
    const answer = await fetch(`${issuer}/.well-known/openid-configuration`, { redirect: "error" });
    const metadata = await answer.json();
    if (metadata.issuer !== issuer) throw new Error(`discovery names ${metadata.issuer}`);
    keySets.set(issuer, createRemoteJWKSet(new URL(metadata.jwks_uri)));
  }
  return keySets.get(issuer);
}

async function verify({ issuer, token, audience, now }) {
  try {
    const options = { issuer, audience, currentDate: now === undefined ? new Date() : new Date(now * 1000) };
    const { payload, protectedHeader } = await jwtVerify(token, await keysOf(issuer), options);
    return { ok: true, claims: payload, alg: protectedHeader.alg };
  } catch (error) {
    return { ok: false, code: error.code ?? String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await verify(JSON.parse(line))));
}
