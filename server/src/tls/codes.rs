//! The rows of the table of findings that TLS can cause. The last ones are those that a running server meets too, when
//! a pair is renewed.

use oneseal_keystore::findings::{Code, Exit};

/// The rows of this room.
pub(crate) static CODES: &[&Code] = &[
    &INCOMPLETE,
    &DEV_NOT_LOOPBACK,
    &DEV_TLS,
    &ISSUER_NOT_HTTPS,
    &UNREADABLE,
    &DENIED,
    &CERTIFICATE_UNUSABLE,
    &PRIVATE_KEY_UNUSABLE,
    &KEY_MISMATCH,
    &EXPIRED,
    &NOT_YET_VALID,
    &EXPIRES_SOON,
    &HOST_NOT_COVERED,
    &NOT_FOR_SERVERS,
    &CERTIFICATE_IS_AUTHORITY,
    &CHAIN_OUT_OF_ORDER,
    &PRIVATE_KEY_EXPOSED,
    &SIGNING_KEY_SHARED,
];

pub(crate) static INCOMPLETE: Code = Code::refused(
    "tls.incomplete",
    "A certificate and its private key go together, and only one of them is configured.",
    "Set both tls.certificate and tls.private_key, or neither.",
);
pub(crate) static DEV_NOT_LOOPBACK: Code = Code::refused(
    "tls.dev_not_loopback",
    "A development certificate vouches for nobody, so it is made for issuers on this machine alone.",
    "Use an issuer such as https://localhost:8443, or set tls.certificate and tls.private_key in place of --dev-tls.",
);
pub(crate) static DEV_TLS: Code = Code::warning(
    "tls.development",
    "The certificate was made up at this start and is gone at its end; nobody should rely on it.",
    "Nothing on a developer's machine; elsewhere set tls.certificate and tls.private_key in place of --dev-tls.",
);
pub(crate) static ISSUER_NOT_HTTPS: Code = Code::warning(
    "tls.issuer_not_https",
    "The documents listener speaks TLS and the issuer's URL begins with http, so whoever follows it is refused.",
    "Write https in issuer.url, or leave TLS off.",
);
pub(crate) static UNREADABLE: Code = Code::refused(
    "tls.unreadable",
    "A file of the certificate or its key does not exist or cannot be read whole.",
    "Correct the path; it must lead to an ordinary PEM file of at most 1 MiB.",
);
pub(crate) static DENIED: Code = Code::error(
    "tls.denied",
    Exit::Denied,
    "This process may not read a file of the certificate or its key.",
    "Let this process's user or group read it and search its directories (certbot keeps keys for root alone); in \
     Kubernetes set fsGroup.",
);
pub(crate) static CERTIFICATE_UNUSABLE: Code = Code::refused(
    "tls.certificate_unusable",
    "The file holds no certificate that a TLS server could show.",
    "Give a PEM file with the server's own X.509 certificate first, then the intermediate ones.",
);
pub(crate) static PRIVATE_KEY_UNUSABLE: Code = Code::refused(
    "tls.private_key_unusable",
    "The file holds no private key that a TLS server could use.",
    "Give a PEM file with one RSA, ECDSA or Ed25519 key as PKCS#8, PKCS#1 or SEC1, without a passphrase.",
);
pub(crate) static KEY_MISMATCH: Code = Code::refused(
    "tls.key_mismatch",
    "The private key is not the one of the certificate.",
    "Give the key that the certificate was requested with; the server's own certificate comes first in its file.",
);
pub(crate) static EXPIRED: Code = Code::refused(
    "tls.expired",
    "The certificate has expired, so every relying party would refuse the connection.",
    "Renew it; if it looks good to you, correct the clock of this host.",
);
pub(crate) static NOT_YET_VALID: Code = Code::refused(
    "tls.not_yet_valid",
    "The certificate is not valid yet, so every relying party would refuse the connection.",
    "Correct the clock of this host, or wait.",
);
pub(crate) static EXPIRES_SOON: Code = Code::warning(
    "tls.expires_soon",
    "The certificate expires within seven days, or within the last third of a shorter life.",
    "Renew it, or see why whoever renews it has not; the new one is used without a restart.",
);
pub(crate) static HOST_NOT_COVERED: Code = Code::warning(
    "tls.host_not_covered",
    "The certificate does not name the issuer's host, so who connects by that name refuses it.",
    "Nothing if a proxy in front speaks TLS with its own; else request one with the host as subject alternative name.",
);
pub(crate) static NOT_FOR_SERVERS: Code = Code::warning(
    "tls.not_for_servers",
    "The certificate's extended key usage does not have TLS servers in it, so clients refuse it.",
    "Request one with the usage serverAuth.",
);
pub(crate) static CERTIFICATE_IS_AUTHORITY: Code = Code::warning(
    "tls.certificate_is_authority",
    "The certificate is one of an authority (basicConstraints CA:TRUE), which vouches for others: clients such as rustls \
     refuse it as a server's own, whoever trusts it. `openssl req -x509` makes one unless told otherwise.",
    "Have the authority sign a certificate for the server; or make a self-signed one with `openssl req -x509` and \
     -addext basicConstraints=critical,CA:FALSE.",
);
pub(crate) static CHAIN_OUT_OF_ORDER: Code = Code::warning(
    "tls.chain_out_of_order",
    "The certificates of the chain do not follow on each other, which some clients refuse.",
    "Put each certificate before the one that vouches for it, the server's own first.",
);
pub(crate) static PRIVATE_KEY_EXPOSED: Code = Code::warning(
    "tls.private_key_exposed",
    "Every user of this host may read the certificate's private key.",
    "chmod 0600 the file, or 0640 with a group of its own; in Kubernetes set defaultMode: 0440 and fsGroup.",
);
pub(crate) static SIGNING_KEY_SHARED: Code = Code::warning(
    "tls.signing_key_shared",
    "The certificate's key signs tokens too: it is used online by everybody who connects, and is renewed with the \
     certificate, which would break every token in use.",
    "Make a key of its own for tokens with `oneseal keys init`, or request the certificate with another one.",
);
