//! Events appended by sixteen writers at once, against the same rows with numbers of a sequence: what it costs that numbers
//! have no gap and every event is chained to the last.

use std::process::ExitCode;

use oneseal_bench::report::{self, Report, Table};
use oneseal_bench::rounds::{Plan, rate, ratio};
use oneseal_bench::verdict::Target;
use oneseal_coordination::EventDraft;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::events::TABLES;
use oneseal_testing::parts::Postgres;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

fn main() -> ExitCode {
    report::run("events", measure)
}

fn measure(plan: Plan, report: &mut Report) {
    let target = Target::AtLeast(0.25);
    let Some(server) = Postgres::shared() else {
        return report.not_measured(NAME, "PostgreSQL is not installed", target);
    };
    let place = server.create_database();
    place.execute(&format!("CREATE SCHEMA oneseal; {TABLES} {SEQUENCE}"));
    let mut options = DatabaseOptions::new(DatabaseUrl::parse(&place.socket_url()).expect("a good URL"));
    options.max_connections = 16;
    let database = Database::new(options).expect("nothing to configure");
    let runtime = Runtime::new().expect("a runtime");
    let appended = || runtime.block_on(all(&database, append));
    let inserted = || runtime.block_on(all(&database, insert));
    report.verdict(NAME, ratio(plan, appended, inserted), target);
    let mut table = Table::new("Sixteen writers, a transaction each", &["", "events/s"]);
    let per_call = (WRITERS * EACH) as f64;
    table.row(["events, chained".to_owned(), format!("{:.0}", rate(appended, plan.turn) * per_call)]);
    table.row(["rows, bigserial".to_owned(), format!("{:.0}", rate(inserted, plan.turn) * per_call)]);
    report.table(table);
}

/// `work` by every writer at once, so often that starting them does not count.
async fn all<F: Future<Output = ()> + Send + 'static>(database: &Database, work: impl Fn(Database) -> F) {
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(work(database.clone()));
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("it writes");
    }
}

async fn append(database: Database) {
    let draft = EventDraft::new("bench.written", PAYLOAD);
    for _ in 0..EACH {
        let mut tx = database.write().await.expect("a transaction");
        tx.append("bench", ISSUER, &draft).await.expect("appended");
        tx.commit().await.expect("committed");
    }
}

async fn insert(database: Database) {
    for _ in 0..EACH {
        let mut tx = database.write().await.expect("a transaction");
        let row = sqlx::query(INSERT).bind("bench.written").bind("bench").bind(ISSUER).bind(PAYLOAD);
        tx.execute(row).await.expect("inserted");
        tx.commit().await.expect("committed");
    }
}

const NAME: &str = "events appended by 16 writers / rows with a bigserial";
const WRITERS: usize = 16;
const EACH: usize = 16;
const ISSUER: &str = "https://oidc.example";
const PAYLOAD: &str = r#"{"kid":"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"}"#;
const SEQUENCE: &str = "CREATE TABLE rows (seq bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp(), kind text, \
    actor text, issuer text, payload text)";
const INSERT: &str = "INSERT INTO public.rows (kind, actor, issuer, payload) VALUES ($1, $2, $3, $4)";
