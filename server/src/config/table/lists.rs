//! The rows of the lists: tables of the file of which there may be any number.

use std::time::Duration;

use super::{Default, Key, Kind, List, Literal};

/// The lists of the design, in the order in which they are shown. One that is in `LATER` too is not available yet.
pub(crate) static LISTS: &[List] = &[CLUSTER, ASSERTION_ISSUER, RULE];

const CLUSTER: List = List {
    name: "cluster",
    doc: "Kubernetes clusters whose pods prove themselves with a service account's token.",
    distinct: &["name"],
    keys: &[
        Key {
            path: "cluster.name",
            kind: Kind::Name,
            default: Default::Required(
                "rules and logs tell clusters by it, since two may have the same `iss`",
            ),
            doc: "What rules and logs call it.",
            example: Literal::Text("prod"),
        },
        Key {
            path: "cluster.issuer",
            kind: OTHERS_ISSUER,
            default: Default::Required(
                "a token is of this cluster only if its `iss` says so, and its key verified it",
            ),
            doc: "The `iss` of its tokens, byte for byte: `kubectl get --raw /.well-known/openid-configuration` shows it.",
            example: Literal::Text("https://kubernetes.default.svc.cluster.local"),
        },
        Key {
            path: "cluster.audience",
            kind: Kind::Line { words: "an audience" },
            default: Default::Unset("`issuer.url`"),
            doc: "The one audience that its tokens must have: that of the pod's projected token.",
            example: Literal::Text("https://oidc.example.com"),
        },
        Key {
            path: "cluster.keys",
            kind: Kind::Choice { words: &["api", "discovery"], later: &[] },
            default: Default::Value(
                Literal::Text("api"),
                "every cluster serves its keys there, whether or not its issuer's URL leads anywhere",
            ),
            doc: "Where its keys are fetched: from its API server, or by the discovery of its issuer's URL. `jwks_uri` or \
                  `jwks_file` stand in for both.",
            example: Literal::Text("discovery"),
        },
        Key {
            path: "cluster.jwks_uri",
            kind: Kind::KeysUrl,
            default: Default::Unset("`keys` says where they are"),
            doc: "The address of its keys.",
            example: Literal::Text("https://keys.example.com/prod/jwks.json"),
        },
        Key {
            path: "cluster.jwks_file",
            kind: Kind::Path,
            default: Default::Unset("`keys` says where they are"),
            doc: "A file with its keys, which is read again when it changes.",
            example: Literal::Text("/etc/oneseal/prod.jwks.json"),
        },
        Key {
            path: "cluster.review",
            kind: Kind::Choice { words: &["required", "off"], later: &[] },
            default: Default::Value(
                Literal::Text("required"),
                "a signature alone says nothing of a pod that was deleted since",
            ),
            doc: "Whether its API server is asked by TokenReview, for each token, if account and pod are still there.",
            example: Literal::Text("off"),
        },
        Key {
            path: "cluster.kubeconfig",
            kind: Kind::Path,
            default: Default::Unset("the pod's own service account, or what `kubectl` would use"),
            doc: "A kubeconfig file by which its API server is reached.",
            example: Literal::Text("/etc/oneseal/prod.kubeconfig"),
        },
        Key {
            path: "cluster.context",
            kind: Kind::Line { words: "the name of a context" },
            default: Default::Unset("the current context of the file"),
            doc: "Which context of `kubeconfig`.",
            example: Literal::Text("prod"),
        },
        Key {
            path: "cluster.ca_bundle",
            kind: Kind::Path,
            default: Default::Unset("the system's certificates, or those of the kubeconfig"),
            doc: "A PEM file of the certificates that are trusted alone where keys are fetched by URL; it is read again when \
                  it changes.",
            example: Literal::Text("/etc/oneseal/prod-ca.pem"),
        },
        PROXY_OF_CLUSTER,
        Key {
            path: "cluster.max_reviews",
            kind: Kind::Integer { most: 4096 },
            default: Default::Value(
                Literal::Integer(32),
                "many for a healthy API server, few for one that is not: the others wait, and then hear 503",
            ),
            doc: "How many reviews may run at the same time.",
            example: Literal::Integer(64),
        },
        Key {
            path: "cluster.max_lifetime",
            kind: Kind::Duration { whole_seconds: true, most: YEAR },
            default: Default::Value(
                Literal::Text("1h 7s"),
                "what an API server gives to a pod that asks for an hour",
            ),
            doc: "How long a token may live, from `iat` to `exp`. One that is extended for old clients lives a year.",
            example: Literal::Text("10m"),
        },
        Key {
            path: "cluster.timeout",
            kind: TIMEOUT,
            default: Default::Value(Literal::Text("5s"), TIMEOUT_WHY),
            doc: "How long its API server, or whoever serves its keys, may take to answer.",
            example: Literal::Text("10s"),
        },
    ],
};

