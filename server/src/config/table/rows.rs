//! The rows: the one place where a key, its default and the reason for it are written.

use std::time::Duration;

use super::{Default, Key, Kind, Literal, Section};

/// The table.
pub(crate) static SECTIONS: &[Section] =
    &[ISSUER, PROVIDER, DATABASE, KEK, RING, LISTEN, TLS, TOKEN, PROCESS, OPS, ADMIN, ROTATION];

/// Tables and keys of the design that this version does not have.
pub(crate) static LATER: &[&str] = &["ring.anchor"];

const ISSUER: Section = Section {
    name: "issuer",
    doc: "Who issues the tokens.",
    keys: &[
        Key {
            path: "issuer.url",
            kind: Kind::IssuerUrl,
            default: Default::Unset("relying parties trust exactly this text, so nobody can guess it"),
            doc: "The issuer's URL, as relying parties know it: it is `iss` in every token, byte for byte. https, or \
                  plain http for a loopback host.",
            example: Literal::Text("https://oidc.example.com"),
        },
        Key {
            path: "issuer.algorithms",
            kind: Kind::Algorithms,
            default: Default::Value(
                Literal::List(&["RS256"]),
                "the only algorithm that every known relying party takes",
            ),
            doc: "The algorithms that discovery announces; a published key of another algorithm is refused. The first \
                  one signs when a request names none. Known are RS256, RS384, RS512, PS256, ES256, ES384 and EdDSA.",
            example: Literal::List(&["RS256", "ES256"]),
        },
        Key {
            path: "issuer.token_endpoint",
            kind: Kind::EndpointUrl,
            default: Default::Unset("tokens are asked for at `ISS/token`"),
            doc: "The URL at which workloads ask for tokens, as discovery says it, where that is not `ISS/token`: of \
                  `listen.token` behind a name of its own. What is answered stays the path of `ISS/token`.",
            example: Literal::Text("https://tokens.internal.example.com/token"),
        },
        Key {
            path: "issuer.self_check",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(true),
                "a replica with another key than the fleet's would make every second token fail",
            ),
            doc: "Whether the start asks the issuer's own URL, for 2 s at most and without credentials, which keys are \
                  served there now, and refuses when they are others. No proxy of the environment is used.",
            example: Literal::Bool(false),
        },
        Key {
            path: "issuer.ca_bundle",
            kind: Kind::Path,
            default: Default::Unset("the system's certificates are trusted alone"),
            doc: "A PEM file of certificates that are trusted, beside the system's, when the issuer's own URL is asked.",
            example: Literal::Text("/etc/oneseal/issuer-ca.pem"),
        },
    ],
};

