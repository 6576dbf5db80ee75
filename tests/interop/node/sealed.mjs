// jose opens a sealed private half, and seals one: standard input has { kek, sealed, jwk, header }, all that it knows
// of docs/ring-format.md. Standard output gets { opened, header, sealed }.
import { text } from "node:stream/consumers";
import { CompactEncrypt, base64url, compactDecrypt } from "jose";

const { kek, sealed, jwk, header } = JSON.parse(await text(process.stdin));
const key = base64url.decode(kek);
const opened = await compactDecrypt(sealed, key, {
  keyManagementAlgorithms: ["A256KW"],
  contentEncryptionAlgorithms: ["A256GCM"],
});
const again = await new CompactEncrypt(new TextEncoder().encode(jwk)).setProtectedHeader(header).encrypt(key);
console.log(JSON.stringify({
  opened: new TextDecoder().decode(opened.plaintext),
  header: opened.protectedHeader,
  sealed: again,
}));