const PROXY_OF_CLUSTER: Key = Key {
    path: "cluster.proxy",
    kind: Kind::ProxyUrl,
    default: Default::Unset("nobody stands between; no proxy of the environment is used"),
    doc: "The proxy through which keys are fetched by URL, by CONNECT.",
    example: Literal::Text("http://proxy.internal:3128"),
};

const ASSERTION_ISSUER: List = List {
    name: "assertion_issuer",
    doc: "Who signs assertions (RFC 7523) that are taken as an authorization grant, each once: a CI system, a scheduler. \
          They want a [database], in which all replicas see that one was used. Where neither `jwks_uri` nor `jwks_file` is \
          set, the keys are found by the discovery of `issuer`.",
    distinct: &["name", "issuer"],
    keys: &[
        Key {
            path: "assertion_issuer.name",
            kind: Kind::Name,
            default: Default::Required("rules and logs tell them by it"),
            doc: "What rules and logs call it.",
            example: Literal::Text("jenkins"),
        },
        Key {
            path: "assertion_issuer.issuer",
            kind: OTHERS_ISSUER,
            default: Default::Required("its assertions are found by it, and no two may have the same"),
            doc: "The `iss` of its assertions, byte for byte: an https URL without query and fragment.",
            example: Literal::Text("https://ci.example.com"),
        },
        Key {
            path: "assertion_issuer.jwks_uri",
            kind: Kind::KeysUrl,
            default: Default::Unset("its discovery document names it"),
            doc: "The address of its keys.",
            example: Literal::Text("https://ci.example.com/keys"),
        },
        Key {
            path: "assertion_issuer.jwks_file",
            kind: Kind::Path,
            default: Default::Unset("its keys are fetched"),
            doc: "A file with its public keys as a JWKS, which is read again when it changes.",
            example: Literal::Text("/etc/oneseal/jenkins.jwks.json"),
        },
        Key {
            path: "assertion_issuer.algorithms",
            kind: Kind::Algorithms,
            default: Default::Value(Literal::List(&["RS256"]), "what most of them sign with"),
            doc: "The algorithms that its assertions may have.",
            example: Literal::List(&["ES256"]),
        },
        Key {
            path: "assertion_issuer.ca_bundle",
            kind: Kind::Path,
            default: Default::Unset("the system's certificates are trusted"),
            doc: "A PEM file of the certificates that are trusted alone when its keys are fetched; it is read again when it \
                  changes.",
            example: Literal::Text("/etc/oneseal/ci-ca.pem"),
        },
        Key {
            path: "assertion_issuer.proxy",
            kind: Kind::ProxyUrl,
            default: Default::Unset("nobody stands between; no proxy of the environment is used"),
            doc: "The proxy through which its keys are fetched, by CONNECT.",
            example: Literal::Text("http://proxy.internal:3128"),
        },
        Key {
            path: "assertion_issuer.timeout",
            kind: TIMEOUT,
            default: Default::Value(Literal::Text("5s"), TIMEOUT_WHY),
            doc: "How long fetching its keys may take.",
            example: Literal::Text("10s"),
        },
    ],
};

