//! `oneseal keys export --site DIR`: the documents as files, for a bucket or a CDN in front of which nothing runs.
//!
//! The bytes and headers are those that the issuer itself answers with, asked without a socket: there is no second
//! writer that could come to differ. The key set is written first, so that a reader who follows discovery always
//! finds it. Everything is judged before anything is written, and what this verb has not made is never touched.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method};
use oneseal::{Digest, Issuer, IssuerUrl};
use serde_json::{Map, Value, json};

use crate::config::{Config, ProviderChoice};
use crate::exit::{Exit, Failure};
use crate::files::{self, There};
use crate::proofs::Proofs;
use crate::{app, output};

/// Writes what has changed, and tells what the store must send.
///
/// # Errors
/// The ring is refused as the server would refuse it, the directory is not fit, or a file cannot be written.
pub(super) async fn run(
    dir: &Path,
    config: Config,
    allow_key_replacement: bool,
    json: bool,
) -> Result<Exit, Failure> {
    refuse_ring_below(dir, &config.provider)?;
    let issuer = issuer(config).await?;
    let files = documents(&issuer)?
        .into_iter()
        .map(|document| SiteFile::judge(dir, document, issuer.url(), allow_key_replacement))
        .collect::<Result<Vec<_>, _>>()?;
    for file in files.iter().filter(|file| file.status == Status::Written) {
        make_directories(dir, &file.document.path)?;
        files::replace(&dir.join(&file.document.path), &file.document.body)?;
    }
    if json {
        return output::answer(as_json(dir, &issuer, &files), Exit::Done);
    }
    output::print(&told(&files))?;
    Ok(Exit::Done)
}

/// The issuer as a server with this configuration would build it. Where the ring rests is `check`'s to judge.
async fn issuer(mut config: Config) -> Result<Issuer, Failure> {
    if let ProviderChoice::File { durable, .. } = &mut config.provider {
        *durable = true;
    }
    let (issuer, _not_followed) =
        app::issuer(&config, &Proofs::default(), false).build().await.map_err(Failure::found)?;
    Ok(issuer)
}

/// One answer of the issuer, as a file.
#[derive(Debug)]
struct Document {
    /// Below the directory.
    path: PathBuf,
    url: String,
    body: Bytes,
    headers: Vec<(HeaderName, String)>,
}

/// In the order in which they must appear.
fn documents(issuer: &Issuer) -> Result<Vec<Document>, Failure> {
    let url = issuer.url();
    [url.jwks_path(), url.discovery_path(), url.oauth_metadata_path()]
        .into_iter()
        .map(|path| document(issuer, &path))
        .collect()
}

fn document(issuer: &Issuer, path: &str) -> Result<Document, Failure> {
    let url = issuer.url().url_of(path);
    if path.contains('%') {
        let message = format!(
            "{url} has percent-encoded characters, which stores and file systems spell in different ways: serve this \
             issuer by `oneseal serve`, or choose an issuer without them"
        );
        return Err(Failure::refused(message));
    }
    let answer = issuer.respond(&Method::GET, path, &HeaderMap::new());
    let answer = answer.ok_or_else(|| Failure::internal(format!("the issuer does not know {path}")))?;
    let headers = SENT.into_iter().filter_map(|name| {
        let value = answer.headers().get(&name)?.to_str().ok()?.to_owned();
        Some((name, value))
    });
    let headers = headers.collect();
    let path = PathBuf::from(path.trim_start_matches('/'));
    Ok(Document { path, url, headers, body: answer.into_body() })
}

/// A document, and what is to happen to it.
#[derive(Debug)]
struct SiteFile {
    document: Document,
    status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Written,
    Unchanged,
}

impl SiteFile {
    /// Looks at what is there. Changes nothing.
    fn judge(dir: &Path, document: Document, issuer: &IssuerUrl, replace: bool) -> Result<Self, Failure> {
        let path = dir.join(&document.path);
        refuse_odd_directories(dir, &document.path)?;
        let status = match files::look(&path, MAX_FILE).map_err(|error| unreadable(&path, error))? {
            There::Nothing => Status::Written,
            There::Odd(_) => return Err(not_ours(&path)),
            There::Regular { content, .. } if *content == document.body => Status::Unchanged,
            There::Regular { content, .. } => {
                judge_content(&path, &content, &document.body, issuer, replace)?;
                Status::Written
            }
        };
        Ok(Self { document, status })
    }
}

/// Whether `there` may be replaced by `new`: an older document of this issuer, or a key set that shares a key.
fn judge_content(
    path: &Path,
    there: &[u8],
    new: &[u8],
    issuer: &IssuerUrl,
    replace: bool,
) -> Result<(), Failure> {
    let there: Value = serde_json::from_slice(there).map_err(|_| not_ours(path))?;
    if let Some(name) = there.get("issuer") {
        return if name == issuer.as_str() { Ok(()) } else { Err(not_ours(path)) };
    }
    let old = kids(&there).ok_or_else(|| not_ours(path))?;
    let new = kids(&serde_json::from_slice(new).unwrap_or_default()).unwrap_or_default();
    if replace || old.is_empty() || old.iter().any(|kid| new.contains(kid)) {
        return Ok(());
    }
    let message = format!(
        "{} holds a key set that shares no key with this ring: is it the right --provider? If every token in use may \
         break, --allow-key-replacement",
        path.display()
    );
    Err(Failure::refused(message))
}

