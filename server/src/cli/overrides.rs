//! Flags that set a key of the configuration, for the verbs that start a server or judge one.

use crate::cli::Globals;
use crate::config::Sources;

/// Each overrides the file and the environment.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct Overrides {
    /// issuer.url: the issuer's URL, as relying parties know it
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// provider.uri: where the key rests, such as file:PATH or env:NAME
    #[arg(long, value_name = "URI")]
    provider: Option<String>,
    /// provider.passphrase: where the passphrase of an encrypted key rests, file:PATH or env:NAME
    // May be a passphrase by mistake, so clap must not judge it.
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    passphrase: Option<String>,
    /// provider.member: the member that holds the key, where the value is a JSON object of several
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    /// listen.documents: address of discovery and JWKS
    #[arg(long, value_name = "ADDRESS")]
    listen_documents: Option<String>,
    /// listen.token: address at which workloads ask for tokens, if not that of the documents
    #[arg(long, value_name = "ADDRESS")]
    listen_token: Option<String>,
    /// listen.ops: address of probes and metrics
    #[arg(long, value_name = "ADDRESS")]
    listen_ops: Option<String>,
    /// listen.admin: Unix socket of the admin API, or `none`
    #[arg(long, value_name = "PATH")]
    listen_admin: Option<String>,
    /// listen.admin_tcp: address of the admin API over TCP, for callers with one of admin.tokens
    #[arg(long, value_name = "ADDRESS")]
    listen_admin_tcp: Option<String>,
    /// tls.certificate: PEM file of the certificate chain; with it the documents and the admin TCP listener speak TLS
    #[arg(long, value_name = "PATH")]
    tls_certificate: Option<String>,
    /// tls.private_key: PEM file of the certificate's private key
    #[arg(long, value_name = "PATH")]
    tls_private_key: Option<String>,
    /// Take settings that would break an issuer that others rely on, such as rotation.preset = "lab"
    #[arg(long)]
    yes: bool,
}

impl Overrides {
    /// Everything that configuration is read from: these flags, `--config`, the environment.
    pub(crate) fn sources(self, globals: &Globals) -> Sources {
        Sources::new(std::env::vars_os())
            .config(globals.config.clone())
            .flag("--issuer", "issuer.url", self.issuer)
            .flag("--provider", "provider.uri", self.provider)
            .flag("--passphrase", "provider.passphrase", self.passphrase)
            .flag("--member", "provider.member", self.member)
            .flag("--listen-documents", "listen.documents", self.listen_documents)
            .flag("--listen-token", "listen.token", self.listen_token)
            .flag("--listen-ops", "listen.ops", self.listen_ops)
            .flag("--listen-admin", "listen.admin", self.listen_admin)
            .flag("--listen-admin-tcp", "listen.admin_tcp", self.listen_admin_tcp)
            .flag("--tls-certificate", "tls.certificate", self.tls_certificate)
            .flag("--tls-private-key", "tls.private_key", self.tls_private_key)
            .yes(self.yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_sets_a_key_that_exists() {
        let word = || Some("x".to_owned());
        let overrides = Overrides {
            issuer: word(),
            provider: word(),
            passphrase: word(),
            member: word(),
            listen_documents: word(),
            listen_token: word(),
            listen_ops: word(),
            listen_admin: word(),
            listen_admin_tcp: word(),
            tls_certificate: word(),
            tls_private_key: None,
            yes: false,
        };
        let globals = Globals { config: None, log_format: None };
        let findings =
            crate::config::Config::load(overrides.sources(&globals)).expect_err("nonsense in each").findings;
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        for flag in [
            "--issuer",
            "--provider",
            "--passphrase",
            "--listen-documents",
            "--listen-token",
            "--listen-ops",
            "--listen-admin-tcp",
            "tls.private_key",
        ] {
            assert!(places.contains(&flag), "{flag}: {findings}");
        }
    }
}
