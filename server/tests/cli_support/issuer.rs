//! An issuer that is slow, breaks off, lies, or changes its mind: what a real one does only by accident.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::{Clock as _, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Said, oneseal, run, text};

/// What `oneseal token` shows it first.
pub(crate) const PROOF: &str = "eyJhbGciOiJSUzI1NiJ9.Y2FuYXJ5LWNhbmFyeS1jYW5hcnk.Y2FuYXJ5LXNpZ25hdHVyZQ";

/// What it does with one request for a token.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    Answers(u16, &'static str, String),
    HangsUp,
    /// Says nothing, until the other side has gone.
    Hangs,
}

/// An issuer at a port of its own that takes its turns one after the other, and the last one for good.
pub(crate) struct Issuer {
    pub(crate) url: String,
    pub(crate) dir: TempDir,
    /// The forms that came, decoded.
    asked: Arc<Mutex<Vec<Form>>>,
    _work: JoinHandle<()>,
}

/// Names and values, as they came.
struct Form(Vec<(String, String)>);

impl Issuer {
    pub(crate) fn with(turns: impl FnOnce(&str) -> Vec<Turn>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let dir = TempDir::new().expect("a directory");
        fs::write(dir.path().join("proof"), format!("{PROOF}\n")).expect("written");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (turns, own, seen) = (VecDeque::from(turns(&url)), url.clone(), Arc::clone(&asked));
        let proof = dir.path().join("proof");
        let work = std::thread::Builder::new().spawn(move || serve(&listener, &own, turns, &seen, &proof));
        Self { url, dir, asked, _work: work.expect("a thread") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn token(&self, more: &[&str]) -> Said {
        let source = self.path("proof");
        let mut command =
            oneseal(["token", "--issuer", &self.url, "--audience", "rp", "--source", text(&source)]);
        run(command.args(more))
    }

    pub(crate) fn times_asked(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    pub(crate) fn value(&self, request: usize, name: &str) -> String {
        let asked = self.asked.lock().expect("no panic");
        let mut found = asked[request].0.iter().filter(|(known, _)| known == name);
        let value = found.next().unwrap_or_else(|| panic!("no {name}")).1.clone();
        assert!(found.next().is_none(), "{name} came twice");
        value
    }
}

fn serve(
    listener: &TcpListener,
    url: &str,
    mut turns: VecDeque<Turn>,
    asked: &Mutex<Vec<Form>>,
    proof: &std::path::Path,
) {
    for stream in listener.incoming().flatten() {
        let mut stream = BufReader::new(stream);
        let Some((path, body)) = request(&mut stream) else { continue };
        if path != "/token" {
            let document = json!({"issuer": url, "token_endpoint": format!("{url}/token")});
            answer(stream.get_mut(), 200, "", &document.to_string());
            continue;
        }
        let form = body.split('&').filter_map(|part| part.split_once('='));
        let decoded =
            |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let form = Form(form.map(|(name, value)| (decoded(name), decoded(value))).collect());
        asked.lock().expect("no panic").push(form);
        // As kubelet does meanwhile.
        fs::write(proof, format!("{PROOF}{}", asked.lock().expect("no panic").len())).expect("written");
        let turn = if turns.len() > 1 { turns.pop_front() } else { turns.front().cloned() };
        match turn.expect("a turn") {
            Turn::Answers(status, headers, body) => answer(stream.get_mut(), status, headers, &body),
            Turn::HangsUp => {}
            Turn::Hangs => drop(stream.read_to_end(&mut Vec::new())),
        }
    }
}

fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_ascii_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    stream.read_exact(&mut body).ok()?;
    let is_form = lines.iter().any(|line| line == "content-type: application/x-www-form-urlencoded");
    assert!(lines[0].starts_with("get ") || is_form, "{lines:?}");
    Some((lines[0].split(' ').nth(1)?.to_owned(), String::from_utf8(body).ok()?))
}

fn answer(stream: &mut TcpStream, status: u16, headers: &str, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    // Whoever has gone has seen enough.
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}

pub(crate) fn good(issuer: &str) -> Value {
    let now = SystemClock.wall().as_secs();
    let claims = json!({"iss": issuer, "aud": "rp", "sub": "ci", "exp": now + 3600});
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let token = format!("{}.{}.c2ln", encode(json!({"alg": "RS256", "kid": "k"})), encode(claims));
    json!({"access_token": token, "issued_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "token_type": "N_A", "expires_in": 3600})
}

pub(crate) fn gives(issuer: &str) -> Turn {
    Turn::Answers(200, "", good(issuer).to_string())
}

pub(crate) fn says(status: u16, error: &str) -> Turn {
    Turn::Answers(status, "", json!({"error": error}).to_string())
}
