//! moto's server, which keeps the secrets.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;

use super::super::place::{Part, Place, eventually, free_address, program, skip};
use super::asked::Asked;

/// The version that tests run against, as `tests/aws/requirements.txt` pins it.
const VERSION: &str = "5.2.5";

/// A running moto. All tests of the process share it: each has an account of its own there.
#[derive(Debug)]
pub(super) struct Moto {
    address: SocketAddr,
    /// It was made for one test at a time, and does in many steps what AWS does in one.
    pub(super) turn: Mutex<()>,
    _part: Part,
}

impl Moto {
    pub(super) fn of_this_process() -> Option<&'static Self> {
        static MOTO: OnceLock<Option<Moto>> = OnceLock::new();
        MOTO.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        let Some(program) = installed().or_else(|| program("moto_server", &[])) else {
            skip("moto", "neither installed by `scripts/moto` nor on PATH");
            return None;
        };
        let place = Place::of_this_process();
        let address = free_address();
        let mut command = place.own_command(&program);
        command.args(["-H", &address.ip().to_string(), "-p", &address.port().to_string()]);
        let mut part = place.start(command, &place.directory("moto").join("log"));
        let state = eventually(|| {
            if part.has_ended() {
                return Some(Err(()));
            }
            TcpStream::connect(address).is_ok().then_some(Ok(()))
        });
        assert_eq!(state, Some(Ok(())), "moto does not start:\n{}", part.log_text());
        Some(Self { address, turn: Mutex::new(()), _part: part })
    }

    /// Asks it on behalf of `account`.
    ///
    /// # Errors
    /// Why it did not answer.
    pub(super) async fn ask(&self, account: &str, asked: &Asked) -> Result<Response<Bytes>, String> {
        self.exchange(account, asked).await.map_err(|error| format!("moto does not answer: {error}"))
    }

    async fn exchange(
        &self,
        account: &str,
        asked: &Asked,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = Request::builder().method(&asked.method).uri(&asked.path);
        for (name, value) in asked.headers.iter().filter(|(name, _)| !OF_THE_CONNECTION.contains(name)) {
            request = request.header(name, value);
        }
        request = request.header(HOST, self.address.to_string());
        request = request.header("x-moto-account-id", HeaderValue::from_str(account)?);
        let request = request.body(Full::new(asked.body.clone()))?;
        let stream = tokio::net::TcpStream::connect(self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let exchange = async move {
            let (mut head, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            for name in OF_THE_CONNECTION {
                head.headers.remove(name);
            }
            Ok(Response::from_parts(head, body))
        };
        // With the answer goes the sender, and with that the connection; how it ends after that is of no interest.
        futures_util::future::join(exchange, connection).await.0
    }
}

/// What each hop says for itself.
const OF_THE_CONNECTION: [&HeaderName; 4] = [&HOST, &CONNECTION, &CONTENT_LENGTH, &TRANSFER_ENCODING];

/// The Python beside it, with AWS's SDK.
pub(super) fn python() -> Option<PathBuf> {
    installed().map(|program| program.with_file_name("python")).filter(|file| file.is_file())
}

/// Where `scripts/moto` of this repository puts it.
fn installed() -> Option<PathBuf> {
    let text_of = |variable: &str| std::env::var(variable).ok().filter(|text| !text.is_empty());
    let own = text_of("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = own.or_else(|| text_of("HOME").map(|home| Path::new(&home).join(".cache")))?;
    let file = cache.join("oneseal/moto").join(VERSION).join("venv/bin/moto_server");
    Some(file).filter(|file| file.is_file())
}