const RULE: List = List {
    name: "rule",
    doc: "Who gets which tokens. The first rule that matches decides; where none does, nothing is given.",
    distinct: &["name"],
    keys: &[
        Key {
            path: "rule.name",
            kind: Kind::Name,
            default: Default::Required("audit lines and `rules test` tell them by it"),
            doc: "What logs call it.",
            example: Literal::Text("ci"),
        },
        Key {
            path: "rule.cluster",
            kind: Kind::Names,
            default: Default::Unset("`assertion_issuer` must be set: a rule for whoever comes is refused"),
            doc: "The clusters whose pods it is for, by their names.",
            example: Literal::List(&["prod"]),
        },
        Key {
            path: "rule.assertion_issuer",
            kind: Kind::Names,
            default: Default::Unset("`cluster` must be set: a rule for whoever comes is refused"),
            doc: "The assertion issuers that it is for, by their names.",
            example: Literal::List(&["jenkins"]),
        },
        Key {
            path: "rule.namespace",
            kind: Kind::Matches,
            default: Default::Unset("any namespace"),
            doc: "The namespaces of the pods.",
            example: Literal::Mixed(&[
                Literal::Text("ci"),
                Literal::Table(&[("prefix", Literal::Text("team-"))]),
            ]),
        },
        Key {
            path: "rule.service_account",
            kind: Kind::Matches,
            default: Default::Unset("any service account"),
            doc: "The service accounts of the pods.",
            example: Literal::List(&["builder"]),
        },
        Key {
            path: "rule.when",
            kind: Kind::Conditions,
            default: Default::Unset("nothing more is asked"),
            doc: "What else must hold: facts by their names, and claims of the token by `claims.` and a JSON pointer \
                  (RFC 6901). Each may be a value, `{ prefix = … }` or a list of these, of which one must be met.",
            example: Literal::Table(&[
                ("claims./kubernetes.io/node/name", Literal::Text("n1")),
                ("subject", Literal::Table(&[("prefix", Literal::Text("job-"))])),
            ]),
        },
        Key {
            path: "rule.unbound",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(false),
                "a token that is bound to no pod outlives whatever it was made for",
            ),
            doc: "Whether tokens of service accounts are taken that are bound to no pod.",
            example: Literal::Bool(true),
        },
        Key {
            path: "rule.sub",
            kind: Kind::Line { words: "a template, such as \"k8s:{cluster}:{namespace}:{service_account}\"" },
            default: Default::Required("relying parties decide by it, so nobody can guess it"),
            doc: "The `sub` of its tokens: a text with `{fact}` or `{claims./pointer}`, whose values are written with `%` and \
                  two digits for whatever is no letter, digit or one of `-._~`.",
            example: Literal::Text("k8s:{cluster}:{namespace}:{service_account}"),
        },
        Key {
            path: "rule.audiences",
            kind: Kind::Audiences,
            default: Default::Required("a token is for somebody"),
            doc: "For whom tokens may be had. Each is for one of them, whichever is asked for.",
            example: Literal::List(&["sts.amazonaws.com"]),
        },
        Key {
            path: "rule.algorithm",
            kind: Kind::Algorithm,
            default: Default::Unset("the first of `issuer.algorithms`"),
            doc: "What its tokens are signed with.",
            example: Literal::Text("ES256"),
        },
        Key {
            path: "rule.ttl",
            kind: Kind::Duration { whole_seconds: true, most: YEAR },
            default: Default::Value(Literal::Text("1h"), "what cloud SDKs expect of a token file"),
            doc: "How long its tokens live at most.",
            example: Literal::Text("15m"),
        },
        Key {
            path: "rule.claims",
            kind: Kind::Claims,
            default: Default::Unset("no claims beside those of every token"),
            doc: "Claims of its tokens. A string that is one `{fact}` or `{claims./pointer}` and nothing else keeps the kind \
                  of its value.",
            example: Literal::Table(&[("team", Literal::Text("{namespace}"))]),
        },
        Key {
            path: "rule.aws_session_tags",
            kind: Kind::Texts,
            default: Default::Unset("no session tags"),
            doc: "Session tags that AWS STS takes from its tokens.",
            example: Literal::Table(&[("project", Literal::Text("{namespace}"))]),
        },
        Key {
            path: "rule.aws_transitive_tags",
            kind: Kind::TagKeys,
            default: Default::Unset("none is passed on"),
            doc: "Which of `aws_session_tags` stay when one role assumes another.",
            example: Literal::List(&["project"]),
        },
    ],
};

const OTHERS_ISSUER: Kind = Kind::Line { words: "an issuer, as `iss` has it" };
const TIMEOUT: Kind = Kind::Duration { whole_seconds: false, most: Duration::from_secs(60) };
const TIMEOUT_WHY: &str = "a pod that waits longer has given up";
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
