//! From values to a configuration: what belongs together, what excludes what, what is missing.

use std::sync::Arc;

use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, rotation};
use oneseal_providers::{AwsProvider, ProviderError, ProviderUri, SecretProvider, looks_like_key};
use oneseal_relying_party::fetch::{FetchOptions, Fetcher};
use tracing_subscriber::EnvFilter;

use super::admin;
use super::assertion_issuer;
use super::belongs::{self, Belongs, PROVIDER, needed_by};
use super::cluster;
use super::database;
use super::disk;
use super::environment::{LOG, WORKERS};
use super::explain::Effective;
use super::hint;
use super::kek;
use super::list::Lists;
use super::origin::Rank;
use super::rule;
use super::sources::Gathered;
use super::times;
use super::tls;
use super::tokens;
use super::value::{MAX_NAME, Value, in_units};
use super::values::{Values, mismatch};
use super::{
    Listen, LogFormat, Ops, PassphraseChoice, Process, ProviderChoice, Sealing, SelfCheck, Settings,
    Unlocking, codes,
};

/// Whether issuer and provider must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A server is of no use without.
    Serve,
    /// A command may do without.
    Nothing,
}

/// All that could be made of the values.
#[derive(Debug)]
pub(super) struct Chosen {
    /// `issuer.url`, if it is there and good.
    pub(super) issuer: Option<IssuerUrl>,
    /// `[provider]`, if it is there and good.
    pub(super) provider: Option<ProviderChoice>,
    /// How what rests there is read.
    pub(super) unlocking: Unlocking,
    /// The rest.
    pub(super) settings: Settings,
}

/// Makes the configuration and reports every mistake on the way.
pub(super) fn choose(gathered: Gathered, need: Need) -> (Chosen, Findings) {
    let Gathered {
        mut values,
        mut lists,
        mut findings,
        ignored,
        log,
        workers,
        dev_tls,
        yes,
        is_file_known,
        absent_file,
    } = gathered;
    let need = if is_file_known { need } else { Need::Nothing };
    let issuer = issuer(&values, need, absent_file.as_deref(), &mut findings);
    let mut of_database = Findings::new();
    let database = database::choose(&values, &mut of_database);
    let mut of_provider = Findings::new();
    let is_database_told = of_database.has_errors() || values.is_any_faulty("database.");
    let around = Around { issuer: issuer.as_ref(), database: database.as_ref(), is_database_told };
    drop_weak_member(&mut values);
    let provider = provider(&mut values, need, &around, &mut of_provider);
    // The ring's own database serves as the registry too: no replica is left alone with a ring that others share.
    let database = database.or_else(|| of_ring(&values).filter(|_| !is_database_told));
    let mut unlocking = unlocking(&values, provider.as_ref());
    unlocking.sealing = kek::choose(&values, &mut findings);
    // A file that was not read might have said otherwise.
    let is_provider_good = is_file_known && !of_provider.has_errors() && !values.is_any_faulty("provider.");
    findings.extend(of_provider);
    let tls = tls::choose(&mut values, issuer.as_ref(), dev_tls, &mut findings);
    check_listen(&values, &mut findings);
    check_process(&values, &mut findings);
    findings.extend(of_database);
    let tokens = tokens::choose(&values, &lists, &mut findings);
    let admin =
        admin::choose(&values, issuer.as_ref(), &tls.source, !lists.of("rule").is_empty(), &mut findings);
    check_workers(workers.as_deref(), &mut findings);
    let log_filter = log_filter(log, &mut findings);
    let rotation = times::choose(&mut values, issuer.as_ref(), yes, &mut findings);
    let self_check =
        SelfCheck { enabled: values.bool("issuer.self_check"), extra_roots: roots(&values, &mut findings) };
    warn_ignored(ignored, provider.as_ref(), &unlocking, &mut findings);
    let is_read_once = matches!(provider, Some(ProviderChoice::Env { .. } | ProviderChoice::Inline { .. }));
    if is_read_once && !unlocking.max_lag.is_zero() {
        let message = "a key that is read once, from a variable or from here, lags behind nothing";
        findings.push(&codes::NO_EFFECT, values.place("provider.max_lag"), message);
    }
    let effective = effective(&values, &lists, issuer.as_ref());
    let algorithms = algorithms(&values);
    let rules = rule::choose(
        lists.take("rule"),
        &rule::Around {
            issuer: issuer.as_ref(),
            token_endpoint: tokens.endpoint.as_deref(),
            algorithms: &algorithms,
            rotation: &rotation,
            clusters: names(&lists, "cluster"),
            assertion_issuers: names(&lists, "assertion_issuer"),
        },
        &mut findings,
    );
    let clusters = cluster::choose(lists.take("cluster"), issuer.as_ref(), &mut findings);
    let assertion_issuers =
        assertion_issuer::choose(lists.take("assertion_issuer"), issuer.as_ref(), &mut findings);
    let settings = Settings {
        algorithms,
        self_check,
        fleet: text(&values, "ring.fleet").or_else(|| fleet_of_ring(&values)),
        database,
        listen: Listen {
            documents: values.address("listen.documents"),
            token: tokens::listen(&values),
            ops: values.address("listen.ops"),
            admin: admin::socket(&values),
            admin_tcp: admin::tcp(&values),
        },
        tls,
        is_listen_faulty: !is_file_known || values.is_any_faulty("listen."),
        process: Process {
            boot_timeout: values.duration("process.boot_timeout"),
            drain_delay: values.duration("process.drain_delay"),
            shutdown_timeout: values.duration("process.shutdown_timeout"),
            log_format: match text(&values, "process.log_format").as_deref() {
                Some("human") => LogFormat::Human,
                Some("json") => LogFormat::Json,
                _ => LogFormat::Auto,
            },
        },
        ops: Ops { instance: text(&values, "ops.instance"), advertise: text(&values, "ops.advertise") },
        tokens,
        admin,
        rotation,
        log_filter,
        clusters,
        assertion_issuers,
        rules,
        lists,
        effective,
    };
    let provider = provider.filter(|_| is_provider_good);
    (Chosen { issuer, provider, unlocking, settings }, findings)
}

