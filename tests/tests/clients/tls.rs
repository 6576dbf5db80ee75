//! The same through TLS, where a connection costs more.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::connections::opened;
use crate::target::{CAPACITY, JWKS, PATIENCE, Target, finish, room_for, soaked};

const HOST: &str = "oidc.example";

/// Certificate and key in files, the table that names them, and a client that trusts them.
fn pair(place: &Path) -> (String, Arc<ClientConfig>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![HOST.to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate_file, key_file) = (place.join("tls.crt"), place.join("tls.key"));
    std::fs::write(&certificate_file, certificate.pem()).unwrap();
    private(&key_file, &key.serialize_pem());
    let table = format!("[tls]\ncertificate = {certificate_file:?}\nprivate_key = {key_file:?}\n");
    (table, trusting(certificate.der().clone()))
}

fn private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn trusting(certificate: CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn target() -> (Target, Arc<ClientConfig>) {
    let mut config = None;
    let target = Target::start_with(|place| {
        let (table, client) = pair(place);
        config = Some(client);
        table
    })
    .await;
    (target, config.unwrap())
}

async fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    TlsConnector::from(config).connect(ServerName::try_from(HOST).unwrap(), tcp).await
}

async fn idle(address: SocketAddr, config: Arc<ClientConfig>) -> Option<TlsStream<TcpStream>> {
    let mut stream = connect(address, config).await.ok()?;
    let request = format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = [0; 2048];
    (stream.read(&mut answer).await.ok()? > 0).then_some(stream)
}

/// Beside whom another client's handshakes and requests succeed.
async fn beside<T>(target: &Target, config: &Arc<ClientConfig>, attack: impl Future<Output = T>) -> T {
    let mut attack = std::pin::pin!(attack);
    let last = format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    loop {
        let neighbour = async {
            let stream = connect(target.documents, Arc::clone(config)).await.expect("a handshake");
            let answer = finish(stream, last.as_bytes()).await;
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        };
        tokio::select! {
            biased;
            served = timeout(PATIENCE, neighbour) => {
                served.expect("served in time");
            }
            done = &mut attack => return done,
        }
    }
}

/// The first flight of a client, from where it can be cut.
fn client_hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut client = ClientConnection::new(Arc::clone(config), ServerName::try_from(HOST).unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_handshake_is_dropped_after_a_while_and_locks_nobody_out() {
    let (target, config) = target().await;
    let (address, hello) = (target.documents, client_hello(&config));
    let room = room_for(CAPACITY + 500).await;
    let count = room.count;
    beside(&target, &config, async {
        let half = hello[..hello.len() / 2].to_vec();
        let cut = opened(count, move || {
            let half = half.clone();
            async move {
                let mut stream = TcpStream::connect(address).await.ok()?;
                stream.write_all(&half).await.ok()?;
                Some(stream)
            }
        })
        .await;
        assert!(target.connections().await <= CAPACITY as u64);
        // Kept open on this side: it is the server that ends them.
        target.has_at_most(2).await;
        drop(cut);
    })
    .await;
    assert!(target.metric("oneseal_tls_handshake_failures_total{reason=\"deadline\"}").await > 0);
    target.assert_grew_below(100, &format!("{count} ClientHellos cut in the middle"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_tls_connections_cost_a_bounded_amount() {
    let (target, config) = target().await;
    let (address, room) = (target.documents, room_for(soaked(600).min(CAPACITY)).await);
    let count = room.count;
    let client = Arc::clone(&config);
    let idle = beside(&target, &config, opened(count, move || idle(address, Arc::clone(&client)))).await;
    assert_eq!(idle.len(), count);
    target.assert_grew_below(20 + count as u64 * 64 / 1024, &format!("{count} idle TLS connections"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_answers_that_nobody_reads_are_not_piled_up_in_records_either() {
    let (target, config) = target().await;
    let (address, room) = (target.documents, room_for(soaked(200).min(CAPACITY)).await);
    let count = room.count;
    let client = Arc::clone(&config);
    let unread = opened(count, move || {
        let config = Arc::clone(&client);
        async move {
            let socket = TcpSocket::new_v4().ok()?;
            socket.set_recv_buffer_size(4096).ok()?;
            let tcp = socket.connect(address).await.ok()?;
            let name = ServerName::try_from(HOST).unwrap();
            let mut stream = TlsConnector::from(config).connect(name, tcp).await.ok()?;
            let requests = format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\n\r\n").repeat(100);
            for _ in 0..2_000 {
                if timeout(Duration::from_millis(300), stream.write_all(requests.as_bytes())).await.is_err() {
                    return Some(stream);
                }
            }
            panic!("the server reads on although nobody reads its answers");
        }
    });
    let unread = beside(&target, &config, unread).await;
    assert_eq!(unread.len(), count);
    target.assert_grew_below(
        10 + count as u64 * 64 / 1024,
        &format!("{count} clients that ask over TLS and never read"),
    );
}

/// A ClientHello of which every byte is damaged once, and records of nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_handshakes_are_refused_and_leave_nothing() {
    let (target, config) = target().await;
    let hello = client_hello(&config);
    let records = [
        vec![0x16, 3, 1, 0xff, 0xff],
        [0x16, 3, 1, 0, 0].repeat(2000),
        [0x15, 3, 1, 0, 2, 1, 0].repeat(2000),
        [0x17, 3, 3, 0x40, 0x00].into_iter().chain(vec![0; 0x4000]).collect(),
        [&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x4000 - 4]].concat().repeat(20),
    ];
    let damaged = (0..hello.len()).step_by(hello.len() / 60).map(|at| {
        let mut bytes = hello.clone();
        bytes[at] ^= 0x55;
        bytes
    });
    let all: Vec<_> = records.into_iter().chain(damaged).collect();
    beside(&target, &config, async {
        for bytes in all {
            let mut stream = TcpStream::connect(target.documents).await.unwrap();
            let _ = stream.write_all(&bytes).await;
            // Some are whole to a server that does not look at every byte: those wait for more, and none comes.
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed in time");
        }
    })
    .await;
    target.assert_grew_below(24, "damaged handshakes");
}
