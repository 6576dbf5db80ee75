// jose as a relying party: what its documentation shows, behind the protocol of ../README.md.
//
//   node jose.mjs                                                     one JSON object a line in, one out
//   node jose.mjs --issuer URL --audience A [--algorithms A,B] TOKEN  for a person; TOKEN may be -
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { createRemoteJWKSet, jwtVerify } from "jose";

const { version } = createRequire(import.meta.url)("jose/package.json");
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"];

/// jose has no discovery of its own: one request tells where the keys are, and that it is the issuer meant.
async function relyingParty({ issuer, audience, algorithms }) {
  const location = `${issuer}/.well-known/openid-configuration`;
  const answer = await fetch(location, { redirect: "error" }).catch((error) => {
    throw Object.assign(error, { message: `${location}: ${error.message}` });
  });
  if (!answer.ok) throw new Error(`discovery answered ${answer.status}`);
  const metadata = await answer.json();
  if (metadata.issuer !== issuer) throw new Error(`discovery names ${metadata.issuer}`);
  const keys = createRemoteJWKSet(new URL(metadata.jwks_uri));
  return async (token) => (await jwtVerify(token, keys, { issuer, audience, algorithms })).payload;
}

function refused(error) {
  return { ok: false, error: error.code ?? error.name, message: textOf(error) };
}

/// With its causes: what could not be reached, and why, is in none of fetch's own texts. One of several addresses has
/// no text of its own, only a code.
function textOf(error) {
  const text = error.message || error.code || error.name;
  return error.cause instanceof Error ? `${text}; because of ${textOf(error.cause)}` : text;
}

async function serve() {
  const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
  say({ library: "jose", version, algorithms: ALGORITHMS });
  const unconfigured = async () => { throw badRequest("verify before a configure that was answered with ok"); };
  let verify = unconfigured;
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      const request = read(line);
      if (request.verb === "configure") {
        verify = unconfigured;
        verify = await relyingParty(request);
        say({ ok: true });
      } else {
        say({ ok: true, claims: await verify(request.token) });
      }
    } catch (error) {
      say(refused(error));
    }
  }
}

function read(line) {
  let request;
  try {
    request = JSON.parse(line);
  } catch (error) {
    throw badRequest(error.message);
  }
  if (request?.verb !== "configure" && request?.verb !== "verify") throw badRequest("wanted: configure or verify");
  return request;
}

function badRequest(message) {
  return Object.assign(new Error(message), { code: "bad_request" });
}

function usage(message) {
  console.error(`${message}\nusage: node jose.mjs --issuer URL --audience A [--algorithms RS256,ES256] TOKEN|-`);
  process.exit(64);
}

function wordsOf(args) {
  const option = { type: "string" };
  const allowPositionals = true;
  try {
    const { values, positionals } = parseArgs({
      args, allowPositionals, options: { issuer: option, audience: option, algorithms: option },
    });
    if (!values.issuer || !values.audience || positionals.length !== 1) usage("one of the words is missing");
    return { ...values, algorithms: values.algorithms?.split(","), token: positionals[0] };
  } catch (error) {
    usage(error.message);
  }
}

async function once(args) {
  const { token, ...options } = wordsOf(args);
  try {
    const verify = await relyingParty(options);
    const claims = await verify(token === "-" ? (await text(process.stdin)).trim() : token);
    console.log(JSON.stringify(claims));
  } catch (error) {
    const { error: name, message } = refused(error);
    console.error(`${name}: ${message}`);
    process.exitCode = 1;
  }
}

const args = process.argv.slice(2);
await (args.length === 0 ? serve() : once(args));