/// All that holds, with the fleet's name where that is made of something else.
fn effective(values: &Values, lists: &Lists, issuer: Option<&IssuerUrl>) -> Effective {
    let effective = Effective::of(values, lists);
    match (values.find("ring.fleet"), issuer) {
        (None, Some(issuer)) => {
            let fleet = fleet_of_ring(values).unwrap_or_else(|| fleet_of(issuer));
            effective.with("ring.fleet", fleet, "made from the provider's or the issuer's URL")
        }
        _ => effective,
    }
}

/// What those of a list are called, whatever else is wrong with them.
fn names(lists: &Lists, list: &str) -> Vec<String> {
    lists.of(list).iter().filter_map(|item| item.text("name")).collect()
}

/// The fleet's name where none is configured: the issuer's host, a port that is not the scheme's, and path, in the letters
/// that a name may have.
pub(crate) fn fleet_of(issuer: &IssuerUrl) -> String {
    let scheme_port = if issuer.is_https() { 443 } else { 80 };
    let port = Some(issuer.port()).filter(|port| *port != scheme_port);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let name = format!("{}{port}{}", issuer.host(), issuer.base_path()).to_ascii_lowercase();
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' })
        .take(MAX_NAME)
        .collect();
    match name.trim_matches(['-', '.']) {
        // Nothing but colons and slashes: the unspecified address.
        "" => "oneseal".to_owned(),
        name => name.to_owned(),
    }
}

fn issuer(
    values: &Values,
    need: Need,
    absent_file: Option<&str>,
    findings: &mut Findings,
) -> Option<IssuerUrl> {
    let Some(url) = text(values, "issuer.url") else {
        if need == Need::Serve && !values.is_faulty("issuer.url") {
            let absent = absent_file.map(|file| format!("; no file is named, and {file} is not there"));
            let message = "no issuer is configured, so there is nothing to serve";
            findings.push(&codes::MISSING, "issuer.url", format!("{message}{}", absent.unwrap_or_default()));
        }
        return None;
    };
    let place = values.place("issuer.url");
    match IssuerUrl::parse(&url, &place) {
        Ok(url) => {
            findings.extend(url.advice(&place));
            Some(url)
        }
        Err(mistakes) => {
            findings.extend(mistakes);
            None
        }
    }
}

/// The certificates of `issuer.ca_bundle`. A file that cannot be trusted whole is refused, not used in part.
fn roots(values: &Values, findings: &mut Findings) -> Vec<String> {
    let path = match values.find("issuer.ca_bundle").map(|set| &set.value) {
        None => return Vec::new(),
        Some(Value::Path(path)) => path,
        Some(other) => mismatch("issuer.ca_bundle", other),
    };
    let mut fault = |code, message| {
        findings.push(code, values.place("issuer.ca_bundle"), message);
        Vec::new()
    };
    if looks_like_key(&path.to_string_lossy()) {
        return fault(&codes::BAD_VALUE, "it looks like a key, not like the path of certificates".to_owned());
    }
    let pem = match disk::read(path) {
        Ok(content) => content.text.to_string(),
        Err(error) => return fault(&codes::UNREADABLE, format!("{}: {error}", path.display())),
    };
    let mut options = FetchOptions::default();
    options.https = false;
    options.extra_roots = vec![pem];
    match Fetcher::new(&options) {
        Ok(_) => options.extra_roots,
        Err(error) => fault(&codes::BAD_VALUE, format!("{}: {error}", path.display())),
    }
}