const PROVIDER: Section = Section {
    name: "provider",
    doc: "Where the signing key rests. Name it by `kind` and that kind's own key, or by one `uri`.",
    keys: &[
        Key {
            path: "provider.kind",
            kind: Kind::Choice {
                words: &["file", "env", "inline", "kubernetes", "aws", "postgres"],
                later: &[],
            },
            default: Default::Unset(
                "the key's place must be named, here or by `provider.uri`; there is no other key to fall back on",
            ),
            doc: "`file` reads `provider.path`, `env` the variable that `provider.variable` names, `inline` takes \
                  `provider.value`, `kubernetes` reads the Secret `provider.name`, `aws` the secret `provider.secret` of AWS \
                  Secrets Manager, `postgres` is the fleet's row in the `[database]`.",
            example: Literal::Text("file"),
        },
        Key {
            path: "provider.path",
            kind: Kind::Path,
            default: Default::Unset("it is needed for kind `file` alone"),
            doc: "The file that holds the ring or the key, or a directory with one entry a file (a mounted Secret). A \
                  relative path starts at the working directory.",
            example: Literal::Text("/var/lib/oneseal/keyring.json"),
        },
        Key {
            path: "provider.variable",
            kind: Kind::VariableName,
            default: Default::Unset("it is needed for kind `env` alone"),
            doc: "The environment variable that holds the key: PEM, base64 of PEM or DER, a JWK or a JWKS.",
            example: Literal::Text("SIGNING_KEY"),
        },
        Key {
            path: "provider.value",
            kind: Kind::Secret,
            default: Default::Unset("it is needed for kind `inline` alone"),
            doc: "The key itself, in one of the forms of kind `env`. Better given as \
                  `ONESEAL__PROVIDER__VALUE_FILE` than in this file.",
            example: Literal::Text("-----BEGIN PRIVATE KEY-----\n…"),
        },
        Key {
            path: "provider.name",
            kind: Kind::ObjectName,
            default: Default::Unset("it is needed for kind `kubernetes` alone"),
            doc: "The Kubernetes Secret that holds the ring or the key.",
            example: Literal::Text("oneseal-ring"),
        },
        Key {
            path: "provider.namespace",
            kind: Kind::ObjectName,
            default: Default::Unset("the pod's own, or that of the kubeconfig's context"),
            doc: "The namespace of the Secret, for kind `kubernetes`.",
            example: Literal::Text("identity"),
        },
        Key {
            path: "provider.kubeconfig",
            kind: Kind::Path,
            default: Default::Unset("the pod's own service account, or what `kubectl` would use"),
            doc: "The kubeconfig by which the API server is reached, for kind `kubernetes`.",
            example: Literal::Text("/etc/oneseal/kubeconfig"),
        },
        Key {
            path: "provider.context",
            kind: Kind::Line { words: "the name of a context of the kubeconfig" },
            default: Default::Unset("the kubeconfig's current one"),
            doc: "The context of the kubeconfig, for kind `kubernetes`.",
            example: Literal::Text("production"),
        },
        Key {
            path: "provider.secret",
            kind: Kind::Line { words: "a secret's name or ARN" },
            default: Default::Unset("it is needed for kind `aws` alone"),
            doc: "The secret of AWS Secrets Manager that holds the ring or the key: its name, its ARN, or its ARN without the last \
                  six characters.",
            example: Literal::Text("prod/oneseal-ring"),
        },
        Key {
            path: "provider.region",
            kind: Kind::Line { words: "a region, such as \"eu-west-1\"" },
            default: Default::Unset(
                "that of the ARN, else the one that the AWS SDK finds (AWS_REGION, profile, instance)",
            ),
            doc: "The region of the secret, for kind `aws`.",
            example: Literal::Text("eu-west-1"),
        },
        Key {
            path: "provider.endpoint",
            kind: Kind::Line { words: "a URL" },
            default: Default::Unset("that of the region, or AWS_ENDPOINT_URL_SECRETS_MANAGER"),
            doc: "Another endpoint of Secrets Manager, for kind `aws`: a VPC endpoint, or an emulator.",
            example: Literal::Text("https://vpce-0123.secretsmanager.eu-west-1.vpce.amazonaws.com"),
        },
        Key {
            path: "provider.uri",
            kind: Kind::ProviderUri,
            default: Default::Unset("`provider.kind` names the provider instead"),
            doc: "The provider as one URI, `file:PATH`, `env:NAME`, `k8s:NS/NAME` (with `?context=` and `&kubeconfig=`), `aws:NAME-OR-ARN` \
                  (with `?region=`, `&member=` and `&endpoint=`) or `postgres:URL` (with `?fleet=NAME` for another fleet than \
                  `ring.fleet`): the form that command lines take. Not together \
                  with `provider.kind` in the same source; a stronger source's choice replaces a weaker one's.",
            example: Literal::Text("file:/var/lib/oneseal/keyring.json"),
        },
        Key {
            path: "provider.durable",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(false),
                "a key that a restart would lose must not go unnoticed",
            ),
            doc: "Says that the file outlives this host or container although it does not look like it, for example \
                  because a sidecar or systemd's LoadCredential writes it.",
            example: Literal::Bool(true),
        },
        Key {
            path: "provider.max_lag",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("0s"),
                "what is read is taken for what is there, unless somebody knows better",
            ),
            doc: "How much older than its source what the replicas read may be: kubelet's copy of a Secret in a volume (its sync \
                  period and the life of its cache, 1 min each by default, so `2m30s`), a sidecar's, a mirror's. Taken off \
                  `rotation.staleness_limit`, and waited for by key verbs where no registry knows what is served; also in force \
                  beside `--provider`, since it is the replicas'.",
            example: Literal::Text("2m30s"),
        },
        Key {
            path: "provider.passphrase",
            kind: Kind::PassphraseUri,
            default: Default::Unset("an encrypted key is then refused"),
            doc: "Where the passphrase of an encrypted key (PKCS#8) rests, as `file:PATH` or `env:NAME`; never the \
                  passphrase itself. One line end at its end is dropped. A ring document is not encrypted this way.",
            example: Literal::Text("file:/run/secrets/signing-key-passphrase"),
        },
        Key {
            path: "provider.member",
            kind: Kind::MemberName,
            default: Default::Unset("the value is the key itself"),
            doc: "The member that holds the key, where the value is a JSON object of several, as a key/value secret \
                  is. A stronger source that names another provider puts it out of force.",
            example: Literal::Text("private_key"),
        },
    ],
};