fn kids(jwks: &Value) -> Option<Vec<String>> {
    let keys = jwks.get("keys")?.as_array()?;
    Some(keys.iter().filter_map(|key| key["kid"].as_str().map(str::to_owned)).collect())
}

/// Whoever publishes the directory would publish the private key.
fn refuse_ring_below(dir: &Path, provider: &ProviderChoice) -> Result<(), Failure> {
    let ProviderChoice::File { path, .. } = provider else { return Ok(()) };
    let (Ok(ring), Ok(site)) = (fs::canonicalize(path), fs::canonicalize(dir)) else { return Ok(()) };
    if !ring.starts_with(&site) {
        return Ok(());
    }
    let message = format!(
        "the private key rests below {}, at {}: whoever publishes the one publishes the other. Name another \
         directory, for the documents alone",
        dir.display(),
        path.display()
    );
    Err(Failure::refused(message))
}

/// Below the directory there are directories alone: a link could lead the files to somebody else's.
fn refuse_odd_directories(dir: &Path, path: &Path) -> Result<(), Failure> {
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            let message = format!("{} is no directory: --site names the one to write below", dir.display());
            return Err(Failure::refused(message));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unreadable(dir, error)),
        _ => {}
    }
    for parent in parents(dir, path) {
        match fs::symlink_metadata(&parent) {
            Ok(found) if !found.is_dir() => {
                let message = format!(
                    "{} is a file or a link where a directory must be, perhaps of another issuer: one --site directory \
                     per issuer",
                    parent.display()
                );
                return Err(Failure::refused(message));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unreadable(&parent, error)),
            _ => {}
        }
    }
    Ok(())
}

/// The directories between `dir` and the file, the outermost first.
fn parents(dir: &Path, path: &Path) -> Vec<PathBuf> {
    let mut below = dir.to_owned();
    let names = path.parent().into_iter().flat_map(Path::components);
    let names = names.filter(|name| matches!(name, Component::Normal(_)));
    names
        .map(|name| {
            below.push(name);
            below.clone()
        })
        .collect()
}

fn make_directories(dir: &Path, path: &Path) -> Result<(), Failure> {
    for directory in [dir.to_owned()].into_iter().chain(parents(dir, path)) {
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(files::not_written(&directory, error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn not_ours(path: &Path) -> Failure {
    let path = path.display();
    Failure::refused(format!(
        "{path} is there and is no document of this issuer; it is left alone: move it away, or name another directory"
    ))
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    let exit = if error.kind() == ErrorKind::PermissionDenied { Exit::Denied } else { Exit::Refused };
    let message = format!("{} cannot be looked at; name another directory by --site", path.display());
    Failure::new(exit, message).because(error)
}

fn told(files: &[SiteFile]) -> String {
    let mut text = String::new();
    for SiteFile { document, status } in files {
        let what = if *status == Status::Written { "wrote" } else { "unchanged" };
        text.push_str(&format!("{what:<9}  {}\n           {}\n", document.path.display(), document.url));
        for (name, value) in &document.headers {
            text.push_str(&format!("             {}: {value}\n", title_case(name)));
        }
    }
    text.push_str("\nUpload in this order, each with these headers. What a static site cannot do:\n");
    for line in CANNOT {
        text.push_str(&format!("  - {line}\n"));
    }
    text
}

fn as_json(dir: &Path, issuer: &Issuer, files: &[SiteFile]) -> Value {
    let told = files.iter().map(|SiteFile { document, status }| {
        let Document { path, url, body, headers } = document;
        let headers: Map<_, _> =
            headers.iter().map(|(name, value)| (title_case(name), json!(value))).collect();
        json!({
            "path": path.to_string_lossy(),
            "url": url,
            "status": if *status == Status::Written { "written" } else { "unchanged" },
            "bytes": body.len(),
            "sha256": Digest::of(body).to_string(),
            "headers": headers,
        })
    });
    json!({
        "site": dir.to_string_lossy(),
        "issuer": issuer.url().as_str(),
        "files": told.collect::<Vec<_>>(),
        "cannot": CANNOT,
    })
}

/// As people write header names: `Cache-Control`.
fn title_case(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

/// What a store does not send by itself. Lengths and entity tags are its own.
const SENT: [HeaderName; 4] =
    [CONTENT_TYPE, CACHE_CONTROL, ACCESS_CONTROL_ALLOW_ORIGIN, X_CONTENT_TYPE_OPTIONS];

const CANNOT: [&str; 4] = [
    "ETag, Last-Modified and 304 are the store's own, and so is its answer to OPTIONS (CORS).",
    "The authorization_endpoint that discovery names answers 404 there; the server answers 400.",
    "There is no token endpoint: replicas and embedders mint, a site only publishes.",
    "It does not follow the ring: run this again after each change, before a new key signs.",
];

/// Above anything that this verb writes.
const MAX_FILE: usize = 1 << 20;