/// All of them in place of a list that is wrong: whatever was meant, the key is not refused for it.
fn algorithms(values: &Values) -> Vec<Algorithm> {
    if values.is_faulty("issuer.algorithms") {
        return Algorithm::ALL.to_vec();
    }
    match values.with_default("issuer.algorithms") {
        Value::Algorithms(algorithms) => algorithms.clone(),
        other => mismatch("issuer.algorithms", other),
    }
}

fn provider(
    values: &mut Values,
    need: Need,
    around: &Around<'_>,
    findings: &mut Findings,
) -> Option<ProviderChoice> {
    if ["provider.kind", "provider.uri"].iter().any(|path| values.is_faulty(path)) {
        return None;
    }
    // A stronger source replaces the choice of a weaker one as a whole: a variable `…__URI` need not undo the file.
    let (kind, uri) = (values.rank("provider.kind"), values.rank("provider.uri"));
    let choice = match (kind > Rank::Default, uri > Rank::Default) {
        (false, false) => {
            missing_kind(values, need, findings);
            None
        }
        (true, true) if kind == uri => {
            let message = format!("{} names a provider as well", values.place("provider.kind"));
            findings.push(&codes::CONFLICT, values.place("provider.uri"), message);
            None
        }
        _ if uri > kind => {
            values.remove("provider.kind");
            drop_strays(values, "provider.uri", None, findings);
            by_uri(values, around.issuer, findings)
        }
        _ => {
            values.remove("provider.uri");
            by_kind(values, around, findings)
        }
    };
    let is_file = matches!(choice, Some(ProviderChoice::File { .. }));
    if choice.is_some() && !is_file && values.bool("provider.durable") {
        let message = "only a file may look as if it would not last";
        findings.push(&codes::NO_EFFECT, values.place("provider.durable"), message);
    }
    choice
}

/// The fleet that the URL of the ring names.
fn fleet_of_ring(values: &Values) -> Option<String> {
    match &values.find("provider.uri")?.value {
        Value::Provider(ProviderUri::Postgres(url)) => url.fleet().map(str::to_owned),
        _ => None,
    }
}

/// The database of a ring that `provider.uri` names.
fn of_ring(values: &Values) -> Option<DatabaseOptions> {
    match &values.find("provider.uri")?.value {
        Value::Provider(ProviderUri::Postgres(url)) => {
            Some(DatabaseOptions::new(DatabaseUrl::parse(&url.database_url()).ok()?))
        }
        _ => None,
    }
}

fn by_uri(values: &Values, issuer: Option<&IssuerUrl>, findings: &mut Findings) -> Option<ProviderChoice> {
    match &values.find("provider.uri")?.value {
        Value::Provider(ProviderUri::File(path)) => {
            Some(ProviderChoice::File { path: path.clone(), durable: values.bool("provider.durable") })
        }
        Value::Provider(ProviderUri::Env(variable)) => {
            Some(ProviderChoice::Env { variable: variable.clone() })
        }
        Value::Provider(ProviderUri::Postgres(url)) => match url.database() {
            Ok(database) => {
                let fleet = url.fleet().map(str::to_owned).or_else(|| fleet_name(values, issuer));
                Some(ProviderChoice::Postgres { database, fleet })
            }
            Err(error) => {
                findings.push(&codes::BAD_VALUE, values.place("provider.uri"), error.to_string());
                None
            }
        },
        Value::Provider(ProviderUri::Aws(uri)) => {
            // The member of the URI is of that secret; else the configured one is, as with every other place.
            let mut options = uri.options();
            options.member = options.member.or_else(|| text(values, "provider.member"));
            let provider = AwsProvider::new(options).map(|provider| Arc::new(provider) as _);
            remote(provider, "provider.uri", values, findings)
        }
        Value::Provider(uri @ ProviderUri::Kubernetes { .. }) => match uri.open() {
            Ok(provider) => Some(ProviderChoice::Remote(provider)),
            Err(error) => {
                findings.push(&codes::BAD_VALUE, values.place("provider.uri"), error.to_string());
                None
            }
        },
        other => mismatch("provider.uri", other),
    }
}

