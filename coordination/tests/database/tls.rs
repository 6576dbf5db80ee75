//! Whose server it is: both drivers judge alike.

use oneseal_coordination::database::{
    Database, DatabaseError, DatabaseErrorKind, DatabaseOptions, DatabaseUrl,
};
use oneseal_testing::parts::{Certificate, Postgres, PostgresOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn certificate_for(&self, name: &str) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certificate { chain: certificate.pem(), key: key.serialize_pem() }
    }

    fn file(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.0.pem()).unwrap();
        file
    }
}

/// What each driver says to `server` reached as `url?parameters`.
async fn verdicts(url: &str, parameters: &str) -> [Result<(), DatabaseError>; 2] {
    let url = DatabaseUrl::parse(&format!("{url}?{parameters}")).unwrap();
    let database = Database::new(DatabaseOptions::new(url)).unwrap();
    [database.write().await.map(drop), database.direct().await.map(drop)]
}

async fn passes(url: &str, parameters: &str) {
    for verdict in verdicts(url, parameters).await {
        verdict.unwrap_or_else(|error| panic!("{parameters}: {error}: {error:?}"));
    }
}

async fn is_untrusted(url: &str, parameters: &str) {
    for verdict in verdicts(url, parameters).await {
        let error = verdict.expect_err(parameters);
        assert_eq!(error.kind(), DatabaseErrorKind::Untrusted, "{parameters}: {error}: {error:?}");
        assert!(error.to_string().contains("sslrootcert=PATH"), "{error}");
    }
}

#[tokio::test]
async fn a_server_is_itself_only_with_its_name_and_a_trusted_authority() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (file, other_file) = (authority.file(), other.file());
    let (root, other_root) = (
        format!("sslrootcert={}", file.path().display()),
        format!("sslrootcert={}", other_file.path().display()),
    );
    let options = |name| PostgresOptions {
        certificate: Some(authority.certificate_for(name)),
        ..PostgresOptions::default()
    };

    let Some(server) = Postgres::start(options("127.0.0.1")) else { return };
    let url = server.url();
    passes(&url, &format!("sslmode=verify-full&{root}")).await;
    passes(&url, &format!("sslmode=verify-ca&{root}")).await;
    is_untrusted(&url, &format!("sslmode=verify-full&{other_root}")).await;
    is_untrusted(&url, &format!("sslmode=verify-ca&{other_root}")).await;
    // The system's own authorities know nothing of it.
    is_untrusted(&url, "sslmode=verify-full").await;

    let Some(server) = Postgres::start(options("another.example.com")) else { return };
    let url = server.url();
    is_untrusted(&url, &format!("sslmode=verify-full&{root}")).await;
    passes(&url, &format!("sslmode=verify-ca&{root}")).await;
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_clear() {
    let Some(server) = Postgres::shared() else { return };
    for mode in ["verify-full", "verify-ca"] {
        for verdict in verdicts(&server.url(), &format!("sslmode={mode}")).await {
            let error = verdict.unwrap_err();
            assert_eq!(error.kind(), DatabaseErrorKind::Untrusted, "{error}: {error:?}");
            assert!(error.to_string().contains("does not speak TLS"), "{error}");
        }
    }
}

#[test]
fn an_authority_that_cannot_be_read_is_refused_before_anything_is_opened() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    for (path, word) in
        [("/nowhere/ca.pem", "No such file"), (empty.path().to_str().unwrap(), "holds no certificate")]
    {
        let url = DatabaseUrl::parse(&format!("postgres://u:hunter2@h/d?sslrootcert={path}")).unwrap();
        let error = Database::new(DatabaseOptions::new(url)).unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Configuration);
        assert!(error.to_string().contains(path) && error.to_string().contains(word), "{error}");
    }
}