const DATABASE: Section = Section {
    name: "database",
    doc: "The PostgreSQL that the replicas share, version 14 or newer: the registry of replicas and the event log. `oneseal \
          db migrate` makes its tables, in a schema of their own, `oneseal`; `serve` never does.",
    keys: &[
        Key {
            path: "database.url",
            kind: Kind::Secret,
            default: Default::Unset("there is then no registry, no event log and no ring in a database"),
            doc: "`postgres://USER:PASSWORD@HOST:5432/DATABASE`, with `/ @ : ? # %` of user and password percent-encoded. \
                  HOST may be the directory of a socket: `?host=/run/postgresql`. TLS is `?sslmode=verify-full`, the \
                  default for another host, `verify-ca`, or `danger-disable` where the network itself is trusted; \
                  `sslrootcert=PATH` trusts an authority beside the system's. PgBouncer may be in between in transaction or \
                  session mode. Better given as `ONESEAL__DATABASE__URL_FILE` than in this file.",
            example: Literal::Text("postgres://oneseal@db.example.com/oneseal?sslmode=verify-full"),
        },
        Key {
            path: "database.direct_url",
            kind: Kind::Secret,
            default: Default::Unset("`database.url` is used for the session that listens, too"),
            doc: "The same database without a pooler in between, for the one session that must not be shared: it listens for \
                  hints. Without hints everything works, later by a poll.",
            example: Literal::Text("postgres://oneseal@primary.example.com/oneseal?sslmode=verify-full"),
        },
        Key {
            path: "database.max_connections",
            kind: Kind::Integer { most: 100 },
            default: Default::Value(
                Literal::Integer(4),
                "a replica asks little: a beat, a poll, and now and then a change",
            ),
            doc: "How many connections a replica opens at most, the listening session aside.",
            example: Literal::Integer(8),
        },
    ],
};

const RING: Section = Section {
    name: "ring",
    doc: "The key ring that the replicas share.",
    keys: &[
        Key {
            path: "ring.fleet",
            kind: Kind::FleetName,
            default: Default::Unset(
                "it is made from the issuer's host, a port that is not the scheme's, and path",
            ),
            doc: "The name of the replicas that serve this issuer from one ring.",
            example: Literal::Text("oidc.example.com"),
        },
        Key {
            path: "ring.mode",
            kind: Kind::Choice { words: &["full", "public-only"], later: &[] },
            default: Default::Value(Literal::Text("full"), "a replica that mints is the common one"),
            doc: "`full` publishes and signs. `public-only` publishes alone: it opens no private half, needs no `[kek]`, mints \
              nothing, and of a sealed ring it needs `ring.pin`.",
            example: Literal::Text("public-only"),
        },
        Key {
            path: "ring.pin",
            kind: Kind::MemberName,
            default: Default::Unset(
                "with a `[kek]` that vouches for the ring; without, the right to write the ring is the trust",
            ),
            doc: "The thumbprint of the ring key that is believed, or of an earlier one whose endorsements lead to it: `keys \
              init` prints it. With it nothing that is not sealed is believed.",
            example: Literal::Text("50Y6H62Anev9tIZG-40YbXSXl9Q-myc0_FrLkruHMs4"),
        },
    ],
};

