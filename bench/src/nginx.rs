//! nginx, serving the same bytes with the same headers from a file: the server that one would put there instead.
//!
//! Tuned as for a benchmark (`peers/nginx.conf`): one worker, `sendfile`, the file held open, no access log, no end of
//! keep-alive. Its entity tag is its own, since its answer 304 hangs on that; whatever else a document of ours says, it
//! says too, a request id among it, though one that is always the same and costs it nothing.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::child::Child;
use crate::pin::Cores;
use crate::probe::Answer;
use crate::until;
use crate::wrk::missing;

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    /// Where it serves.
    pub address: SocketAddr,
    _place: TempDir,
}

/// Files of a certificate and its key, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// `fullchain.pem`.
    pub certificate: &'a Path,
    /// `privkey.pem`.
    pub private_key: &'a Path,
}

impl Nginx {
    /// Serves the body of `answer` at `path`, over TLS 1.3 if there is a pair, on the server's core.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    ///
    /// # Panics
    /// If its files cannot be written.
    pub fn start(cores: Cores, path: &str, answer: &Answer, pair: Option<Pair<'_>>) -> Result<Self, String> {
        let place = tempfile::tempdir().expect("a temporary directory");
        let root = place.path().join("root");
        let file = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a directory");
        std::fs::write(&file, &answer.body).expect("the document's file");
        let address = free_port();
        let config = place.path().join("nginx.conf");
        std::fs::write(&config, text(address, &root, answer, pair)).expect("its configuration");
        let mut command = Command::new(program());
        command.arg("-p").arg(place.path()).arg("-c").arg(&config);
        if rustix::process::geteuid().is_root() {
            // Else its worker would become another user, who may not read our temporary directory.
            command.args(["-g", "user root;"]);
        }
        command.stdout(Stdio::null());
        let mut child = cores.for_server(|| Child::start(&mut command)).map_err(|_| missing("nginx"))?;
        let is_up = until("nginx", || {
            let is_up = TcpStream::connect(address).is_ok();
            (is_up || child.has_ended()).then_some(is_up)
        });
        if !is_up {
            return Err("nginx does not start (its words are above)".to_owned());
        }
        Ok(Self { child, address, _place: place })
    }

    /// Its process; its worker is a child of it.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// Debian has it where only root looks.
fn program() -> &'static str {
    if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" }
}

/// nginx cannot say which port it has got, so it must be told.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address")
}

fn text(address: SocketAddr, root: &Path, answer: &Answer, pair: Option<Pair<'_>>) -> String {
    let mut headers = String::new();
    let own = ["etag", "content-type"];
    for (name, value) in answer.headers_of_the_document().filter(|(name, _)| !own.contains(name)) {
        writeln!(headers, "            add_header {name} {value:?};").expect("a String");
    }
    let tls = pair.map_or_else(String::new, |pair| {
        format!(
            "ssl_certificate {:?};\n        ssl_certificate_key {:?};",
            pair.certificate, pair.private_key
        )
    });
    TEMPLATE
        .replace("{listen}", &format!("{address}{}", if pair.is_some() { " ssl" } else { "" }))
        .replace("{root}", &format!("{root:?}"))
        .replace("{type}", answer.header("content-type"))
        .replace("{headers}", headers.trim())
        .replace("{tls}", &tls)
}

const TEMPLATE: &str = include_str!("../peers/nginx.conf");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_filled_whole() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let answer = Answer {
            status: 200,
            headers: vec![
                header("etag", "\"x\""),
                header("content-type", "application/json"),
                header("cache-control", "public, max-age=300"),
                header("date", "today"),
            ],
            body: String::new(),
        };
        let pair = Pair { certificate: Path::new("/c.pem"), private_key: Path::new("/k.pem") };
        let text = text(([127, 0, 0, 1], 8080).into(), Path::new("/r"), &answer, Some(pair));
        for line in [
            "listen 127.0.0.1:8080 ssl;",
            "root \"/r\";",
            "default_type application/json;",
            "add_header cache-control \"public, max-age=300\";",
            "ssl_certificate \"/c.pem\";",
        ] {
            assert!(text.lines().any(|found| found.trim() == line), "{line}\n{text}");
        }
        assert!(!text.contains("add_header etag") && !text.contains("add_header date"), "{text}");
        for name in ["{listen}", "{root}", "{type}", "{headers}", "{tls}"] {
            assert!(!text.contains(name), "{name}\n{text}");
        }
    }
}