/// One that could be made, or why not.
pub(super) fn remote(
    provider: Result<Arc<dyn SecretProvider>, ProviderError>,
    path: &str,
    values: &Values,
    findings: &mut Findings,
) -> Option<ProviderChoice> {
    match provider {
        Ok(provider) => Some(ProviderChoice::Remote(provider)),
        Err(error) => {
            findings.push(&codes::BAD_VALUE, values.place(path), error.detail());
            None
        }
    }
}

/// What a provider may be made of besides its own keys.
struct Around<'a> {
    issuer: Option<&'a IssuerUrl>,
    database: Option<&'a DatabaseOptions>,
    /// Whether what is wrong with the database has been told.
    is_database_told: bool,
}

/// The row in the `[database]`.
fn in_database(values: &Values, around: &Around<'_>, findings: &mut Findings) -> Option<ProviderChoice> {
    let Some(options) = around.database else {
        if !around.is_database_told {
            let message = format!(
                "{} says kind \"postgres\", which is the row in this database; another one is named by provider.uri",
                values.place("provider.kind")
            );
            findings.push(&codes::MISSING, "database.url", message);
        }
        return None;
    };
    // That it can be made has been seen where it was chosen, and what was wrong with it was told there.
    let database = Database::new(options.clone()).ok()?;
    Some(ProviderChoice::Postgres { database, fleet: fleet_name(values, around.issuer) })
}

/// `ring.fleet`, or what the issuer makes it.
fn fleet_name(values: &Values, issuer: Option<&IssuerUrl>) -> Option<String> {
    text(values, "ring.fleet").or_else(|| issuer.map(fleet_of))
}

fn by_kind(values: &mut Values, around: &Around<'_>, findings: &mut Findings) -> Option<ProviderChoice> {
    let kind = text(values, "provider.kind")?;
    if kind == "postgres" {
        drop_strays(values, "provider.kind", None, findings);
        return in_database(values, around, findings);
    }
    let needed = needed_by(&PROVIDER, &kind)?;
    drop_strays(values, "provider.kind", Some(&kind), findings);
    let is_key = |set: &super::values::Set| match &set.value {
        Value::Path(path) => looks_like_key(&path.to_string_lossy()),
        Value::Text(variable) => looks_like_key(variable),
        _ => false,
    };
    if values.find(needed).is_some_and(is_key) {
        let message = "it looks like a key itself, not like the place of one; a key goes into provider.value";
        findings.push(&codes::BAD_VALUE, values.place(needed), message);
        return None;
    }
    let Some(set) = values.find(needed) else {
        if !values.is_faulty(needed) {
            let message = format!("{} says kind \"{kind}\", which needs it", values.place("provider.kind"));
            findings.push(&codes::MISSING, needed, message);
        }
        return None;
    };
    Some(match &set.value {
        Value::Path(path) => {
            ProviderChoice::File { path: path.clone(), durable: values.bool("provider.durable") }
        }
        Value::Secret(value) => ProviderChoice::Inline { value: value.clone() },
        Value::Text(name) if kind == "kubernetes" => {
            return remote(belongs::kubernetes(values, "provider", name), needed, values, findings);
        }
        Value::Text(secret) if kind == "aws" => {
            return remote(belongs::aws(values, "provider", secret), needed, values, findings);
        }
        Value::Text(variable) => ProviderChoice::Env { variable: variable.clone() },
        other => mismatch(needed, other),
    })
}

/// Deals with keys of another way to name the provider: in a weaker source they are out of force, in the same or a
/// stronger one they contradict it.
fn drop_strays(values: &mut Values, chosen: &str, of: Option<&str>, findings: &mut Findings) {
    for Belongs { kind, path, .. } in &PROVIDER {
        if Some(*kind) == of || values.find(path).is_none() {
            continue;
        }
        if values.rank(path) >= values.rank(chosen) {
            let message = format!("it belongs to kind \"{kind}\"; {} says otherwise", values.place(chosen));
            findings.push(&codes::CONFLICT, values.place(path), message);
        }
        values.remove(path);
    }
}

/// A member belongs to the shape of one place, so a stronger source that names another place puts it out of force.
fn drop_weak_member(values: &mut Values) {
    let chosen = values.rank("provider.kind").max(values.rank("provider.uri"));
    if chosen > values.rank("provider.member") {
        values.remove("provider.member");
    }
}