const KEK: Section = Section {
    name: "kek",
    doc: "The key-encryption key of a sealed ring: 32 random bytes, raw or as base64, base64url, hex or a JWK (`oct`). \
          `oneseal keys new-kek` makes one. Keep it apart from the ring: who has both has the keys.",
    keys: &[
        Key {
            path: "kek.kind",
            kind: Kind::Choice { words: &["file", "env", "inline", "kubernetes", "aws"], later: &[] },
            default: Default::Unset("the ring is then not sealed, or this replica is `public-only`"),
            doc: "`file` reads `kek.path`, `env` the variable that `kek.variable` names, `inline` takes `kek.value`, \
                  `kubernetes` reads the Secret `kek.name`, `aws` the secret `kek.secret`.",
            example: Literal::Text("file"),
        },
        Key {
            path: "kek.path",
            kind: Kind::Path,
            default: Default::Unset("it is needed for kind `file` alone"),
            doc: "The file that holds the KEK, or a directory with it in an entry called `kek`.",
            example: Literal::Text("/run/secrets/oneseal-kek"),
        },
        Key {
            path: "kek.variable",
            kind: Kind::VariableName,
            default: Default::Unset("it is needed for kind `env` alone"),
            doc: "The environment variable that holds the KEK.",
            example: Literal::Text("RING_KEK"),
        },
        Key {
            path: "kek.value",
            kind: Kind::Secret,
            default: Default::Unset("it is needed for kind `inline` alone"),
            doc: "The KEK itself. Better given as `ONESEAL__KEK__VALUE_FILE` than in this file.",
            example: Literal::Text("…"),
        },
        Key {
            path: "kek.name",
            kind: Kind::ObjectName,
            default: Default::Unset("it is needed for kind `kubernetes` alone"),
            doc: "The Kubernetes Secret that holds the KEK.",
            example: Literal::Text("oneseal-kek"),
        },
        Key {
            path: "kek.namespace",
            kind: Kind::ObjectName,
            default: Default::Unset("the pod's own, or that of the kubeconfig's context"),
            doc: "The namespace of the Secret, for kind `kubernetes`.",
            example: Literal::Text("identity"),
        },
        Key {
            path: "kek.kubeconfig",
            kind: Kind::Path,
            default: Default::Unset("the pod's own service account, or what `kubectl` would use"),
            doc: "The kubeconfig by which the API server is reached, for kind `kubernetes`.",
            example: Literal::Text("/etc/oneseal/kubeconfig"),
        },
        Key {
            path: "kek.context",
            kind: Kind::Line { words: "the name of a context of the kubeconfig" },
            default: Default::Unset("the kubeconfig's current one"),
            doc: "The context of the kubeconfig, for kind `kubernetes`.",
            example: Literal::Text("production"),
        },
        Key {
            path: "kek.secret",
            kind: Kind::Line { words: "a secret's name or ARN" },
            default: Default::Unset("it is needed for kind `aws` alone"),
            doc: "The secret of AWS Secrets Manager that holds the KEK: its name, its ARN, or its ARN without the last \
                  six characters.",
            example: Literal::Text("prod/oneseal-kek"),
        },
        Key {
            path: "kek.region",
            kind: Kind::Line { words: "a region, such as \"eu-west-1\"" },
            default: Default::Unset(
                "that of the ARN, else the one that the AWS SDK finds (AWS_REGION, profile, instance)",
            ),
            doc: "The region of the secret, for kind `aws`.",
            example: Literal::Text("eu-west-1"),
        },
        Key {
            path: "kek.endpoint",
            kind: Kind::Line { words: "a URL" },
            default: Default::Unset("that of the region, or AWS_ENDPOINT_URL_SECRETS_MANAGER"),
            doc: "Another endpoint of Secrets Manager, for kind `aws`: a VPC endpoint, or an emulator.",
            example: Literal::Text("https://vpce-0123.secretsmanager.eu-west-1.vpce.amazonaws.com"),
        },
        Key {
            path: "kek.member",
            kind: Kind::MemberName,
            default: Default::Unset("the value is the KEK itself"),
            doc: "The member that holds the KEK, where the value of a secret of kind `aws` is a JSON object of several.",
            example: Literal::Text("kek"),
        },
        Key {
            path: "kek.uri",
            kind: Kind::KekUri,
            default: Default::Unset("`kek.kind` names the KEK's place instead"),
            doc: "The place of the KEK as one URI, `file:PATH`, `env:NAME`, `k8s:NS/NAME` or `aws:NAME-OR-ARN`. Not together with `kek.kind` in the same source.",
            example: Literal::Text("file:/run/secrets/oneseal-kek"),
        },
        Key {
            path: "kek.previous",
            kind: Kind::KekUris,
            default: Default::Unset("everything is sealed under the current one"),
            doc: "The places of KEKs that only open: of one that was replaced until `keys rewrap` has run, and of one to \
                  come before it does.",
            example: Literal::List(&["file:/run/secrets/oneseal-kek-2026"]),
        },
    ],
};

