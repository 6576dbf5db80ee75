//! The rows of the table of findings that clusters can cause.

use oneseal_keystore::findings::Code;

pub(crate) static CODES: &[&Code] = &[
    &CLUSTER_MALFORMED,
    &CLUSTER_ISSUER,
    &CLUSTER_AUDIENCE,
    &CLUSTER_KEYS,
    &CLUSTER_ACCESS,
    &CLUSTER_NAME_TWICE,
    &CLUSTER_SAME_ACCESS,
    &CLUSTER_KEY_SHARED,
    &CLUSTER_NO_REVIEWER,
    &CLUSTER_UNREVIEWED,
    &CLUSTER_ISSUER_DIFFERS,
    &CLUSTER_KEYS_UNREADABLE,
    &CLUSTER_REVIEW_DENIED,
    &CLUSTER_REVIEW_UNAVAILABLE,
];

pub(super) static CLUSTER_MALFORMED: Code = Code::refused(
    "cluster.malformed",
    "A cluster's name, time or limit cannot be used.",
    "Correct the named value.",
);
pub(super) static CLUSTER_ISSUER: Code = Code::refused(
    "cluster.issuer",
    "A cluster's issuer is not what a cluster's tokens can have as `iss`: an https URL without query and fragment.",
    "Give the API server's first --service-account-issuer as it stands: `kubectl get --raw \
     /.well-known/openid-configuration` shows it.",
);
pub(super) static CLUSTER_AUDIENCE: Code = Code::refused(
    "cluster.audience",
    "The audience of a cluster's tokens is missing, or it is one that tokens for the API server itself have: whoever \
     reads such a token could prove to be its pod.",
    "Name an audience that is this issuer's alone, such as its URL, and give pods a projected token for that.",
);
pub(super) static CLUSTER_KEYS: Code = Code::refused(
    "cluster.keys",
    "The keys of a cluster cannot be read in the way that is configured.",
    "With keys = \"api\" it needs no more than access to the API server; for the others see docs/configuration.md.",
);
pub(super) static CLUSTER_ACCESS: Code = Code::refused(
    "cluster.access",
    "The way to a cluster's API server that is configured leads nowhere: its kubeconfig, the context, or a file that they \
     name is not there or cannot be used.",
    "Correct `kubeconfig` or `context` of that [[cluster]]; `kubectl --kubeconfig FILE --context CONTEXT version` has to \
     work with them.",
);
pub(super) static CLUSTER_NAME_TWICE: Code = Code::refused(
    "cluster.name_twice",
    "Two clusters have one name, so no rule could tell them apart.",
    "Give each cluster a name of its own.",
);
pub(super) static CLUSTER_SAME_ACCESS: Code = Code::refused(
    "cluster.same_access",
    "Two clusters are asked at one API server, so tokens of the one would go to the other.",
    "Name the kubeconfig, or its context, of each cluster's own API server; the pod's own account is one cluster's.",
);
pub(super) static CLUSTER_KEY_SHARED: Code = Code::refused(
    "cluster.key_shared",
    "Two clusters with one issuer share a key, so nobody can tell whose a token is.",
    "Give each cluster a service account key of its own, or an issuer of its own; if they are one cluster, remove one.",
);
pub(super) static CLUSTER_NO_REVIEWER: Code = Code::refused(
    "cluster.no_reviewer",
    "A cluster's API server is to be asked, and this program is built without the means to.",
    "Build with the feature `kubernetes`; or say that there is no review, and give the cluster's keys.",
);
pub(super) static CLUSTER_UNREVIEWED: Code = Code::info(
    "cluster.unreviewed",
    "A cluster's tokens are judged by their signature alone: until it expires, the token of a pod that was deleted is \
     taken.",
    "Set review = \"required\" where the cluster's API server can be asked.",
);
pub(super) static CLUSTER_ISSUER_DIFFERS: Code = Code::warning(
    "cluster.issuer_differs",
    "A cluster's API server names another issuer than the configuration does, so the tokens that it signs now are taken for \
     those of a stranger.",
    "Set `issuer` of that [[cluster]] to what the API server says, byte for byte.",
);
pub(super) static CLUSTER_KEYS_UNREADABLE: Code = Code::warning(
    "cluster.keys_unreadable",
    "The keys of a cluster could not be read just now; until they can be, its pods get no tokens (503).",
    "See what the message says stands in the way. With keys = \"api\": credentials that the server takes for a 401, the \
     ClusterRole of deploy/kubernetes/tokenreview.yaml bound to them for a 403.",
);
pub(super) static CLUSTER_REVIEW_DENIED: Code = Code::warning(
    "cluster.review_denied",
    "A cluster's API server lets us review no tokens; until it does, its pods get no tokens (503).",
    "Bind the ClusterRole of deploy/kubernetes/tokenreview.yaml in that cluster to whom the message names.",
);
pub(super) static CLUSTER_REVIEW_UNAVAILABLE: Code = Code::warning(
    "cluster.review_unavailable",
    "A cluster's API server did not review a token when asked to; until it does, its pods get no tokens (503).",
    "See that it can be reached from here, and that it takes the credentials that are configured.",
);
