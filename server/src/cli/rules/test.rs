//! `oneseal rules test`: expectations held against the configured rules, for whoever changes them.

use std::path::PathBuf;

use oneseal::{MintError, Rehearsed};
use serde_json::json;

use super::expect::{self, Expectation};
use super::{Configured, Globals, preview};
use crate::exit::{Exit, Failure};
use crate::output;

/// What is expected.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of expectations, TOML or JSON; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One expectation, held against the rules.
struct Row {
    file: String,
    number: usize,
    name: Option<String>,
    /// The rule that decided, if one did.
    rule: Option<String>,
    differences: Vec<String>,
}

/// Tells of each expectation whether it holds; 1 if one does not.
///
/// # Errors
/// The configuration is refused, or a file is no list of expectations.
pub(super) fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let configured = Configured::read(globals)?;
    let mut rows = Vec::new();
    for path in &args.files {
        let file = output::fit_for_terminal(&path.to_string_lossy());
        let text = preview::read(path, "the file")?;
        let all = expect::read(&text).map_err(|words| Failure::usage(format!("{file}: {words}")))?;
        for (at, one) in all.iter().enumerate() {
            let refused = |words| Failure::usage(format!("{file}: expect {}: workload: {words}", at + 1));
            configured.know(&one.workload.voucher).map_err(refused)?;
        }
        rows.extend(all.iter().enumerate().map(|(at, one)| row(one, &file, at + 1, &configured)));
    }
    let failed = rows.iter().filter(|row| !row.differences.is_empty()).count();
    let exit = if failed == 0 { Exit::Done } else { Exit::No };
    if args.json {
        let results: Vec<_> = rows.iter().map(as_json).collect();
        let answer = json!({ "passed": rows.len() - failed, "failed": failed, "results": results });
        return output::answer(answer, exit);
    }
    let told: String = rows.iter().map(as_text).collect();
    let all = rows.len();
    output::print(&format!("{told}{all} expected, {failed} failed, by {} rules\n", configured.rules.len()))?;
    Ok(exit)
}

fn row(one: &Expectation, file: &str, number: usize, configured: &Configured) -> Row {
    let outcome: Result<Rehearsed, MintError> = configured.decide(&one.workload, &one.request);
    let rule = outcome.as_ref().ok().map(|token| token.rule.to_string());
    Row {
        file: file.to_owned(),
        number,
        name: one.name.clone(),
        rule,
        differences: one.differences(&outcome),
    }
}

fn as_text(row: &Row) -> String {
    let verdict = if row.differences.is_empty() { "ok    " } else { "FAILED" };
    let name = row.name.as_deref().map(output::fit_for_terminal).unwrap_or_default();
    let mut text = format!("{verdict}  {} {}  {name}", row.file, row.number);
    text.truncate(text.trim_end().len());
    text.push('\n');
    for difference in &row.differences {
        text.push_str(&format!("        {}\n", output::fit_for_terminal(difference)));
    }
    text
}

fn as_json(row: &Row) -> serde_json::Value {
    json!({
        "file": row.file,
        "number": row.number,
        "name": row.name,
        "passed": row.differences.is_empty(),
        "rule": row.rule,
        "differences": row.differences,
    })
}