const LISTEN: Section = Section {
    name: "listen",
    doc: "What is bound, once the key has been loaded and judged. Port 0 takes a free port; the start prints it.",
    keys: &[
        Key {
            path: "listen.documents",
            kind: Kind::Address,
            default: Default::Value(
                Literal::Text("[::]:8080"),
                "all addresses of both families, and a port that needs no privilege; with TLS `[::]:8443`",
            ),
            doc: "Where discovery and the JWKS are served: over TLS with `[tls]`, else in plain HTTP.",
            example: Literal::Text("0.0.0.0:8080"),
        },
        Key {
            path: "listen.token",
            kind: Kind::Address,
            default: Default::Unset("tokens are asked for where the documents are"),
            doc: "Where workloads ask for tokens, if that is to be another place than `listen.documents`, where \
                  `ISS/token` then answers 404: the documents must be public, and this need not be. Over TLS with \
                  `[tls]`. Discovery says `issuer.token_endpoint`.",
            example: Literal::Text("[::]:8082"),
        },
        Key {
            path: "listen.trusted_proxies",
            kind: Kind::Networks,
            default: Default::Unset("without them the address of a client is not known, and is not limited"),
            doc: "The networks of the proxies in front. With them a request for a token counts against the address of \
                  its client, which is the last one in `X-Forwarded-For` that is none of theirs: see \
                  `token.address_per_minute`. Nothing else depends on it.",
            example: Literal::List(&["10.0.0.0/8"]),
        },
        Key {
            path: "listen.ops",
            kind: Kind::Address,
            default: Default::Value(
                Literal::Text("[::]:8081"),
                "a port of its own, so that it need not be public; kubelet probes the pod's address, not loopback",
            ),
            doc: "Where `/livez`, `/readyz` and `/metrics` are served.",
            example: Literal::Text("127.0.0.1:8081"),
        },
        Key {
            path: "listen.admin",
            kind: Kind::Socket,
            default: Default::Value(
                Literal::Text("/run/oneseal/admin.sock"),
                "a socket that only this user and root can open needs no credential",
            ),
            doc: "The Unix socket of the admin API, made with mode 0600; `\"none\"` or `\"\"` turns it off. A path \
                  in the working directory begins with `./`. At most 107 bytes.",
            example: Literal::Text("none"),
        },
        Key {
            path: "listen.admin_tcp",
            kind: Kind::Address,
            default: Default::Unset("the admin API is then on its Unix socket alone"),
            doc: "Where the admin API is served over TCP as well, to callers with one of `admin.tokens`: over TLS with \
                  `[tls]`, else in plain HTTP, which is for loopback.",
            example: Literal::Text("127.0.0.1:9090"),
        },
    ],
};

const TLS: Section = Section {
    name: "tls",
    doc: "TLS on the documents listener, and on `listen.token` and `listen.admin_tcp`. Both files are followed: a renewed pair is used as soon as it is whole, without \
          a restart. The ops listener stays plain HTTP, as kubelet's probes want it.",
    keys: &[
        Key {
            path: "tls.certificate",
            kind: Kind::Path,
            default: Default::Unset(
                "without it the documents listener speaks plain HTTP, for a proxy that speaks TLS",
            ),
            doc: "The PEM file of the certificate chain: the server's own certificate first, then those that vouch for \
                  it, without the root (certbot's `fullchain.pem`, `tls.crt` of a Kubernetes Secret).",
            example: Literal::Text("/etc/oneseal/tls/tls.crt"),
        },
        Key {
            path: "tls.private_key",
            kind: Kind::Path,
            default: Default::Unset("it is needed with `tls.certificate`"),
            doc: "The PEM file of the certificate's private key, as PKCS#8, PKCS#1 or SEC1, without a passphrase. Not \
                  a key that signs tokens. ECDSA P-256 costs a handshake least.",
            example: Literal::Text("/etc/oneseal/tls/tls.key"),
        },
        Key {
            path: "tls.min_version",
            kind: Kind::Choice { words: &["1.2", "1.3"], later: &[] },
            default: Default::Value(
                Literal::Text("1.2"),
                "whoever can speak 1.3 does so anyhow, and some relying parties run on old Java or OpenSSL",
            ),
            doc: "The oldest version of TLS that is spoken; there is none below 1.2.",
            example: Literal::Text("1.3"),
        },
    ],
};