/// A passphrase holds for whatever provider is chosen: a copy of an encrypted key is encrypted too. A secret of AWS takes
/// the member out by itself, and writes into it. A lag is that of the replicas, wherever a command reaches the ring.
fn unlocking(values: &Values, provider: Option<&ProviderChoice>) -> Unlocking {
    let is_aws = matches!(provider, Some(ProviderChoice::Remote(remote)) if remote.describe().kind == "aws");
    let passphrase = values.find("provider.passphrase").map(|set| match &set.value {
        Value::Provider(ProviderUri::File(path)) => PassphraseChoice::File(path.clone()),
        Value::Provider(ProviderUri::Env(variable)) => PassphraseChoice::Env(variable.clone()),
        other => mismatch("provider.passphrase", other),
    });
    let member = text(values, "provider.member").filter(|_| !is_aws);
    let max_lag = values.duration("provider.max_lag");
    Unlocking { passphrase, member, max_lag, sealing: Sealing::default() }
}

fn missing_kind(values: &Values, need: Need, findings: &mut Findings) {
    if let Some(Belongs { kind, path, .. }) = PROVIDER.iter().find(|key| values.find(key.path).is_some()) {
        let message = format!("{} is set; it belongs to kind = \"{kind}\"", values.place(path));
        findings.push(&codes::MISSING, "provider.kind", message);
    } else if need == Need::Serve && !PROVIDER.iter().any(|key| values.is_faulty(key.path)) {
        findings.push(
            &codes::PROVIDER_NOT_CONFIGURED,
            "provider",
            "neither provider.kind nor provider.uri is set",
        );
    }
}

fn check_listen(values: &Values, findings: &mut Findings) {
    if values.is_any_faulty("listen.") {
        return;
    }
    let mut others = vec![("listen.documents", values.address("listen.documents"))];
    let more = [Some(values.address("listen.ops")), tokens::listen(values), admin::tcp(values)];
    for (path, address) in ["listen.ops", tokens::LISTEN, "listen.admin_tcp"].into_iter().zip(more) {
        let Some(address) = address.filter(|address| address.port() != 0) else { continue };
        if let Some((other, _)) = others.iter().find(|(_, other)| *other == address) {
            let message = format!("{} has the same address {address}", values.place(other));
            findings.push(&codes::CONFLICT, values.place(path), message);
        }
        others.push((path, address));
    }
}

fn check_process(values: &Values, findings: &mut Findings) {
    if values.is_any_faulty("process.") {
        return;
    }
    let (delay, limit) =
        (values.duration("process.drain_delay"), values.duration("process.shutdown_timeout"));
    if delay >= limit {
        let (delay, limit) = (in_units(delay), in_units(limit));
        let message = format!("{delay}, but it must be below process.shutdown_timeout, which is {limit}");
        findings.push(&rotation::INEQUALITY, values.place("process.drain_delay"), message);
    }
}

/// This version has no workers: unset and empty mean the same, and a name cannot be honoured.
fn check_workers(workers: Option<&str>, findings: &mut Findings) {
    for worker in workers.unwrap_or_default().split(',').map(str::trim).filter(|worker| !worker.is_empty()) {
        let message = format!("this version has no worker {}", hint::shown(worker));
        findings.push(&codes::NOT_AVAILABLE, WORKERS, message);
    }
}

fn log_filter(log: Option<String>, findings: &mut Findings) -> Option<String> {
    let filter = log.filter(|filter| !filter.is_empty())?;
    if EnvFilter::builder().parse(&filter).is_err() {
        let message = format!(
            "{} is not a log filter such as \"info\" or \"oneseal=debug,warn\"",
            hint::shown(&filter)
        );
        findings.push(&codes::BAD_VALUE, LOG, message);
        return None;
    }
    Some(filter)
}

/// The variables that hold key and passphrase are the operator's own, whatever their names.
fn warn_ignored(
    ignored: Vec<(String, String)>,
    provider: Option<&ProviderChoice>,
    unlocking: &Unlocking,
    findings: &mut Findings,
) {
    for (name, message) in ignored {
        let is_key = matches!(provider, Some(ProviderChoice::Env { variable }) if *variable == name);
        let is_passphrase =
            matches!(&unlocking.passphrase, Some(PassphraseChoice::Env(variable)) if *variable == name);
        let sealing = &unlocking.sealing;
        let is_kek =
            sealing.keks().any(|kek| matches!(kek, ProviderChoice::Env { variable } if *variable == name));
        if !is_key && !is_passphrase && !is_kek {
            findings.push(&codes::IGNORED_VARIABLE, name, message);
        }
    }
}

/// The text of a key that is one.
pub(super) fn text(values: &Values, path: &str) -> Option<String> {
    match &values.find(path)?.value {
        Value::Text(text) => Some(text.clone()),
        other => mismatch(path, other),
    }
}