const TOKEN: Section = Section {
    name: "token",
    doc: "How much `POST ISS/token` takes.",
    keys: &[
        Key {
            path: "token.subject_per_minute",
            kind: Kind::Integer { most: 1_000_000 },
            default: Default::Value(
                Literal::Integer(600),
                "a workload needs a token for each relying party once in some minutes, and a signature takes a core a millisecond",
            ),
            doc: "How many requests a minute a workload may make in the long run, once it has proved who it is: by its \
                  name, and by its pod if its token is bound to one. 0 sets no limit.",
            example: Literal::Integer(60),
        },
        Key {
            path: "token.subject_burst",
            kind: Kind::Integer { most: 1_000_000 },
            default: Default::Value(
                Literal::Integer(100),
                "a controller that asks for its pods does so for many at once",
            ),
            doc: "How many it may make at once after a pause.",
            example: Literal::Integer(20),
        },
        Key {
            path: "token.address_per_minute",
            kind: Kind::Integer { most: 1_000_000 },
            default: Default::Value(Literal::Integer(1200), "all pods of a node may come from one address"),
            doc: "How many requests a minute one address may make in the long run, a /64 of IPv6 counting as one; only \
                  with `listen.trusted_proxies`. 0 sets no limit.",
            example: Literal::Integer(6000),
        },
        Key {
            path: "token.address_burst",
            kind: Kind::Integer { most: 1_000_000 },
            default: Default::Value(Literal::Integer(300), "the pods of a node may start at once"),
            doc: "How many it may make at once after a pause.",
            example: Literal::Integer(1000),
        },
        Key {
            path: "token.max_body_bytes",
            kind: Kind::Integer { most: 1024 * 1024 },
            default: Default::Value(
                Literal::Integer(64 * 1024),
                "the largest token, 16 KiB, and whatever else clients send",
            ),
            doc: "The largest body of a request, at least 20,480.",
            example: Literal::Integer(32 * 1024),
        },
    ],
};

const PROCESS: Section = Section {
    name: "process",
    doc: "How the process starts, stops and logs.",
    keys: &[
        Key {
            path: "process.boot_timeout",
            kind: PROCESS_TIME,
            default: Default::Value(
                Literal::Text("1m"),
                "long enough for a provider that restarts, short enough for an orchestrator to show the failure",
            ),
            doc: "How long the start waits for a provider that does not answer before it exits with 69.",
            example: Literal::Text("2m"),
        },
        Key {
            path: "process.drain_delay",
            kind: PROCESS_TIME,
            default: Default::Value(
                Literal::Text("10s"),
                "load balancers and kube-proxy need some seconds to notice that a replica is no longer ready",
            ),
            doc: "How long a stopping replica still serves after it has said that it is not ready.",
            example: Literal::Text("5s"),
        },
        Key {
            path: "process.shutdown_timeout",
            kind: PROCESS_TIME,
            default: Default::Value(
                Literal::Text("25s"),
                "below Kubernetes' termination grace period of 30 s, after which it kills",
            ),
            doc: "How long stopping may take in all, `process.drain_delay` included.",
            example: Literal::Text("50s"),
        },
        Key {
            path: "process.log_format",
            kind: Kind::Choice { words: &["auto", "human", "json"], later: &[] },
            default: Default::Value(
                Literal::Text("auto"),
                "who looks at a terminal is a person, who reads a pipe is a machine",
            ),
            doc: "Whether log lines are for people or machines; `auto` is `human` on a terminal and `json` elsewhere.",
            example: Literal::Text("json"),
        },
    ],
};

const OPS: Section = Section {
    name: "ops",
    doc: "How this replica is known to the others of its fleet, which the `[database]` introduces to each other.",
    keys: &[
        Key {
            path: "ops.instance",
            kind: Kind::InstanceName,
            default: Default::Unset(
                "the host's name, which is that of a pod; outside of Kubernetes with the port of `listen.documents`",
            ),
            doc: "This replica's name among the others: the same after each restart, and nobody else's. In a pod with \
                  `hostNetwork`, set it to `metadata.name`.",
            example: Literal::Text("oneseal-0"),
        },
        Key {
            path: "ops.advertise",
            kind: Kind::Advertised,
            default: Default::Unset(
                "the address that `listen.ops` is bound to, or, where that is every address, the one from which this \
                 host reaches others: a pod's own",
            ),
            doc: "Where other replicas reach this one's ops listener; without a port, at its own. They ask there whether \
                  it still mints when they cannot.",
            example: Literal::Text("10.1.2.3:8081"),
        },
    ],
};

const ADMIN: Section = Section {
    name: "admin",
    doc: "What the admin API may do besides reading, and who may call it over TCP (`listen.admin_tcp`). Clients are not \
          asked for certificates: there is no mTLS in this version.",
    keys: &[
        Key {
            path: "admin.mint",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(false),
                "whoever can open the socket could otherwise be anybody",
            ),
            doc: "Whether `POST /admin/v1/mint` mints tokens.",
            example: Literal::Bool(true),
        },
        Key {
            path: "admin.mint_audiences",
            kind: Kind::Audiences,
            default: Default::Value(Literal::List(&[]), "deny by default"),
            doc: "The audiences that it may mint for, each at most for `rotation.max_token_ttl`.",
            example: Literal::List(&["sts.amazonaws.com"]),
        },
        Key {
            path: "admin.tokens",
            kind: Kind::AdminTokens,
            default: Default::Unset("nobody may call over TCP"),
            doc: "The callers over TCP, each in a table `[[admin.tokens]]` of its own: `name` for the logs, `scopes` of \
                  `read`, `mint` and `keys`, the `sha256` of its token (hexadecimal or base64url), and perhaps the day \
                  on which it `expires`. `oneseal admin token new` makes a token and its table; to change one without a \
                  gap, have both for a while, under two names. Read at the start alone.",
            example: Literal::Tables(&[&[
                ("name", Literal::Text("ci")),
                ("scopes", Literal::List(&["mint"])),
                ("sha256", Literal::Text("n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg")),
            ]]),
        },
        Key {
            path: "admin.hosts",
            kind: Kind::Hosts,
            default: Default::Value(
                Literal::List(&[]),
                "a web page can make any other name of its own mean this address (DNS rebinding)",
            ),
            doc: "Names by which it is called over TCP, beside `localhost`, the issuer's host and the address itself.",
            example: Literal::List(&["oneseal-admin.internal"]),
        },
        Key {
            path: "admin.danger_plaintext",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(false),
                "whoever can listen on the way has the token, and mints with it",
            ),
            doc: "Says that something else encrypts what comes to `listen.admin_tcp` from other hosts, such as a \
                  service mesh: it may then be an address that is not loopback, without TLS.",
            example: Literal::Bool(true),
        },
    ],
};

const ROTATION: Section = Section {
    name: "rotation",
    doc: "Times that all replicas of an issuer must agree on. Bare keys take them from here; a ring document gets \
          them at `keys init`, and afterwards with the next key verb if `generation` is higher than the ring's. Until \
          then the start warns of what differs (`ring.other_times`), where something here is not its default. What they \
          mean for a rotation is in [rotation.md](rotation.md).",
    keys: &[
        Key {
            path: "rotation.generation",
            kind: Kind::Integer { most: MAX_JSON_INTEGER },
            default: Default::Value(
                Literal::Integer(0),
                "the ring's own times win until somebody says otherwise",
            ),
            doc: "Which proposal of times this is. The next `keys rotate`, `activate`, `retire`, `rollback`, `revoke` or \
                  `adopt` writes all times below into the ring if this number is higher than the ring's own.",
            example: Literal::Integer(1),
        },
        Key {
            path: "rotation.preset",
            kind: Kind::Choice { words: &["lab"], later: &[] },
            default: Default::Unset("each time has its own default"),
            doc: "`lab` makes every time below as short as it may be, seconds to minutes, where it is not set by itself: \
                  a whole rotation can be watched. Refused without --yes unless the issuer is of this machine: relying \
                  parties keep keys for longer.",
            example: Literal::Text("lab"),
        },
        Key {
            path: "rotation.refresh",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("15s"),
                "a changed key is seen well within one cache life, at four reads a minute",
            ),
            doc: "How often a replica looks at its provider, besides being told of changes.",
            example: Literal::Text("10s"),
        },
        Key {
            path: "rotation.staleness_limit",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("1h"),
                "bridges a provider's outage, and bounds how long a replica may sign with a key that was revoked",
            ),
            doc: "How old the last good look at the provider may be before minting stops; publishing goes on.",
            example: Literal::Text("30m"),
        },
        Key {
            path: "rotation.jwks_max_age",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("5m"),
                "relying parties that follow the header see a new key quickly, and the load stays small",
            ),
            doc: "`max-age` of discovery and JWKS: how long others may cache them.",
            example: Literal::Text("10m"),
        },
        Key {
            path: "rotation.shared_cache",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(false),
                "what a cache may serve for longer, a new key must wait for longer",
            ),
            doc: "Whether a CDN or caching proxy stands in front; it is then granted `stale-if-error` of one hour. For a \
                  ring, set it before `keys init`.",
            example: Literal::Bool(true),
        },
        Key {
            path: "rotation.skew",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("1m"),
                "more than hosts that run a time service ever differ",
            ),
            doc: "How far the replicas' clocks may differ.",
            example: Literal::Text("30s"),
        },
        Key {
            path: "rotation.rp_leeway",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("5m"),
                "the largest that a common relying party forgives unasked (.NET's ClockSkew)",
            ),
            doc: "How long relying parties go on to take a token that has expired.",
            example: Literal::Text("1m"),
        },
        Key {
            path: "rotation.rp_propagation",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("25h 12m"),
                "an undocumented relying party is taken to look once a day, and a twentieth later",
            ),
            doc: "How long the slowest relying party takes to learn of a new key, beyond what `jwks_max_age` tells it: \
                  one with a TTL of its own 1.05 times that, one that fetches at an unknown kid its cool-down, one that \
                  follows the header nothing.",
            example: Literal::Text("10m"),
        },
        Key {
            path: "rotation.token_ttl",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("1h"),
                "what cloud SDKs expect of a token file, and short enough to limit a theft",
            ),
            doc: "How long a token lives when the request does not say.",
            example: Literal::Text("15m"),
        },
        Key {
            path: "rotation.max_token_ttl",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("24h"),
                "Google refuses a token issued more than a day ago, Entra one that lives longer than 25 hours",
            ),
            doc: "The longest that any token may live.",
            example: Literal::Text("12h"),
        },
        Key {
            path: "rotation.publish_lead",
            kind: FLEET_TIME,
            default: Default::Unset(
                "it is computed: an hour, or `jwks_max_age` + stale-if-error + `rp_propagation` if that is longer",
            ),
            doc: "How long a new key is published before it may sign.",
            example: Literal::Text("48h"),
        },
        Key {
            path: "rotation.rotate_every",
            kind: FLEET_TIME,
            default: Default::Value(Literal::Text("30d"), "often enough that everybody knows how it is done"),
            doc: "How often a new key is wanted. In this version nothing rotates by itself: it bounds `publish_lead`.",
            example: Literal::Text("90d"),
        },
        Key {
            path: "rotation.rollback_window",
            kind: FLEET_TIME,
            default: Default::Value(Literal::Text("24h"), "a day shows what a new key breaks"),
            doc: "How long the key before can be made active again, at most as long as its private half is there.",
            example: Literal::Text("6h"),
        },
        Key {
            path: "rotation.erase_private_after",
            kind: FLEET_TIME,
            default: Default::Unset("it is erased at the end of `rollback_window`"),
            doc: "How long a key that stopped signing keeps its private half. It is erased by the next key verb after \
                  that.",
            example: Literal::Text("1h"),
        },
        Key {
            path: "rotation.emergency_wait",
            kind: FLEET_TIME,
            default: Default::Value(Literal::Text("10s"), "minting stands still meanwhile"),
            doc: "How long `keys revoke` waits for replicas that do not answer before its new keys sign.",
            example: Literal::Text("30s"),
        },
        Key {
            path: "rotation.backdate",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("30s"),
                "relying parties whose clock is a little behind refuse a token from their future",
            ),
            doc: "How far `iat` and `nbf` lie before the moment of minting.",
            example: Literal::Text("10s"),
        },
    ],
};

/// Largest integer that JSON carries without loss (RFC 8259 section 6); the ring document is JSON.
const MAX_JSON_INTEGER: u64 = (1 << 53) - 1;
const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
const FLEET_TIME: Kind = Kind::Duration { whole_seconds: true, most: YEAR };
const PROCESS_TIME: Kind = Kind::Duration { whole_seconds: false, most: HOUR };
